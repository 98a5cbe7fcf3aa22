# asserts are what a contract suite is made of
"""Promises of a memory store about writing: ids, revisions, duplicates, batches, events."""

from __future__ import annotations

import numpy as np
import pytest

from reme_core.errors import ConflictError, DimensionMismatchError, InvalidInputError, MemoryNotFoundError, ReMeError
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    Store,
    WriteBatch,
)
from reme_core.schema import EventKind, Memory, MemoryType, Scope, new_id
from reme_core.testing.store_values import (
    ALICE,
    DIMENSION,
    NOW,
    at,
    axis,
    bad_vectors,
    batch,
    changed,
    closed,
    lasting,
    leaning,
    memory,
)

EVERYTHING = ListMemories(filter=MemoryFilter(include_superseded=True), limit=1000)
TEXTS = (
    "She plays the violin.",
    "她喜欢在周末打网球。",
    "彼女は毎朝コーヒーを飲む。",
    "그는 서울에서 일한다.",
    "🎉👩‍👩‍👧 party",
    "naïve café",
)
EQUAL_TEXTS = ("i like tea", "I  like\n tea", " I like tea. ", "“I like tea!”", "Ｉ like tea")


async def add(store: Store, *memories: Memory | PutMemory, scope: Scope = ALICE) -> list[Memory]:
    """Write memories in one batch."""
    return await store.put(scope, batch(*memories))


async def everything(store: Store, scope: Scope = ALICE) -> list[Memory]:
    """List all memories of a scope, superseded ones included."""
    return list((await store.list_memories(scope, EVERYTHING)).memories)


async def cosine_with_first_axis(store: Store, memory_id: str) -> float | None:
    """Return the score of a memory for a search by vector alone; None where it isn't found."""
    found = await store.search(ALICE, MemorySearch(vector=axis(0), limit=1000))
    return next((item.score for item in found if item.memory.memory_id == memory_id), None)


