"""The contract of `MemoryIndex` as a pytest class: who writes an index subclasses it, and gives the fixture `index`.

The index is empty, takes vectors of `DIMENSION`, and is opened for each test anew.
"""

from __future__ import annotations

import pytest

from reme_core.errors import DimensionMismatchError, InvalidInputError, StoreClosedError, UnsupportedFilterError
from reme_core.ports import (
    DeleteEntries,
    IndexEntry,
    MemoryFilter,
    MemoryIndex,
    MemorySearch,
    Scalar,
    UpsertEntries,
    Vector,
)
from reme_core.schema import Memory, MemoryType, Scope
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    DIMENSION,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    axis,
    closed,
    leaning,
    memory,
)

OTHERS = (BOB, SHARED, ELSEWHERE, *LOOKALIKES)


def entry(content: str, *, vector: Vector | None = None, key: str = "", value: Memory | None = None) -> IndexEntry:
    """Build an entry whose key and id are its content, unless told otherwise."""
    return IndexEntry(key=key or content, memory=value or memory(content, memory_id=content), vector=vector)


async def upsert(index: MemoryIndex, *entries: IndexEntry, scope: Scope = ALICE, position: str = "1") -> None:
    """Write entries."""
    await index.upsert(scope, UpsertEntries(entries=entries, position=position))


async def found(index: MemoryIndex, search: MemorySearch, scope: Scope = ALICE) -> list[str]:
    """Return the ids of what is found."""
    return [hit.memory_id for hit in await index.search(scope, search)]


