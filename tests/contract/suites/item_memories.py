# asserts are what a contract suite is made of
"""Promises of an item store about items that are memories, and memories that were not written as items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reme_core.errors import MemoryNotFoundError
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    FilterOperator,
    ItemCondition,
    ItemValue,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    RecordPlace,
)
from reme_core.schema import EventKind, Memory, MemoryType
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    ELSEWHERE,
    at,
    axis,
    batch,
    changed,
    closed,
    lasting,
    leaning,
    memory,
)
from tests.contract.suites.item_values import (
    ALICES,
    OF_ALICE,
    RECORD,
    SPACE,
    Store,
    address,
    asked,
    content_of,
    find,
    get,
    keys,
    namespaces,
    of_alice,
    places,
    put,
    write,
)

_IN_ALICES = asked(OF_ALICE)
_WITH_MEMORIES = replace(_IN_ALICES, records=[ALICES])


async def _memory_of(store: Store, key: str) -> Memory:
    found = (await get(store, of_alice(key))).memory
    assert found is not None
    return found


async def _found(store: Store, text: str = "walrus") -> list[str]:
    hits = await store.search(ALICE, MemorySearch(text=text, vector=axis(0)))
    return [hit.memory.content for hit in hits]


class ItemMemories:
    """An item with a record is one memory, seen from two sides."""

    async def test_a_put_with_a_record_is_found_as_a_memory(self, store: Store) -> None:
        value: ItemValue = {"content": "a walrus", "when_to_use": "at sea", "size": 7, "bad": float("inf")}
        where = replace(of_alice("k"), record=replace(RECORD, topic=("deep", "sea")))
        await write(store, put(where, value, leaning(0.9), axis(1)), minute=3)
        hits = await store.search(ALICE, MemorySearch(text="", vector=leaning(0.9)))
        assert len(hits) == 1
        hit, found = hits[0], hits[0].memory
        assert hit.score == pytest.approx(1.0)
        assert (found.content, found.when_to_use, found.memory_type) == ("a walrus", "at sea", MemoryType.PERSONAL)
        assert found.metadata == {"topic": ["deep", "sea"], "size": 7}
        assert (found.created_at, found.updated_at, found.revision) == (at(3), at(3), 1)
        item = await get(store, where)
        assert (item.value, item.memory, item.namespace) == (value, found, OF_ALICE)
        [event] = await store.events(ALICE, EventQuery())
        assert (event.operation, event.actor) == (EventKind.ADD, "store")
        assert found.memory_id != "k"
        for scope in (BOB, ELSEWHERE):
            assert await content_of(store, scope) == []
        assert (await content_of(store)) == ["a walrus"]

    async def test_what_a_memory_says_is_under_the_first_key_that_says_something(self, store: Store) -> None:
        values: dict[str, ItemValue] = {
            "said": {"content": "said", "text": "no"},
            "text": {"content": " ", "text": "text", "memory": "no"},
            "memory": {"content": 7, "memory": "memory"},
            '{"a": 1, "b": "\u00e9"}': {"b": "\u00e9", "a": 1},
            "{}": {},
            "nul \ufffd and \ufffd": {"text": "nul \0 and \ud83d"},
            "x" * (1 << 18): {"text": "x" * (1 << 18) + "y"},
        }
        await write(store, *(put(of_alice(f"{n}"), value) for n, value in enumerate(values.values())))
        assert await content_of(store) == sorted(values)
        for number, value in enumerate(values.values()):
            assert (await get(store, of_alice(f"{number}"))).value == value

    async def test_equal_memories_under_two_keys_stand_side_by_side(self, store: Store) -> None:
        await write(store, put(of_alice("a"), {"text": "the same", "n": 1}), put(of_alice("b"), {"text": "The same."}))
        one, other = await _memory_of(store, "a"), await _memory_of(store, "b")
        assert one.memory_id != other.memory_id
        [known] = await store.put(ALICE, batch(memory("the same")))
        assert known.memory_id == one.memory_id
        edited = changed(other, {"importance": 0.9, "updated_at": at(1)})
        [stored] = await store.put(ALICE, batch(edited))
        assert (stored.importance, stored.revision) == (0.9, 2)
        await write(store, put(of_alice("a"), {"text": "else"}), put(of_alice("b"), {"text": "else"}), minute=2)
        assert await content_of(store) == ["else", "else"]

    async def test_an_update_of_the_item_is_one_of_its_memory(self, store: Store) -> None:
        await write(store, put(of_alice("k"), {"text": "a walrus"}, axis(0)))
        before = await _memory_of(store, "k")
        await write(store, put(of_alice("k"), {"text": "a narwhal", "n": 1}, axis(1)), minute=2)
        item = await get(store, of_alice("k"))
        assert item.memory is not None
        assert (item.memory.memory_id, item.memory.revision) == (before.memory_id, 2)
        assert (item.memory.created_at, item.memory.updated_at) == (at(0), at(2)) == (item.created_at, item.updated_at)
        assert item.memory.metadata == {"n": 1}
        assert await store.get(ALICE, [before.memory_id]) == [item.memory]
        assert [event.operation for event in await store.events(ALICE, EventQuery())] == [
            EventKind.ADD,
            EventKind.UPDATE,
        ]

    async def test_deleting_on_either_side_deletes_both_with_the_vectors(self, store: Store) -> None:
        await write(store, *(put(of_alice(key), {"text": f"walrus {key}"}, axis(0)) for key in "abcd"))
        found = {key: await _memory_of(store, key) for key in "abcd"}
        await write(store, of_alice("a"))
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=found["b"].memory_id),)))
        await write(store, put(of_alice("d"), {}, ttl_s=1))
        assert await store.sweep_items(SPACE, at(1)) == 1
        for key in "abd":
            with pytest.raises(MemoryNotFoundError):
                await store.get(ALICE, [found[key].memory_id])
            assert await find(store, of_alice(key)) is None
        assert await keys(store, replace(_WITH_MEMORIES, vector=axis(0))) == ["c"]
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=found["c"].memory_id),)))
        assert await namespaces(store) == []
        await store.put(ALICE, batch(found["c"]))  # brought back, as a memory
        assert await keys(store, _WITH_MEMORIES) == [found["c"].memory_id]

    async def test_an_item_that_is_not_ranked_is_in_no_ranking_of_either_side(self, store: Store) -> None:
        await write(
            store, put(of_alice("k"), {"text": "a walrus"}, axis(0)), put(of_alice("n"), {"text": "a narwhal"}, axis(1))
        )
        assert (await _found(store))[0] == "a walrus"
        await write(store, put(of_alice("k"), {"text": "a walrus"}, ranked=False))
        assert await _found(store) == ["a narwhal"]
        assert await content_of(store) == ["a narwhal", "a walrus"]
        scores = {i.key: i.score for i in await store.search_items(SPACE, replace(_IN_ALICES, vector=axis(0)))}
        assert scores == {"n": pytest.approx(0.0), "k": None}
        await write(store, put(of_alice("k"), {"text": "a walrus"}))
        assert await _found(store) == ["a walrus", "a narwhal"]

    async def test_an_edit_of_the_memory_changes_the_texts_of_the_item_alone(self, store: Store) -> None:
        values: dict[str, ItemValue] = {
            "text": {"text": "one", "n": {"a": 1}, "when_to_use": "now"},
            "json": {"a": 1, "b": [2]},
            "kept": {"text": "nul \0", "content": "  "},
        }
        await write(store, *(put(of_alice(key), value, axis(0), axis(1)) for key, value in values.items()))
        for key in ("text", "json"):
            before = await _memory_of(store, key)
            edited = changed(
                before, {"content": "edited", "when_to_use": f"for {key}", "metadata": {"z": 1}, "updated_at": at(1)}
            )
            edited = changed(edited, {"content": f"edited {key}"})
            await store.put(ALICE, batch(PutMemory(memory=edited, vector=axis(2))))
            item = await get(store, of_alice(key))
            assert (item.updated_at, item.created_at) == (at(1), at(0))
        assert (await get(store, of_alice("text"))).value == {
            "text": "edited text",
            "n": {"a": 1},
            "when_to_use": "for text",
        }
        assert (await get(store, of_alice("json"))).value == {
            **values["json"],
            "content": "edited json",
            "when_to_use": "for json",
        }
        kept = await _memory_of(store, "kept")
        await store.put(ALICE, batch(changed(kept, {"importance": 1.0})))
        assert (await get(store, of_alice("kept"))).value == values["kept"]
        assert (await get(store, of_alice("kept"))).updated_at > at(0)
        by_old, by_new = (replace(_IN_ALICES, vector=axis(n)) for n in (1, 2))
        old = {item.key: item.score for item in await store.search_items(SPACE, by_old)}
        assert old == {"text": pytest.approx(0.0), "json": pytest.approx(0.0), "kept": pytest.approx(1.0)}
        assert {(await store.search_items(SPACE, by_new))[n].key for n in (0, 1)} == {"text", "json"}
        await store.put(ALICE, batch(changed(kept, {"content": "said anew"})))
        assert (await store.search_items(SPACE, by_old))[-1].score is None

    async def test_conditions_are_on_what_an_item_says_now(self, store: Store) -> None:
        await write(store, put(of_alice("k"), {"text": "before"}))
        edited = changed(await _memory_of(store, "k"), {"content": "after", "updated_at": at(1)})
        await store.put(ALICE, batch(edited))
        for text, expected in (("before", []), ("after", ["k"])):
            condition = ItemCondition(field="text", operator=FilterOperator.EQ, operand=text)
            assert await keys(store, replace(_IN_ALICES, conditions=[condition])) == expected

    async def test_an_item_that_is_a_memory_moves_forward_in_time_and_begins_anew_when_it_is_over(
        self, store: Store
    ) -> None:
        await write(store, put(of_alice("k"), {"text": "a"}, ttl_s=60), minute=5)
        first = await _memory_of(store, "k")
        await write(store, put(of_alice("k"), {"text": "b"}, ttl_s=60), minute=4)  # a clock that was set back
        item = await get(store, of_alice("k"), minute=4)
        assert item.memory is not None
        assert item.updated_at == item.memory.updated_at > at(5)
        await write(store, put(of_alice("k"), {"text": "c"}), minute=6, omit_expired=True)
        last = await get(store, of_alice("k"), minute=6)
        assert last.created_at == at(6)
        assert (await _memory_of(store, "k")).memory_id != first.memory_id
        assert await content_of(store) == ["c"]

    async def test_a_superseded_memory_is_no_item_any_more(self, store: Store) -> None:
        await write(store, put(of_alice("k"), {"text": "a walrus"}, axis(0)), put(of_alice("l"), {"text": "a seal"}))
        for key in "kl":
            await store.put(ALICE, batch(closed(await _memory_of(store, key), minute=1)))
        assert await find(store, of_alice("k")) is None
        for vector in (None, axis(0)):
            assert await keys(store, replace(_WITH_MEMORIES, vector=vector)) == []
        assert await namespaces(store) == []
        await write(store, put(of_alice("k"), {"text": "a narwhal"}), of_alice("l"), minute=2)
        item = await get(store, of_alice("k"))
        assert (item.value, item.created_at) == ({"text": "a narwhal"}, at(2))
        page = await store.list_memories(ALICE, ListMemories(filter=MemoryFilter(include_superseded=True)))
        assert sorted(found.content for found in page.memories) == ["a narwhal", "a seal", "a walrus"]

    async def test_an_item_whose_memory_has_ended_is_an_item_as_before(self, store: Store) -> None:
        await write(store, put(of_alice("k"), {"text": "a walrus"}, axis(0)))
        item = await get(store, of_alice("k"))
        await store.put(ALICE, batch(lasting(await _memory_of(store, "k"), minute=-9, until=-5)))
        after = await get(store, of_alice("k"))
        assert (after.value, after.created_at) == (item.value, item.created_at)
        for vector in (None, axis(0)):
            assert await keys(store, replace(_WITH_MEMORIES, vector=vector)) == ["k"]
        assert await namespaces(store) == [OF_ALICE]
        await write(store, put(of_alice("k"), {"text": "a narwhal"}), minute=2)
        memory_of_it = await _memory_of(store, "k")
        assert (memory_of_it.content, memory_of_it.valid_to) == ("a narwhal", at(-5))

    async def test_an_item_becomes_a_memory_and_ceases_to_be_one(self, store: Store) -> None:
        plain = address("k", OF_ALICE)
        await write(store, put(plain, {"text": "a walrus"}, axis(0)))
        assert await content_of(store) == []
        await write(store, put(of_alice("k"), {"text": "a walrus"}, axis(0)), minute=1)
        assert await content_of(store) == ["a walrus"]
        assert (await get(store, plain)).created_at == at(0)
        await write(store, put(plain, {"text": "plain"}, axis(0)), minute=2)
        item = await get(store, of_alice("k"))
        assert (item.memory, item.created_at, item.updated_at) == (None, at(0), at(2))
        assert await content_of(store) == []
        await write(store, put(of_alice("k"), {"text": "of Alice"}), minute=3)
        of_bob = address("k", OF_ALICE, record=replace(RECORD, scope=BOB))
        await write(store, put(of_bob, {"text": "of Bob"}), minute=4)
        assert (await content_of(store), await content_of(store, BOB)) == ([], ["of Bob"])

    async def test_erasing_a_user_takes_their_items_and_no_others(self, store: Store) -> None:
        of_bob = address("k", ("memories", "bob", "personal"), record=replace(RECORD, scope=BOB))
        await write(
            store, put(of_alice("k"), {"text": "a"}, axis(0)), put(of_bob, {"text": "b"}, axis(0)), put("plain")
        )
        await store.erase(ALICE)
        assert await find(store, of_alice("k")) is None
        assert await namespaces(store) == [("docs", "a"), ("memories", "bob", "personal")]
        assert sorted(await keys(store, replace(asked(()), vector=axis(0)))) == ["k", "plain"]
        await write(store, put(of_alice("k"), {"text": "again"}))
        assert await content_of(store) == ["again"]

    async def test_of_a_batch_that_fails_no_memory_is_left(self, store: Store) -> None:
        await write(store, put(of_alice("k"), {"text": "before"}, axis(0)))
        bad = put(of_alice("z"), {"text": "bad"}, np.asarray(axis(0)[:4] * 1, np.float32))
        with pytest.raises(ValueError, match="dimensions"):
            await write(store, of_alice("k"), put("plain"), bad)
        assert await content_of(store) == ["before"]
        assert await keys(store, asked(())) == ["k"]


class MemoryItems:
    """Memories that were not written as items are read as such where they are asked for."""

    async def test_a_memory_is_an_item_under_its_id(self, store: Store) -> None:
        said = changed(memory("a walrus", memory_id="m", minute=1, metadata={"a": [1]}), {"when_to_use": "at sea"})
        said = changed(said, {"observed_at": at(-5), "valid_from": at(-5)})
        await store.put(ALICE, batch(PutMemory(memory=said, vector=axis(0)), memory("plain", memory_id="p", minute=2)))
        item = await get(store, of_alice("m"))
        assert item.value == {
            "content": "a walrus", "when_to_use": "at sea", "time": "2026-01-15T11:55:00Z", "metadata": {"a": [1]},
        }  # fmt: skip
        assert (item.namespace, item.key, item.created_at, item.updated_at) == (None, "m", at(1), at(1))
        assert item.memory == said
        assert (await get(store, of_alice("p"))).value == {"content": "plain"}
        assert await keys(store, _WITH_MEMORIES) == ["p", "m"]
        found = await store.search_items(SPACE, replace(_WITH_MEMORIES, vector=leaning(0.5)))
        assert [(hit.key, hit.score) for hit in found] == [("m", pytest.approx(0.5)), ("p", None)]
        assert await keys(store, _IN_ALICES) == []
        [group] = (await places(store, records=[ALICES])).records
        assert group == (ALICE, MemoryType.PERSONAL)

    async def test_a_memory_lies_only_where_its_scope_and_type_do(self, store: Store) -> None:
        await store.put(
            ALICE, batch(memory("a", memory_id="m"), memory("i", memory_id="i", memory_type=MemoryType.IDENTITY))
        )
        await store.put(ALICE, batch(memory("t", memory_id="t", memory_type=MemoryType.META, target="personal/self")))
        await store.put(BOB, batch(memory("b", memory_id="b", scope=BOB)))
        await store.put(ELSEWHERE, batch(memory("e", memory_id="e", scope=ELSEWHERE)))
        for record in (
            replace(RECORD, scope=BOB),
            replace(RECORD, memory_type=MemoryType.IDENTITY),
            replace(RECORD, topic=("x",)),
            replace(RECORD, is_home=False),
            None,
        ):
            assert await find(store, address("m", OF_ALICE, record=record)) is None
        assert await keys(store, _WITH_MEMORIES) == ["m"]
        every = RecordPlace(memory_space=SPACE, user_id=None, memory_types=tuple(MemoryType))
        assert sorted(await keys(store, replace(asked(()), records=[every, ALICES]))) == ["b", "i", "m"]
        assert set((await places(store, records=[every])).records) == {
            (ALICE, MemoryType.PERSONAL),
            (ALICE, MemoryType.IDENTITY),
            (BOB, MemoryType.PERSONAL),
        }
        await write(store, address("m", OF_ALICE, record=replace(RECORD, scope=BOB)))
        elsewhere = address("m", ("notes", "alice"), record=replace(RECORD, is_home=False))
        await write(store, elsewhere)
        assert await content_of(store, ALICE) == ["a", "i", "t"]
        await write(store, put(elsewhere, {"text": "n"}))
        assert await content_of(store, ALICE) == ["a", "i", "n", "t"]

    async def test_items_and_memories_share_one_order(self, store: Store) -> None:
        await write(store, put(of_alice("one"), {"text": "1"}, axis(0)), minute=1)
        await store.put(ALICE, batch(PutMemory(memory=memory("2", memory_id="two", minute=1), vector=axis(0))))
        await store.put(ALICE, batch(PutMemory(memory=memory("3", memory_id="three", minute=3), vector=axis(0))))
        await write(store, put(of_alice("four"), {"text": "4"}, axis(0)), minute=4)
        for vector in (None, axis(0)):
            search = replace(_WITH_MEMORIES, vector=vector)
            assert await keys(store, search) == ["four", "three", "one", "two"]
            assert await keys(store, replace(search, limit=2, offset=1)) == ["three", "one"]

    async def test_a_put_under_the_id_of_a_memory_changes_that_memory(self, store: Store) -> None:
        await store.put(ALICE, batch(PutMemory(memory=memory("a walrus", memory_id="m", minute=1), vector=axis(0))))
        await write(store, put(of_alice("m"), {"text": "a seal", "n": 1}, axis(1)), minute=2)
        item = await get(store, of_alice("m"))
        assert (item.value, item.namespace) == ({"text": "a seal", "n": 1}, OF_ALICE)
        assert (item.created_at, item.updated_at) == (at(1), at(2))
        [stored] = await store.get(ALICE, ["m"])
        assert (stored.content, stored.revision, item.memory) == ("a seal", 2, stored)
        assert await keys(store, replace(_WITH_MEMORIES, vector=axis(1))) == ["m"]

    async def test_emptying_the_address_of_a_memory_deletes_it(self, store: Store) -> None:
        await store.put(ALICE, batch(memory("a", memory_id="a"), memory("b", memory_id="b")))
        assert sorted(await keys(store, _WITH_MEMORIES)) == ["a", "b"]
        await write(store, of_alice("a"), of_alice("b"), put(of_alice("b"), {"text": "new"}), minute=1)
        assert await content_of(store) == ["new"]
        item = await get(store, of_alice("b"))
        assert item.memory is not None
        assert (item.memory.memory_id != "b", item.created_at) == (True, at(1))
        with pytest.raises(MemoryNotFoundError):
            await store.get(ALICE, ["b"])
        assert await keys(store, _WITH_MEMORIES) == ["b"]

    async def test_changes_of_memories_are_followed(self, store: Store) -> None:
        ranked = replace(_WITH_MEMORIES, vector=axis(0))
        for number in range(3):
            made = memory(f"{number}", memory_id=f"{number}")
            await store.put(ALICE, batch(PutMemory(memory=made, vector=leaning(0.5 + number / 10))))
            assert await keys(store, ranked) == [f"{n}" for n in range(number, -1, -1)]
        [held] = await store.get(ALICE, ["0"])
        await store.put(ALICE, batch(PutMemory(memory=changed(held, {"updated_at": at(1)}), vector=axis(0))))
        assert await keys(store, ranked) == ["0", "2", "1"]
        assert (await keys(store, _WITH_MEMORIES))[0] == "0"
        await store.put(ALICE, batch(closed(held, minute=1), deletes=(DeleteMemory(memory_id="2"),)))
        assert await keys(store, ranked) == await keys(store, _WITH_MEMORIES) == ["1"]
        await store.erase(ALICE)
        assert await keys(store, ranked) == []