class MemoryWrites:
    """Adding, updating and deleting one memory."""

    @pytest.mark.parametrize("text", TEXTS)
    async def test_a_memory_comes_back_as_it_was_written(self, store: Store, text: str) -> None:
        wanted = memory(text, metadata={"键": ["值", 1, 2.5, True, None, {"a.b": "c"}], "": "empty key"})
        assert await add(store, wanted) == [wanted]
        assert await store.get(ALICE, [wanted.memory_id]) == [wanted]

    async def test_every_field_of_a_memory_is_kept(self, store: Store) -> None:
        wanted = changed(
            memory("Use a torch in the cellar.", memory_type=MemoryType.PROCEDURAL, target="house", minute=3),
            {
                "when_to_use": "when it is dark",
                "observed_at": at(-5),
                "valid_from": at(-4),
                "valid_to": at(99),
                "superseded_by": "another",
                "author": "agent",
                "importance": 0.25,
                "confidence": 0.125,
                "freq": 7,
                "utility": 3.5,
                "sources": [{"block_id": "b", "message_ids": ["m", "n"]}, {"block_id": None}],
            },
        )
        assert await add(store, wanted) == [wanted]
        assert await store.get(ALICE, [wanted.memory_id]) == [wanted]

    async def test_ids_of_any_shape_are_kept_apart(self, store: Store) -> None:
        ids = [
            "*",
            "%",
            "_",
            "a",
            "A",
            "á",
            "a\u0301",
            "null",
            "1",
            "1.0",
            "true",
            '{"a": 1}',
            "a/b",
            "../x",
            "x" * 512,
        ]
        written = await add(store, *(memory(f"fact {number}", memory_id=name) for number, name in enumerate(ids)))
        assert [item.memory_id for item in await store.get(ALICE, ids)] == ids
        assert len(await everything(store)) == len(written) == len(ids)

    async def test_memories_are_got_in_the_order_asked(self, store: Store) -> None:
        first, second = await add(store, memory("one"), memory("two"))
        ids = [second.memory_id, first.memory_id, second.memory_id]
        assert [item.memory_id for item in await store.get(ALICE, ids)] == ids
        assert await store.get(ALICE, []) == []

    async def test_every_unknown_id_is_named(self, store: Store) -> None:
        known = memory("known")
        await add(store, known)
        with pytest.raises(MemoryNotFoundError) as caught:
            await store.get(ALICE, ["no such", known.memory_id, "*", ""])
        assert caught.value.missing == ("no such", "*", "")

    async def test_the_store_counts_revisions_itself(self, store: Store) -> None:
        [first] = await add(store, changed(memory("fact"), {"revision": 41}))
        [second] = await add(store, changed(first, {"content": "other fact", "revision": 9}))
        assert (first.revision, second.revision) == (1, 2)
        assert (await store.get(ALICE, [first.memory_id]))[0].revision == 2

    async def test_an_update_keeps_id_and_creation_time(self, store: Store) -> None:
        [first] = await add(store, memory("old words", minute=1))
        edit = changed(first, {"content": "new words", "created_at": at(50), "metadata": {"edited": True}})
        [second] = await add(store, edit)
        assert (second.memory_id, second.created_at) == (first.memory_id, at(1))
        assert (second.content, second.metadata) == ("new words", {"edited": True})
        assert await everything(store) == [second]

    async def test_what_is_returned_is_a_copy(self, store: Store) -> None:
        mine = memory("fact", metadata={"tags": ["a"]})
        [written] = await add(store, PutMemory(memory=mine, vector=axis(0)))
        [got] = await store.get(ALICE, [mine.memory_id])
        [found] = await store.search(ALICE, MemorySearch(vector=axis(0)))
        [event] = await store.events(ALICE, EventQuery())
        for item in (mine, written, got, found.memory, event.after):
            assert item is not None
            item.metadata["tags"] = ["changed by the caller"]
            item.metadata["more"] = 1
        assert (await store.get(ALICE, [mine.memory_id]))[0].metadata == {"tags": ["a"]}
        [event] = await store.events(ALICE, EventQuery())
        assert event.after is not None
        assert event.after.metadata == {"tags": ["a"]}

    async def test_a_vector_changed_by_the_caller_does_not_change_the_store(self, store: Store) -> None:
        vector = axis(0)
        [written] = await add(store, PutMemory(memory=memory("fact"), vector=vector))
        vector[:] = axis(1)
        assert await cosine_with_first_axis(store, written.memory_id) == pytest.approx(1.0, abs=1e-5)

    async def test_an_update_without_vector_keeps_it_while_the_text_is_unchanged(self, store: Store) -> None:
        [first] = await add(store, PutMemory(memory=memory("fact"), vector=leaning(0.5)))
        await add(store, changed(first, {"importance": 0.9, "metadata": {"a": 1}}))
        assert await cosine_with_first_axis(store, first.memory_id) == pytest.approx(0.5, abs=1e-5)

    @pytest.mark.parametrize("field", ["content", "when_to_use"])
    async def test_an_update_without_vector_drops_it_when_the_text_changed(self, store: Store, field: str) -> None:
        [first] = await add(store, PutMemory(memory=memory("fact"), vector=leaning(0.5)))
        await add(store, changed(first, {field: "about submarines"}))
        assert await cosine_with_first_axis(store, first.memory_id) is None
        [found] = await store.search(ALICE, MemorySearch(text="submarines"))
        assert found.memory.memory_id == first.memory_id

    async def test_an_update_with_a_vector_replaces_the_old_one(self, store: Store) -> None:
        [first] = await add(store, PutMemory(memory=memory("fact"), vector=leaning(0.5)))
        await add(store, PutMemory(memory=changed(first, {"content": "other"}), vector=leaning(0.25)))
        assert await cosine_with_first_axis(store, first.memory_id) == pytest.approx(0.25, abs=1e-5)

    async def test_words_of_the_old_text_find_nothing_after_an_update(self, store: Store) -> None:
        [first] = await add(store, memory("about zebras"))
        await add(store, changed(first, {"content": "about giraffes"}))
        assert await store.search(ALICE, MemorySearch(text="zebras")) == []
        assert len(await store.search(ALICE, MemorySearch(text="giraffes"))) == 1

    async def test_a_deleted_memory_is_gone_from_every_call(self, store: Store) -> None:
        gone, kept = await add(store, PutMemory(memory=memory("zebra"), vector=axis(0)), memory("zebra crossing"))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=gone.memory_id),)))
        with pytest.raises(MemoryNotFoundError):
            await store.get(ALICE, [gone.memory_id])
        assert await everything(store) == [kept]
        assert [item.memory for item in await store.search(ALICE, MemorySearch(text="zebra"))] == [kept]
        assert await cosine_with_first_axis(store, gone.memory_id) is None

    async def test_deleting_what_is_not_there_is_not_found(self, store: Store) -> None:
        with pytest.raises(MemoryNotFoundError) as caught:
            await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id="no such"),)))
        assert caught.value.missing == ("no such",)

    async def test_a_deleted_id_can_be_used_again_and_starts_anew(self, store: Store) -> None:
        [first] = await add(store, PutMemory(memory=memory("fact"), vector=axis(0)))
        await add(store, changed(first, {"metadata": {"a": 1}}))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=first.memory_id),)))
        [again] = await add(store, memory("fact", memory_id=first.memory_id, minute=7))
        assert (again.revision, again.created_at) == (1, at(7))
        assert await cosine_with_first_axis(store, again.memory_id) is None


