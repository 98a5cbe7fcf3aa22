"""Rules about items, order, pages and batches, LG-STORE-01 to 08, 20 to 23 and 40."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp

from tests.adapters.langchain.store.store_values import Bench, rule

N = ("docs",)
HOSTILE_KEYS = [
    "a.b", "a/b", "..", "*", "%", "_", "a'; DROP TABLE items; --", "🙂", " x", "x ", "line\nbreak", "A", "a", "k" * 500,
    "", "nul\0", "[0]", "$",
]  # fmt: skip


class Frozen(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __init__(self, held: dict[str, Any]) -> None:
        self._held = held

    def __getitem__(self, key: str) -> Any:
        return self._held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


@rule("LG-STORE-01")
async def what_was_put_is_got_under_its_namespace_and_key_alone(bench: Bench) -> None:
    store = bench.open()
    spaces = [("a",), ("a", "b"), ("b",), ("ab",)]
    for place in spaces:
        await store.put(place, "k", {"at": list(place)})
    for place in spaces:
        found = await store.get(place, "k")
        assert found is not None
        assert (found.namespace, found.key, found.value) == (place, "k", {"at": list(place)})
        assert type(found.namespace) is tuple
        assert type(found.value) is dict
    await store.delete(("a",), "k")
    assert await store.get(("a",), "k") is None
    assert [await store.value(place, "k") for place in spaces[1:]] == [{"at": list(place)} for place in spaces[1:]]
    for place, key in ((("a", "b", "c"), "k"), (("a",), "missing"), (("x",), "k")):
        assert await store.get(place, key) is None


@rule("LG-STORE-02")
async def a_put_replaces_the_whole_value_and_none_deletes(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "k", {"a": 1, "b": 2})
    await store.put(N, "k", {"c": 3})
    assert await store.value(N, "k") == {"c": 3}
    await store.put(N, "k", None)
    assert await store.get(N, "k") is None
    await store.put(N, "never", None)
    await store.delete(N, "never")
    await store.delete(("nowhere",), "never")
    assert await store.namespaces() == []


VALUE: dict[str, Any] = {
    "": "empty key", "null": None, "true": True, "false": False, "one": 1, "zero": 0, "one_float": 1.0, "small": 1e-12,
    "big": 2**53 + 1, "huge": 10**100, "negative": -(2**63) - 1, "nested": {"a": [{"b": [[], {}]}]}, "dict": {},
    "list": [], "control": "\x00\x01\x1f\x7f\n\t", "quotes": "'\"`\\", "ключ": "значение", "中文": "值", "🙂": "🙂",
    "with blank": 1, "with.dot": 2, "$": 3, "[0]": 4, "long": "x" * 400_000, "infinite": float("inf"),
}  # fmt: skip


@rule("LG-STORE-03")
async def values_come_back_with_their_exact_types_through_get_and_search(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "k", VALUE)
    await store.put(N, "empty", {})
    [empty, full] = sorted(await store.search(N), key=lambda item: item.key)
    for found in (await store.value(N, "k"), full.value):
        assert json.dumps(found) == json.dumps(VALUE)  # the text tells 1 from 1.0 and from true
        assert list(found) == list(VALUE)
    assert empty.value == await store.value(N, "empty") == {}


@rule("LG-STORE-03")
async def mappings_become_dicts_tuples_become_lists_and_keys_are_never_coerced(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "k", Frozen({"t": (1, (2, 3)), "m": Frozen({"x": 1})}))
    assert await store.value(N, "k") == {"t": [1, [2, 3]], "m": {"x": 1}}
    for value in ({1: "a"}, {"a": {None: 1}}, {"a": [{True: 1}]}):
        with pytest.raises(TypeError, match="keys that are str"):
            await store.put(N, "bad", value)
    assert await store.get(N, "bad") is None


@rule("LG-STORE-04")
async def keys_are_opaque(bench: Bench) -> None:
    store = bench.open()
    for place, key in enumerate(HOSTILE_KEYS):
        await store.put(N, key, {"n": place})
    assert [(await store.value(N, key))["n"] for key in HOSTILE_KEYS] == list(range(len(HOSTILE_KEYS)))
    assert await store.keys(N, limit=100) == HOSTILE_KEYS
    await store.delete(N, "*")
    await store.delete(N, "%")
    assert len(await store.search(N, limit=100)) == len(HOSTILE_KEYS) - 2
    await store.put(N, 7, {"n": "seven"})
    assert await store.value(N, "7") == {"n": "seven"}
    assert await store.get(N, 7) == await store.get(N, "7")
    await store.delete(N, 7)
    assert await store.get(N, "7") is None
    with pytest.raises(ValueError, match="lone surrogate"):
        await store.put(N, "\ud800", {"n": 1})


@rule("LG-STORE-05")
async def what_the_caller_holds_never_changes_the_store(bench: Bench) -> None:
    store = bench.open()
    given: dict[str, Any] = {"a": {"b": [1, {"c": 2}]}}
    await store.put(N, "k", given)
    given["a"]["b"][1]["c"] = 99
    given["a"]["b"].append(3)
    [twice, again] = await store.batch([GetOp(N, "k"), GetOp(N, "k")])
    twice.value["a"]["b"][1]["c"] = 98
    assert again.value == {"a": {"b": [1, {"c": 2}]}}
    for found in (await store.get(N, "k"), (await store.search(N))[0]):
        assert found is not None
        assert found.value == {"a": {"b": [1, {"c": 2}]}}
        found.value["a"]["b"][1]["c"] = 97
        found.value["a"]["b"].clear()
    assert await store.value(N, "k") == {"a": {"b": [1, {"c": 2}]}}


@rule("LG-STORE-06")
async def an_update_keeps_the_creation_and_moves_the_change_and_reading_moves_neither(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "k", {"n": 1})
    first = await store.get(N, "k")
    assert first is not None
    assert first.created_at == first.updated_at == bench.clock.now()
    assert first.created_at.tzinfo is UTC or first.created_at.utcoffset() == UTC.utcoffset(None)
    bench.clock.advance(seconds=60)
    [listed] = await store.search(N)
    assert (listed.created_at, listed.updated_at) == (first.created_at, first.updated_at)
    await store.put(N, "k", {"n": 2})
    second = await store.get(N, "k")
    assert second is not None
    assert (second.created_at, second.updated_at) == (first.created_at, bench.clock.now())
    await store.put(N, "k", {"n": 3})  # the clock stands still, and yet it moves
    third = await store.get(N, "k")
    assert third is not None
    assert third.updated_at > second.updated_at
    await store.delete(N, "k")
    await store.put(N, "k", {"n": 4})
    fourth = await store.get(N, "k")
    assert fourth is not None
    assert fourth.created_at == bench.clock.now()


@rule("LG-STORE-07")
async def a_value_that_cannot_be_stored_is_refused_before_anything_is_written(bench: Bench) -> None:
    store = bench.open(index="words")
    circle: dict[str, Any] = {}
    circle["again"] = circle
    for bad, error in (
        ({"a": {1, 2}}, TypeError), ({"a": b"bytes"}, TypeError), ({"a": object()}, TypeError), ([1], TypeError),
        ("text", TypeError), (circle, ValueError), ({"a": 10**5000}, ValueError),
    ):  # fmt: skip
        with pytest.raises(error, match="value"):
            await store.batch([PutOp(N, "good", {"text": "x"}), PutOp(N, "bad", bad)])  # type: ignore[arg-type]
    assert await store.search(()) == []
    assert bench.words.calls == []
    await store.put(N, "k", {"text": "x"})
    assert await store.value(N, "k") == {"text": "x"}


@rule("LG-STORE-08")
async def without_an_index_a_query_gives_an_unranked_result(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "a", {"text": "tea"}, index=["text"])
    await store.put(N, "b", {"text": "coffee"}, index=False)
    for query in (None, "", "tea"):
        found = await store.search(N, query=query)
        assert [(item.key, item.score) for item in found] == [("a", None), ("b", None)]


@rule("LG-STORE-08")
async def without_an_index_what_shares_words_with_the_query_comes_first(bench: Bench) -> None:
    store = bench.open()
    texts = ("We fly to Lisbon in May", "The bins go out on Tuesday", "绿茶比咖啡好", "Bring back the drill")
    for key, text in enumerate(texts):
        bench.clock.advance(seconds=1)
        await store.put(N, str(key), {"text": text, "weekday": key % 2})
    assert await store.keys(N, query="When do the bins go out?") == ["1", "3", "2", "0"]
    assert await store.keys(N, query="绿茶", limit=1) == ["2"]
    assert await store.keys(N, query="the trip to Lisbon", filter={"weekday": 1}) == ["3", "1"]
    assert await store.keys((), query="Lisbon", limit=2, offset=1) == ["3", "2"]
    bench.clock.advance(seconds=1)
    await store.put(N, "3", {"text": "Lisbon again"})
    assert (await store.keys(N, query="Lisbon"))[:2] == ["3", "0"]
    assert await store.keys(("elsewhere",), query="Lisbon") == []


@rule("LG-STORE-20")
async def results_come_in_the_order_of_the_operations(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "a", {"n": 1})
    ops = [
        ListNamespacesOp(), PutOp(N, "b", {"n": 2}), GetOp(N, "a"), SearchOp(N), GetOp(N, "a"), PutOp(N, "c", None),
        GetOp(N, "b"),
    ]  # fmt: skip
    for given in (ops, iter(ops[:1] + ops[2:5])):
        found = await store.batch(given)
        assert found[0] == [N]
    found = await store.batch(op for op in ops)
    assert [found[1], found[5]] == [None, None]
    assert found[2] == found[4]
    assert found[2].value == {"n": 1}
    assert [item.key for item in found[3]] == ["b", "a"] or [item.key for item in found[3]] == ["a", "b"]
    assert await store.batch([]) == []
    with pytest.raises(TypeError, match="wanted a GetOp"):
        await store.batch([PutOp(N, "z", {}), "what"])
    assert await store.get(N, "z") is None


@rule("LG-STORE-20")
async def thousands_of_operations_fit_into_one_batch(bench: Bench) -> None:
    store = bench.open()
    assert await store.batch([PutOp(N, str(n), {"n": n}) for n in range(3000)]) == [None] * 3000
    found = await store.batch(GetOp(N, str(n)) for n in range(3000))
    assert [item.value["n"] for item in found] == list(range(3000))
    assert [item.value["n"] for item in await store.search(N, limit=5000)] == list(range(3000))


@rule("LG-STORE-21")
async def reads_see_the_state_before_the_batch_and_the_last_write_wins(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "a", {"n": 0})
    await store.put(N, "gone", {"n": 0})
    found = await store.batch(
        [
            PutOp(N, "a", {"n": 1}), GetOp(N, "a"), PutOp(N, "a", {"n": 2}), SearchOp(N, limit=10), GetOp(N, "new"),
            PutOp(N, "new", {"n": 1}), PutOp(N, "new", None), PutOp(N, "gone", None), PutOp(N, "gone", {"n": 5}),
            ListNamespacesOp(), PutOp(("other",), "k", {"n": 1}),
        ]
    )  # fmt: skip
    assert found[1].value == {"n": 0}
    assert sorted((item.key, item.value["n"]) for item in found[3]) == [("a", 0), ("gone", 0)]
    assert found[4] is None
    assert found[9] == [N]
    assert await store.value(N, "a") == {"n": 2}
    assert await store.get(N, "new") is None
    assert await store.value(N, "gone") == {"n": 5}


@rule("LG-STORE-21")
async def an_item_that_is_deleted_and_put_in_one_batch_is_a_new_one(bench: Bench) -> None:
    store = bench.open()
    await store.put(N, "a", {"n": 0})
    await store.put(N, "b", {"n": 0})
    bench.clock.advance(seconds=5)
    await store.batch([PutOp(N, "a", None), PutOp(N, "a", {"n": 1}), PutOp(N, "a", {"n": 2}), PutOp(N, "b", {"n": 1})])
    [a, b] = await store.batch([GetOp(N, "a"), GetOp(N, "b")])
    assert (a.value, a.created_at) == ({"n": 2}, bench.clock.now())
    assert b.created_at < bench.clock.now()


@rule("LG-STORE-22")
async def a_batch_with_one_bad_operation_writes_nothing(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.put(N, "kept", {"n": 1})
    bad = [
        (SearchOp(N, filter={"n": {"$near": 1}}), ValueError),
        (PutOp(N, "bad", {"s": {1}}), TypeError),
        (PutOp(("a.b",), "bad", {}), InvalidNamespaceError),
        (PutOp((), "bad", {}), InvalidNamespaceError),
        (GetOp(N, 7), TypeError),  # type: ignore[arg-type]
        (SearchOp(N, limit=-1), ValueError),
        (SearchOp(N, query=7), TypeError),  # type: ignore[arg-type]
        (PutOp(N, "bad", {}, ttl=-1), ValueError),
        (PutOp(N, "bad", {}, index=True), TypeError),  # type: ignore[arg-type]
    ]
    for op, error in bad:
        with pytest.raises(error):
            await store.batch([PutOp(N, "new", {"text": "x"}), PutOp(N, "kept", None), op])
    bench.words.broken = True
    with pytest.raises(RuntimeError, match="no connection to the model"):
        await store.batch([PutOp(N, "new", {"n": 1}), PutOp(N, "kept", None), PutOp(N, "text", {"text": "x"})])
    assert [(item.key, item.value) for item in await store.search(())] == [("kept", {"n": 1})]


@rule("LG-STORE-23")
async def a_caller_reads_its_own_writes_at_once_after_others_have_failed(bench: Bench) -> None:
    store = bench.open()
    for n in range(5):
        with pytest.raises(TypeError):
            await store.put(N, "k", {"n": object()})
        await store.put(N, "k", {"n": n})
        assert await store.value(N, "k") == {"n": n}
        assert [item.value for item in await store.search(N)] == [{"n": n}]


@rule("LG-STORE-40")
async def the_last_change_comes_first_and_ties_come_in_the_order_of_insertion(bench: Bench) -> None:
    store = bench.open()
    for key in "cab":
        await store.put(N, key, {"n": key})
    assert await store.keys(N) == ["c", "a", "b"]
    bench.clock.advance(seconds=1)
    await store.put(("docs", "deep"), "d", {"n": 1})
    await store.put(N, "b", {"n": 2})
    assert await store.keys(N) == ["b", "d", "c", "a"]  # b was put before d, and both changed at one time
    assert await store.keys((), limit=2, offset=1) == ["d", "c"]


@rule("LG-STORE-40")
async def pages_partition_the_result_ranked_or_not(bench: Bench) -> None:
    store = bench.open(index="words")
    texts = ["green tea", "black tea", "tea", "coffee", "iced tea with lemon", "water", "teapot", "a cup of tea"]
    await store.batch(PutOp(N, str(n), {"text": text}) for n, text in enumerate(texts * 3))
    await store.batch(PutOp(N, f"plain{n}", {"n": n}) for n in range(4))
    for query in (None, "a cup of green tea"):
        whole = await store.search(N, query=query, limit=100)
        assert len(whole) == 28
        for size in (1, 3, 7, 20):
            pages = [await store.search(N, query=query, limit=size, offset=at) for at in range(0, 30, size)]
            assert [item.key for page in pages for item in page] == [item.key for item in whole]
        scores = [item.score for item in whole]
        ranked = [score for score in scores if score is not None]
        assert ranked == sorted(ranked, reverse=True)
        assert len(ranked) == (24 if query else 0)
        assert scores[len(ranked) :] == [None] * (28 - len(ranked))


@rule("LG-STORE-40")
async def no_items_are_asked_for_by_limit_zero_and_negative_numbers_are_refused(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.put(N, "k", {"text": "x"})
    assert await store.search(N, limit=0) == await store.search(N, query="x", limit=0) == []
    assert await store.search(N, offset=2**63) == []
    assert len(await store.search(N, limit=2**63)) == 1
    assert await store.namespaces(limit=0) == []
    for named in ({"limit": -1}, {"offset": -1}):
        with pytest.raises(ValueError, match="wanted 0 or more"):
            await store.search(N, **named)
        with pytest.raises(ValueError, match="wanted 0 or more"):
            await store.search(N, query="x", **named)
        with pytest.raises(ValueError, match="wanted 0 or more"):
            await store.namespaces(**named)
