# asserts are what a contract suite is made of
"""Promises of an item store about searches and listings: prefixes, conditions, order, pages, ranking."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from typing import cast

import pytest
from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import FilterOperator, ItemCondition, Namespace, PutMemory
from reme_core.testing._memory_writes import add
from reme_core.testing.store_values import at, axis, changed, leaning, memory, random_unit
from tests.contract.suites.item_values import (
    ALICES,
    OF_ALICE,
    PLACE,
    SPACE,
    Store,
    address,
    asked,
    find,
    keys,
    namespaces,
    of_alice,
    paged,
    places,
    put,
    write,
)

ODD_LABELS = (
    "*",
    "%",
    "_",
    "?",
    "[ab]",
    "a|b",
    "^a$",
    "\\",
    "'",
    '"',
    " ",
    "a\n",
    "\n",
    "~",
    "语",
    "/",
    "-",
    "a",
    "A",
    "é",
    "e\u0301",
)


class ItemPrefixes:
    """A prefix covers whole labels, literally."""

    async def test_a_prefix_covers_itself_and_what_lies_below(self, store: Store) -> None:
        where: list[Namespace] = [("u", "1"), ("u", "12"), ("u", "1", "x"), ("u",), ("foo",), ("u1",), ("U", "1")]
        await write(store, *(put(address("-".join(place), place)) for place in where))
        assert sorted(await keys(store, asked(("u", "1")))) == ["u-1", "u-1-x"]
        assert sorted(await keys(store, asked(("u",)))) == ["u", "u-1", "u-1-x", "u-12"]
        assert await keys(store, asked(("fo",))) == []
        assert len(await keys(store, asked(()))) == 7
        assert await namespaces(store, ("u", "1")) == [("u", "1"), ("u", "1", "x")]
        assert await namespaces(store) == sorted(where)

    async def test_labels_mean_themselves(self, store: Store) -> None:
        await write(store, *(put(address(label, ("docs", label))) for label in ODD_LABELS))
        for label in ODD_LABELS:
            assert await keys(store, asked(("docs", label))) == [label]
        assert await namespaces(store, ("docs",)) == sorted(("docs", label) for label in ODD_LABELS)

    async def test_a_namespace_lasts_as_long_as_it_holds_an_item(self, store: Store) -> None:
        await write(store, put("a"), put("b"), put(address("c", ("x",)), {}, ttl_s=1))
        await find(store, address("never", ("y",)))
        await write(store, address("never", ("y",)), address("a"))
        assert await namespaces(store) == [PLACE, ("x",)]
        await write(store, address("b"))
        await store.sweep_items(SPACE, at(1))
        assert await namespaces(store) == []

    async def test_a_space_holds_nothing_of_another_one(self, store: Store) -> None:
        await write(store, put("k", {"n": 1}, axis(0)))
        await write(store, put("k", {"n": 2}, axis(0)), space="spac_")
        for space, number in ((SPACE, 1), ("spac_", 2)):
            [item] = await store.search_items(space, replace(asked(()), vector=axis(0)))
            assert item.value == {"n": number}
        for space in ("Space", "%", "elsewhere"):
            assert await keys(store, asked(()), space=space) == await keys(store, space=space) == []
            assert await find(store, "k", space=space) is None
            assert await namespaces(store, space=space) == []
        await write(store, address("k"), space="elsewhere")
        await write(store, address("k"), space="spac_")
        assert await keys(store) == ["k"]
        for space in ("", "../a", cast("str", 7), "a\0", "\ud800"):
            with pytest.raises(InvalidInputError, match="memory_space"):
                await namespaces(store, space=space)


_IS = FilterOperator
CONDITIONS: tuple[tuple[FilterOperator, JsonValue, set[str]], ...] = (
    (_IS.EQ, 1, {"one", "float"}),
    (_IS.EQ, 0, {"minus"}),
    (_IS.EQ, True, {"true"}),
    (_IS.EQ, "a", {"a"}),
    (_IS.EQ, "é\ud800", {"odd"}),
    (_IS.EQ, None, {"null", "missing"}),
    (_IS.EQ, [1, True], {"list"}),
    (_IS.EQ, [1, 1], set()),
    (_IS.EQ, [1.0, True], {"list"}),
    (_IS.EQ, {}, {"dict"}),
    (_IS.EQ, {"x": {"y": 1}}, {"dict"}),
    (_IS.EQ, {"x": {"y": True}}, set()),
    (_IS.EQ, {"none": None}, {"dict"}),
    (_IS.EQ, 10**100, {"huge"}),
    (_IS.EQ, math.inf, {"infinite"}),
    (_IS.EQ, math.nan, set()),
    (
        _IS.NE,
        "a",
        {"one", "float", "minus", "true", "odd", "null", "missing", "list", "dict", "huge", "infinite", "ten"},
    ),
    (_IS.GT, 1, {"huge", "infinite", "ten"}),
    (_IS.GTE, 1, {"one", "float", "huge", "infinite", "ten"}),
    (_IS.LT, 1.5, {"one", "float", "minus"}),
    (_IS.LTE, 10**100, {"one", "float", "minus", "huge", "ten"}),
    (_IS.GT, "A", {"a", "odd"}),
    (_IS.LT, "b", {"a"}),
    (_IS.GT, math.nan, set()),
    (_IS.LTE, None, set()),
    (_IS.GTE, [1], set()),
    (_IS.LT, True, set()),
    (_IS.EQ, "' OR '1'='1", set()),
)
FIELDS: dict[str, JsonValue] = {
    "one": 1, "float": 1.0, "minus": -0.0, "true": True, "a": "a", "odd": "é\ud800", "null": None, "list": [1, True],
    "dict": {"x": {"y": 1, "z": 2}}, "huge": 10**100, "infinite": math.inf, "ten": 10,
}  # fmt: skip


class ItemConditions:
    """Conditions compare by JSON's types, before pages and ranks."""

    async def test_conditions_compare_by_the_types_of_json(self, store: Store) -> None:
        await write(store, *(put(key, {"f": value}) for key, value in FIELDS.items()), put("missing", {"g.f": 1}))
        for operator, operand, expected in CONDITIONS:
            condition = ItemCondition(field="f", operator=operator, operand=operand)
            found = await keys(store, replace(asked(), conditions=[condition]))
            assert set(found) == expected, condition
            assert len(found) == len(expected)

    async def test_every_condition_holds_and_fields_are_literal(self, store: Store) -> None:
        fields = ("a.b", "a b", "$eq", "语", "' OR 1=1 --", "", "a\0")
        await write(store, *(put(field, {field: "v", "a": {"b": "v"}, "n": 1}) for field in fields))
        one = ItemCondition(field="n", operator=_IS.EQ, operand=1)
        for field in fields:
            condition = ItemCondition(field=field, operator=_IS.EQ, operand="v")
            assert await keys(store, replace(asked(), conditions=[condition, one])) == [field]
            none = replace(one, operator=_IS.GT)
            assert await keys(store, replace(asked(), conditions=[condition, none])) == []

    async def test_conditions_come_before_the_page_and_the_nearest(self, store: Store) -> None:
        await write(store, *(put(f"{n}", {"odd": n % 2}, leaning(1 - n / 100)) for n in range(60)))
        search = replace(
            asked(), conditions=[ItemCondition(field="odd", operator=_IS.EQ, operand=1)], limit=3, offset=20
        )
        for vector in (None, axis(0)):
            assert await keys(store, replace(search, vector=vector)) == ["41", "43", "45"]


