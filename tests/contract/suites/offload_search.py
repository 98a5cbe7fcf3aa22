# asserts are what a contract suite is made of
"""Promises of an offload store about search."""

from __future__ import annotations

import pytest

from reme_core.errors import InvalidInputError
from reme_core.ports import OffloadSearch
from reme_core.schema import OffloadKind
from reme_core.testing.store_values import ALICE, BOB, at
from tests.contract.suites.offload_values import Store, put, result_of, search, text_of

HOSTILE = (
    '"',
    'zebra" OR scope : "s2',
    "words : *",
    "NEAR(zebra kept)",
    "zebra AND (",
    "' OR '1'='1",
    "%",
    "zebra*",
    "^kept -zebra",
    "\x00\x01",
    "half \ud83d",
)


def filler(count: int, word: str = "filler") -> str:
    """Return lines that say nothing that is looked for."""
    return "".join(f"{word} line {n} of many that say nothing\n" for n in range(count))


class OffloadSearching:
    """The best passage of each text, by its words."""

    async def test_a_passage_is_found_where_it_stands(self, store: Store) -> None:
        text = filler(400) + "the walrus wears a crimson hat\n" + filler(400)
        await put(store, text_of(text), text_of(filler(100, "other")))
        [hit] = await search(store, "crimson walrus")
        assert "the walrus wears a crimson hat\n" in hit.passage
        assert len(hit.passage) < len(text) / 4
        assert 0 < hit.score <= 1
        line = hit.first_line + hit.passage[: hit.passage.index("the walrus")].count("\n")
        assert line == 401

    @pytest.mark.parametrize("shift", range(0, 3_000, 173))
    async def test_a_phrase_is_found_whole_wherever_it_stands(self, store: Store, shift: int) -> None:
        phrase = "crimson walrus beneath lighthouse"
        for number, mark in enumerate((" ", "\n")):
            text = f"abc{mark}" * (1_000 + shift // 4) + phrase + f"{mark}xyz" * 1_000
            await put(store, text_of(text, session_id=f"{number}"))
            [hit] = await search(store, phrase, session_id=f"{number}")
            assert phrase in hit.passage
            assert hit.score == pytest.approx(1.0)

    async def test_one_long_line_without_blanks_is_found_in_its_middle(self, store: Store) -> None:
        cells = [f'{{"id":{n},"key":"cell{n}x"}}' for n in range(20_000)]
        await put(store, text_of("[" + ",".join(cells) + "]"))
        [hit] = await search(store, "cell12345x")
        assert "cell12345x" in hit.passage
        assert hit.first_line == 1
        assert len(hit.passage) < 20_000

    async def test_words_are_found_in_any_form_and_case_and_language(self, store: Store) -> None:
        for text, query in (
            ("She is learning to play the VIOLIN", "learned violins"),
            ("她喜欢在周末打网球", "网球"),
            ("東京で毎朝コーヒーを飲む", "コーヒー"),
            ("see reme_core/config.py, line 3", "reme_core/config.py"),
            ("ошибка 🎉 в модуле", "МОДУЛЕ"),
        ):
            kept = text_of(f"{text}\n")
            await put(store, kept)
            assert [hit.info.reference for hit in await search(store, query)] == [kept.reference]

    async def test_what_holds_more_and_rarer_words_comes_first(self, store: Store) -> None:
        common = [text_of(f"apple {n}") for n in range(8)]
        rare, both = text_of("quince"), text_of("an apple and a quince")
        await put(store, *common, both, rare)
        hits = await search(store, "apple quince", limit=20)
        assert [hit.info.reference for hit in hits[:2]] == [both.reference, rare.reference]
        assert 1.0 >= hits[0].score > hits[1].score > hits[2].score > 0
        assert len(hits) == 10

    async def test_a_search_may_ask_for_some_kinds(self, store: Store) -> None:
        result, text = result_of("a walrus", "m1"), text_of("the walrus")
        await put(store, result, text)
        for kinds, wanted in (
            (None, {result.reference, text.reference}),
            ((OffloadKind.TEXT,), {text.reference}),
            ((OffloadKind.MESSAGES,), set()),
        ):
            hits = await store.search_offloads(ALICE, OffloadSearch(text="walrus", kinds=kinds))
            assert {hit.info.reference for hit in hits} == wanted

    async def test_a_word_that_nothing_holds_lowers_every_score(self, store: Store) -> None:
        await put(store, text_of("apple"), text_of("plum"))
        [known], [half] = await search(store, "apple"), await search(store, "apple quince")
        assert known.score == pytest.approx(1.0)
        assert half.score < 0.9

    async def test_of_equal_texts_the_newest_comes_first(self, store: Store) -> None:
        kept = [text_of("the same walrus", session_id=f"{n}", minute=n) for n in range(6)]
        for item in kept:
            await put(store, item)
        hits = await search(store, "walrus", limit=4)
        assert [hit.info.reference for hit in hits] == [item.reference for item in kept[:1:-1]]

    async def test_one_passage_of_each_text_is_returned(self, store: Store) -> None:
        often = text_of(filler(2_000, "walrus"))
        once = text_of("one walrus")
        await put(store, once, often)
        assert len(await search(store, "walrus", limit=2)) == 2

    async def test_a_search_is_of_one_session_and_of_some_time(self, store: Store) -> None:
        for n in range(4):
            await put(store, text_of(f"walrus {n}", session_id="even" if n % 2 == 0 else "odd", minute=n))
        assert [hit.passage for hit in await search(store, "walrus", session_id="odd")] == ["walrus 3", "walrus 1"]
        assert await search(store, "walrus", session_id="none") == []
        ranged = OffloadSearch(text="walrus", made_from=at(1), made_to=at(3))
        assert [hit.passage for hit in await store.search_offloads(ALICE, ranged)] == ["walrus 2", "walrus 1"]
        both = OffloadSearch(text="walrus", made_from=at(1), session_id="even")
        assert [hit.passage for hit in await store.search_offloads(ALICE, both)] == ["walrus 2"]

    async def test_a_search_goes_by_the_time_of_saying(self, store: Store) -> None:
        old = text_of("walrus", minute=5).model_copy(update={"said_at": at(-500)})
        await put(store, old, text_of("the walrus", minute=5))
        for ranged, wanted in (
            (OffloadSearch(text="walrus", made_to=at(0)), ["walrus"]),
            (OffloadSearch(text="walrus", made_from=at(0)), ["the walrus"]),
        ):
            assert [hit.passage for hit in await store.search_offloads(ALICE, ranged)] == wanted

    async def test_a_session_is_searched_as_if_it_were_alone(self, store: Store) -> None:
        both, one = text_of("an apple and a quince", session_id="few"), text_of("an apple", session_id="few")
        await put(store, *(text_of(f"quince {n}", session_id="many") for n in range(30)), both, one)
        hits = await search(store, "apple quince", session_id="few")
        assert [hit.info.reference for hit in hits] == [both.reference, one.reference]

    @pytest.mark.parametrize("query", ["", "  ", "the of and", "!!", "nothing there", "🎾"])
    async def test_what_is_not_there_is_not_found(self, store: Store, query: str) -> None:
        await put(store, text_of("the walrus, and the hat of a walrus!! 🎾"))
        assert await search(store, query) == []
        assert await search(store, query, scope=BOB) == []

    @pytest.mark.parametrize("query", HOSTILE)
    async def test_what_looks_like_a_query_language_is_words(self, store: Store, query: str) -> None:
        await put(store, text_of("kept here"))
        await put(store, text_of("zebra of Bob"), scope=BOB)
        for hit in await search(store, query):
            assert hit.passage == "kept here"

    async def test_a_query_of_thousands_of_words_is_answered(self, store: Store) -> None:
        await put(store, text_of("walrus"), text_of("other"))
        hits = await search(store, "walrus " + " ".join(f"word{n}" for n in range(5_000)))
        assert [hit.passage for hit in hits] == ["walrus"]

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_search_for_no_results_is_refused(self, store: Store, limit: int) -> None:
        with pytest.raises(InvalidInputError):
            await store.search_offloads(ALICE, OffloadSearch(text="walrus", limit=limit))
