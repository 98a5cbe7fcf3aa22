# asserts are what a contract suite is made of
"""Promises of a memory store about finding: ranking, filters, pages."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from pydantic import JsonValue

from reme_core.errors import DimensionMismatchError, InvalidInputError, UnsupportedFilterError
from reme_core.ports import ListMemories, MemoryFilter, MemorySearch, PutMemory, Scalar, ScoredMemory, Store
from reme_core.schema import Memory, MemoryType
from reme_core.testing._memory_writes import add
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    DIMENSION,
    at,
    axis,
    bad_vectors,
    changed,
    closed,
    lasting,
    leaning,
    memory,
    random_unit,
)

TEXTS_AND_QUERIES = (
    ("She is learning to play the violin", "violin lessons"),
    ("She is LEARNING to play", "learned"),
    ("她喜欢在周末打网球", "网球"),
    ("東京で毎朝コーヒーを飲む", "コーヒー"),
    ("그는 서울에서 기타를 배운다", "서울"),
    ("Der Schlüssel liegt unter der Matte", "schlüssel"),
    ("the party 🎉 was in the Grand Hotel", "hotel 🎉"),
    ("error in reme_core/config.py at line 12", "config.py"),
)


async def ranked(store: Store, search: MemorySearch) -> list[ScoredMemory]:
    """Search, and check what holds for every answer: limit, falling scores of at most 1, no memory twice."""
    found = await store.search(ALICE, search)
    scores = [item.score for item in found]
    assert len(found) <= search.limit
    assert all(first >= second for first, second in pairwise(scores))
    assert all(np.isfinite(score) and score <= 1.0 + 1e-6 for score in scores)
    assert len({item.memory.memory_id for item in found}) == len(found)
    return found


async def found_contents(store: Store, search: MemorySearch) -> list[str]:
    """Search and return the contents found, best first."""
    return [item.memory.content for item in await ranked(store, search)]


async def listed(store: Store, wanted: MemoryFilter) -> set[str]:
    """Return the contents that a filter lets through, and check that list and both kinds of search agree on them."""
    page = await store.list_memories(ALICE, ListMemories(filter=wanted))
    contents = {item.content for item in page.memories}
    by_vector = await found_contents(store, MemorySearch(vector=axis(0), limit=100, filter=wanted))
    by_words = await found_contents(store, MemorySearch(text="fact", limit=100, filter=wanted))
    assert (set(by_vector), set(by_words)) == (contents, contents)
    return contents


def fact(name: str, *, minute: float = 0, metadata: Mapping[str, JsonValue] | None = None) -> PutMemory:
    """Build a memory that a query for `fact`, by words or by the first axis, finds."""
    return PutMemory(memory=memory(f"fact {name}", minute=minute, metadata=metadata), vector=leaning(0.5))


class MemoryRanking:
    """Search by vector, by words and by both."""

    async def test_an_empty_store_finds_nothing(self, store: Store) -> None:
        assert await store.search(ALICE, MemorySearch(text="anything", vector=axis(0))) == []
        assert (await store.list_memories(ALICE, ListMemories())).memories == ()

    async def test_the_nearest_comes_first_and_its_score_is_the_cosine(self, store: Store) -> None:
        cosines = {"far": -0.25, "near": 0.75, "same": 1.0, "middle": 0.5, "opposite": -1.0, "across": 0.0}
        puts = [PutMemory(memory=memory(name), vector=leaning(cosine)) for name, cosine in cosines.items()]
        await add(store, *puts)
        found = await ranked(store, MemorySearch(vector=axis(0)))
        assert [item.memory.content for item in found] == ["same", "near", "middle", "across", "far", "opposite"]
        for item in found:
            assert item.score == pytest.approx(cosines[item.memory.content], abs=1e-5)

    async def test_one_alone_is_told_with_its_place_and_the_parts_of_its_score(self, store: Store) -> None:
        cosines = {"far": 0.25, "near": 0.75, "middle": 0.5}
        puts = [PutMemory(memory=memory(name), vector=leaning(cosine)) for name, cosine in cosines.items()]
        stored = {item.content: item.memory_id for item in await add(store, *puts)}
        search = MemorySearch(vector=axis(0), limit=1, only=stored["middle"], explain=True)
        [found] = await store.search(ALICE, search)
        assert (found.memory.content, found.place) == ("middle", 2)
        assert found.parts is None or sum(found.parts.values()) == pytest.approx(found.score)
        assert await store.search(BOB, search) == []

    async def test_the_first_of_many_are_those_of_an_exact_search(self, store: Store) -> None:
        vectors = {f"fact {seed}": random_unit(seed) for seed in range(120)}
        await add(store, *(PutMemory(memory=memory(text), vector=vector) for text, vector in vectors.items()))
        query = random_unit(999)
        wanted = sorted(vectors, key=lambda text: -float(vectors[text] @ query))[:10]
        assert await found_contents(store, MemorySearch(vector=query, limit=10)) == wanted

    async def test_a_memory_without_vector_has_no_cosine_to_be_found_by(self, store: Store) -> None:
        await add(store, PutMemory(memory=memory("with"), vector=leaning(-0.5)), memory("without"))
        assert await found_contents(store, MemorySearch(vector=axis(0))) == ["with"]

    @pytest.mark.parametrize(("text", "query"), TEXTS_AND_QUERIES)
    async def test_words_alone_find_what_holds_them(self, store: Store, text: str, query: str) -> None:
        await add(store, memory(text), memory("完全無関係 quite unrelated 무관한"))
        found = await ranked(store, MemorySearch(text=query))
        assert [item.memory.content for item in found] == [text]
        assert found[0].score > 0

    async def test_more_of_the_querys_words_rank_higher(self, store: Store) -> None:
        await add(
            store, memory("a red house"), memory("a red bicycle with a bell"), memory("bell"), memory("quiet river")
        )
        found = await found_contents(store, MemorySearch(text="red bicycle bell"))
        assert found[0] == "a red bicycle with a bell"
        assert set(found) == {"a red house", "a red bicycle with a bell", "bell"}

    async def test_when_to_use_is_searched_with_the_content(self, store: Store) -> None:
        await add(store, changed(memory("Restart the router."), {"when_to_use": "the wireless network is down"}))
        for query in ("wireless", "router"):
            assert await found_contents(store, MemorySearch(text=query)) == ["Restart the router."]

    async def test_vector_and_words_add_up(self, store: Store) -> None:
        puts = {
            "zebra by both": leaning(0.5),
            "zebra by words": leaning(-0.5),
            "by vector": leaning(0.5),
            "by neither": leaning(-0.5),
        }
        await add(store, *(PutMemory(memory=memory(text), vector=vector) for text, vector in puts.items()))
        found = await ranked(store, MemorySearch(text="zebra", vector=axis(0)))
        assert found[0].memory.content == "zebra by both"
        assert found[0].score == pytest.approx((0.7 * 0.5 + 0.4) / 1.1, abs=0.01)
        scores = {item.memory.content: item.score for item in found}
        assert scores["by vector"] == pytest.approx(0.7 * 0.5 / 1.1, abs=0.01)
        assert scores["zebra by words"] == pytest.approx((0.7 * -0.5 + 0.4) / 1.1, abs=0.01)

    async def test_a_memory_without_vector_is_found_by_its_words_beside_those_with(self, store: Store) -> None:
        await add(store, *(PutMemory(memory=memory(f"noise {n}"), vector=leaning(0.1)) for n in range(20)))
        await add(store, memory("the zebra"))
        assert (await found_contents(store, MemorySearch(text="zebra", vector=axis(0), limit=3)))[0] == "the zebra"

    async def test_the_nearest_is_found_beside_many_that_match_by_words(self, store: Store) -> None:
        await add(store, *(PutMemory(memory=memory(f"zebra {n}"), vector=leaning(-1.0)) for n in range(20)))
        await add(store, PutMemory(memory=memory("nothing of the kind"), vector=leaning(1.0)))
        found = await found_contents(store, MemorySearch(text="zebra", vector=axis(0), limit=1))
        assert found == ["nothing of the kind"]

    async def test_equal_scores_come_newest_first_then_by_id(self, store: Store) -> None:
        minutes = {"b": 1, "d": 2, "a": 1, "c": 1, "e": 0}
        await add(
            store,
            *(
                PutMemory(memory=memory(f"zebra {name}", memory_id=name, minute=minute), vector=leaning(0.5))
                for name, minute in minutes.items()
            ),
        )
        for search in (MemorySearch(vector=axis(0)), MemorySearch(text="zebra")):
            assert [item.memory.memory_id for item in await ranked(store, search)] == ["d", "a", "b", "c", "e"]
        assert [item.memory.memory_id for item in await ranked(store, MemorySearch(vector=axis(0), limit=2))] == [
            "d",
            "a",
        ]

    @pytest.mark.parametrize("limit", [1, 2, 5, 6, 1000])
    async def test_a_smaller_limit_gives_the_beginning_of_a_larger_one(self, store: Store, limit: int) -> None:
        await add(store, *(PutMemory(memory=memory(f"zebra {n}"), vector=leaning(n / 10)) for n in range(6)))
        for search in (MemorySearch(vector=axis(0)), MemorySearch(text="zebra", vector=axis(0))):
            whole = await found_contents(store, search)
            part = MemorySearch(text=search.text, vector=search.vector, limit=limit)
            assert await found_contents(store, part) == whole[:limit]
            assert len(whole) == 6

    async def test_the_score_floor_is_a_similarity(self, store: Store) -> None:
        await add(store, *(PutMemory(memory=memory(f"fact {c}"), vector=leaning(c)) for c in (0.9, 0.5, 0.1, -0.5)))
        floors = {0.95: 0, 0.6: 1, 0.3: 2, 0.0: 3, -0.6: 4, 1.0: 0, -1.0: 4}
        for floor, count in floors.items():
            found = await ranked(store, MemorySearch(vector=axis(0), min_score=floor))
            assert len(found) == count
            assert all(item.score >= floor for item in found)

    async def test_the_score_floor_holds_for_words_and_for_both(self, store: Store) -> None:
        await add(store, fact("zebra"), fact("about many other things than stripes"), fact("horse"))
        for search in (MemorySearch(text="fact zebra"), MemorySearch(text="fact zebra", vector=axis(0))):
            whole = await ranked(store, search)
            floor = whole[1].score
            cut = MemorySearch(text=search.text, vector=search.vector, min_score=floor)
            assert await ranked(store, cut) == [item for item in whole if item.score >= floor]

    async def test_without_text_and_vector_there_is_nothing_to_rank_by(self, store: Store) -> None:
        await add(store, memory("fact"))
        for text in ("", "  \n"):
            with pytest.raises(InvalidInputError):
                await store.search(ALICE, MemorySearch(text=text))

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_limit_below_one_is_refused(self, store: Store, limit: int) -> None:
        with pytest.raises(InvalidInputError):
            await store.search(ALICE, MemorySearch(text="fact", limit=limit))
        with pytest.raises(InvalidInputError):
            await store.list_memories(ALICE, ListMemories(limit=limit))

    @pytest.mark.parametrize(
        "text", ["the of and", "?!", "🎉", "\x00", "\ud83d", "' OR 1=1 --", '"unbalanced', "a" * 9999]
    )
    async def test_a_query_of_any_text_is_answered(self, store: Store, text: str) -> None:
        await add(store, fact("zebra"))
        assert len(await ranked(store, MemorySearch(text=text, vector=axis(0)))) == 1
        await ranked(store, MemorySearch(text=text))

    @pytest.mark.parametrize("name", list(bad_vectors()))
    async def test_a_query_vector_that_is_not_one_is_refused(self, store: Store, name: str) -> None:
        await add(store, fact("zebra"))
        with pytest.raises(InvalidInputError):
            await store.search(ALICE, MemorySearch(vector=bad_vectors()[name]))

    @pytest.mark.parametrize("dimension", [1, DIMENSION - 1, DIMENSION + 1])
    async def test_a_query_vector_of_another_dimension_is_refused(self, store: Store, dimension: int) -> None:
        await add(store, fact("zebra"))
        with pytest.raises(DimensionMismatchError):
            await store.search(ALICE, MemorySearch(text="fact", vector=axis(0, dimension=dimension)))


class MemoryFilters:
    """Filters narrow, and never widen, what search and list give."""

    async def test_filters_by_type_and_target_hold_together(self, store: Store) -> None:
        kinds = [(MemoryType.PERSONAL, "Ann"), (MemoryType.PERSONAL, "ann"), (MemoryType.TOOL, "Ann")]
        for kind, target in kinds:
            item = memory(f"fact {kind} {target}", memory_type=kind, target=target)
            await add(store, PutMemory(memory=item, vector=leaning(0.5)))
        personal, tool = (MemoryType.PERSONAL,), (MemoryType.TOOL,)
        assert await listed(store, MemoryFilter(types=personal)) == {"fact personal Ann", "fact personal ann"}
        assert await listed(store, MemoryFilter(targets=("Ann",))) == {"fact personal Ann", "fact tool Ann"}
        assert await listed(store, MemoryFilter(types=tool, targets=("Ann", "x"))) == {"fact tool Ann"}
        assert await listed(store, MemoryFilter(types=tool, targets=("ann",))) == set()
        assert len(await listed(store, MemoryFilter(types=personal + tool))) == 3

    async def test_one_of_no_types_or_targets_is_nothing(self, store: Store) -> None:
        await add(store, fact("one"))
        assert await listed(store, MemoryFilter(types=())) == set()
        assert await listed(store, MemoryFilter(targets=())) == set()
        assert await listed(store, MemoryFilter(targets=("*", "", "%"))) == set()

    async def test_what_a_replacement_closed_held_from_its_start_and_before_its_end(self, store: Store) -> None:
        past, now = fact("past", minute=10), fact("now", minute=20)
        await add(store, past, now)
        await add(store, closed(past.memory, minute=20, by=now.memory.memory_id))
        expected = {9: set(), 10: {"fact past"}, 19.9: {"fact past"}, 20: {"fact now"}, 99999: {"fact now"}}
        for minute, contents in expected.items():
            assert await listed(store, MemoryFilter(as_of=at(minute))) == contents
        assert await listed(store, MemoryFilter()) == {"fact now"}
        assert await listed(store, MemoryFilter(include_superseded=True)) == {"fact past", "fact now"}

    async def test_what_is_over_and_what_lies_ahead_are_found_like_what_holds(self, store: Store) -> None:
        times = {"over": (-20, -10), "running": (-20, 10), "ahead": (10, 20), "endless": (-5, None), "moment": (0, 0)}
        for name, (begins, ends) in times.items():
            item = lasting(memory(f"fact {name}"), minute=begins, until=ends)
            await add(store, PutMemory(memory=item, vector=leaning(0.5)))
        everything = {f"fact {name}" for name in times}
        assert await listed(store, MemoryFilter()) == everything
        assert await listed(store, MemoryFilter(include_superseded=True)) == everything
        assert await listed(store, MemoryFilter(as_of=at(-20))) == {"fact over", "fact running"}
        assert await listed(store, MemoryFilter(as_of=at(-10))) == {"fact running"}
        assert await listed(store, MemoryFilter(as_of=at(0))) == {"fact running", "fact endless"}
        assert await listed(store, MemoryFilter(as_of=at(15))) == {"fact ahead", "fact endless"}
        assert await listed(store, MemoryFilter(as_of=at(99))) == {"fact endless"}

    async def test_what_was_replaced_is_not_found_however_long_its_own_time_lasts(self, store: Store) -> None:
        for name, end in (("planned", 9e6), ("over", -5)):
            item = changed(memory(f"fact {name}", minute=-9), {"valid_to": at(end), "superseded_by": "another"})
            await add(store, PutMemory(memory=item, vector=leaning(0.5)))
        nobody_knows_when = changed(memory("fact gone", minute=-9), {"superseded_by": "another"})
        await add(store, PutMemory(memory=nobody_knows_when, vector=leaning(0.5)))
        assert await listed(store, MemoryFilter()) == set()
        assert await listed(store, MemoryFilter(as_of=at(-6))) == {"fact planned", "fact over"}
        assert await listed(store, MemoryFilter(as_of=at(1))) == {"fact planned"}
        assert len(await listed(store, MemoryFilter(include_superseded=True))) == 3

    async def test_validity_is_told_apart_to_the_microsecond(self, store: Store) -> None:
        microsecond = 1e-6 / 60
        await add(store, fact("late", minute=microsecond))
        assert await listed(store, MemoryFilter(as_of=at(0))) == set()
        assert await listed(store, MemoryFilter(as_of=at(microsecond))) == {"fact late"}

    async def test_asking_for_a_time_and_for_all_is_refused(self, store: Store) -> None:
        wanted = MemoryFilter(as_of=at(0), include_superseded=True)
        with pytest.raises((InvalidInputError, UnsupportedFilterError)):
            await store.list_memories(ALICE, ListMemories(filter=wanted))
        with pytest.raises((InvalidInputError, UnsupportedFilterError)):
            await store.search(ALICE, MemorySearch(text="fact", filter=wanted))

    async def test_observation_times_include_the_start_and_not_the_end(self, store: Store) -> None:
        for minute in (0, 10, 20):
            item = changed(memory(f"fact {minute}", minute=500), {"observed_at": at(minute), "valid_from": at(-9)})
            await add(store, PutMemory(memory=item, vector=leaning(0.5)))
        assert await listed(store, MemoryFilter(observed_from=at(10))) == {"fact 10", "fact 20"}
        assert await listed(store, MemoryFilter(observed_to=at(10))) == {"fact 0"}
        assert await listed(store, MemoryFilter(observed_from=at(0), observed_to=at(20))) == {"fact 0", "fact 10"}
        assert await listed(store, MemoryFilter(observed_from=at(10), observed_to=at(10))) == set()

    async def test_a_memory_is_of_the_times_in_which_it_was_said_or_held_for_a_time(self, store: Store) -> None:
        times = {"said": (25, 1, None), "begun": (99, 25, None), "over": (99, 1, 22), "during": (99, 1, 90)}
        elsewhere = {"before": (10, 10, None), "ended": (99, 1, 20), "lasting": (5, 5, None), "later": (40, 30, None)}
        for name, (said, begun, ended) in (times | elsewhere).items():
            fields = {
                "observed_at": at(said),
                "valid_from": at(begun),
                "valid_to": None if ended is None else at(ended),
            }
            item = changed(memory(f"fact {name}", minute=500), fields)
            await add(store, PutMemory(memory=item, vector=leaning(0.5)))
        every = MemoryFilter(include_superseded=True)
        found = await listed(store, replace(every, during_from=at(20), during_to=at(30)))
        assert found == {f"fact {name}" for name in times}
        said_late = {"fact begun", "fact over", "fact during", "fact ended"}
        assert await listed(store, replace(every, during_from=at(91))) == said_late
        assert "fact later" not in await listed(store, replace(every, during_to=at(30)))
        assert await listed(store, replace(every, during_to=at(1))) == set()

    async def test_metadata_is_compared_by_value_and_type(self, store: Store) -> None:
        values: dict[str, JsonValue] = {
            "true": True,
            "one": 1,
            "text one": "1",
            "text true": "true",
            "false": False,
            "zero": 0,
            "empty": "",
            "null": None,
            "text null": "null",
            "big": 2**53 + 1,
            "half": 0.5,
            "list": [1],
            "object": {"a": 1},
        }
        await add(store, *(fact(name, metadata={"k": value}) for name, value in values.items()), fact("none"))
        asked: tuple[tuple[Scalar, set[str]], ...] = (
            (True, {"true"}),
            (1, {"one"}),
            (1.0, {"one"}),
            ("1", {"text one"}),
            ("true", {"text true"}),
            ("True", set()),
            (False, {"false"}),
            (0, {"zero"}),
            (-0.0, {"zero"}),
            ("", {"empty"}),
            (None, {"null"}),
            ("null", {"text null"}),
            (2**53 + 1, {"big"}),
            (2**53, set()),
            (0.5, {"half"}),
            ("[1]", set()),
            ("*", set()),
            ("%", set()),
        )
        for value, names in asked:
            assert await listed(store, MemoryFilter(metadata={"k": value})) == {f"fact {name}" for name in names}

    async def test_a_stored_float_equals_the_whole_number(self, store: Store) -> None:
        await add(store, fact("float", metadata={"k": 1.0}), fact("other", metadata={"k": 1.5}))
        assert await listed(store, MemoryFilter(metadata={"k": 1})) == {"fact float"}

    async def test_metadata_keys_are_names_and_not_paths(self, store: Store) -> None:
        keys = ["a.b", "a", "", "a b", '"a"', "a[]", "a[0]", "*", "$ne", "ключ", "K", "k", "a\\b", "a'b", "user_id"]
        await add(store, *(fact(f"{n}", metadata={key: "v"}) for n, key in enumerate(keys)))
        await add(store, fact("nested", metadata={"a": {"b": "v"}}))
        for n, key in enumerate(keys):
            assert await listed(store, MemoryFilter(metadata={key: "v"})) == {f"fact {n}"}

    async def test_all_metadata_conditions_hold_together(self, store: Store) -> None:
        await add(store, fact("both", metadata={"a": 1, "b": "x"}), fact("one", metadata={"a": 1, "b": "y"}))
        assert await listed(store, MemoryFilter(metadata={"a": 1, "b": "x"})) == {"fact both"}
        assert await listed(store, MemoryFilter(metadata={"a": 1})) == {"fact both", "fact one"}
        assert await listed(store, MemoryFilter(metadata={"a": 1, "missing": None})) == set()

    @pytest.mark.parametrize("operand", [{"$ne": 1}, {}, [1], [], (1,), {1}, b"1", at(0), 1j])
    async def test_an_operand_that_is_no_scalar_is_refused(self, store: Store, operand: object) -> None:
        await add(store, fact("one", metadata={"k": 1}))
        wanted = MemoryFilter(metadata={"k": operand})  # type: ignore[dict-item]  # wrong on purpose
        with pytest.raises(UnsupportedFilterError):
            await store.list_memories(ALICE, ListMemories(filter=wanted))
        with pytest.raises(UnsupportedFilterError):
            await store.search(ALICE, MemorySearch(text="fact", vector=axis(0), filter=wanted))

    async def test_a_keyword_filter_wants_every_word(self, store: Store) -> None:
        await add(store, fact("She sold her red bicycle"), fact("her bicycle is blue"), fact("她喜欢打网球"))
        assert await listed(store, MemoryFilter(keyword="BICYCLES")) == {
            "fact She sold her red bicycle",
            "fact her bicycle is blue",
        }
        assert await listed(store, MemoryFilter(keyword="red bicycle")) == {"fact She sold her red bicycle"}
        assert await listed(store, MemoryFilter(keyword="red blue")) == set()
        assert await listed(store, MemoryFilter(keyword="网球")) == {"fact 她喜欢打网球"}

    @pytest.mark.parametrize("keyword", ["the", "🎉", "?", "*", "%"])
    async def test_a_keyword_without_words_never_widens_the_search(self, store: Store, keyword: str) -> None:
        await add(store, fact("zebra"))
        try:
            found = await listed(store, MemoryFilter(keyword=keyword))
        except (InvalidInputError, UnsupportedFilterError):
            return
        assert found == set()

    async def test_filters_apply_before_the_limit(self, store: Store) -> None:
        for n in range(40):
            await add(store, PutMemory(memory=memory(f"fact noise {n}", minute=n), vector=leaning(0.9)))
        wanted = memory("fact and a long tail of words that make it rank low", target="rare", minute=-5)
        await add(store, PutMemory(memory=wanted, vector=leaning(-0.9)))
        rare = MemoryFilter(targets=("rare",))
        for search in (
            MemorySearch(vector=axis(0), limit=1, filter=rare),
            MemorySearch(text="fact", limit=1, filter=rare),
            MemorySearch(text="fact", vector=axis(0), limit=1, filter=rare),
        ):
            assert await found_contents(store, search) == [wanted.content]
        page = await store.list_memories(ALICE, ListMemories(filter=rare, limit=1))
        assert [item.content for item in page.memories] == [wanted.content]


class MemoryPages:
    """Listing in pages."""

    @pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 12, 13, 100])
    async def test_pages_of_any_size_partition_the_list(self, store: Store, size: int) -> None:
        items = [memory(f"fact {n}", memory_id=f"id {n * 7 % 13:02}", minute=n // 4) for n in range(13)]
        await add(store, *items)
        wanted = sorted(items, key=lambda item: (-item.created_at.timestamp(), item.memory_id))
        pages = await self._pages(store, ListMemories(limit=size))
        assert [item for page in pages for item in page] == wanted
        assert all(len(page) == size for page in pages[:-1])

    async def test_pages_keep_to_the_filter(self, store: Store) -> None:
        await add(store, *(memory(f"fact {n}", minute=n, target="ab"[n % 2]) for n in range(9)))
        pages = await self._pages(store, ListMemories(filter=MemoryFilter(targets=("a",)), limit=2))
        assert [item.content for page in pages for item in page] == ["fact 8", "fact 6", "fact 4", "fact 2", "fact 0"]

    async def test_a_page_goes_on_where_the_last_one_ended_though_others_were_added(self, store: Store) -> None:
        await add(store, *(memory(f"fact {n}", minute=n) for n in range(4)))
        first = await store.list_memories(ALICE, ListMemories(limit=2))
        await add(store, memory("newer", minute=99))
        second = await store.list_memories(ALICE, ListMemories(limit=2, cursor=first.next_cursor))
        assert [item.content for item in second.memories] == ["fact 1", "fact 0"]

    async def test_creation_times_are_ordered_to_the_microsecond(self, store: Store) -> None:
        microsecond = 1e-6 / 60
        await add(store, *(memory(f"fact {n}", minute=n * microsecond) for n in (2, 0, 3, 1)))
        pages = await self._pages(store, ListMemories(limit=1))
        assert [page[0].content for page in pages] == ["fact 3", "fact 2", "fact 1", "fact 0"]

    @pytest.mark.parametrize("cursor", ["", "x", "0", "1", "-1", "*", "{}", "[]", "null", "e30=", "é", "' OR 1=1 --"])
    async def test_a_cursor_that_is_not_ours_is_refused(self, store: Store, cursor: str) -> None:
        await add(store, memory("fact"))
        with pytest.raises(InvalidInputError):
            await store.list_memories(ALICE, ListMemories(cursor=cursor))

    async def test_a_cursor_cut_short_is_refused_or_stays_inside_the_list(self, store: Store) -> None:
        items = await add(store, *(memory(f"fact {n}", minute=n) for n in range(4)))
        cursor = (await store.list_memories(ALICE, ListMemories(limit=2))).next_cursor
        assert cursor is not None
        for broken in (cursor[:-1], cursor[1:], cursor + "A", cursor[::-1]):
            with suppress(InvalidInputError):
                page = await store.list_memories(ALICE, ListMemories(limit=2, cursor=broken))
                assert {item.memory_id for item in page.memories} <= {item.memory_id for item in items}

    @staticmethod
    async def _pages(store: Store, query: ListMemories) -> list[tuple[Memory, ...]]:
        pages, cursor = [], query.cursor
        while True:
            asked = ListMemories(filter=query.filter, limit=query.limit, cursor=cursor)
            page = await store.list_memories(ALICE, asked)
            pages.append(page.memories)
            cursor = page.next_cursor
            if cursor is None:
                return pages
