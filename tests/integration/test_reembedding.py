"""A memory changes its embedding model: nothing is mixed, nothing is lost, and the old vectors serve meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess, SpawnProcess
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import ConfigurationError, DimensionMismatchError, EmbeddingModelMismatchError
from reme_core.ports import Embedder, IndexedBy, MemorySearch, MessageSearch, MessageVector, NewVectors, ReembedPage
from reme_core.schema import Reembedded, Scope
from reme_core.stores import IndexedStore, LocalStore
from reme_core.testing import HashedEmbedder
from tests.support.indexed import in_memory
from tests.support.new_processes import NEW_PROCESSES
from tests.support.reembed_child import DIMENSION, SPACE, USER, OtherEmbedder, run

SCOPE = Scope(memory_space=SPACE, user_id=USER)
FIXTURE = Path(__file__).resolve().parents[1] / "data" / "memory_v11_vectors.db.gz"
SAID = 600  # more than two batches


def opened(folder: Path, embedder: Embedder | None, **more: str | Path) -> ReMe:
    return ReMe(SPACE, folder, llm=None, embedding=embedder, vector_store={"synchronous": "NORMAL"}, **more)  # type: ignore[arg-type]  # `files` alone


async def fill(folder: Path, count: int = SAID) -> None:
    async with opened(folder, HashedEmbedder(DIMENSION)) as memory:
        await memory.summary([("user", f"fruit number {number}") for number in range(count)], user_id=USER)
        await memory.add_memory("Ann plays chess", user_id=USER)


async def exact(folder: Path, embedder: Embedder, *texts: str) -> list[float]:
    """Return how near the stored vector of each text is to the one that an embedder makes of it now."""
    store = LocalStore(folder / "memory.db")
    rows = await embedder.embed(texts)
    similar = []
    for text, row in zip(texts, rows, strict=True):
        said = MessageSearch(text="", vector=row, limit=SAID)
        found = [(hit.stored.message.text, hit.similarity) for hit in await store.search_messages(SCOPE, said)]
        kept = MemorySearch(vector=row, limit=9)
        found += [(hit.memory.content, hit.similarity) for hit in await store.search(SCOPE, kept)]
        similar += [value or 0.0 for name, value in found if name == text.removeprefix("user: ")]
    await store.close()
    return similar


TEXTS = ("user: fruit number 3", f"user: fruit number {SAID - 1}", "Ann plays chess")


def begun(folder: Path, kill_after: int | None) -> tuple[ForkServerProcess | SpawnProcess, Connection]:
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=run, args=(folder, kill_after, sender))
    child.start()
    sender.close()
    return child, receiver


def test_a_change_that_was_killed_is_gone_on_with_and_the_old_vectors_serve(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    child, receiver = begun(tmp_path, 2)
    with pytest.raises(EOFError):
        receiver.recv()
    child.join()
    assert child.exitcode == -9

    async def serves() -> None:
        assert await exact(tmp_path, HashedEmbedder(DIMENSION), *TEXTS) == pytest.approx([1, 1, 1])
        async with opened(tmp_path, HashedEmbedder(DIMENSION)) as memory:
            assert (await memory.retrieve("chess", user_id=USER)).degraded == ()
            await memory.add_memory("Bob plays go", user_id=USER)

    asyncio.run(serves())
    child, receiver = begun(tmp_path, None)
    done: Reembedded = receiver.recv()
    child.join()
    assert (done.before, done.model, done.texts) == (f"hashed-{DIMENSION}", "other", SAID + 2 - 512)
    assert asyncio.run(exact(tmp_path, OtherEmbedder(DIMENSION), *TEXTS, "Bob plays go")) == pytest.approx([1] * 4)


def test_two_processes_that_change_at_once_end_alike(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    children = [begun(tmp_path, None) for _ in range(2)]
    done = [receiver.recv() for _, receiver in children]
    for child, _ in children:
        child.join()
    assert {item.model for item in done} == {"other"}
    assert asyncio.run(exact(tmp_path, OtherEmbedder(DIMENSION), *TEXTS)) == pytest.approx([1, 1, 1])


async def test_another_model_of_the_same_dimension_is_refused_at_its_first_use(tmp_path: Path) -> None:
    await fill(tmp_path, 2)
    async with opened(tmp_path, OtherEmbedder(DIMENSION)) as memory:
        with pytest.raises(EmbeddingModelMismatchError, match=r"'other'.*'hashed-16'.*`reme reembed`"):
            await memory.retrieve("chess", user_id=USER)
        with pytest.raises(EmbeddingModelMismatchError):
            await memory.add_memory("Bob plays go", user_id=USER)
    async with opened(tmp_path, None) as memory:
        assert (await memory.retrieve("chess", user_id=USER)).results[0].memory == "Ann plays chess"


async def test_a_process_whose_model_was_replaced_goes_on_by_words_and_its_texts_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(tmp_path, 2)
    async with opened(tmp_path, HashedEmbedder(DIMENSION)) as old, opened(tmp_path, OtherEmbedder(DIMENSION)) as new:
        assert (await old.retrieve("chess", user_id=USER)).degraded == ()
        assert (await new.reembed()).texts == 3
        found = await old.retrieve("chess", user_id=USER)
        assert found.results[0].memory == "Ann plays chess"
        assert "was changed" in found.degraded[0]
        await old.add_memory("Bob plays go", user_id=USER)
        await old.summary([("user", "pears")], user_id=USER)
        assert (await old.retrieve("pears", user_id=USER)).degraded
        await new.flush()
        assert (await new.retrieve("chess", user_id=USER)).degraded == ()
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert "start it again with the new model" in told[0].getMessage()
    assert await exact(tmp_path, OtherEmbedder(DIMENSION), "Bob plays go", "user: pears") == pytest.approx([1, 1])


async def test_a_model_of_another_dimension_takes_over_and_changing_to_it_again_does_nothing(tmp_path: Path) -> None:
    await fill(tmp_path, 3)
    told = list[tuple[int, int]]()
    async with opened(tmp_path, HashedEmbedder(32)) as memory, opened(tmp_path, HashedEmbedder(DIMENSION)) as old:
        with pytest.raises(DimensionMismatchError, match="`reme reembed`"):
            await memory.retrieve("chess", user_id=USER)
        await old.retrieve("chess", user_id=USER)
        await memory.reembed(on_progress=lambda done, total: told.append((done, total)))
        assert (await memory.retrieve("chess", user_id=USER)).degraded == ()
        assert (await memory.reembed()).texts == 0
        assert "was changed" in (await old.retrieve("chess", user_id=USER)).degraded[0]
    assert (told[0], told[-1]) == ((0, 4), (4, 4))


async def test_a_change_can_be_given_up_and_needs_a_model(tmp_path: Path) -> None:
    await fill(tmp_path, 2)
    async with opened(tmp_path, None) as memory:
        with pytest.raises(ConfigurationError, match="no embedding model"):
            await memory.reembed()
        await memory.abandon_reembedding()
    async with opened(tmp_path, HashedEmbedder(DIMENSION)) as memory:
        assert (await memory.retrieve("chess", user_id=USER)).degraded == ()


async def test_vectors_of_a_file_of_before_belong_to_the_first_model_of_their_dimension(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "memory.db").write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    caplog.set_level(logging.INFO)
    async with ReMe("fixture", tmp_path, llm=None, embedding=HashedEmbedder(32)) as memory:
        with pytest.raises(DimensionMismatchError):
            await memory.retrieve("cello", user_id=USER)
    for _ in range(2):
        async with ReMe("fixture", tmp_path, llm=None, embedding=HashedEmbedder(16)) as memory:
            found = await memory.retrieve("Alice plays the cello", user_id=USER)
            assert found.results[0].memory == "Alice plays the cello"
            assert found.degraded == ()
    assert sum("no known model" in record.getMessage() for record in caplog.records) == 1
    async with ReMe("fixture", tmp_path, llm=None, embedding=OtherEmbedder(16)) as memory:
        with pytest.raises(EmbeddingModelMismatchError):
            await memory.retrieve("cello", user_id=USER)


async def test_an_index_beside_the_store_takes_the_new_vectors_over(tmp_path: Path) -> None:
    store = in_memory(tmp_path)
    assert isinstance(store, IndexedStore)
    old, new = HashedEmbedder(8), OtherEmbedder(8)
    first = ReMe(SPACE, tmp_path, llm=None, embedding=old, vector_store=store)
    await first.add_memory("Ann plays chess", user_id=USER)
    second = ReMe(SPACE, tmp_path, llm=None, embedding=new, vector_store=store)
    await second.reembed()
    [row] = await new.embed(["Ann plays chess"])
    [hit] = await store.search(SCOPE, MemorySearch(vector=row, embedded_by=new.model))
    assert hit.similarity == pytest.approx(1)
    found = await first.retrieve("chess", user_id=USER)
    assert "was changed" in found.degraded[0]
    for memory in (first, second):
        await memory.close()
    await store.close()


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("memory.db*"))


async def test_new_vectors_of_an_erased_user_leave_the_file_with_the_user(tmp_path: Path) -> None:
    await fill(tmp_path, 3)
    store = LocalStore(tmp_path / "memory.db")
    target = IndexedBy(dimension=DIMENSION, model="other")
    await store.begin_reembedding(SPACE, target)
    page = await store.texts_to_reembed(SPACE, ReembedPage(limit=10))
    rows = await OtherEmbedder(DIMENSION).embed([item.text for item in page.texts])
    vectors = [MessageVector(pending=item, vector=row) for item, row in zip(page.texts, rows, strict=True)]
    await store.put_new_vectors(SPACE, NewVectors(target=target, vectors=vectors))
    assert all(row.tobytes() in bytes_of(tmp_path) for row in rows)
    await store.erase(SCOPE)
    await store.close()
    assert not any(row.tobytes() in bytes_of(tmp_path) for row in rows)


async def test_files_follow_as_before_where_a_memory_has_a_model(tmp_path: Path) -> None:
    async with opened(tmp_path, HashedEmbedder(DIMENSION), files=tmp_path / "files") as memory:
        await memory.add_memory("Ann plays chess", user_id=USER)
    assert any("Ann plays chess" in path.read_text() for path in (tmp_path / "files").rglob("*.md"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
async def test_the_export_of_a_memory_with_a_model_leaves_no_note_behind(tmp_path: Path) -> None:
    await fill(tmp_path, 2)
    async with opened(tmp_path, HashedEmbedder(DIMENSION)) as memory:
        await memory.export(tmp_path / "all.jsonl", user_id=USER)
        assert (await memory.delete_all_memories(user_id=USER)).files == 0