class ItemOrder:
    """Order and pages."""

    async def test_the_last_change_comes_first_and_ties_go_by_the_first_put(self, store: Store) -> None:
        await write(store, put("z"), put(address("y", ("docs", "b"))), put("x"), put(address("w", ("docs", "b"))))
        await write(store, put("late"), minute=1)
        await write(store, put("z"), minute=2)
        assert await keys(store) == ["z", "late", "y", "x", "w"]
        assert {item.score for item in await store.search_items(SPACE, asked())} == {None}

    async def test_pages_of_any_size_partition_what_is_there(self, store: Store) -> None:
        chance = random.Random(7)  # no secret: the same items for the same seed
        for minute in range(3):
            some = [
                put(
                    address(f"{chance.randrange(80)}", ("docs", str(chance.randrange(40)))),
                    {"f": chance.randrange(9)},
                    *(random_unit(chance.randrange(5)) for _ in range(chance.randrange(3))),
                )
                for _ in range(60)
            ]
            await write(store, *some, minute=minute)
        for vector, text in ((None, ""), (axis(0), ""), (None, "f 1 2 3")):
            search = replace(asked(), vector=vector, text=text)
            whole = await store.search_items(SPACE, search)
            places_ = [(item.namespace, item.key) for item in whole]
            assert len(set(places_)) == len(places_) > 50
            for size in (1, 7, 50, 1_000):
                assert await paged(store, search, size) == whole
            for one, next_ in pairwise(whole):
                if text:
                    continue
                falls = (one.score is None, -(one.score or 0)) <= (next_.score is None, -(next_.score or 0))
                assert falls
                if one.score == next_.score:
                    assert one.updated_at >= next_.updated_at

    async def test_nothing_asked_for_is_nothing_and_less_is_refused(self, store: Store) -> None:
        await write(store, put("k"))
        assert await keys(store, replace(asked(), limit=0)) == []
        assert await keys(store, replace(asked(), offset=5)) == []
        for search in (
            replace(asked(), limit=-1),
            replace(asked(), offset=-1),
            replace(asked(), limit=cast("int", 1.5)),
        ):
            with pytest.raises(InvalidInputError, match="a number of 0 or more"):
                await keys(store, search)
        with pytest.raises(InvalidInputError):
            await keys(store, replace(asked(), vector=axis(0) * 2))


