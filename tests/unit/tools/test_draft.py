"""A draft shows changes before they are written, and its batch writes them as if they had been made one by one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    StoreError,
    UnsupportedFilterError,
)
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    Store,
    Uselessness,
    UseMemory,
    WriteBatch,
)
from reme_core.schema import Memory, MemoryPage, Scope
from reme_core.steps.similar_memories import certain_words
from reme_core.steps.targets import all_memories
from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE, BOB, NOW, at, axis, leaning
from reme_core.text import normalise_content, query_terms, terms
from reme_core.tools import DraftStore
from tests.support.temporary_store import TemporaryStore
from tests.support.toolbox import EMMA, NOAH, held

ALL = MemoryFilter(include_superseded=True)


def write(*puts: Memory | PutMemory, deletes: tuple[str, ...] = ()) -> WriteBatch:
    wrapped = [item if isinstance(item, PutMemory) else PutMemory(memory=item) for item in puts]
    return WriteBatch(puts=wrapped, deletes=[DeleteMemory(memory_id=name) for name in deletes], run_id="r", at=NOW)


def batch_of(draft: DraftStore) -> WriteBatch:
    return draft.batch(reason="run", run_id="run-1", actor="agent", at=at(1))


def same(memory: Memory, **changes: Any) -> Memory:
    return Memory.model_validate({**memory.model_dump(), **changes})


async def test_a_draft_lists_events_by_memory_and_run_alone(store: LocalStore) -> None:
    with pytest.raises(UnsupportedFilterError, match="ask the store itself"):
        await DraftStore(store).events(ALICE, EventQuery(take="last"))


async def test_reads_show_the_changes_and_the_store_does_not(store: LocalStore) -> None:
    draft = DraftStore(store)
    [emma, noah] = await store.get(ALICE, ["emma-1", "noah-1"])
    new = held("new-1", "Emma drinks tea.")
    await draft.put(ALICE, write(same(emma, content="Emma lives in Lisbon."), new, deletes=("noah-1",)))
    [changed, added] = await draft.get(ALICE, ["emma-1", "new-1"])
    assert (changed.content, changed.revision, added.revision) == ("Emma lives in Lisbon.", 2, 1)
    with pytest.raises(MemoryNotFoundError) as caught:
        await draft.get(ALICE, ["emma-1", "noah-1", "nothing"])
    assert caught.value.missing == ("noah-1", "nothing")
    assert {item.content for item in await all_memories(draft, ALICE, ALL)} == {changed.content, added.content}
    found = await draft.search(ALICE, MemorySearch(text="Lisbon tea cello"))
    assert [item.memory.memory_id for item in found] == ["emma-1", "new-1"]
    assert await draft.search(ALICE, MemorySearch(text="Berlin")) == []
    assert isinstance(draft, Store)
    assert await draft.count_targets(ALICE) == {EMMA: 2}
    assert [event.operation for event in await draft.events(ALICE, EventQuery(run_id="r"))] == [
        "delete",
        "update",
        "add",
    ]
    assert await store.get(ALICE, ["emma-1", "noah-1"]) == [emma, noah]
    assert [item.memory.memory_id for item in await draft.search(BOB, MemorySearch(text="cello"))] == ["noah-1"]


async def test_the_batch_writes_the_net_effect_with_the_revisions_read(store: LocalStore) -> None:
    draft = DraftStore(store)
    assert draft.is_empty
    [emma] = await store.get(ALICE, ["emma-1"])
    await draft.put(ALICE, write(held("brief", "Emma waits."), same(emma, content="a")))
    await draft.put(ALICE, write(same(emma, content="b"), held("new-1", "Emma sings."), deletes=("brief",)))
    batch = batch_of(draft)
    assert [(put.memory.memory_id, put.expected_revision) for put in batch.puts] == [("emma-1", 1), ("new-1", 0)]
    assert batch.deletes == []
    assert (batch.reason, batch.run_id, batch.actor, batch.at) == ("run", "run-1", "agent", at(1))
    await store.put(ALICE, batch)
    [stored] = await store.get(ALICE, ["emma-1"])
    assert (stored.content, stored.revision) == ("b", 2)


async def test_the_batch_keeps_the_condition_of_a_delete_and_the_reasons_of_changes(store: LocalStore) -> None:
    draft = DraftStore(store)
    limits = Uselessness(min_freq=5, max_utility=0.5)
    used = held("used", "Emma waits.", freq=5)
    [emma, *_] = await store.put(ALICE, write(same((await store.get(ALICE, ["emma-1"]))[0], content="a"), used))
    gone = DeleteMemory(memory_id="used", only_if_useless=limits, reason="in vain")
    refused = DeleteMemory(memory_id="emma-1", only_if_useless=limits)
    with pytest.raises(ConflictError):
        await draft.put(ALICE, WriteBatch(deletes=[gone, refused], at=NOW))
    changed = PutMemory(memory=same(emma, content="b"), reason="of its own")
    await draft.put(ALICE, WriteBatch(puts=[changed], deletes=[gone], reason="of all", run_id="mine", at=NOW))
    told = await draft.events(ALICE, EventQuery(run_id="mine"))
    assert [event.reason for event in told] == ["in vain", "of its own"]
    batch = batch_of(draft)
    assert [(item.only_if_useless, item.reason) for item in batch.deletes] == [(limits, "in vain")]
    assert [put.reason for put in batch.puts] == ["of its own"]
    await store.record_uses(ALICE, [UseMemory(memory_id="used", uses=1, helpful=5)])
    with pytest.raises(ConflictError, match="used"):
        await store.put(ALICE, batch)


async def test_what_was_added_and_deleted_leaves_an_empty_draft(store: LocalStore) -> None:
    draft = DraftStore(store)
    [emma] = await store.get(ALICE, ["emma-1"])
    await draft.put(ALICE, write(held("brief", "Emma waits.")))
    await draft.put(ALICE, write(same(emma, content="a"), deletes=("brief",)))
    await draft.put(ALICE, write(same(emma, updated_at=at(5))))
    assert draft.is_empty
    assert batch_of(draft).puts == []


async def test_a_closing_comes_before_the_memory_that_takes_its_text(store: LocalStore) -> None:
    draft = DraftStore(store)
    [emma] = await store.get(ALICE, ["emma-1"])
    await draft.put(ALICE, write(held("later", "Emma waits.")))
    await draft.put(ALICE, write(same(emma, valid_to=at(2), superseded_by="again"), held("again", emma.content)))
    puts = batch_of(draft).puts
    assert [put.memory.memory_id for put in puts] == ["emma-1", "later", "again"]
    assert [put.on_duplicate for put in puts] == ["existing", "existing", "raise"]
    await store.put(ALICE, batch_of(draft))


async def test_texts_that_change_places_are_written(store: LocalStore) -> None:
    [emma] = await store.get(ALICE, ["emma-1"])
    other = held("emma-2", "Emma sings.")
    await store.put(ALICE, write(other))
    draft = DraftStore(store)
    await draft.put(ALICE, write(same(emma, content="between")))
    await draft.put(ALICE, write(same(other, content=emma.content)))
    await draft.put(ALICE, write(same(emma, content=other.content)))
    await store.put(ALICE, batch_of(draft))
    [first, second] = await store.get(ALICE, ["emma-1", "emma-2"])
    assert (first.content, second.content) == ("Emma sings.", "Emma lives in Berlin.")
    assert first.is_current


async def test_a_repetition_is_answered_with_the_memory_that_is_there(store: LocalStore) -> None:
    draft = DraftStore(store)
    [there] = await draft.put(ALICE, write(held("new-1", "emma lives in BERLIN")))
    assert there.memory_id == "emma-1"
    [first] = await draft.put(ALICE, write(held("new-2", "Emma sings.")))
    [again] = await draft.put(ALICE, write(held("new-3", "emma sings")))
    assert first.memory_id == again.memory_id == "new-2"
    with pytest.raises(ConflictError, match="new-2"):
        await draft.put(ALICE, write(PutMemory(memory=held("new-4", "emma sings"), on_duplicate="raise")))
    with pytest.raises(ConflictError):
        await draft.put(ALICE, write(PutMemory(memory=held("new-5", "Emma runs."), expected_revision=3)))
    with pytest.raises(MemoryNotFoundError):
        await draft.put(ALICE, write(held("new-6", "Emma swims."), deletes=("nothing",)))
    assert len(draft.changes) == 1


async def test_a_change_by_somebody_else_meanwhile_is_a_conflict(store: LocalStore) -> None:
    draft = DraftStore(store)
    [emma] = await store.get(ALICE, ["emma-1"])
    await draft.put(ALICE, write(same(emma, content="a")))
    await store.put(ALICE, write(same(emma, content="b")))
    with pytest.raises(ConflictError):
        await store.put(ALICE, batch_of(draft))


async def test_a_draft_is_for_one_scope(store: LocalStore) -> None:
    draft = DraftStore(store)
    await draft.put(ALICE, write(held("new-1", "Emma sings.")))
    with pytest.raises(InvalidInputError, match="one for each scope"):
        await draft.put(BOB, write(held("new-2", "Emma sings.", scope=BOB)))
    with pytest.raises(InvalidInputError):
        await draft.put(ALICE, write(held("new-2", "Emma sings.", scope=BOB)))
    with pytest.raises(ConfigurationError, match="can't erase"):
        await draft.erase(ALICE)
    await draft.close()
    assert await store.get(ALICE, ["emma-1"])


async def test_a_draft_over_a_draft_ends_up_in_it(store: LocalStore) -> None:
    outer = DraftStore(store)
    inner = DraftStore(outer)
    [emma] = await store.get(ALICE, ["emma-1"])
    await outer.put(ALICE, write(same(emma, content="a")))
    await inner.put(ALICE, write(same(emma, content="b"), held("new-1", "Emma sings.")))
    assert {item.content for item in await all_memories(outer, ALICE, ALL)} == {"a", "Noah plays the cello."}
    await outer.put(ALICE, batch_of(inner))
    await store.put(ALICE, batch_of(outer))
    assert {item.content for item in await all_memories(store, ALICE, ALL)} == {
        "b",
        "Emma sings.",
        "Noah plays the cello.",
    }


async def test_tasks_that_add_the_same_at_once_make_one_memory(store: LocalStore) -> None:
    draft = DraftStore(store)
    async with asyncio.TaskGroup() as group:
        for place in range(20):
            group.create_task(draft.put(ALICE, write(held(f"new-{place}", "Emma sings."))))
    assert len(draft.changes) == 1


async def test_vectors_rank_what_the_draft_has_added() -> None:
    store = TemporaryStore()
    near, far = held("near", "one"), held("far", "two")
    await store.put(ALICE, write(PutMemory(memory=far, vector=leaning(0.2))))
    draft = DraftStore(store)
    await draft.put(ALICE, write(PutMemory(memory=near, vector=leaning(0.9)), held("bare", "three")))
    found = await draft.search(ALICE, MemorySearch(vector=axis(0), limit=5))
    assert [item.memory.memory_id for item in found] == ["near", "far"]
    assert found[0].score == pytest.approx(0.9, abs=1e-5)
    assert len(await draft.search(ALICE, MemorySearch(vector=axis(0), limit=1))) == 1
    assert len(await draft.search(ALICE, MemorySearch(vector=axis(0), min_score=0.5))) == 1
    [words] = await draft.search(ALICE, MemorySearch(text="three four"))
    assert (words.memory.memory_id, words.score) == ("bare", 0.5)
    await draft.put(ALICE, write(same(far, metadata={"a": 1})))  # the vector stays below, and so does the score
    [kept] = await draft.search(ALICE, MemorySearch(vector=axis(0), filter=MemoryFilter(metadata={"a": 1}))) or [None]
    assert kept is None or kept.score == pytest.approx(0.2, abs=1e-5)
    with pytest.raises(StoreError):
        await draft.search(ALICE, MemorySearch(vector=axis(0, dimension=9)))


async def test_pages_of_a_draft_partition_it(store: LocalStore) -> None:
    draft = DraftStore(store)
    for place in range(7):
        await draft.put(ALICE, write(held(f"new-{place}", f"Emma has {place} cats.", created_at=at(place % 3))))
    seen: list[str] = []
    cursor = None
    while True:
        page = await draft.list_memories(ALICE, ListMemories(limit=2, cursor=cursor))
        seen += [item.memory_id for item in page.memories]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 9
    assert seen == [item.memory_id for item in await all_memories(draft, ALICE, MemoryFilter())]
    for wrong in (
        "x",
        "2026-01-01 ",
        "",
        "5",
        "[]",
        '["2026-01-01", "", null]',
        '["2026-01-01", "a", "x"]',
        "[" * 99999,
    ):
        with pytest.raises(InvalidInputError):
            await draft.list_memories(ALICE, ListMemories(cursor=wrong))
    for call in (
        draft.list_memories(ALICE, ListMemories(limit=0)),
        draft.search(ALICE, MemorySearch(text="x", limit=0)),
    ):
        with pytest.raises(InvalidInputError):
            await call


class Counting(TemporaryStore):
    """Counts the memories that are read from it."""

    read = 0

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        page = await super().list_memories(scope, query)
        self.read += len(page.memories)
        return page


async def filled(count: int, text: str = "Emma has thing number {}") -> Counting:
    store = Counting()
    many = [held(f"m-{place:05}", text.format(place), created_at=at(place % 60)) for place in range(count)]
    await store.put(ALICE, write(*many))
    return store


async def test_a_draft_reads_the_store_below_about_once_however_deep_it_lies() -> None:
    store = await filled(2000)
    outer = DraftStore(store)
    inner = DraftStore(outer)
    assert len(await all_memories(inner, ALICE, ALL)) == 2000
    assert store.read == 2000
    await outer.put(ALICE, write(held("new-1", "Emma sings.", created_at=at(7)), deletes=("m-00001",)))
    await inner.put(ALICE, write(held("new-2", "Emma runs.", created_at=at(9))))
    store.read = 0
    assert len(await all_memories(inner, ALICE, ALL)) == 2001
    assert store.read <= 4 * 2000


async def test_writing_to_a_draft_does_not_read_its_target() -> None:
    store = await filled(2000)
    outer = DraftStore(store)
    inner = DraftStore(outer)
    [there] = await inner.put(ALICE, write(held("new-1", " emma has THING number 77!")))
    assert there.memory_id == "m-00077"
    await inner.put(ALICE, write(held("new-2", "Emma drinks tea."), same(there, content="Emma has a cello.")))
    await outer.put(ALICE, batch_of(inner))
    assert store.read < 20


async def test_a_text_without_any_certain_word_is_compared_with_the_target() -> None:
    store = await filled(50, "the {}s, and ours")
    draft = DraftStore(store)
    [there] = await draft.put(ALICE, write(held("new-1", "THE 7S, and ours?")))
    assert there.memory_id == "m-00007"
    assert store.read == 50


async def test_where_a_store_has_no_words_the_target_is_read() -> None:
    class Wordless(TemporaryStore):
        async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
            if query.filter.keyword is not None:
                msg = "no words here"
                raise UnsupportedFilterError(msg)
            return await super().list_memories(scope, query)

    store = Wordless()
    await store.put(ALICE, write(held("m-1", "Emma has a cello.")))
    [there] = await DraftStore(store).put(ALICE, write(held("new-1", "emma has a cello")))
    assert there.memory_id == "m-1"


PIECES = st.sampled_from(
    ["Emma", "doGs", "dogs", "tea", "THE", "Straße", "strasse", "7Kind", "ﬁn", "Ａ", "é", "ς", "ТЕСТ", "שלום", "سلام",
     "茶", "北京", "か", "゛", "ｶﾞ", " ", "´", "`", "’", "'", "-", "_", "/", "@", ".", ",", "\u0301", "\u3099", "\n"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=20)))
def test_every_spelling_of_a_text_has_its_certain_words(text: str) -> None:
    assert set(query_terms(certain_words(normalise_content(text)))) <= set(terms(text))


@pytest.mark.parametrize("text", ["Emma plays the cello.", "她住在柏林，喜欢喝茶。", "Алиса пьёт чай"])
def test_ordinary_sentences_have_certain_words(text: str) -> None:
    assert certain_words(normalise_content(text))


IDS, TEXTS = st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["one", "One!", "two", "three", "four"])
TIMES = st.sampled_from(
    [
        {},
        {"superseded_by": "another"},
        {"valid_to": NOW + timedelta(days=1)},
        {"valid_from": NOW - timedelta(days=9), "valid_to": NOW - timedelta(days=8)},
        {"valid_from": NOW + timedelta(days=8), "valid_to": NOW + timedelta(days=9)},
    ]
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), IDS, TEXTS, st.sampled_from([EMMA, NOAH]), TIMES, st.booleans()),
        st.tuples(st.just("delete"), IDS),
    ),
    max_size=14,
)


def as_batch(step: tuple[Any, ...]) -> WriteBatch:
    if step[0] == "delete":
        return write(deletes=(step[1],))
    _, memory_id, text, target, times, vector = step
    memory = held(memory_id, text, target, **times)
    return write(PutMemory(memory=memory, vector=axis(len(text)) if vector else None))


async def contents(store: TemporaryStore | DraftStore) -> list[tuple[object, ...]]:
    return sorted(
        (item.memory_id, item.content, item.memory_target, item.valid_to, item.superseded_by or "")
        for item in await all_memories(store, ALICE, ALL)
    )


async def pages_of(store: DraftStore, limit: int) -> list[MemoryPage]:
    pages: list[MemoryPage] = []
    while not pages or pages[-1].next_cursor is not None:
        cursor = pages[-1].next_cursor if pages else None
        pages.append(await store.list_memories(ALICE, ListMemories(filter=ALL, limit=limit, cursor=cursor)))
    return pages


places = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 5)), max_size=20)


@settings(max_examples=40, deadline=None)
@given(below=places, between=places, above=places, gone=st.sets(st.integers(0, 15)), limit=st.integers(1, 7))
def test_pages_of_nested_drafts_are_full_and_in_order(
    below: list[Any], between: list[Any], above: list[Any], gone: set[int], limit: int
) -> None:
    async def work() -> None:
        base = TemporaryStore()
        outer = DraftStore(base)
        inner = DraftStore(outer)
        for number, (store, wanted) in enumerate(((base, below), (outer, between), (inner, above))):
            for place, minute in wanted:
                text = f"Emma has {place} cats, {number}."
                await store.put(ALICE, write(held(f"m-{place}", text, created_at=at(minute))))
        there = {f"m-{place}" for place, _ in [*below, *between, *above]}
        await inner.put(ALICE, write(deletes=tuple(there & {f"m-{place}" for place in gone})))
        left = there - {f"m-{place}" for place in gone}
        held_now = await inner.get(ALICE, sorted(left))
        pages = await pages_of(inner, limit)
        found = [memory for page in pages for memory in page.memories]
        assert found == sorted(held_now, key=lambda item: (-item.created_at.timestamp(), item.memory_id))
        assert all(len(page.memories) == limit for page in pages[:-1])

    asyncio.run(work())


@settings(max_examples=40, deadline=None)
@given(first=steps, then=steps)
def test_the_batch_of_a_draft_does_what_its_changes_would_have_done(first: list[Any], then: list[Any]) -> None:
    async def work() -> None:
        direct, base = TemporaryStore(), TemporaryStore()
        for step in first:
            for store in (direct, base):
                try:
                    await store.put(ALICE, as_batch(step))
                except StoreError:
                    continue
        draft = DraftStore(base)
        for step in then:
            outcomes = []
            for target in (direct, draft):
                try:
                    stored = await target.put(ALICE, as_batch(step))
                    outcomes.append([item.memory_id for item in stored])
                except StoreError as exc:
                    outcomes.append([type(exc).__name__])
            assert outcomes[0] == outcomes[1]
        assert await contents(draft) == await contents(direct)
        assert await draft.count_targets(ALICE) == await direct.count_targets(ALICE)
        batch = batch_of(draft)
        assert draft.is_empty == (not batch.puts and not batch.deletes)
        await base.put(ALICE, batch)
        assert await contents(base) == await contents(direct)

    asyncio.run(work())