class MemoryRevisions:
    """Expected revisions, bad input and batches."""

    async def test_revision_zero_means_that_it_must_not_exist(self, store: Store) -> None:
        fact = memory("fact")
        [first] = await add(store, PutMemory(memory=fact, expected_revision=0))
        with pytest.raises(ConflictError):
            await add(store, PutMemory(memory=changed(fact, {"content": "other"}), expected_revision=0))
        assert await everything(store) == [first]

    async def test_only_the_expected_revision_is_replaced(self, store: Store) -> None:
        [first] = await add(store, memory("one"))
        [second] = await add(store, PutMemory(memory=changed(first, {"content": "two"}), expected_revision=1))
        with pytest.raises(ConflictError):
            await add(store, PutMemory(memory=changed(first, {"content": "lost update"}), expected_revision=1))
        with pytest.raises(ConflictError):
            await add(store, PutMemory(memory=changed(first, {"content": "too early"}), expected_revision=3))
        assert await everything(store) == [second]

    async def test_expecting_a_revision_of_what_is_not_there_conflicts(self, store: Store) -> None:
        with pytest.raises(ConflictError):
            await add(store, PutMemory(memory=memory("fact"), expected_revision=1))
        assert await everything(store) == []

    async def test_only_the_expected_revision_is_deleted(self, store: Store) -> None:
        [first] = await add(store, memory("one"))
        with pytest.raises(ConflictError):
            await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=first.memory_id, expected_revision=2),)))
        assert await everything(store) == [first]
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=first.memory_id, expected_revision=1),)))
        assert await everything(store) == []

    @pytest.mark.parametrize("name", list(bad_vectors()))
    async def test_a_vector_that_is_not_one_is_refused(self, store: Store, name: str) -> None:
        with pytest.raises(InvalidInputError):
            await add(store, memory("good"), PutMemory(memory=memory("bad"), vector=bad_vectors()[name]))
        assert await everything(store) == []

    async def test_rounding_of_a_vectors_norm_is_accepted(self, store: Store) -> None:
        [written] = await add(store, PutMemory(memory=memory("fact"), vector=axis(0) * (1 + 1e-5)))
        assert await cosine_with_first_axis(store, written.memory_id) == pytest.approx(1.0, abs=1e-4)

    @pytest.mark.parametrize("dimension", [1, DIMENSION - 1, DIMENSION + 1, 384])
    async def test_a_vector_of_another_dimension_is_refused(self, store: Store, dimension: int) -> None:
        [first] = await add(store, PutMemory(memory=memory("first"), vector=axis(0)))
        with pytest.raises(DimensionMismatchError) as caught:
            await add(store, memory("good"), PutMemory(memory=memory("bad"), vector=axis(0, dimension=dimension)))
        assert (caught.value.expected, caught.value.found) == (DIMENSION, dimension)
        assert await everything(store) == [first]

    @pytest.mark.parametrize("fault", ["revision", "duplicate", "delete", "scope", "vector", "dimension"])
    @pytest.mark.parametrize("place", ["first", "last"])
    async def test_one_bad_change_leaves_the_whole_batch_unwritten(self, store: Store, fault: str, place: str) -> None:
        kept, target = await add(store, PutMemory(memory=memory("kept"), vector=axis(0)), memory("target"))
        events = await store.events(ALICE, EventQuery())
        good: list[PutMemory] = [
            PutMemory(memory=memory("new one"), vector=axis(1)),
            PutMemory(memory=changed(target, {"content": "changed"})),
        ]
        bad: dict[str, list[PutMemory]] = {
            "revision": [PutMemory(memory=memory("other"), expected_revision=4)],
            "duplicate": [PutMemory(memory=memory("kept"), on_duplicate="raise")],
            "scope": [PutMemory(memory=memory("other", scope=Scope(memory_space="space", user_id="bob")))],
            "vector": [PutMemory(memory=memory("other"), vector=axis(0) * np.float32("nan"))],
            "dimension": [PutMemory(memory=memory("other"), vector=axis(0, dimension=3))],
            "delete": [],
        }
        puts = bad[fault] + good if place == "first" else good + bad[fault]
        deletes = [DeleteMemory(memory_id=kept.memory_id)] if fault not in {"duplicate", "dimension"} else []
        if fault == "delete":
            deletes.insert(0 if place == "first" else 1, DeleteMemory(memory_id="no such"))
        with pytest.raises(ReMeError):
            await store.put(ALICE, WriteBatch(puts=puts, deletes=deletes, at=NOW))
        assert {item.memory_id: item for item in await everything(store)} == {
            kept.memory_id: kept,
            target.memory_id: target,
        }
        assert await store.events(ALICE, EventQuery()) == events
        assert await cosine_with_first_axis(store, kept.memory_id) == pytest.approx(1.0, abs=1e-5)
        assert await store.search(ALICE, MemorySearch(text="new one changed")) == []

    async def test_deletes_of_a_batch_come_before_its_puts(self, store: Store) -> None:
        [old] = await add(store, PutMemory(memory=memory("fact"), vector=axis(0)))
        [same_id, same_text] = await store.put(
            ALICE,
            batch(
                PutMemory(memory=memory("another fact", memory_id=old.memory_id, minute=5), expected_revision=0),
                PutMemory(memory=memory("FACT"), on_duplicate="raise"),
                deletes=(DeleteMemory(memory_id=old.memory_id),),
            ),
        )
        assert (same_id.memory_id, same_id.revision, same_id.created_at) == (old.memory_id, 1, at(5))
        assert {item.memory_id for item in await everything(store)} == {same_id.memory_id, same_text.memory_id}
        kinds = [event.operation for event in await store.events(ALICE, EventQuery())]
        assert kinds == [EventKind.ADD, EventKind.DELETE, EventKind.ADD, EventKind.ADD]

    async def test_the_same_id_twice_in_a_batch_is_an_add_and_an_update(self, store: Store) -> None:
        first = memory("one", minute=1)
        written = await add(store, first, changed(first, {"content": "two", "created_at": at(9)}))
        assert [item.revision for item in written] == [1, 2]
        assert await everything(store) == [written[1]]
        assert written[1].created_at == at(1)
        assert len(await store.events(ALICE, EventQuery())) == 2

    async def test_an_empty_batch_changes_nothing(self, store: Store) -> None:
        assert await store.put(ALICE, batch()) == []
        assert await store.events(ALICE, EventQuery()) == []


