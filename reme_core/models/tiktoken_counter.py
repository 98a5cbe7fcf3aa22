"""A token counter with the vocabularies of OpenAI's models, from files that are there already."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tiktoken import Encoding

from reme_core.errors import ConfigurationError

# Texts are encoded in pieces: tiktoken's time grows faster than a run without a break does, and its pattern gives up
# on very long runs of blanks. A piece adds a token at most to what the whole would have.
_PIECE_CHARS = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vocabulary:
    """What tiktoken has for an encoding: the address that its cache knows the file by, its digest, its pattern."""

    url: str
    sha256: str
    pattern: str


# As in tiktoken_ext/openai_public.py of tiktoken 0.14, whose constructors download the file where it is missing.
_VOCABULARIES: Mapping[str, _Vocabulary] = MappingProxyType(
    {
        "o200k_base": _Vocabulary(
            url="https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
            sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
            pattern="|".join(
                [
                    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                    r"\p{N}{1,3}",
                    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                    r"\s*[\r\n]+",
                    r"\s+(?!\S)",
                    r"\s+",
                ]
            ),
        ),
        "cl100k_base": _Vocabulary(
            url="https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
            sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
            pattern=(
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"
                r"\s*[\r\n]|\s+(?!\S)|\s"
            ),
        ),
    }
)


class TiktokenCounter:
    """Counts tokens with tiktoken, and never downloads anything. A `TokenCounter`.

    What looks like a special token, such as `<|endoftext|>`, is counted as the text that it is.
    """

    def __init__(self, encoding: str = "o200k_base", file: Path | None = None) -> None:
        """Read the vocabulary, which takes some tenths of a second.

        Args:
            encoding: `o200k_base` (GPT-4o and later) or `cl100k_base`; it says how texts are split into words.
            file: The vocabulary in tiktoken's form. None: the file in tiktoken's cache, which lies in the folder that
                the environment names as TIKTOKEN_CACHE_DIR or DATA_GYM_CACHE_DIR, or in `data-gym-cache` in the
                folder for temporary files.

        Raises:
            ConfigurationError: There is no such encoding, no such file, or it is no vocabulary.
        """
        vocabulary = _VOCABULARIES.get(encoding)
        if vocabulary is None:
            msg = f"encoding {encoding!r}: wanted one of {', '.join(_VOCABULARIES)}"
            raise ConfigurationError(msg)
        path, data = _cached(encoding, vocabulary) if file is None else (file, _read(file))
        # Special tokens are left out: texts are encoded as though there were none.
        self._encoding = Encoding(
            encoding, pat_str=vocabulary.pattern, mergeable_ranks=_ranks(path, data), special_tokens={}
        )

    def count(self, text: str) -> int:
        """Return the number of tokens, 0 for an empty text."""
        encode = self._encoding.encode_ordinary
        return sum(len(encode(text[at : at + _PIECE_CHARS])) for at in range(0, len(text), _PIECE_CHARS))


def _cached(encoding: str, vocabulary: _Vocabulary) -> tuple[Path, bytes]:
    """Return the file of tiktoken's cache and what it holds; its place is worked out as tiktoken.load does."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    name = hashlib.sha1(vocabulary.url.encode(), usedforsecurity=False).hexdigest()
    path = Path(folder) / name
    remedy = (
        f"get {vocabulary.url} on a machine with a network, and give it as file=, or put it into the folder that "
        f"TIKTOKEN_CACHE_DIR names, under the name {name}"
    )
    if not folder or not path.is_file():
        where = f"not in tiktoken's cache {folder!r}" if folder else "nowhere: tiktoken's cache is turned off"
        msg = f"the vocabulary of {encoding!r} is {where}, and nothing is downloaded: {remedy}"
        raise ConfigurationError(msg)
    data = _read(path)
    if hashlib.sha256(data).hexdigest() != vocabulary.sha256:
        msg = f"{path}: is not the vocabulary of {encoding!r}, by its digest: remove it, and {remedy}"
        raise ConfigurationError(msg)
    return path, data


def _read(file: Path) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as exc:
        msg = f"{file}: can't be read ({exc.strerror}): give the path of a vocabulary such as o200k_base.tiktoken"
        raise ConfigurationError(msg) from exc


def _ranks(path: Path, data: bytes) -> dict[bytes, int]:
    """Read lines of a token in base64 and its rank (ConfigurationError)."""
    wanted = "wanted lines of a token in base64 and its rank, as in o200k_base.tiktoken"
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as exc:
            msg = f"{path}, line {number}: {wanted}, found {line[:40]!r}"
            raise ConfigurationError(msg) from exc
    if any(bytes([value]) not in ranks for value in range(256)):
        msg = f"{path}: {wanted}, with each of the 256 bytes among the tokens; found {len(ranks)} tokens without"
        raise ConfigurationError(msg)
    if len(set(ranks.values())) < len(ranks) or min(ranks.values()) < 0 or max(ranks.values()) >= 1 << 32:
        msg = f"{path}: {wanted}; found a rank that stands twice, or that is no number of 32 bits"
        raise ConfigurationError(msg)
    return ranks
