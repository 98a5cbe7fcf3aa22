"""Sources of data sets: where a user gets each file, under which licence, what it is known by, and reading it.

A file is read again for each system, conversation by conversation, so that no set has to fit into memory.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reme_bench.conversations import Conversation
from reme_core.errors import InvalidInputError

M = TypeVar("M", bound=BaseModel)
# Characters read at once, and of the longest item: a user of HaluMem's long file, the longest published, has a tenth.
_CHUNK, _LONGEST = 1 << 20, 1 << 26
# Of a text that is cut off, no more than the end is wrong: an escape or "-Infinity" that lacks its last letter.
_CUT_OFF = 12


class WrongFileError(InvalidInputError):
    """A file is not of the data set that it was named as."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One data set.

    Attributes:
        name: The word by which the command line names it.
        title: Its name.
        files: The names of its files, or of the folder.
        where: The address where a user gets it.
        licence: The licence that its authors give, or that they give none.
        form: What the file has to look like, for the error about another one.
        read: Reads the conversations of a path (ValueError: it looks otherwise).
        parts: Names the files of a path that are read; a single file: itself.
        checksums: SHA-256 of each published file, or of the listing of a folder's files, and which one it is.
    """

    name: str
    title: str
    files: Sequence[str]
    where: str
    licence: str
    form: str
    read: Callable[[Path], Iterator[Conversation]]
    parts: Callable[[Path], list[Path]] = lambda path: [path]
    checksums: Mapping[str, str] = field(default_factory=dict)

    def wrong(self, path: Path, found: str) -> WrongFileError:
        """Return the error about a path that is something else."""
        names = " or ".join(self.files)
        return WrongFileError(
            f"{str(path)!r} is not {self.title}: wanted {self.form}, found {found}; get {names} from {self.where}"
        )


@dataclass(frozen=True)
class Loaded:
    """A data set at hand; iterating reads it anew: of these names alone, if any are given, and `limit` at most."""

    source: Source
    path: Path
    limit: int | None = None
    names: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Conversation]:
        """Read the conversations (WrongFileError: the file is something else, lacks one, or two have one name)."""
        names = set[str]()
        try:
            named = (talk for talk in self.source.read(self.path) if not self.names or talk.name in self.names)
            for conversation in islice(named, self.limit):
                if conversation.name in names:  # each is a user of its own
                    raise self.source.wrong(self.path, f"two conversations {conversation.name!r}")
                names.add(conversation.name)
                yield conversation
        except (ValueError, RecursionError) as exc:  # of pydantic and json, and of times in another form
            raise self.source.wrong(self.path, _fault(exc)) from exc
        missing = () if self.limit else self.names - names
        if missing or not names:
            raise self.source.wrong(self.path, f"no conversation {', '.join(sorted(missing))}".rstrip())

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file, or of a listing as `sha256sum *` prints it of the files of a folder, in their order."""
        files = self.source.parts(self.path)
        if files == [self.path]:
            return _sha256(self.path)
        lines = (f"{_sha256(file)}  {file.relative_to(self.path).as_posix()}\n" for file in files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def published(self) -> str | None:
        """The published file that this is by its checksum; None: another one, or none is known."""
        return self.source.checksums.get(self.sha256)


def load(source: Source, path: Path, limit: int | None = None, names: Iterable[str] = ()) -> Loaded:
    """Name a data set's file or folder, of which nothing is read yet.

    Raises:
        WrongFileError: There is none, or nothing in it that the data set has.
    """
    if not path.exists():
        raise source.wrong(path, "no such file or folder")
    parts = source.parts(path)
    if not parts or not all(part.is_file() for part in parts):
        raise source.wrong(path, "a folder without it" if path.is_dir() else "a file")
    return Loaded(source, path, limit, frozenset(names))


def json_items(path: Path, model: type[M]) -> Iterator[M]:
    """Read the items of a JSON array, or of lines of JSON, one by one: files may be larger than memory.

    Raises:
        ValueError: It is no JSON, or an item not of the model, or longer than 64 million characters.
    """
    decoder, text, size = json.JSONDecoder(), "", _CHUNK
    with path.open(encoding="utf-8") as file:
        while True:
            text = text.lstrip("[ ,\t\r\n\ufeff")
            try:
                item, end = decoder.raw_decode(text)
            except json.JSONDecodeError as exc:
                is_cut_off = exc.pos >= len(text) - _CUT_OFF or exc.msg.startswith("Unterminated string")
                if len(text) > _LONGEST:
                    message = f"an item of more than {_LONGEST:,} characters"
                    raise ValueError(message) from exc
                more = file.read(size) if is_cut_off else ""
                if not more:
                    if text.strip("] \t\r\n"):
                        raise
                    return
                text, size = text + more, size * 2
                continue
            yield model.model_validate(item)
            text, size = text[end:], _CHUNK


def read_model(path: Path, model: type[M]) -> M:
    """Read one file whole (ValidationError: it is not of the model, or no JSON)."""
    return model.model_validate_json(path.read_bytes().removeprefix(codecs.BOM_UTF8))


def text_of(value: Any) -> str | None:  # noqa: ANN401  # answers are texts, numbers and lists of them
    """Return an answer as text; None where there is none."""
    if value is None or isinstance(value, str):
        return value or None
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(exc: ValueError | RecursionError) -> str:
    if isinstance(exc, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "something that is no JSON"
    if not isinstance(exc, ValidationError):
        return str(exc)
    fault = exc.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"{type(fault['input']).__name__} at {place!r} ({fault['msg'].lower()})" if place else fault["msg"].lower()
