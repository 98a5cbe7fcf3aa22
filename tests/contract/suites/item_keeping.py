# asserts are what a contract suite is made of
"""Promises of an item store about values, addresses, times and batches."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from reme_core.errors import DimensionMismatchError, InvalidInputError
from reme_core.ports import (
    AppendMessages,
    FilterOperator,
    GetItems,
    IndexedBy,
    ItemAddress,
    ItemCondition,
    ItemValue,
    ListItemNamespaces,
    PutItem,
)
from reme_core.schema import FileBlock, MemoryType, Message
from reme_core.schema.blobs import blob_reference, data_url, make_blob
from reme_core.testing.store_values import ALICE, BOB, DIMENSION, at, axis, bad_vectors
from tests.contract.suites.item_values import (
    OF_ALICE,
    PLACE,
    RECORD,
    SPACE,
    Store,
    address,
    asked,
    find,
    get,
    keys,
    namespaces,
    of_alice,
    put,
    stacked,
    write,
)

VALUES: tuple[ItemValue, ...] = (
    {},
    {"": {"": []}, "null": None, "true": True, "one": 1, "one point": 1.0, "false": False, "zero": 0, "minus": -0.0},
    {"large": 2**53 + 1, "larger": 10**100, "small": 1e-12, "infinite": [math.inf, -math.inf]},
    {"control": "\0\x01\x1f\x7f\u2028", "quotes": "\"'`\\", "lone": "\ud83d", "emoji": "🦀", "中文": "记忆"},
    {"a b": 1, "a.b": 2, "$gt": 3, "[0]": 4, "%_*?": 5, "nested": [{"x": [[{}]]}]},
    {"text": "x" * 400_000},
)
KEYS = (
    "k",
    "K",
    "",
    " k",
    "a.b",
    "a/b",
    "..",
    "*",
    "%",
    "_",
    "'; DROP TABLE items; --",
    "🦀",
    "a\nb",
    "a\0b",
    "a\0",
    "x" * 500,
)
NOT_VALUES: Mapping[str, object] = {
    "a list": [1],
    "a key that is a number": {"a": {1: 2}},
    "a key that is null": {None: 1},
    "a set": {"a": [{"b": {1, 2}}]},
    "bytes": {"a": b"b"},
    "too many digits": {"a": 10**4300},
    "too deep": {"a": [[[[[]]]]]},
}


def _deep() -> ItemValue:
    value: ItemValue = {}
    for _ in range(5_000):
        value = {"in": value}
    return value


class ItemKeeping:
    """Values come back as they were put, under their addresses alone."""

    async def test_every_json_value_comes_back_as_it_was_put(self, store: Store) -> None:
        await write(store, *(put(f"{n}", value) for n, value in enumerate(VALUES)))
        found = {item.key: item.value for item in await store.search_items(SPACE, asked())}
        for number, value in enumerate(VALUES):
            # As texts, to which true is not 1, and 1 not 1.0.
            assert repr((await get(store, f"{number}")).value) == repr(value)
            assert repr(found[f"{number}"]) == repr(value)
        await write(store, put("nan", {"nan": math.nan}))
        assert math.isnan(cast("float", (await get(store, "nan")).value["nan"]))

    async def test_what_is_no_json_object_is_refused_by_name_and_nothing_is_written(self, store: Store) -> None:
        for what, value in {**NOT_VALUES, "too deep": _deep()}.items():
            with pytest.raises(InvalidInputError, match="bad"):
                await write(store, put("good"), put("bad", cast("ItemValue", value)))
            assert await keys(store) == [], what
        await write(store, put("good"))
        assert await keys(store) == ["good"]

    async def test_keys_are_opaque_texts(self, store: Store) -> None:
        await write(store, *(put(key, {"key": key}) for key in KEYS))
        for key in KEYS:
            assert (await get(store, key)).value == {"key": key}
        await write(store, *(address(key) for key in KEYS[1:]))
        assert await keys(store) == [KEYS[0]]

    async def test_an_address_that_cannot_be_one_is_refused(self, store: Store) -> None:
        labels = ("", "a.b", "a\0", "\ud800", 7, None)
        bad = [address("k", cast("tuple[str, ...]", ("docs", label))) for label in labels]
        bad += [address("k", ()), address("\ud800"), address(cast("str", 7)), address("k", cast("tuple[str]", "docs"))]
        bad += [address("k", record=replace(RECORD, memory_type=MemoryType.META))]
        for where in bad:
            with pytest.raises(InvalidInputError):
                await write(store, put("good"), put(where))
            with pytest.raises(InvalidInputError):
                await write(store, put("good"), where)
            with pytest.raises(InvalidInputError):
                await find(store, where)
        assert await keys(store, asked(())) == []

    async def test_the_same_key_in_other_namespaces_is_another_item(self, store: Store) -> None:
        where = [("a",), ("a", "b"), ("b",), ("ab",), ("A",), ("a", "b", "c"), ("a*",), ("%",), ("语",)]
        await write(store, *(put(address("k", place), {"n": n}) for n, place in enumerate(where)))
        assert [(await get(store, address("k", place))).value for place in where] == [{"n": n} for n in range(9)]
        await write(store, address("k", ("a", "b")))
        assert await find(store, address("k", ("a", "b"))) is None
        assert (await get(store, address("k", ("a",)))).namespace == ("a",)
        assert (await get(store, address("k", ("a", "b", "c")))).value == {"n": 5}
        assert len(await keys(store, asked(()))) == 8

    async def test_a_put_replaces_the_whole_value_and_emptying_takes_it_away(self, store: Store) -> None:
        await write(store, put("k", {"a": 1, "b": 2}))
        await write(store, put("k", {"c": 3}))
        assert (await get(store, "k")).value == {"c": 3}
        await write(store, address("k"), address("never"))
        assert await find(store, "k") is None
        await write(store, address("k"))

    async def test_values_are_copies(self, store: Store) -> None:
        value: ItemValue = {"a": {"b": [1]}}
        await write(store, put("k", value))
        value["a"] = "changed"
        got, found = await get(store, "k"), (await store.search_items(SPACE, asked()))[0]
        [one, other] = await store.get_items(SPACE, GetItems(addresses=[address("k")] * 2, at=at(0)))
        for item in (got, found, one):
            assert item is not None
            cast("dict[str, list[int]]", item.value["a"])["b"].append(2)
        assert other is not None
        assert other.value == (await get(store, "k")).value == {"a": {"b": [1]}}

    async def test_an_update_keeps_the_first_time_and_moves_the_last_one(self, store: Store) -> None:
        await write(store, put("k"), minute=5)
        first = await get(store, "k")
        assert (first.created_at, first.updated_at) == (at(5), at(5))
        assert first.updated_at.utcoffset() is not None
        await write(store, put("k"), minute=7)
        assert ((await get(store, "k")).created_at, (await get(store, "k")).updated_at) == (at(5), at(7))
        await write(store, put("k"), minute=6)  # a clock that was set back
        last = await get(store, "k", minute=30)
        assert last.created_at == at(5)
        assert last.updated_at > at(7)
        assert await store.search_items(SPACE, asked(minute=60)) == [last]

    async def test_a_store_without_items_holds_none(self, store: Store) -> None:
        assert await store.get_items(SPACE, GetItems(addresses=[], at=at(0))) == []
        assert await find(store, "k") is None
        assert await keys(store, asked(())) == []
        assert await keys(store, replace(asked(()), vector=axis(0))) == []
        assert await namespaces(store) == []
        await write(store)
        assert await store.sweep_items(SPACE, at(0)) == 0


class ItemBatches:
    """Writes together."""

    async def test_the_last_write_of_an_address_counts(self, store: Store) -> None:
        await write(store, put("old"), put("gone"), minute=1)
        await write(
            store,
            *(put("a", {"n": 1}), put("b"), put("a", {"n": 2})),
            *(address("gone"), put("late"), address("late"), address("old"), put("old", {"n": 3})),
            minute=2,
        )
        assert sorted(await keys(store)) == ["a", "b", "old"]
        assert (await get(store, "a")).value == {"n": 2}
        old = await get(store, "old")
        assert (old.value, old.created_at) == ({"n": 3}, at(2))

    async def test_many_are_written_and_read_in_the_order_asked(self, store: Store) -> None:
        await write(store, *(put(f"{n}", {"n": n}) for n in range(3_000)))
        addresses = [address(f"{n}") for n in (*range(2_999, -1, -1), 3_000, 5, 5)]
        items = await store.get_items(SPACE, GetItems(addresses=addresses, at=at(0)))
        assert [None if item is None else item.value["n"] for item in items] == [*range(2_999, -1, -1), None, 5, 5]

    async def test_vectors_that_cannot_be_stored_are_refused_and_nothing_is_written(self, store: Store) -> None:
        for vector in bad_vectors().values():
            bad = replace(put("bad"), vectors=vector.reshape(1, *vector.shape))
            with pytest.raises(InvalidInputError, match="bad"):
                await write(store, put("good", {}, axis(1)), bad)
        with pytest.raises(InvalidInputError, match="bad"):
            await write(store, put("good"), put("bad", {}, axis(0), ranked=False))
        with pytest.raises(DimensionMismatchError):
            await write(store, put("good", {}, axis(0)), put("bad", {}, axis(0, dimension=3)))
        assert await keys(store) == []
        await write(store, put("good", {}, axis(0)))
        with pytest.raises(DimensionMismatchError):
            await write(store, put("other"), put("bad", {}, axis(0, dimension=3)))
        with pytest.raises(DimensionMismatchError):
            await keys(store, replace(asked(), vector=axis(0, dimension=3)))
        assert await keys(store) == ["good"]
        empty = PutItem(address=address("none"), value={}, vectors=stacked(axis(0))[:0])
        await write(store, empty)
        assert (await store.search_items(SPACE, replace(asked(), vector=axis(0))))[-1].score is None

    async def test_what_makes_the_vectors_is_recorded_once(self, store: Store) -> None:
        first = IndexedBy(dimension=DIMENSION, model="m 1")
        assert await store.find_index(SPACE) is None
        assert await store.claim_index(SPACE, first) == first == await store.find_index(SPACE)
        assert await store.claim_index(SPACE, IndexedBy(dimension=3, model="m 2")) == first
        with pytest.raises(DimensionMismatchError):
            await write(store, put("bad", {}, axis(0, dimension=3)))
        assert await find(store, "bad") is None


class ItemTimesToLive:
    """Items that expire."""

    async def test_an_item_is_there_until_it_is_swept(self, store: Store) -> None:
        await write(store, put("short", {}, axis(0), ttl_s=60), put("long", {}, ttl_s=120), put("ever"))
        assert await store.sweep_items(SPACE, at(0.9)) == 0
        assert await find(store, "short", minute=1) is not None
        assert await store.sweep_items("elsewhere", at(1)) == 0
        assert await store.sweep_items(SPACE, at(1)) == 1
        assert await find(store, "short") is None
        assert sorted(await keys(store)) == ["ever", "long"]
        await write(store, put("short"))
        assert [i.score for i in await store.search_items(SPACE, replace(asked(), vector=axis(0)))] == [None] * 3

    async def test_expired_items_can_be_left_out_of_everything(self, store: Store) -> None:
        await write(store, put("k", {}, axis(0), ttl_s=60), put(address("k", ("z",)), ttl_s=0.5), put("ever"))
        search = replace(asked((), minute=1), omit_expired=True)
        assert await find(store, "k", minute=0.99, omit_expired=True) is not None
        assert await find(store, "k", minute=1, omit_expired=True) is None
        assert await keys(store, search) == await keys(store, replace(search, vector=axis(0))) == ["ever"]
        from_one = await store.list_item_namespaces(SPACE, _listing(omit=True))
        assert list(from_one.namespaces) == [PLACE]
        assert len((await store.list_item_namespaces(SPACE, _listing(omit=False))).namespaces) == 2
        await write(store, put("k"), minute=2, omit_expired=True)
        assert (await get(store, "k")).created_at == at(2)

    async def test_reads_that_refresh_begin_the_time_anew_and_others_do_not(self, store: Store) -> None:
        await write(store, *(put(key, {}, ttl_s=120) for key in ("read", "found", "seen", "looked")))
        await store.get_items(SPACE, GetItems(addresses=[address("read", refresh=True), address("seen")], at=at(1)))
        await store.search_items(SPACE, replace(asked(minute=1), limit=1, offset=1, refresh=True))
        await store.search_items(SPACE, asked(minute=1))
        assert await store.sweep_items(SPACE, at(2.5)) == 2
        assert sorted(await keys(store)) == ["found", "read"]
        assert (await get(store, "read")).updated_at == at(0)
        assert await store.sweep_items(SPACE, at(3)) == 2

    async def test_a_put_says_anew_how_long_an_item_lives(self, store: Store) -> None:
        await write(store, put("k", {}, ttl_s=60), put("other", {}, ttl_s=60))
        await write(store, put("k"), put("other", {}, ttl_s=180), minute=0.5)
        assert await store.sweep_items(SPACE, at(3)) == 0
        assert await store.sweep_items(SPACE, at(3.5)) == 1
        assert await keys(store) == ["k"]

    async def test_a_time_to_live_that_is_none_is_refused(self, store: Store) -> None:
        for ttl in (-1.0, math.nan, math.inf, 1e300, cast("float", "60"), True):
            with pytest.raises(InvalidInputError, match="time to live"):
                await write(store, put("k", {}, ttl_s=ttl))
        assert await find(store, ItemAddress(namespace=PLACE, key="k")) is None

    async def test_long_base64_of_a_users_items_is_kept_once_and_goes_with_the_last_of_them(self, store: Store) -> None:
        image, other = (b64encode(bytes([n]) * 30_000).decode() for n in (1, 2))
        value: ItemValue = {"url": f"data:;base64,{image}", "more": [image, {"mark": "reme-base64:!"}]}
        await write(store, *(replace(put(key, value), owner=ALICE) for key in "ab"), put("nobodys", value))
        await write(store, replace(put("c", {"x": other}), owner=BOB))
        assert [(await get(store, key)).value for key in ("a", "b", "nobodys")] == [value] * 3
        equal = ItemCondition(field="url", operator=FilterOperator.EQ, operand=value["url"])
        assert sorted(await keys(store, replace(asked(), conditions=(equal,)))) == ["a", "b", "nobodys"]
        assert [(await store.count(scope)).blob_bytes for scope in (ALICE, BOB)] == [30_000] * 2

        await write(store, replace(put("a", {"x": other}), owner=ALICE), minute=1)
        assert (await get(store, "b")).value == value
        await write(store, replace(put("b", {"x": [other]}), owner=ALICE), minute=2)
        assert (await store.count(ALICE)).blobs == 1
        await write(store, address("b"), minute=3)
        assert (await get(store, "a")).value == {"x": other}
        await write(store, address("a"), minute=4)
        assert [(await store.count(scope)).blobs for scope in (ALICE, BOB)] == [0, 1]

    async def test_bytes_go_with_a_users_item_also_where_others_put_something_in_its_place(self, store: Store) -> None:
        image, other = (b64encode(bytes([n]) * 30_000).decode() for n in (1, 2))
        alices, bobs = (replace(put("a", {"x": image}), owner=owner) for owner in (ALICE, BOB))
        replaced: list[list[PutItem | ItemAddress]] = [
            [put("a", {"x": other})],
            [bobs],
            [address("a"), bobs],
            [address("a"), replace(put("a", {"x": other}), owner=ALICE)],
        ]
        for minute, writes in enumerate(replaced):
            await write(store, alices, minute=minute)
            await write(store, *writes, minute=minute + 0.5)
            [is_alices] = {put.owner == ALICE for put in writes if isinstance(put, PutItem)}
            assert (await store.count(ALICE)).blobs == is_alices
            await write(store, address("a"), minute=minute + 0.7)
            assert [(await store.count(scope)).blobs for scope in (ALICE, BOB)] == [0, 0]

    async def test_bytes_go_with_an_item_that_is_over_or_becomes_a_memory(self, store: Store) -> None:
        image, other = (b64encode(bytes([n]) * 30_000).decode() for n in (1, 2))
        await write(store, replace(put("a", {"x": image}, ttl_s=1), owner=ALICE))
        await write(store, replace(put("a", {"x": other}), owner=ALICE), minute=1, omit_expired=True)
        assert (await store.count(ALICE)).blobs == 1
        await write(store, address("a"), minute=2)
        await write(store, replace(put(address("m", OF_ALICE), {"x": image}), owner=ALICE), minute=2)
        await write(store, put(of_alice("m"), {"content": "Likes tea."}), minute=3)
        assert (await store.count(ALICE)).blobs == 0

    async def test_bytes_of_an_item_are_what_a_message_says_they_are(self, store: Store) -> None:
        data = b"%PDF" + bytes(30_000)
        await write(store, replace(put("a", {"x": b64encode(data).decode()}), owner=ALICE))
        said = Message(role="user", content=(FileBlock(url=data_url(data, "application/pdf")),), created_at=at(0))
        await store.append(ALICE, AppendMessages(session_id="s", messages=[said]))
        await write(store, address("a"), minute=1)
        assert (await store.get_blob(ALICE, blob_reference(data))).media_type == "application/pdf"

    async def test_a_mark_in_an_item_stays_what_it_is_whoever_has_such_bytes(self, store: Store) -> None:
        image = b64encode(bytes(30_000)).decode()
        mark = f"reme-base64:{make_blob(bytes(30_000), None).ref}"
        await write(store, replace(put("a", {"x": image}), owner=ALICE))
        for owner in (ALICE, BOB):
            for value in ({"x": mark}, {"x": [mark, b64encode(bytes([1]) * 30_000).decode()]}):
                await write(store, replace(put("b", value), owner=owner))
                assert (await get(store, "b")).value == value


def _listing(*, omit: bool) -> ListItemNamespaces:
    return ListItemNamespaces(prefix=(), at=at(1), omit_expired=omit)