class MemoryDuplicates:
    """One current memory for each type, target and normalised content."""

    @pytest.mark.parametrize("text", EQUAL_TEXTS)
    async def test_a_duplicate_answers_with_the_memory_that_is_there(self, store: Store, text: str) -> None:
        [first] = await add(store, memory("I like tea"))
        assert await add(store, PutMemory(memory=memory(text, minute=5), vector=axis(0))) == [first]
        assert await everything(store) == [first]
        assert len(await store.events(ALICE, EventQuery())) == 1

    @pytest.mark.parametrize("text", EQUAL_TEXTS)
    async def test_a_duplicate_that_may_not_be_conflicts(self, store: Store, text: str) -> None:
        [first] = await add(store, memory("I like tea"))
        with pytest.raises(ConflictError):
            await add(store, PutMemory(memory=memory(text), on_duplicate="raise"))
        assert await everything(store) == [first]

    @pytest.mark.parametrize(
        ("one", "two"), [("C", "C++"), ("50 %", "50 €"), ("他来了", "他来"), ("👍", "👎"), ("a b", "ab")]
    )
    async def test_different_contents_are_no_duplicates(self, store: Store, one: str, two: str) -> None:
        await add(store, memory(one), PutMemory(memory=memory(two), on_duplicate="raise"))
        assert len(await everything(store)) == 2

    async def test_equal_texts_of_other_types_or_targets_are_no_duplicates(self, store: Store) -> None:
        await add(
            store,
            memory("fact"),
            PutMemory(memory=memory("fact", target="other"), on_duplicate="raise"),
            PutMemory(memory=memory("fact", memory_type=MemoryType.TOOL), on_duplicate="raise"),
        )
        assert len(await everything(store)) == 3

    async def test_two_equal_adds_of_one_batch_make_one_memory(self, store: Store) -> None:
        first, second = await add(store, memory("fact"), memory("Fact."))
        assert first == second
        assert await everything(store) == [first]
        assert len(await store.events(ALICE, EventQuery())) == 1

    async def test_a_superseded_memory_does_not_block_its_text(self, store: Store) -> None:
        [first] = await add(store, memory("fact"))
        await add(store, closed(first, minute=5))
        [second] = await add(store, PutMemory(memory=memory("fact", minute=5), on_duplicate="raise"))
        assert second.memory_id != first.memory_id
        assert len(await everything(store)) == 2

    async def test_closing_and_replacing_by_the_same_text_goes_in_one_batch(self, store: Store) -> None:
        [first] = await add(store, memory("fact"))
        new = memory("fact", minute=5)
        replaced = PutMemory(memory=closed(first, minute=5, by=new.memory_id), expected_revision=1)
        old, current = await add(store, replaced, PutMemory(memory=new, on_duplicate="raise"))
        assert (old.is_current, old.superseded_by, current) == (False, new.memory_id, new)

    async def test_adding_a_superseded_memory_beside_a_current_equal_one_is_allowed(self, store: Store) -> None:
        [current] = await add(store, memory("fact", minute=9))
        [past] = await add(store, PutMemory(memory=closed(memory("fact"), minute=5), on_duplicate="raise"))
        assert {item.memory_id for item in await everything(store)} == {current.memory_id, past.memory_id}

    async def test_an_end_is_an_update_that_leaves_a_memory_current(self, store: Store) -> None:
        [first] = await add(store, memory("fact"))
        [ended] = await add(store, lasting(first, minute=None, until=5))
        assert (ended.is_current, ended.revision) == (True, 2)
        events = await store.events(ALICE, EventQuery())
        assert [event.operation for event in events] == [EventKind.ADD, EventKind.UPDATE]
        assert (await store.list_memories(ALICE, ListMemories())).memories == (ended,)

    async def test_a_duplicate_of_a_time_that_meets_that_of_the_memory_answers_with_it(self, store: Store) -> None:
        [ended] = await add(store, lasting(memory("fact"), minute=0, until=10))
        for begins, ends in ((0, 10), (5, None), (5, 20), (-5, 1), (-5, None)):
            assert await add(store, lasting(memory("Fact."), minute=begins, until=ends)) == [ended]
        assert await everything(store) == [ended]

    @pytest.mark.parametrize("begins", [5, 9])
    async def test_an_equal_memory_of_a_later_time_takes_the_place_of_the_one_that_is_over(
        self, store: Store, begins: int
    ) -> None:
        [over] = await add(store, PutMemory(memory=lasting(memory("fact"), minute=0, until=5), vector=axis(2)))
        [new] = await add(store, lasting(memory("Fact."), minute=begins, until=None))
        [past] = await store.get(ALICE, [over.memory_id])
        assert (new.is_current, new.revision) == (True, 1)
        assert (past.superseded_by, past.valid_to, past.revision) == (new.memory_id, at(5), 2)
        events = await store.events(ALICE, EventQuery())
        assert [(event.operation, event.after) for event in events[1:]] == [
            (EventKind.SUPERSEDE, past),
            (EventKind.ADD, new),
        ]
        then = MemorySearch(vector=axis(2), filter=MemoryFilter(as_of=at(1)))
        [found] = await store.search(ALICE, then)
        assert found.memory == past
        assert found.score == pytest.approx(1.0)
        assert (await store.list_memories(ALICE, ListMemories())).memories == (new,)

    async def test_an_equal_memory_of_an_earlier_time_is_kept_as_one_that_was_superseded(self, store: Store) -> None:
        [now] = await add(store, memory("fact", minute=5))
        earlier = lasting(memory("fact", minute=9), minute=0, until=5)
        [past] = await add(store, earlier)
        assert past == changed(earlier, {"superseded_by": now.memory_id})
        assert await store.get(ALICE, [now.memory_id, past.memory_id]) == [now, past]
        again = lasting(memory("fact", minute=10), minute=0, until=5)
        with pytest.raises(ConflictError):
            await add(store, PutMemory(memory=again, on_duplicate="raise"))

    async def test_equal_memories_of_times_apart_come_in_one_batch(self, store: Store) -> None:
        times = ((0, 5), (20, None), (10, 15))
        written = await add(store, *(lasting(memory("fact"), minute=begins, until=ends) for begins, ends in times))
        first, last, between = await store.get(ALICE, [item.memory_id for item in written])
        assert last.is_current
        assert (first.superseded_by, between.superseded_by) == (last.memory_id, last.memory_id)

    async def test_an_update_into_a_duplicate_conflicts(self, store: Store) -> None:
        first, second = await add(store, memory("one"), memory("two"))
        with pytest.raises(ConflictError):
            await add(store, changed(second, {"content": "ONE"}))
        assert {item.content for item in await everything(store)} == {"one", "two"}
        assert (await store.get(ALICE, [second.memory_id])) == [second]
        assert first.revision == 1

    async def test_an_update_of_case_alone_is_no_duplicate_of_itself(self, store: Store) -> None:
        [first] = await add(store, memory("fact"))
        [second] = await add(store, changed(first, {"content": "FACT!"}))
        assert (second.content, second.revision) == ("FACT!", 2)

    async def test_reopening_a_closed_memory_beside_an_equal_one_conflicts(self, store: Store) -> None:
        [old] = await add(store, memory("fact"))
        [shut] = await add(store, closed(old, minute=5))
        await add(store, memory("fact", minute=6))
        with pytest.raises(ConflictError):
            await add(store, changed(shut, {"valid_to": None, "superseded_by": None}))
        assert (await store.get(ALICE, [old.memory_id])) == [shut]

    async def test_a_text_is_free_again_after_an_edit_or_a_deletion(self, store: Store) -> None:
        first, second = await add(store, memory("one"), memory("two"))
        await add(store, changed(first, {"content": "three"}))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=second.memory_id),)))
        await add(
            store,
            PutMemory(memory=memory("one"), on_duplicate="raise"),
            PutMemory(memory=memory("two"), on_duplicate="raise"),
        )
        assert {item.content for item in await everything(store)} == {"one", "two", "three"}


