# asserts are what a contract suite is made of
"""Promises of a store about embedding models: never two of them in one space, and a change from one to another."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reme_core.errors import ConflictError, DimensionMismatchError, EmbeddingModelMismatchError, InvalidInputError
from reme_core.ports import (
    AppendMessages,
    DeleteMemory,
    IndexedBy,
    MemorySearch,
    MessageSearch,
    MessageVector,
    NewVectors,
    PendingText,
    PutMemory,
    ReembedPage,
    Store,
    WriteBatch,
)
from reme_core.schema import Memory, Scope
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    DIMENSION,
    ELSEWHERE,
    NOW,
    axis,
    batch,
    changed,
    memory,
    message,
)

SPACE = ALICE.memory_space
OLD, NEW = IndexedBy(dimension=DIMENSION, model="old"), IndexedBy(dimension=DIMENSION, model="new")
LONGER = IndexedBy(dimension=DIMENSION + 1, model="longer")


def _made(*memories: Memory, index: int = 0, model: str | None = "old") -> WriteBatch:
    puts = [PutMemory(memory=item, vector=axis(index)) for item in memories]
    return WriteBatch(puts=puts, at=NOW, embedded_by=model)


async def _page(store: Store, limit: int = 100, cursor: str | None = None) -> Sequence[PendingText]:
    return (await store.texts_to_reembed(SPACE, ReembedPage(limit=limit, cursor=cursor))).texts


async def _answer(store: Store, target: IndexedBy, texts: Sequence[PendingText], *, index: int = 1) -> None:
    vectors = [MessageVector(pending=item, vector=axis(index, dimension=target.dimension)) for item in texts]
    await store.put_new_vectors(SPACE, NewVectors(target=target, vectors=vectors))


async def _nearest(store: Store, target: IndexedBy, index: int, scope: Scope = ALICE) -> list[str]:
    vector = axis(index, dimension=target.dimension)
    told = list[str]()  # an index beside the store may not take vectors of another length
    search = MemorySearch(vector=vector, min_score=0.99, embedded_by=target.model, on_degraded=told.append)
    found = await store.search(scope, search)
    return sorted(item.memory.content for item in found)


class MemoryReembedding:
    """Each memory space has one embedding model, which can be changed while the old vectors serve."""

    async def test_a_vector_of_another_model_is_neither_kept_nor_compared(self, store: Store) -> None:
        await store.put(ALICE, _made(memory("one")))
        with pytest.raises(EmbeddingModelMismatchError) as refused:
            await store.put(BOB, _made(memory("two", scope=BOB), model="new"))
        assert (refused.value.expected, refused.value.found) == ("old", "new")
        with pytest.raises(EmbeddingModelMismatchError):
            await store.search(ALICE, MemorySearch(text="one", vector=axis(0), embedded_by="new"))
        await store.append(ALICE, AppendMessages(session_id="s", messages=[message("hi")], want_vectors=True))
        [waiting] = await store.pending_texts(ALICE, 10)
        with pytest.raises(EmbeddingModelMismatchError):
            await store.put_vectors(ALICE, [MessageVector(pending=waiting, vector=axis(0), embedded_by="new")])
        with pytest.raises(EmbeddingModelMismatchError):
            await store.search_messages(ALICE, MessageSearch(text="hi", vector=axis(0), embedded_by="new"))
        assert await store.pending_texts(ALICE, 10) == [waiting]
        assert await _nearest(store, OLD, 0) == ["one"]

    async def test_vectors_of_no_known_model_become_those_of_the_first_that_claims_them(self, store: Store) -> None:
        assert await store.find_index(SPACE) is None
        await store.put(ALICE, _made(memory("one"), model=None))
        assert await store.find_index(SPACE) == IndexedBy(dimension=DIMENSION, model=None)
        with pytest.raises(DimensionMismatchError):
            await store.claim_index(SPACE, LONGER)
        assert await store.claim_index(SPACE, OLD) == OLD == await store.find_index(SPACE)
        assert await store.claim_index(SPACE, NEW) == OLD
        assert await store.find_index(ELSEWHERE.memory_space) is None

    async def test_the_old_vectors_serve_until_all_are_replaced_at_once(self, store: Store) -> None:
        await store.put(ALICE, _made(memory("one"), memory("two")))
        state = await store.begin_reembedding(SPACE, NEW)
        assert (state.before, state.done, state.total) == (OLD, 0, 2)
        [first, second] = await _page(store)
        assert [first.text, second.text] == ["one", "two"]
        await _answer(store, NEW, [first])
        assert (await store.begin_reembedding(SPACE, NEW)).done == 1
        assert await _page(store) == [second]
        assert await _nearest(store, OLD, 0) == ["one", "two"]
        assert await _nearest(store, OLD, 1) == []
        await _answer(store, NEW, [second])
        assert await store.end_reembedding(SPACE, NEW)
        assert await store.find_index(SPACE) == NEW
        assert await _nearest(store, NEW, 1) == ["one", "two"]
        with pytest.raises(EmbeddingModelMismatchError):
            await _nearest(store, OLD, 0)

    async def test_messages_of_every_user_of_the_space_are_replaced_with_them(self, store: Store) -> None:
        for scope in (ALICE, BOB, ELSEWHERE):
            said = AppendMessages(session_id="s", messages=[message(scope.user_id)], want_vectors=True)
            await store.append(scope, said)
            waiting = await store.pending_texts(scope, 10)
            await store.put_vectors(
                scope, [MessageVector(pending=item, vector=axis(0), embedded_by="old") for item in waiting]
            )
        await store.begin_reembedding(SPACE, NEW)
        texts = await _page(store)
        assert len(texts) == 2
        await _answer(store, NEW, texts)
        assert await store.end_reembedding(SPACE, NEW)
        for scope, index, model in ((ALICE, 1, "new"), (BOB, 1, "new"), (ELSEWHERE, 0, "old")):
            [found] = await store.search_messages(scope, MessageSearch(text="", vector=axis(index), embedded_by=model))
            assert found.similarity == pytest.approx(1.0)

    async def test_pages_have_each_text_once(self, store: Store) -> None:
        await store.put(ALICE, _made(*(memory(f"fact {number}") for number in range(5))))
        await store.begin_reembedding(SPACE, NEW)
        seen, cursor = list[str](), None
        while True:
            page = await store.texts_to_reembed(SPACE, ReembedPage(limit=2, cursor=cursor))
            seen += [item.text for item in page.texts]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == [f"fact {number}" for number in range(5)]

    async def test_what_is_written_meanwhile_is_replaced_as_well_or_waits(self, store: Store) -> None:
        one, two = memory("one"), memory("two")
        await store.put(ALICE, _made(one, two))
        await store.begin_reembedding(SPACE, NEW)
        await _answer(store, NEW, await _page(store))
        edited = changed(one, {"content": "uno"})
        await store.put(ALICE, _made(edited, memory("three")))
        assert [item.text for item in await _page(store)] == ["uno", "three"]
        await _answer(store, NEW, (await _page(store))[1:])
        assert await store.end_reembedding(SPACE, NEW)
        assert [item.text for item in await store.pending_texts(ALICE, 10)] == ["uno"]
        assert await _nearest(store, NEW, 1) == ["three", "two"]
        assert await _nearest(store, NEW, 0) == []

    async def test_a_model_of_another_dimension_takes_over(self, store: Store) -> None:
        await store.put(ALICE, _made(memory("one")))
        assert await _nearest(store, OLD, 0) == ["one"]
        await store.begin_reembedding(SPACE, LONGER)
        await _answer(store, LONGER, await _page(store), index=DIMENSION)
        assert await store.end_reembedding(SPACE, LONGER)
        assert await _nearest(store, LONGER, DIMENSION) == ["one"]

    async def test_a_text_that_is_given_up_has_no_vector_afterwards(self, store: Store) -> None:
        await store.put(ALICE, _made(memory("one")))
        await store.begin_reembedding(SPACE, NEW)
        [text] = await _page(store)
        await store.put_new_vectors(SPACE, NewVectors(target=NEW, vectors=[MessageVector(pending=text, vector=None)]))
        assert await _page(store) == []
        assert await store.end_reembedding(SPACE, NEW)
        assert await _nearest(store, NEW, 0) == []
        assert await store.pending_texts(ALICE, 10) == []
        [found] = await store.search(ALICE, MemorySearch(text="one"))
        assert found.memory.content == "one"

    async def test_what_is_erased_or_deleted_meanwhile_does_not_come_back(self, store: Store) -> None:
        gone = memory("gone")
        await store.put(ALICE, _made(gone))
        await store.put(BOB, _made(memory("erased", scope=BOB)))
        await store.begin_reembedding(SPACE, NEW)
        texts = await _page(store)
        await _answer(store, NEW, texts)
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=gone.memory_id),)))
        await store.erase(BOB)
        await _answer(store, NEW, texts)
        assert (await store.begin_reembedding(SPACE, NEW)).total == 0
        assert await store.end_reembedding(SPACE, NEW)
        assert await _nearest(store, NEW, 1) == await _nearest(store, NEW, 1, BOB) == []

    async def test_one_change_at_a_time_and_it_can_be_given_up(self, store: Store) -> None:
        await store.put(ALICE, _made(memory("one")))
        with pytest.raises(ConflictError):
            await store.end_reembedding(SPACE, NEW)
        await store.begin_reembedding(SPACE, NEW)
        texts = await _page(store)
        for refused in (
            store.begin_reembedding(SPACE, LONGER),
            _answer(store, LONGER, texts),
            store.end_reembedding(SPACE, LONGER),
        ):
            with pytest.raises(ConflictError, match="'new'"):
                await refused
        await _answer(store, NEW, texts)
        assert await store.end_reembedding(SPACE, None)
        assert await store.find_index(SPACE) == OLD
        assert (await store.begin_reembedding(SPACE, LONGER)).done == 0
        assert await _nearest(store, OLD, 0) == ["one"]

    async def test_new_vectors_that_are_none_are_refused(self, store: Store) -> None:
        await store.put(ALICE, _made(memory("one")))
        await store.begin_reembedding(SPACE, NEW)
        [text] = await _page(store)
        strange = MessageVector(pending=PendingText(key="strange", text="one"), vector=axis(0))
        for item, error in (
            (strange, InvalidInputError),
            (MessageVector(pending=text, vector=axis(0, dimension=3)), DimensionMismatchError),
            (MessageVector(pending=text, vector=2 * axis(0)), InvalidInputError),
        ):
            with pytest.raises(error):
                await store.put_new_vectors(SPACE, NewVectors(target=NEW, vectors=[item]))
        assert await _page(store) == [text]
