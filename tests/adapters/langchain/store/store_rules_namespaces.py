"""Rules about namespaces and filters, LG-STORE-10 to 15 and 30 to 33."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from tests.adapters.langchain.store.store_values import Bench, rule

N = ("docs",)
BAD_LABELS: list[Any] = ["", "a.b", "nul\0", 7, None, "\ud800"]
ODD_LABELS = [
    "*", "%", "_", "?", "[ab]", "a|b", "^a$", "\\", "'", '"', " ", "a ", "a\n", "\n", "~", "中文", "foo", "Foo", "fo",
    "foo%", "a", "b", "1", "12", "/", "Ω", "🙂",
]  # fmt: skip


@rule("LG-STORE-10")
async def labels_that_cannot_be_are_refused(bench: Bench) -> None:
    store = bench.open()
    for label in BAD_LABELS:
        for path in ((label,), ("a", label)):
            with pytest.raises(InvalidNamespaceError):
                await store.put(path, "k", {})
            with pytest.raises(InvalidNamespaceError):
                await store.get(path, "k")
            with pytest.raises(InvalidNamespaceError):
                await store.delete(path, "k")
            with pytest.raises(InvalidNamespaceError):
                await store.search(path)
            with pytest.raises(InvalidNamespaceError):
                await store.namespaces(prefix=path)
            with pytest.raises(InvalidNamespaceError):
                await store.namespaces(suffix=path)
    for path in ((), ("langgraph",), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            await store.put(path, "k", {})
    await store.put(("a", "langgraph"), "k", {"n": 1})
    assert await store.get(("langgraph",), "k") is None
    assert await store.search(("langgraph",)) == []
    await store.delete(("langgraph",), "k")
    assert await store.namespaces(prefix=("langgraph",)) == []
    assert [item.namespace for item in await store.search(())] == [("a", "langgraph")]
    for text in ("users", "u"):
        with pytest.raises(InvalidNamespaceError, match="a tuple of labels"):
            await store.put(text, "k", {})


@rule("LG-STORE-11")
async def batches_may_use_the_root_of_langgraph_and_labels_are_checked_there_too(bench: Bench) -> None:
    store = bench.open()
    inner = ("langgraph", "cache")
    await store.batch([PutOp(inner, "k", {"n": 1}), PutOp(("foo", "bar"), "k", {"n": 2})])
    assert await store.value(inner, "k") == {"n": 1}
    assert await store.keys(("langgraph",)) == ["k"]
    bad = ("foo.bar",)
    for op in (
        GetOp(bad, "k"), PutOp(bad, "k", {}), PutOp(bad, "k", None), SearchOp(bad),
        ListNamespacesOp((MatchCondition("prefix", bad),)),
    ):  # fmt: skip
        with pytest.raises(InvalidNamespaceError):
            await store.batch([op])
    with pytest.raises(ValueError, match="match_type"):
        await store.batch([ListNamespacesOp((MatchCondition("infix", ("a",)),))])  # type: ignore[arg-type]
    await store.delete(inner, "k")
    assert await store.namespaces() == [("foo", "bar")]


@rule("LG-STORE-12")
async def a_prefix_covers_whole_labels_literally(bench: Bench) -> None:
    store = bench.open()
    paths = [("users", label) for label in ODD_LABELS] + [("users", label, "deep") for label in ODD_LABELS]
    await store.batch(PutOp(path, "k", {"at": list(path)}) for path in paths)
    for label in ODD_LABELS:
        found = await store.search(("users", label), limit=100)
        assert [item.namespace for item in found] == [("users", label), ("users", label, "deep")]
        assert [item.namespace for item in await store.search(("users", label, "deep"))] == [("users", label, "deep")]
    assert await store.search(("user",)) == await store.search(("Users",)) == await store.search(("users", "x")) == []
    assert len(await store.search((), limit=1000)) == len(await store.search(("users",), limit=1000)) == len(paths)


@rule("LG-STORE-13")
async def lists_stand_wherever_tuples_do_and_results_are_tuples(bench: Bench) -> None:
    store = bench.open()
    await store.put(["a", "b"], "k", {"n": 1})
    found = await store.get(["a", "b"], "k")
    assert found is not None
    assert found.namespace == ("a", "b")
    [hit] = await store.search(["a"])
    assert hit.namespace == ("a", "b")
    for named in ({"prefix": ["a"]}, {"suffix": ["b"]}, {"prefix": ["a", "*"]}, {"prefix": []}):
        assert await store.namespaces(**named) == [("a", "b")]
    condition = MatchCondition("prefix", ["a"])  # type: ignore[arg-type]
    assert await store.batch([ListNamespacesOp((condition,))]) == [[("a", "b")]]
    await store.delete(["a", "b"], "k")
    assert await store.namespaces() == []


PATHS = [
    ("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f"), ("ab",),
    ("b", "a"), ("b", "c"), ("users", "x*y", "v1"), ("users", "*", "v1"), ("users", "z", "v2"), ("A",), ("a!",),
]  # fmt: skip


@rule("LG-STORE-14")
async def namespaces_are_matched_then_cut_then_listed_once_in_order(bench: Bench) -> None:
    store = bench.open()
    assert await store.namespaces() == []
    for key in ("k", "l"):
        await store.batch(PutOp(path, key, {}) for path in PATHS)
    assert await store.namespaces() == sorted(PATHS)
    assert await store.namespaces(prefix=()) == sorted(PATHS)
    for named, wanted in [
        ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b"), ("a", "b", "c"), ("a", "b", "d")]),
        ({"prefix": ("a", "b"), "max_depth": 1}, [("a",)]),
        ({"suffix": ("c",)}, [("a", "b", "c"), ("b", "c")]),
        ({"prefix": ("a",), "suffix": ("c",)}, [("a", "b", "c")]),
        ({"prefix": ("users", "*", "v1")}, [("users", "*", "v1"), ("users", "x*y", "v1")]),
        ({"prefix": ("users", "x*"), "suffix": ("v1",)}, []),
        ({"prefix": ("*", "c")}, [("a", "c", "f"), ("b", "c")]),
        ({"suffix": ("*", "c", "*")}, [("a", "c", "f")]),
        ({"prefix": ("*", "*", "*", "*")}, [("a", "b", "d", "e"), ("a", "b", "d", "i")]),
        ({"prefix": ("a", "b", "c", "d", "e", "f")}, []),
        ({"suffix": ("a",), "max_depth": 1}, [("a",), ("b",)]),
        ({"limit": 2, "offset": 1}, sorted(PATHS)[1:3]),
        ({"max_depth": 1, "limit": 2, "offset": 2}, [("a!",), ("ab",)]),
        ({"offset": 100}, []),
    ]:
        assert await store.namespaces(**named) == wanted, named
    both = (
        MatchCondition("prefix", ("a",)),
        MatchCondition("prefix", ("a", "b", "d")),
        MatchCondition("suffix", ("i",)),
    )
    assert await store.batch([ListNamespacesOp(both)]) == [[("a", "b", "d", "i")]]
    none = (MatchCondition("prefix", ("a",)), MatchCondition("prefix", ("b",)))
    assert await store.batch([ListNamespacesOp(none)]) == [[]]
    await store.batch(PutOp(("many", f"{n:03}"), "k", {}) for n in range(150))
    assert len(await store.namespaces()) == 100


@rule("LG-STORE-15")
async def a_namespace_is_there_as_long_as_it_holds_an_item(bench: Bench) -> None:
    store = bench.open()
    await store.get(("a",), "k")
    await store.search(("a", "b"))
    await store.delete(("c",), "k")
    assert await store.namespaces() == []
    await store.put(("a", "b"), "k", {})
    await store.put(("a", "b"), "l", {})
    await store.delete(("a", "b"), "k")
    assert await store.namespaces() == [("a", "b")]
    await store.delete(("a", "b"), "l")
    assert await store.namespaces() == []


ROWS: dict[str, dict[str, Any]] = {
    "int": {"v": 10}, "nine": {"v": 9}, "float": {"v": 9.5}, "one": {"v": 1}, "true": {"v": True}, "text": {"v": "10"},
    "date": {"v": "2024-05-01"}, "null": {"v": None}, "missing": {"other": 1}, "list": {"v": [1, 2]},
    "dict": {"v": {"a": 1, "b": {"c": [1]}}}, "huge": {"v": 10**100}, "inf": {"v": float("inf")},
    "nan": {"v": float("nan")}, "empty": {"v": {}},
}  # fmt: skip
FILTERS: list[tuple[Any, set[str]]] = [
    ({"v": 10}, {"int"}),
    ({"v": 10.0}, {"int"}),
    ({"v": "10"}, {"text"}),
    ({"v": 1}, {"one"}),
    ({"v": True}, {"true"}),
    ({"v": {"$gt": 9}}, {"int", "float", "huge", "inf"}),
    ({"v": {"$lt": 10}}, {"nine", "float", "one"}),
    ({"v": {"$gte": 9, "$lt": 10}}, {"nine", "float"}),
    ({"v": {"$gt": "2024-04-30", "$lte": "2024-05-01"}}, {"date"}),
    ({"v": {"$lt": "2"}}, {"text"}),
    ({"v": {"$gt": True}}, set()),
    ({"v": {"$gt": None}}, set()),
    ({"v": {"$lte": [9]}}, set()),
    ({"v": {"$gte": 10**100}}, {"huge", "inf"}),
    ({"v": {"$lt": float("inf")}}, {"int", "nine", "float", "one", "huge"}),
    ({"v": {"$gt": float("-inf")}}, {"int", "nine", "float", "one", "huge", "inf"}),
    ({"v": float("nan")}, set()),
    ({"v": [1, 2]}, {"list"}),
    ({"v": (1, 2)}, {"list"}),
    ({"v": [2, 1]}, set()),
    ({"v": [1]}, set()),
    ({"v": {"$eq": [1, 2]}}, {"list"}),
    ({"v": {"a": 1}}, {"dict"}),
    ({"v": {"b": {"c": [1]}}}, {"dict"}),
    ({"v": {"b": {}}}, {"dict"}),
    ({"v": {"a": 1, "z": 1}}, set()),
    ({"v": {"a": True}}, set()),
    ({"v": None}, {"null", "missing"}),
    ({"v": {"$eq": None}}, {"null", "missing"}),
    ({"v": {"$ne": 10}}, set(ROWS) - {"int"}),
    ({"v": {"$ne": None}}, set(ROWS) - {"null", "missing"}),
    ({"v.a": 1}, set()),
    ({"other": 1, "v": None}, {"missing"}),
    ({"v": 10, "other": 1}, set()),
    ({}, set(ROWS)),
    (None, set(ROWS)),
]


@rule("LG-STORE-31")
async def filters_compare_by_the_types_of_json(bench: Bench) -> None:
    store = bench.open()
    await store.batch(PutOp(N, key, value) for key, value in ROWS.items())
    for given_, wanted in FILTERS:
        assert set(await store.keys(N, filter=given_, limit=100)) == wanted, given_


@rule("LG-STORE-32")
async def lists_compare_whole_dicts_by_their_keys_and_null_with_what_is_missing(bench: Bench) -> None:
    store = bench.open()
    await store.put(
        N, "k", {"tags": ["a", "b"], "who": {"name": {"first": "Ann", "last": "Lee"}}, "a.b": 1, "gone": None}
    )
    for match in (
        {"tags": ["a", "b"]}, {"tags": {"$eq": ["a", "b"]}}, {"who": {"name": {"first": "Ann"}}}, {"gone": None},
        {"never": None}, {"never": {"$eq": None}}, {"never": {"$ne": 1}}, {"a.b": 1}, {"tags": {"$ne": ["a"]}},
    ):  # fmt: skip
        assert await store.keys(N, filter=match) == ["k"], match
    for other in (
        {"tags": "a"},
        {"tags": ["a"]},
        {"who": {"name": "Ann"}},
        {"who.name.first": "Ann"},
        {"gone": {"$ne": None}},
    ):
        assert await store.keys(N, filter=other) == [], other


@rule("LG-STORE-30")
async def unknown_operators_are_refused_and_filters_come_before_the_page(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.batch(PutOp(N, str(n), {"n": n, "even": n % 2 == 0, "text": f"item {n}"}) for n in range(20))
    for bad in (
        {"n": {"$near": 1}}, {"n": {"$gt": 1, "plain": 2}}, {"n": {"plain": 2, "$gt": 1}}, {"n": {"$in": [1]}},
        {"$gt": 3}, {"n": {"deep": {"$gt": 1}}},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="filter"):
            await store.search(N, filter=bad)
    for wrong in ([("n", 1)], "n", {7: 1}, {"n": {1, 2}}):
        with pytest.raises(TypeError, match="filter"):
            await store.search(N, filter=wrong)
    for query in (None, "item 19"):
        named: dict[str, Any] = {"filter": {"even": True, "n": {"$gte": 4}}, "query": query}
        whole = await store.keys(N, limit=100, **named)
        assert sorted(whole, key=int) == ["4", "6", "8", "10", "12", "14", "16", "18"]
        assert await store.keys(N, limit=3, **named) == whole[:3]
        assert await store.keys(N, limit=3, offset=3, **named) == whole[3:6]


@rule("LG-STORE-33")
async def keys_and_operands_of_filters_are_data(bench: Bench) -> None:
    store = bench.open()
    odd = [
        "'",
        '"',
        "%",
        "_",
        "nul\0",
        "' OR '1'='1",
        "x') OR 1=1 --",
        "a b",
        "ключ",
        "中",
        "$.v",
        "[0]",
        "v.w",
        "\\",
        "",
    ]
    await store.put(N, "plain", {"v": "x"})
    for place, name in enumerate(odd):
        assert await store.keys(N, filter={name: "' OR '1'='1"}) == []
        assert await store.keys(N, filter={"v": name}) == []
        await store.put(N, f"k{place}", {name: f"{name}!"})
    for place, name in enumerate(odd):
        assert await store.keys(N, filter={name: f"{name}!"}) == [f"k{place}"]
    assert len(await store.search(N, limit=100)) == len(odd) + 1
