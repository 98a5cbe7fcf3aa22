"""Vectors kept in a file."""

# ruff: noqa: ASYNC240, ASYNC110  # the tests look at files, and at calls, while nothing else has to run

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reme_core.errors import (
    ConfigurationError,
    CorruptDataError,
    ModelUnavailableError,
    SchemaVersionError,
    StorageFullError,
    StoreAccessError,
    StoreUnavailableError,
)
from reme_core.models import CachedEmbedder
from reme_core.models import cached_embedder as cache_file_module
from reme_core.ports import Matrix
from reme_core.testing import HashedEmbedder
from tests.support.openai_server import OpenAIServer
from tests.unit.models.chatting import embedder_at

WRITER = """
import asyncio, sys
from reme_core.models import CachedEmbedder
from reme_core.testing import HashedEmbedder

async def main(path, name):
    cached = CachedEmbedder(HashedEmbedder(), path)
    number = 0
    print("ready", flush=True)
    sys.stdin.readline()
    while number < {most}:
        await cached.embed([f"{{name}} {{number}} {{part}}" for part in range(20)])
        number += 1
        print(number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.db"


def writer(path: Path, name: str, most: int) -> subprocess.Popen[str]:
    code = WRITER.format(most=most)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, str(path), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def texts_of(name: str, number: int) -> list[str]:
    return [f"{name} {number} {part}" for part in range(20)]


async def test_a_text_is_embedded_once(path: Path) -> None:
    inner = HashedEmbedder()
    cached = CachedEmbedder(inner, path)
    first = await cached.embed(["a", "b", "a"])
    second = await cached.embed(["b", "c", "a"])
    assert inner.calls == [("a", "b"), ("c",)]
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(second[[2, 0]], first[[0, 1]])
    assert (cached.model, cached.dimension) == ("hashed-256", 256)
    assert cached.usage == inner.usage


async def test_models_and_dimensions_are_never_mixed(path: Path) -> None:
    embedders = [HashedEmbedder(64), HashedEmbedder(128), HashedEmbedder(64)]
    names = ["one", "one", "two"]
    for embedder, name in zip(embedders, names, strict=True):
        vectors = await CachedEmbedder(embedder, path, model=name).embed(["a"])
        assert vectors.shape == (1, embedder.dimension)
    assert [len(embedder.calls) for embedder in embedders] == [1, 1, 1]


async def test_names_and_texts_that_run_together_are_told_apart(path: Path) -> None:
    inner = HashedEmbedder(64)
    await CachedEmbedder(inner, path, model="m1").embed(["2a"])
    await CachedEmbedder(inner, path, model="m12").embed(["a"])
    assert len(inner.calls) == 2


def test_an_embedder_that_does_not_say_its_model_needs_a_name(path: Path) -> None:
    class Nameless:
        dimension = 8

        async def embed(self, texts: Sequence[str]) -> Matrix:
            return np.zeros((len(texts), 8), dtype=np.float32)

    with pytest.raises(ConfigurationError, match="pass `model`"):
        CachedEmbedder(Nameless(), path)
    assert CachedEmbedder(Nameless(), path, model="mine").model == "mine"
    with pytest.raises(ConfigurationError, match="max_entries"):
        CachedEmbedder(Nameless(), path, model="mine", max_entries=0)


async def test_no_text_is_in_the_file_and_nothing_is_left_beside_it(path: Path) -> None:
    await CachedEmbedder(HashedEmbedder(), path).embed(["a very private sentence"])
    assert b"private" not in path.read_bytes()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


async def test_the_oldest_are_dropped_beyond_the_limit(path: Path) -> None:
    inner = HashedEmbedder()
    cached = CachedEmbedder(inner, path, max_entries=10)
    for number in range(30):
        await cached.embed([f"text {number}"])
    await cached.embed([f"text {number}" for number in range(20, 30)])
    assert len(inner.calls) == 30
    await cached.embed(["text 0"])
    assert len(inner.calls) == 31
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM entries").fetchone() == (10,)
    connection.close()


async def test_many_texts_are_looked_up_in_one_call(path: Path) -> None:
    inner = HashedEmbedder(16)
    cached = CachedEmbedder(inner, path)
    texts = [f"text {number}" for number in range(2500)]
    first = await cached.embed(texts)
    assert np.array_equal(await cached.embed(texts), first)
    assert len(inner.calls) == 1


async def test_a_failure_inside_is_raised_and_nothing_is_kept(path: Path) -> None:
    inner = HashedEmbedder(failures=[ModelUnavailableError("busy")])
    cached = CachedEmbedder(inner, path)
    with pytest.raises(ModelUnavailableError, match="busy"):
        await cached.embed(["a"])
    await cached.embed(["a"])
    assert len(inner.calls) == 2


async def test_a_new_process_finds_what_an_old_one_kept(path: Path) -> None:
    process = writer(path, "old", most=2)
    go(process)
    assert process.communicate(timeout=60)[0] == "1\n2\n"
    inner = HashedEmbedder()
    await CachedEmbedder(inner, path).embed(texts_of("old", 0) + texts_of("old", 1))
    assert inner.calls == []


async def test_two_processes_make_and_fill_one_file_at_once(path: Path) -> None:
    processes = [writer(path, name, most=25) for name in ("left", "right")]
    for process in processes:
        go(process)
    for process in processes:
        assert process.communicate(timeout=120)[0].splitlines()[-1] == "25"
        assert process.returncode == 0
    inner = HashedEmbedder()
    cached = CachedEmbedder(inner, path)
    for name in ("left", "right"):
        for number in range(25):
            await cached.embed(texts_of(name, number))
    assert inner.calls == []


async def test_threads_with_loops_of_their_own_use_one_object(path: Path) -> None:
    inner = HashedEmbedder(32)
    cached = CachedEmbedder(inner, path)

    def fill(name: int) -> None:
        asyncio.run(cached.embed(texts_of("thread", name)))

    await asyncio.gather(*[asyncio.to_thread(fill, name) for name in range(8)])
    calls = len(inner.calls)
    for name in range(8):
        await cached.embed(texts_of("thread", name))
    assert len(inner.calls) == calls == 8


async def test_a_writer_killed_at_any_moment_leaves_a_file_that_can_be_read(path: Path) -> None:
    process = writer(path, "killed", most=100_000)
    go(process)
    assert process.stdout is not None
    done = 0
    while done < 5:
        done = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest = process.communicate(timeout=60)[0].split()
    done = int(rest[-1]) if rest else done
    inner = HashedEmbedder()
    cached = CachedEmbedder(inner, path)
    for number in range(done):
        await cached.embed(texts_of("killed", number))
    assert inner.calls == []
    await cached.embed(["more"])
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_a_call_cancelled_while_it_writes_keeps_all_or_nothing(path: Path) -> None:
    inner = HashedEmbedder()
    cached = CachedEmbedder(inner, path)
    await cached.embed(["warm"])
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    task = asyncio.ensure_future(cached.embed(["a", "b"]))
    while len(inner.calls) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    blocker.execute("COMMIT")
    blocker.close()
    vectors = await cached.embed(["a", "b", "c"])
    assert vectors.shape == (3, 256)
    assert inner.calls[2] in {("c",), ("a", "b", "c")}


@pytest.mark.parametrize("content", [b"this is no database, though it is long enough to be one" * 20, b"short"])
async def test_a_damaged_file_is_named_and_may_be_deleted(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"vectors\.db.*delete the file.*harmless"):
        await CachedEmbedder(HashedEmbedder(), path).embed(["a"])
    path.unlink()
    assert (await CachedEmbedder(HashedEmbedder(), path).embed(["a"])).shape == (1, 256)


async def test_a_file_damaged_in_the_middle_is_named(path: Path) -> None:
    cached = CachedEmbedder(HashedEmbedder(), path)
    texts = [f"text {number}" for number in range(200)]
    await cached.embed(texts)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 3 * 4096)
    with pytest.raises(CorruptDataError, match="delete the file"):
        await cached.embed(texts)


@pytest.mark.parametrize("blob", [b"", b"1234", np.full(256, np.nan, np.float32).tobytes(), bytes(1024), "text"])
async def test_a_damaged_vector_is_an_error(path: Path, blob: object) -> None:
    cached = CachedEmbedder(HashedEmbedder(), path)
    await cached.embed(["a"])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE entries SET vector = ?", (blob,))
    connection.commit()
    connection.close()
    with pytest.raises(CorruptDataError, match="delete the file"):
        await cached.embed(["a"])


async def test_another_database_is_refused_and_left_as_it_is(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (value)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError, match="a path of its own"):
        await CachedEmbedder(HashedEmbedder(), path).embed(["a"])
    assert path.read_bytes() == before


async def test_a_file_of_a_newer_release_is_refused(path: Path) -> None:
    cached = CachedEmbedder(HashedEmbedder(), path)
    await cached.embed(["a"])
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaVersionError, match="newer release"):
        await cached.embed(["a"])


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file" / "vectors.db", tmp_path):
        with pytest.raises(StoreAccessError, match="another path"):
            await CachedEmbedder(HashedEmbedder(), place).embed(["a"])


async def test_a_file_locked_for_too_long_is_unavailable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file_module, "_BUSY_S", 0.01)
    cached = CachedEmbedder(HashedEmbedder(), path)
    await cached.embed(["a"])
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError) as caught:
        await cached.embed(["b"])
    assert caught.value.retryable
    blocker.close()


async def test_a_full_disk_is_told_as_such(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = CachedEmbedder(HashedEmbedder(), path)
    await cached.embed(["a"])
    connect = sqlite3.connect

    def small(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.execute("PRAGMA max_page_count = 4")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(StorageFullError, match="no space left"):
        await cached.embed([f"text {number}" for number in range(200)])
    monkeypatch.undo()
    assert (await cached.embed(["a", "b"])).shape == (2, 256)


async def test_the_second_time_no_request_is_made(server: OpenAIServer, path: Path) -> None:
    async with embedder_at(server) as inner:
        cached = CachedEmbedder(inner, path)
        first = await cached.embed(["a", "b"])
        assert np.array_equal(await cached.embed(["a", "b"]), first)
    assert len(server.requests) == 1
