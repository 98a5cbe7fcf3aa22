"""The counter of tiktoken reads the file it is given, or tiktoken's cache, and never downloads one."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tiktoken.load
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from reme_core.errors import ConfigurationError
from reme_core.models import TiktokenCounter, tiktoken_counter
from tests.support.vocabulary import write_vocabulary

CACHED = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The name that tiktoken's cache gives o200k_base: the SHA-1 of its address."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_vocabulary(tmp_path / "small.tiktoken")


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_tokens_are_those_of_the_vocabulary(file: Path, encoding: str) -> None:
    counter = TiktokenCounter(encoding, file)
    assert counter.count("the") == 1
    assert counter.count("the the") == 2
    assert counter.count("zzz") == 3
    assert counter.count("中") == 3


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_pattern_address_and_digest_are_tiktokens_own(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    asked: list[tuple[str, str | None]] = []

    def load(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        asked.append((url, expected_hash))
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", load)
    theirs = openai_public.ENCODING_CONSTRUCTORS[encoding]()
    ours = tiktoken_counter._VOCABULARIES[encoding]
    assert theirs["pat_str"] == ours.pattern
    assert asked == [(ours.url, ours.sha256)]


def test_what_looks_like_a_special_token_is_text(file: Path) -> None:
    assert TiktokenCounter(file=file).count("<|endoftext|>") > 5


@pytest.mark.parametrize("text", [" ", "a", "\n", "1", "中", '{"a":1},', "=-"])
def test_a_long_run_without_a_break_is_counted(file: Path, text: str) -> None:
    counter = TiktokenCounter(file=file)
    assert counter.count(text * 1_000_000) >= 100_000


def test_a_lone_surrogate_is_counted(file: Path) -> None:
    assert TiktokenCounter(file=file).count("a\ud800b") >= 3


def test_an_encoding_that_is_not_known_is_refused(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="wanted one of o200k_base, cl100k_base"):
        TiktokenCounter("gpt-17", file)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"", "256 bytes"),
        (b"dGhl 0\n", "256 bytes"),
        (b"dGhl\n", "line 1"),
        (b"dGhl x\n", "line 1"),
        (b"\n<html> 404\n", "line 2"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, text: bytes, wanted: str) -> None:
    file = tmp_path / "bad"
    file.write_bytes(text)
    with pytest.raises(ConfigurationError, match=wanted):
        TiktokenCounter(file=file)


@pytest.mark.parametrize("rank", [5, -1, 1 << 32])
def test_a_rank_that_can_not_be_is_refused(file: Path, rank: int) -> None:
    file.write_bytes(file.read_bytes() + base64.b64encode(b"xyz") + b" %d\n" % rank)
    with pytest.raises(ConfigurationError, match="rank"):
        TiktokenCounter(file=file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.tiktoken"):
        TiktokenCounter(file=tmp_path / "nowhere.tiktoken")


def test_without_a_file_in_the_cache_it_says_where_to_put_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match=rf"o200k_base\.tiktoken.*file=.*TIKTOKEN_CACHE_DIR.*{CACHED}"):
        TiktokenCounter()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    with pytest.raises(ConfigurationError, match="turned off"):
        TiktokenCounter()


def test_a_file_in_the_cache_that_is_not_the_right_one_is_neither_used_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_vocabulary(tmp_path / CACHED)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match="digest"):
        TiktokenCounter()
    assert file.exists()


def test_the_file_in_the_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_vocabulary(tmp_path / CACHED)
    data = file.read_bytes()
    small = replace(tiktoken_counter._VOCABULARIES["o200k_base"], sha256=hashlib.sha256(data).hexdigest())
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert tiktoken_counter._cached("o200k_base", small) == (file, data)
    # tiktoken finds it there as well, which is to say that it looks for the file under the same name.
    assert tiktoken.load.read_file_cached(small.url, small.sha256) == data


def test_the_missing_library_is_named() -> None:
    code = (
        "import sys; sys.modules['tiktoken'] = None\n"
        "try:\n    from reme_core.models import TiktokenCounter\n"
        "except ImportError as exc: print(type(exc).__name__, exc.extra)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["MissingExtraError", "tiktoken"]