@pytest.mark.asyncio
class MemoryIndexContract:
    """Everything that `reme_core.ports.MemoryIndex` promises."""

    @pytest.fixture
    def index(self) -> MemoryIndex:
        """Give the index to be tested."""
        raise NotImplementedError

    async def test_the_nearest_comes_first_and_its_score_is_the_cosine(self, index: MemoryIndex) -> None:
        """By vector alone."""
        await upsert(index, entry("near", vector=leaning(0.9)), entry("far", vector=leaning(0.2)), entry("none"))
        hits = await index.search(ALICE, MemorySearch(vector=axis(0)))
        assert [hit.memory_id for hit in hits] == ["near", "far"]
        assert hits[0].score == pytest.approx(0.9, abs=1e-3)
        assert await found(index, MemorySearch(vector=axis(0), min_score=0.5)) == ["near"]
        assert await found(index, MemorySearch(vector=axis(0), limit=1)) == ["near"]

    @pytest.mark.parametrize(("text", "query"), [("Ann likes tea", "tea"), ("她喜欢在周末打网球", "网球")])
    async def test_words_find_what_holds_them(self, index: MemoryIndex, text: str, query: str) -> None:
        """In the languages of the store."""
        await upsert(index, entry(text), entry("a boat in the harbour"))
        assert await found(index, MemorySearch(text=query)) == [text]

    async def test_an_entry_is_replaced_by_its_key(self, index: MemoryIndex) -> None:
        """Text and vector are the new ones."""
        await upsert(index, entry("old", key="1", vector=axis(0)))
        await upsert(index, entry("new", key="1", vector=axis(1)))
        assert await found(index, MemorySearch(text="old")) == []
        assert await found(index, MemorySearch(vector=axis(1))) == ["new"]

    async def test_what_is_deleted_is_found_no_more(self, index: MemoryIndex) -> None:
        """By key; an unknown key harms nothing."""
        await upsert(index, entry("one fact"), entry("another fact"), position="2")
        await index.delete(ALICE, DeleteEntries(keys=("one fact", "unknown")))
        assert await found(index, MemorySearch(text="fact")) == ["another fact"]
        assert await index.count(ALICE) == 1
        assert await index.find_position(ALICE) == "2"

    async def test_deleting_a_scope_leaves_nothing_and_no_position(self, index: MemoryIndex) -> None:
        """The others stay."""
        await upsert(index, entry("fact"))
        await upsert(index, entry("fact"), scope=BOB)
        await index.delete(ALICE, DeleteEntries())
        assert await found(index, MemorySearch(text="fact")) == []
        assert (await index.count(ALICE), await index.count(BOB)) == (0, 1)
        assert (await index.find_position(ALICE), await index.find_position(BOB)) == (None, "1")
        assert await found(index, MemorySearch(text="fact"), BOB) == ["fact"]

    async def test_the_position_is_that_of_the_last_write(self, index: MemoryIndex) -> None:
        """A write without entries moves it, too."""
        assert await index.find_position(ALICE) is None
        await upsert(index, entry("fact"), position="1")
        await upsert(index, position="2")
        assert await index.find_position(ALICE) == "2"

    async def test_a_scope_sees_and_touches_nothing_of_another(self, index: MemoryIndex) -> None:
        """Not even under the same key."""
        await upsert(index, entry("fact", vector=axis(0)))
        for scope in OTHERS:
            for search in (MemorySearch(text="fact"), MemorySearch(vector=axis(0))):
                assert await found(index, search, scope) == [], scope
            assert (await index.count(scope), await index.find_position(scope)) == (0, None), scope
            await index.delete(scope, DeleteEntries(keys=("fact",)))
            await index.delete(scope, DeleteEntries())
            assert await found(index, MemorySearch(text="fact")) == ["fact"], scope

    async def test_filters_apply_before_the_limit(self, index: MemoryIndex) -> None:
        """Type, target, metadata and currency."""
        best = memory("best", memory_id="best", metadata={"n": 1})
        tool = memory("tool", memory_id="tool", memory_type=MemoryType.TOOL, target="search")
        gone = closed(memory("gone", memory_id="gone"), minute=5)
        await upsert(
            index,
            entry("best", value=best, vector=leaning(0.5)),
            entry("tool", value=tool, vector=leaning(0.7)),
            entry("gone", value=gone, vector=leaning(0.9)),
        )

        async def within(**wanted: object) -> list[str]:
            return await found(index, MemorySearch(vector=axis(0), limit=1, filter=MemoryFilter(**wanted)))  # type: ignore[arg-type]

        assert await within() == ["tool"]
        assert await within(types=(MemoryType.PERSONAL,)) == ["best"]
        assert await within(targets=("search",)) == ["tool"]
        assert await within(metadata={"n": 1.0}) == ["best"]
        assert await within(metadata={"n": True}) == []
        assert await within(include_superseded=True) == ["gone"]
        assert await within(types=()) == []

    async def test_what_cant_be_honoured_is_refused(self, index: MemoryIndex) -> None:
        """Never dropped; a vector of another length, too."""
        nested: dict[str, Scalar] = {"a": {"$ne": 1}}  # type: ignore[dict-item]
        with pytest.raises(UnsupportedFilterError):
            await index.search(ALICE, MemorySearch(text="fact", filter=MemoryFilter(metadata=nested)))
        with pytest.raises(InvalidInputError):
            await index.search(ALICE, MemorySearch(text="  "))
        with pytest.raises(DimensionMismatchError):
            await index.search(ALICE, MemorySearch(vector=axis(0, dimension=DIMENSION + 1)))
        with pytest.raises(DimensionMismatchError):
            await upsert(index, entry("fact", vector=axis(0, dimension=DIMENSION + 1)))

    async def test_every_call_after_closing_says_that_it_is_closed(self, index: MemoryIndex) -> None:
        """Closing twice is harmless."""
        await upsert(index, entry("fact"))
        await index.close()
        await index.close()
        with pytest.raises(StoreClosedError):
            await index.find_position(ALICE)
        with pytest.raises(StoreClosedError):
            await index.count(ALICE)
        with pytest.raises(StoreClosedError):
            await upsert(index, entry("fact"))
        with pytest.raises(StoreClosedError):
            await index.delete(ALICE, DeleteEntries())
        with pytest.raises(StoreClosedError):
            await index.search(ALICE, MemorySearch(text="fact"))