class MemoryEvents:
    """Every change is an event."""

    async def test_every_change_is_told_with_before_and_after(self, store: Store) -> None:
        def write(number: int, *puts: Memory, deletes: tuple[DeleteMemory, ...] = ()) -> WriteBatch:
            wrapped = tuple(PutMemory(memory=item) for item in puts)
            names = {"reason": f"reason {number}", "run_id": f"run {number}", "actor": f"actor {number}"}
            return WriteBatch(puts=wrapped, deletes=deletes, at=at(number), **names)

        [added] = await store.put(ALICE, write(1, memory("one")))
        [updated] = await store.put(ALICE, write(2, changed(added, {"content": "two"})))
        [ended] = await store.put(ALICE, write(3, closed(updated, minute=3)))
        await store.put(ALICE, write(4, deletes=(DeleteMemory(memory_id=added.memory_id),)))
        events = await store.events(ALICE, EventQuery())
        assert [(event.operation, event.before, event.after) for event in events] == [
            (EventKind.ADD, None, added),
            (EventKind.UPDATE, added, updated),
            (EventKind.SUPERSEDE, updated, ended),
            (EventKind.DELETE, ended, None),
        ]
        for number, event in enumerate(events, start=1):
            assert event.memory_id == added.memory_id
            assert (event.reason, event.run_id, event.actor) == (f"reason {number}", f"run {number}", f"actor {number}")
            assert event.at == at(number)
        sequences = [event.sequence for event in events]
        assert sequences == sorted(set(sequences))
        assert sequences[0] > 0

    async def test_an_event_without_run_has_none(self, store: Store) -> None:
        await add(store, memory("one"))
        [event] = await store.events(ALICE, EventQuery())
        assert (event.run_id, event.reason, event.actor) == (None, "", "user")

    async def test_events_are_asked_for_by_memory_run_and_place(self, store: Store) -> None:
        first, second = memory("one"), memory("two")
        runs = (("a", first), ("b", second), ("b", changed(first, {"content": "uno"})))
        for run, item in runs:
            await store.put(ALICE, WriteBatch(puts=[PutMemory(memory=item)], run_id=run, at=NOW))
        events = await store.events(ALICE, EventQuery())
        assert await store.events(ALICE, EventQuery(memory_id=first.memory_id)) == [events[0], events[2]]
        assert await store.events(ALICE, EventQuery(run_id="b")) == events[1:]
        assert await store.events(ALICE, EventQuery(run_id="b", memory_id=first.memory_id)) == [events[2]]
        assert await store.events(ALICE, EventQuery(after=events[0].sequence)) == events[1:]
        assert await store.events(ALICE, EventQuery(after=events[2].sequence)) == []
        assert await store.events(ALICE, EventQuery(limit=2)) == events[:2]
        assert await store.events(ALICE, EventQuery(after=events[0].sequence, limit=1)) == [events[1]]
        for nobody in ("no such", "*", ""):
            assert await store.events(ALICE, EventQuery(memory_id=nobody)) == []
            assert await store.events(ALICE, EventQuery(run_id=nobody)) == []

    async def test_the_changes_of_a_batch_are_told_in_order(self, store: Store) -> None:
        [old] = await add(store, memory("old"))
        puts = [memory(f"new {number}") for number in range(12)]
        await store.put(ALICE, batch(*puts, deletes=(DeleteMemory(memory_id=old.memory_id),)))
        events = await store.events(ALICE, EventQuery())
        assert [event.memory_id for event in events] == [old.memory_id, old.memory_id, *(p.memory_id for p in puts)]

    async def test_a_change_with_a_reason_of_its_own_is_told_with_that_and_the_others_with_the_batchs(
        self, store: Store
    ) -> None:
        old, gone = await add(store, memory("old"), memory("gone"))
        puts = [
            PutMemory(memory=changed(old, {"importance": 0.9}), reason="of the update"),
            PutMemory(memory=memory("new"), reason="of the add"),
            PutMemory(memory=memory("without"), reason=""),
            PutMemory(memory=memory("plain")),
        ]
        deletes = (DeleteMemory(memory_id=gone.memory_id, reason="of the delete"),)
        await store.put(ALICE, batch(*puts, deletes=deletes, reason="of the batch"))
        reasons = [event.reason for event in (await store.events(ALICE, EventQuery()))[2:]]
        assert reasons == ["of the delete", "of the update", "of the add", "", "of the batch"]

    async def test_a_put_with_a_run_of_its_own_is_told_with_that_and_the_others_with_the_batchs(
        self, store: Store
    ) -> None:
        [old] = await add(store, memory("old"))
        puts = [
            PutMemory(memory=changed(old, {"importance": 0.9}), run_id="of the update"),
            PutMemory(memory=memory("new"), run_id="of the add"),
            PutMemory(memory=memory("plain")),
        ]
        await store.put(ALICE, WriteBatch(puts=puts, run_id="of the batch", at=NOW))
        runs = [event.run_id for event in (await store.events(ALICE, EventQuery()))[1:]]
        assert runs == ["of the update", "of the add", "of the batch"]

    async def test_events_stay_when_their_memory_is_deleted(self, store: Store) -> None:
        [fact] = await add(store, memory("fact"))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=fact.memory_id),), reason="asked to"))
        added, deleted = await store.events(ALICE, EventQuery(memory_id=fact.memory_id))
        assert (added.after, deleted.before, deleted.reason) == (fact, fact, "asked to")

    async def test_a_refused_write_leaves_no_event(self, store: Store) -> None:
        with pytest.raises(ConflictError):
            await add(store, memory("good"), PutMemory(memory=memory("fact", memory_id=new_id()), expected_revision=2))
        assert await store.events(ALICE, EventQuery()) == []
