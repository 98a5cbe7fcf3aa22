"""Rules about the index and times to live, LG-STORE-50 to 56, 60 and 61."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langgraph.store.base import NOT_PROVIDED, GetOp, PutOp, SearchOp, TTLConfig

from reme_core.errors import ModelUnavailableError
from tests.adapters.langchain.store.store_values import DIMS, Bench, Face, Words, rule

N = ("docs",)


@rule("LG-STORE-50")
async def any_form_of_embedder_ranks(bench: Bench) -> None:
    words = Words()

    def plain(texts: list[str]) -> list[list[float]]:
        return words.embed_documents(list(texts))

    async def native(texts: list[str]) -> list[list[float]]:
        return words.embed_documents(list(texts))

    for number, embed in enumerate((words, plain, native)):
        bench.folder = bench.folder.parent / f"form{number}"  # another model each time, as far as one can know
        await bench.reopen()
        store = bench.open(index={"dims": DIMS, "embed": embed, "fields": ["text"]})  # type: ignore[typeddict-item]
        await store.put(N, "tea", {"text": "green tea"})
        await store.put(N, "car", {"text": "a fast car"})
        [first, second] = await store.search(N, query="a fast car")
        assert (first.key, second.key) == ("car", "tea")
        assert first.score == pytest.approx(1.0, abs=1e-3)


DOCUMENT: dict[str, Any] = {
    "a": {"b": "deep", "n": 7, "none": None, "flag": True}, "list": ["x1", {"t": "x2"}, {"t": "x3"}], "x": "left",
    "y": {"z": "right"}, "secret": "hunter2", "grid": [["p", "q"], ["r"]],
}  # fmt: skip


@rule("LG-STORE-51")
async def only_the_texts_at_the_fields_reach_the_embedder(bench: Bench) -> None:
    for fields, wanted in [
        (["a.b"], ["deep"]), (["a.n"], ["7"]), (["a.none", "no.such", "a.b.c"], []), (["list[0]"], ["x1"]),
        (["list[-1].t"], ["x3"]), (["list[*].t"], ["x2", "x3"]), (["{x,y.z}"], ["left", "right"]),
        (["y"], ['{"z": "right"}']), (["y.*"], ["right"]), (["a.b", "x"], ["deep", "left"]), (["list[9]"], []),
        (["grid[*][0]"], ["p", "r"]), (["a.flag"], ["True"]), (["list[1]"], ['{"t": "x2"}']),
    ]:  # fmt: skip
        bench.words.calls.clear()
        store = bench.open(index=bench.index(fields=fields))
        await store.put(N, "k", DOCUMENT)
        assert bench.words.texts == wanted, fields
    bench.words.calls.clear()
    store = bench.open(index=bench.index(fields=["a.b"]))
    await store.put(N, "k", {"a.b": "a key with a dot is no path", "a": {"b": "half \ud83d"}})
    assert bench.words.texts == ["half ?"]  # no model takes half of an emoji
    bench.words.calls.clear()
    store = bench.open(index=bench.index())
    await store.put(N, "whole", {"b": 1, "a": "é"})
    assert bench.words.texts == ['{"a": "é", "b": 1}']
    await store.put(N, "k", DOCUMENT, index=["a.b", "list[*].t"])
    assert bench.words.texts[1:] == ["deep", "x2", "x3"]
    assert not any("hunter2" in text for text in bench.words.texts)
    await store.put(N, "k", DOCUMENT, index=[])
    assert len(bench.words.calls) == 2


@rule("LG-STORE-52")
async def an_item_counts_once_with_its_best_score(bench: Bench) -> None:
    store = bench.open(index=bench.index(fields=["parts[*]"]))
    await store.put(N, "many", {"parts": [f"green tea number {n}" for n in range(60)]})
    for n in range(5):
        await store.put(N, f"one{n}", {"parts": [f"a car of type {n}"]})
    found = await store.search(N, query="green tea number 17", limit=4)
    assert found[0].key == "many"
    assert len({item.key for item in found}) == 4
    assert found[0].score == pytest.approx(1.0, abs=1e-3)
    assert all(type(item.score) is float for item in found)
    scores = [item.score or 0.0 for item in found]
    assert scores == sorted(scores, reverse=True)
    one, two = bench.words.embed_query("a car of type 0"), bench.words.embed_query("green tea number 17")
    cosine = math.fsum(a * b for a, b in zip(one, two, strict=True))
    [hit] = [item for item in await store.search(N, query="green tea number 17") if item.key == "one0"]
    assert hit.score == pytest.approx(cosine, abs=1e-3)


@rule("LG-STORE-53")
async def items_without_vectors_follow_the_ranked_ones(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.put(N, "hidden", {"text": "green tea"}, index=False)
    await store.put(N, "shown", {"text": "green tea"})
    await store.put(N, "other", {"n": 1})
    found = await store.search(N, query="green tea")
    assert [(item.key, item.score is None) for item in found] == [("shown", False), ("hidden", True), ("other", True)]
    pages = [await store.keys(N, query="green tea", limit=1, offset=at) for at in range(4)]
    assert pages == [["shown"], ["hidden"], ["other"], []]
    assert set(await store.keys(N)) == {"hidden", "shown", "other"}


@rule("LG-STORE-53")
async def vectors_of_earlier_values_are_gone(bench: Bench) -> None:
    store = bench.open(index=bench.index(fields=["parts[*]", "title"]))
    old = {"parts": ["green tea", "black coffee"], "title": "zebra"}
    await store.put(N, "other", {"title": "something else entirely"})

    async def score(query: str) -> float | None:
        found = {item.key: item.score for item in await store.search(N, query=query)}
        return found.get("k")

    async def kept_score(query: str) -> float:
        return await score(query) or 0.0

    await store.put(N, "k", old)
    assert await kept_score("black coffee") > 0.99
    await store.put(N, "k", {"parts": ["green tea"], "title": "zebra"})  # the list shrinks
    assert await kept_score("green tea") > 0.99 > await kept_score("black coffee")
    await store.put(N, "k", {"parts": ["green tea"]})  # a field is dropped
    assert await kept_score("zebra") < 0.99
    await store.put(N, "k", old, index=False)
    assert await score("green tea") is None
    await store.put(N, "k", old)
    await store.delete(N, "k")
    await store.put(N, "k", {"title": "walrus"})
    assert await kept_score("green tea") < 0.99


@rule("LG-STORE-54")
async def any_query_works_and_an_empty_one_is_unranked(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.put(N, "b", {"text": "green tea"})
    await store.put(N, "a", {"text": "black coffee"})
    for query in ("", None):
        assert [(item.key, item.score) for item in await store.search(N, query=query)] == [("b", None), ("a", None)]
    for query in (
        "word " * 500, "?!.,;:'\"()[]{}", "line\nbreak", "nul\0", "🙂", "绿茶", "شاي أخضر", "हरी चाय", "%_*", " ",
        "half \ud83d",
    ):  # fmt: skip
        found = await store.search(N, query=query)
        assert {item.key for item in found} == {"a", "b"}
        assert all(item.score is not None for item in found)


@rule("LG-STORE-54")
async def texts_and_queries_in_which_the_embedder_finds_nothing_are_unranked(bench: Bench) -> None:
    def count(texts: list[str]) -> list[list[float]]:
        return [[float(text.count("tea")), float(text.count("car"))] for text in texts]

    store = bench.open(index=bench.index(dims=2, embed=count, fields=["parts[*]"]))
    await store.batch([PutOp(N, "car", {"parts": ["car", "?"]}), PutOp(N, "tea", {"parts": ["?", "tea", "tea"]})])
    await store.put(N, "none", {"parts": ["?"]})
    found = await store.search(N, query="tea")
    assert [(item.key, item.score) for item in found] == [("tea", 1.0), ("car", 0.0), ("none", None)]
    found = await store.search(N, query="绿茶", limit=2)
    assert [(item.key, item.score) for item in found] == [("car", None), ("tea", None)]


@rule("LG-STORE-55")
async def the_texts_of_a_batch_are_embedded_in_one_call(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.batch(PutOp(N, str(n), {"text": f"text {n % 3}"}) for n in range(9))
    assert [sorted(call) for call in bench.words.calls] == [["text 0", "text 1", "text 2"]]
    await store.batch([PutOp(N, "0", {"text": "lost"}), PutOp(N, "0", {"text": "kept"}), PutOp(N, "x", {"n": 1})])
    assert bench.words.calls[1:] == [["kept"]]
    [best] = await store.search(N, query="kept", limit=1)
    assert best.key == "0"
    found = await store.batch([SearchOp(N, query="kept"), SearchOp(N, query="kept", limit=1), GetOp(N, "x")])
    assert [item.key for item in found[1]] == ["0"]
    bench.words.queries.clear()
    await store.batch([SearchOp(N, query="kept"), SearchOp((), query="kept")])
    assert bench.words.queries == ["kept"]


@rule("LG-STORE-55")
async def items_of_one_batch_that_share_texts_keep_their_own(bench: Bench) -> None:
    store = bench.open(index=bench.index(fields=["parts[*]"]))
    parts = [["apple", "pear", "plum"], ["apple", "walrus", "plum"], ["plum"], ["plum", "plum", "zebra"]]
    await store.batch(PutOp(N, str(n), {"parts": texts}) for n, texts in enumerate(parts))
    assert bench.words.calls == [["apple", "pear", "plum", "walrus", "zebra"]]
    for query, wanted in (("apple", "01"), ("pear", "0"), ("walrus", "1"), ("plum", "0123"), ("zebra", "3")):
        found = await store.search(N, query=query)
        assert sorted(item.key for item in found if (item.score or 0) > 0.999) == list(wanted)


@rule("LG-STORE-55")
async def a_failing_embedder_writes_nothing_and_leaves_the_rest_working(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.put(N, "k", {"text": "green tea"})
    bench.words.broken = True
    with pytest.raises(RuntimeError, match="no connection to the model"):  # as the embedder raised it
        await store.put(N, "k", {"text": "black coffee"})
    with pytest.raises(RuntimeError, match="no connection to the model"):
        await store.search(N, query="tea")
    assert await store.value(N, "k") == {"text": "green tea"}
    assert await store.keys(N) == ["k"]
    await store.put(N, "plain", {"n": 1})
    bench.words.broken = False
    assert await store.keys(N, query="green tea") == ["k", "plain"]


@rule("LG-STORE-55")
async def what_the_embedder_raises_comes_as_it_raised_it(bench: Bench) -> None:
    chained, busy = KeyError("no such model"), ModelUnavailableError("my own word for it")
    chained.__cause__, busy.__cause__ = OSError("below"), OSError("below it")
    raising: list[Exception] = []

    def fail(_: list[str]) -> list[list[float]]:
        raise raising[0]

    store = bench.open(index=bench.index(dims=2, embed=fail))
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.put(N, "k", {"text": "tea"}),
        lambda: store.search(N, query="tea"),
        lambda: store.batch([PutOp(N, "k", {"n": 1}), SearchOp(N, query="tea")]),
    )
    for call in calls:
        for error, cause in ((chained, "below"), (busy, "below it")):
            raising[:] = [error]
            with pytest.raises(type(error)) as caught:
                await call()
            assert caught.value is error
            assert str(error.__cause__) == cause
        raising[:] = [StopIteration()]  # which no future can carry
        with pytest.raises(RuntimeError):
            await call()
    assert await store.search(()) == []


@rule("LG-STORE-56")
async def a_file_that_is_opened_again_embeds_nothing_but_the_query(bench: Bench) -> None:
    store = bench.open(index="words")
    await store.put(N, "k", {"text": "green tea"})
    await store.put(N, "l", {"text": "black coffee"})
    await bench.reopen()
    bench.words = Words()
    store = bench.open(index="words")
    [first, _] = await store.search(N, query="black coffee")
    assert (first.key, bench.words.calls) == ("l", [])
    assert first.score == pytest.approx(1.0, abs=1e-3)


@rule("LG-STORE-56")
async def vectors_of_two_models_are_never_mixed(bench: Bench) -> None:
    await bench.open(index="words").put(N, "k", {"text": "green tea"})

    class OtherModel(Words):
        pass

    calls: tuple[Callable[[Face], Awaitable[object]], ...] = (
        lambda store: store.put(N, "l", {"text": "x"}),
        lambda store: store.search(N, query="x"),
        lambda store: store.get(N, "k"),
        lambda store: store.enter(),
    )
    for words, message in ((Words(16), r"(?s)32.*16"), (OtherModel(), r"(?s)Words.*OtherModel")):
        for call in calls:
            foreign = bench.open(index={"dims": words.dims, "embed": words, "fields": ["text"]})
            with pytest.raises(ValueError, match=message):
                await call(foreign)
        assert words.calls == words.queries == []  # no text goes to a model that can't be the right one
    assert await bench.open().keys(N) == ["k"]


@rule("LG-STORE-60")
async def a_time_to_live_is_the_default_none_or_what_is_given(bench: Bench) -> None:
    store = bench.open(ttl={"default_ttl": 10, "omit_expired": True, "refresh_on_read": False})
    assert store.store.supports_ttl
    assert store.store.ttl_config == {"default_ttl": 10, "omit_expired": True, "refresh_on_read": False}
    await store.put(N, "default", {})
    await store.put(N, "never", {}, ttl=None)
    await store.put(N, "soon", {}, ttl=0.25)
    await store.batch(
        [PutOp(N, "op", {}, ttl=20), PutOp(N, "op-default", {}, ttl=NOT_PROVIDED), PutOp(N, "op-never", {})]  # type: ignore[arg-type]
    )
    steps = [(14, "soon"), (2, "default op-default"), (600, "op"), (100_000, "")]
    left = {"default", "never", "soon", "op", "op-default", "op-never"}
    for seconds, _ in steps:
        assert set(await store.keys(N)) == left
        bench.clock.advance(seconds=seconds)
        expired = {14: set(), 2: {"soon"}, 600: {"default", "op-default"}, 100_000: {"op"}}[seconds]
        left = left - expired
    assert set(await store.keys(N)) == left == {"never", "op-never"}
    for bad, error in (
        (-1, ValueError),
        (0, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        ("5", TypeError),
    ):
        with pytest.raises(error, match="minutes"):
            await store.put(N, "bad", {}, ttl=bad)


@rule("LG-STORE-61")
async def reads_refresh_unless_told_otherwise_each_by_itself(bench: Bench) -> None:
    for config, refreshed in (
        ({"omit_expired": True}, True),
        ({"omit_expired": True, "refresh_on_read": False}, False),
    ):
        ttl: TTLConfig = config  # type: ignore[assignment]
        store = bench.open(ttl=ttl)
        place = ("docs", str(refreshed))
        for key in ("got", "searched", "untouched", "asked-not-to"):
            await store.put((*place, key), key, {}, ttl=10)
        bench.clock.advance(seconds=9 * 60)
        await store.get((*place, "got"), "got")
        await store.search((*place, "searched"))
        await store.batch(
            [
                GetOp((*place, "asked-not-to"), "asked-not-to", refresh_ttl=False),
                SearchOp((*place, "asked-not-to"), refresh_ttl=False),
                GetOp((*place, "got"), "got", refresh_ttl=refreshed),
            ]
        )
        bench.clock.advance(seconds=2 * 60)
        assert set(await store.keys(place, refresh_ttl=False)) == ({"got", "searched"} if refreshed else set())
    store = bench.open(ttl={"omit_expired": True})
    await store.put(("p",), "k", {}, ttl=10)
    bench.clock.advance(seconds=9 * 60)
    await store.get(("p",), "k", refresh_ttl=False)
    bench.clock.advance(seconds=2 * 60)
    assert await store.get(("p",), "k") is None


@rule("LG-STORE-61")
async def expired_items_are_invisible_at_once_or_go_with_the_next_sweep(bench: Bench) -> None:
    seeing = bench.open(index="words", ttl={"refresh_on_read": False})
    store = bench.open(index="words", ttl={"omit_expired": True, "refresh_on_read": False})
    await store.put(("gone",), "k", {"text": "green tea"}, ttl=1)
    await store.put(N, "kept", {"text": "black tea"})
    bench.clock.advance(seconds=61)
    assert await store.get(("gone",), "k") is None
    assert await store.keys(()) == await store.keys((), query="green tea") == ["kept"]
    assert await store.namespaces() == [N]
    assert await seeing.namespaces() == [N, ("gone",)]
    for refreshing in (
        await seeing.search(("gone",), refresh_ttl=True),
        [await seeing.get(("gone",), "k", refresh_ttl=True)],
    ):
        assert [item and item.value for item in refreshing] == [{"text": "green tea"}]  # too late to begin anew
    assert await store.sweep() == 1
    assert await store.sweep() == 0
    assert await seeing.get(("gone",), "k") is None
    assert await seeing.keys((), query="green tea") == ["kept"]
    assert await seeing.namespaces() == [N]
    created = bench.clock.now()
    await store.put(N, "again", {}, ttl=1)
    bench.clock.advance(seconds=61)
    await store.put(N, "again", {}, ttl=1)
    found = await store.get(N, "again")
    assert found is not None
    assert found.created_at > created  # what had expired is gone for every purpose