class ItemRanking:
    """Ranked searches."""

    async def test_without_a_vector_what_shares_words_comes_first_and_then_the_rest(self, store: Store) -> None:
        await write(
            store,
            put("bins", {"text": "The bins go out on Tuesday"}),
            put("drill", {"text": "Bring back the drill", "deep": [{"who": "Tuesday"}]}),
            put(address("both", ("docs", "b")), {"note": "Bins: on Tuesdays, before eight"}),
            put("key", {"tuesday_bins": 1}),
            put("cello", {"text": "大提琴课在星期天"}),
        )
        await write(store, put("late", {"text": "Nothing of it"}), minute=1)
        search = replace(asked(), text="When do the bins go out on Tuesday?")
        found = await store.search_items(SPACE, search)
        assert [item.key for item in found[:1]] == ["bins"]
        assert {item.key for item in found[:4]} == {"bins", "drill", "both", "key"}
        assert [item.key for item in found[4:]] == ["late", "cello"]
        assert {item.score for item in found} == {None}
        assert (await keys(store, replace(asked(), text="大提琴")))[0] == "cello"
        assert await keys(store, replace(asked(), text="the")) == await keys(store)
        assert await keys(store, replace(asked(("docs", "b")), text="drill")) == ["both"]
        assert (await keys(store, replace(search, vector=axis(0))))[0] == "late"

    async def test_words_follow_what_is_put_changed_and_emptied(self, store: Store) -> None:
        search = replace(asked(), text="zebra")
        await write(store, *(put(f"{n}", {"text": "a horse"}) for n in range(3)))
        assert await keys(store, search) == ["0", "1", "2"]
        await write(store, put("2", {"text": "a zebra"}))
        assert await keys(store, search) == ["2", "0", "1"]
        await write(store, put("2", {"text": "a horse"}), put("1", {"text": "zebra"}), minute=1)
        assert await keys(store, search) == ["1", "2", "0"]
        await write(store, address("1"), minute=2)
        assert await keys(store, search) == ["2", "0"]
        await write(store, put("1", {"text": "zebra"}), space="elsewhere")
        assert await keys(store, search) == ["2", "0"]

    async def test_conditions_and_expiry_come_before_the_page_of_words(self, store: Store) -> None:
        await write(store, *(put(f"{n}", {"text": "zebra " * (n + 1), "odd": n % 2}) for n in range(6)))
        await write(store, put("over", {"text": "zebra", "odd": 1}, ttl_s=1))
        odd = ItemCondition(field="odd", operator=_IS.EQ, operand=1)
        search = replace(asked(minute=1), text="zebra", conditions=[odd], omit_expired=True)
        assert await keys(store, replace(search, limit=2)) == ["5", "3"]
        assert await keys(store, replace(search, limit=2, offset=2)) == ["1"]

    async def test_memories_are_ranked_by_their_words_beside_items(self, store: Store) -> None:
        await write(store, put(of_alice("item"), {"content": "Ann keeps a zebra", "colour": "striped"}))
        await write(store, put(of_alice("hidden"), {"content": "A zebra that is out of rankings"}, ranked=False))
        held = memory("Ann feeds the zebra at noon", minute=1)
        await add(store, PutMemory(memory=held), PutMemory(memory=memory("Ann plays chess", minute=9)))
        search = replace(asked(OF_ALICE), records=[ALICES], text="Who feeds a zebra?")
        assert (await keys(store, search))[:2] == [held.memory_id, "item"]
        assert len(await keys(store, search)) == 4
        assert (await keys(store, replace(search, text="chess")))[0] not in {"item", "hidden", held.memory_id}
        edited = changed(held, {"content": "Ann feeds the cat at noon", "updated_at": at(20)})
        await add(store, PutMemory(memory=edited))
        assert (await keys(store, replace(search, text="cat")))[0] == held.memory_id
        assert (await keys(store, replace(search, text="zebra")))[:2] == ["item", held.memory_id]

    async def test_the_best_cosine_comes_first_and_what_has_no_vector_last(self, store: Store) -> None:
        await write(
            store, put("far", {}, leaning(0.2)), put("bare"), put("near", {}, axis(0)), put("middle", {}, leaning(0.5))
        )
        await write(store, put("out", {}, ranked=False), put(address("b", ("docs", "b")), {}, leaning(0.9)), minute=1)
        found = await store.search_items(SPACE, replace(asked(), vector=axis(0)))
        assert [item.key for item in found] == ["near", "b", "middle", "far", "out", "bare"]
        assert [item.score for item in found[:4]] == pytest.approx([1.0, 0.9, 0.5, 0.2], abs=1e-6)
        assert [item.score for item in found[4:]] == [None, None]

    async def test_an_item_counts_once_by_the_best_of_its_vectors(self, store: Store) -> None:
        many = [leaning(0.99 - n / 1_000) for n in range(60)]
        await write(
            store, put("many", {}, *many[::-1]), put("b", {}, leaning(0.5)), put("c", {}, leaning(0.4), leaning(0.1))
        )
        found = await store.search_items(SPACE, replace(asked(), vector=axis(0), limit=3))
        assert [item.key for item in found] == ["many", "b", "c"]
        assert [item.score for item in found] == pytest.approx([0.99, 0.5, 0.4], abs=1e-6)

    async def test_vectors_that_were_replaced_never_answer_again(self, store: Store) -> None:
        search = replace(asked(), vector=axis(0))
        await write(
            store, put("a", {}, axis(0), axis(1)), put("b", {}, axis(0)), put("c", {}, axis(0)), put("d", {}, axis(0))
        )
        assert len(await keys(store, search)) == 4
        await write(store, put("a", {}, axis(1)), put("b", {}, ranked=False), address("c"), address("d"), put("d"))
        scores = {item.key: item.score for item in await store.search_items(SPACE, search)}
        assert scores == {"a": pytest.approx(0.0), "b": None, "d": None}
        await write(store, put("b", {}, axis(0)))
        assert (await keys(store, search))[0] == "b"

    async def test_equal_scores_go_by_change_and_then_by_the_first_put(self, store: Store) -> None:
        await write(store, *(put(key, {}, axis(0)) for key in "cab"))
        await write(store, put("late", {}, axis(0)), put("a", {}, axis(0)), minute=1)
        assert await keys(store, replace(asked(), vector=axis(0))) == ["a", "late", "c", "b"]

    async def test_no_place_holds_what_is_not_a_memory(self, store: Store) -> None:
        await write(store, put("k"))
        found = await places(store, ("docs",))
        assert (list(found.namespaces), list(found.records)) == ([PLACE], [])
        [item] = await store.search_items(SPACE, asked())
        assert item.memory is None
