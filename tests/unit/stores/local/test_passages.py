"""Long messages in the local store: their passages, the vectors of these, and files from before."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import numpy as np
import pytest

from reme_core import ReMe
from reme_core.ports import MessageSearch, MessageVector, Vector
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, axis, message
from tests.contract.suites.transcript_messages import append

FILLER = "Start with a list of what matters to you and why, and give each item a number of its own. "
LONG = f"{FILLER * 20}The locksmith in Rua Augusta opens at seven. {FILLER * 20}"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(folder / "memory.db")
    try:
        yield store
    finally:
        await store.close()


async def give(store: LocalStore, vector: Vector, *, to: str, others: Vector | None) -> int:
    """Answer the pending texts: the one that holds some words with a vector, the others with another or none."""
    pending = await store.pending_texts(ALICE, 256)
    answers = [MessageVector(pending=item, vector=vector if to in item.text else others) for item in pending]
    await store.put_vectors(ALICE, answers)
    return len(pending)


async def test_a_long_message_waits_in_passages_with_the_speaker_before_each(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await append(store, message(LONG, name="Ana"), message("short", minute=2), want_vectors=True)
        texts = [item.text for item in await store.pending_texts(ALICE, 256)]
    assert len(texts) > 5
    assert all(text.startswith("Ana: ") and len(text) < 500 for text in texts[:-1])
    assert texts[-1].endswith("short")


async def test_a_batch_of_pending_texts_has_all_passages_of_its_last_message(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await append(store, message("short"), message(LONG, minute=2), message(LONG, minute=3), want_vectors=True)
        everything = await store.pending_texts(ALICE, 256)
        some = await store.pending_texts(ALICE, 2)
    assert 2 < len(some) < len(everything)
    assert some == everything[: len(some)]


async def test_a_message_is_found_by_the_vector_of_one_of_its_passages(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await append(
            store, message("short"), message(LONG, minute=2), message(FILLER * 30, minute=3), want_vectors=True
        )
        await give(store, axis(1), to="locksmith", others=axis(2))
        assert await store.pending_texts(ALICE, 256) == []
        [best, *_] = await store.search_messages(ALICE, MessageSearch(text="zebra", vector=axis(1)))
    assert best.stored.message.full_text == LONG
    assert best.passage is not None
    assert "locksmith" in LONG[slice(*best.passage)]
    async with opened(tmp_path) as again:  # read from the file
        [first, *_] = await again.search_messages(ALICE, MessageSearch(text="zebra", vector=axis(1)))
    assert (first.passage, first.score) == (best.passage, pytest.approx(best.score))


async def test_passages_that_the_model_refuses_are_left_to_their_words(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await append(store, message(LONG), message("short", minute=2), want_vectors=True)
        await give(store, axis(1), to="short", others=None)
        assert await store.pending_texts(ALICE, 256) == []
        found = await store.search_messages(ALICE, MessageSearch(text="locksmith", vector=axis(3)))
    assert found[0].stored.message.full_text == LONG


async def test_passages_handed_back_in_two_calls_are_kept_together(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await append(store, message(LONG), want_vectors=True)
        pending = await store.pending_texts(ALICE, 256)
        answers = [MessageVector(pending=item, vector=axis(place % 3)) for place, item in enumerate(pending)]
        await store.put_vectors(ALICE, answers[:2])
        assert await store.pending_texts(ALICE, 256) == pending  # it waits until its last passage has an answer
        await store.put_vectors(ALICE, answers[2:])
        assert await store.pending_texts(ALICE, 256) == []
        with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
            [(blob,)] = connection.execute("SELECT vector FROM message_vectors").fetchall()
    stored = np.frombuffer(blob, "<f4").reshape(len(pending), -1)
    assert stored.any(axis=1).all()


async def test_a_giant_message_is_embedded_in_part_and_found_by_all_its_words(tmp_path: Path) -> None:
    giant = f"{FILLER * 3_000}The locksmith opens at seven."
    async with opened(tmp_path) as store:
        await append(store, message(giant), want_vectors=True)
        assert len(await store.pending_texts(ALICE, 256)) == 64
        [found] = await store.search_messages(ALICE, MessageSearch(text="locksmith"))
    assert found.passage is not None
    assert "locksmith" in giant[slice(*found.passage)]


async def test_a_budget_gets_the_passage_and_the_way_to_the_rest(tmp_path: Path) -> None:
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([{"role": "assistant", "content": LONG}], user_id="ana")
        [hit] = (await memory.retrieve("When does the locksmith open?", user_id="ana", token_budget=200)).results
        assert hit.is_passage
        assert "locksmith" in hit.memory
        assert hit.memory.startswith("[…] ")
        assert hit.memory.endswith(" […]")
        assert len(hit.memory) < 500
        [whole] = await memory.get_messages(hit.message_ids, user_id="ana")
        assert whole.message.text == LONG
        assert hit.passage is not None
        assert whole.message.full_text[slice(*hit.passage)].strip() in hit.memory


async def test_a_budget_with_room_and_a_limit_get_the_whole_message(tmp_path: Path) -> None:
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([{"role": "assistant", "content": LONG}], user_id="ana")
        for options in ({"token_budget": 4_000}, {"limit": 3}):
            [hit] = (await memory.retrieve("When does the locksmith open?", user_id="ana", **options)).results
            assert (hit.memory, hit.is_passage) == (LONG, False)


async def test_all_that_an_embedder_is_given_of_a_long_message_is_embedded(tmp_path: Path) -> None:
    async with ReMe("remy", tmp_path, llm=None, embedding=HashedEmbedder()) as memory:
        await memory.summary([{"role": "assistant", "content": LONG}] * 40, user_id="ana")
        [hit] = (await memory.retrieve("locksmith", user_id="ana", token_budget=150)).results
    assert "locksmith" in hit.memory
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        assert connection.execute("SELECT count(*) FROM messages WHERE waits").fetchone() == (0,)


async def test_a_long_message_of_before_passages_gains_them_and_keeps_its_vector_until_they_have_theirs(
    tmp_path: Path,
) -> None:
    old = message(LONG)
    async with opened(tmp_path) as store:
        await append(store, old)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:  # as a release wrote it that knew no passages
        connection.execute("UPDATE messages SET passages = x''")
        connection.execute("INSERT INTO message_vectors SELECT seq, ? FROM messages", (axis(2).tobytes(),))
        connection.execute("INSERT INTO meta VALUES ('dimension', ?)", (str(len(axis(2))),))
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'terms'")
        connection.commit()
    async with opened(tmp_path) as store:
        [by_words, *_] = await store.search_messages(ALICE, MessageSearch(text="When does my locksmith open?"))
        assert by_words.stored.message == old
        assert by_words.passage is not None
        assert "locksmith" in LONG[slice(*by_words.passage)]
        [by_vector, *_] = await store.search_messages(ALICE, MessageSearch(text="zebra", vector=axis(2)))
        assert by_vector.stored.message == old
        assert await give(store, axis(1), to="locksmith", others=axis(3)) > 5
        [by_passage, *_] = await store.search_messages(ALICE, MessageSearch(text="zebra", vector=axis(1)))
        assert by_passage.passage == by_words.passage
