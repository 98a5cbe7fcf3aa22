"""Stores that are wrong on purpose: for each, a test of the contract that fails on it and passes on the right store."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest

from reme_core.errors import MemoryNotFoundError, ReMeError
from reme_core.ports import (
    DeleteMemory,
    EventQuery,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    ScoredMemory,
    Store,
    UseMemory,
    WrappedStore,
    WriteBatch,
)
from reme_core.schema import Erased, Event, Memory, MemoryPage, Scope, TrustClass
from reme_core.testing.store_contract import StoreContract
from reme_core.testing.store_values import NOW
from tests.support.temporary_store import TemporaryStore


class Wrapped(WrappedStore):
    """Hands every call on; a fault changes one of them."""

    def __init__(self) -> None:
        self.inner = TemporaryStore()
        super().__init__(self.inner)
        self.scopes: set[Scope] = set()

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        self.scopes.add(scope)
        return await self.inner.put(scope, batch)


class GetIgnoresTheScope(Wrapped):
    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        for other in self.scopes:
            with suppress(MemoryNotFoundError):
                return await self.inner.get(other, memory_ids)
        return await self.inner.get(scope, memory_ids)


class SearchIgnoresTheUser(Wrapped):
    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        found = [await self.inner.search(other, search) for other in self.scopes | {scope}]
        return sorted((item for part in found for item in part), key=lambda item: -item.score)[: search.limit]


class ScopesFoldCase(Wrapped):
    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        for other in self.scopes:
            if other.user_id.lower() == scope.user_id.lower():
                return await self.inner.list_memories(other, query)
        return await self.inner.list_memories(scope, query)


class EraseTakesTheWholeSpace(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        gone = await self.inner.erase(scope)
        for other in self.scopes:
            if other.memory_space == scope.memory_space:
                await self.inner.erase(other)
        return gone


class EraseLeavesEvents(Wrapped):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[Event] = []

    async def erase(self, scope: Scope) -> Erased:
        self.told = await self.inner.events(scope, EventQuery())
        return await self.inner.erase(scope)

    async def events(self, scope: Scope, query: EventQuery) -> list[Event]:
        return await self.inner.events(scope, query) or self.told


class DeleteIsIgnored(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        return await super().put(scope, replace(batch, deletes=()))


class DeleteOfNothingIsFine(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        held = (await self.inner.list_memories(scope, ListMemories(limit=9999))).memories
        known = {memory.memory_id for memory in held}
        return await super().put(
            scope, replace(batch, deletes=[item for item in batch.deletes if item.memory_id in known])
        )


class VectorIsLost(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        return await super().put(scope, replace(batch, puts=[replace(put, vector=None) for put in batch.puts]))


class BatchIsNotAtomic(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        await super().put(scope, replace(batch, puts=()))
        answers = [
            await super(BatchIsNotAtomic, self).put(scope, replace(batch, puts=[p], deletes=())) for p in batch.puts
        ]
        return [memory for part in answers for memory in part]


class BatchIsWrittenInPieces(BatchIsNotAtomic):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        # The first piece is written whatever becomes of the caller.
        await asyncio.shield(asyncio.ensure_future(Wrapped.put(self, scope, replace(batch, puts=()))))
        answers = []
        for put in batch.puts:
            await asyncio.sleep(0)
            answers += await Wrapped.put(self, scope, replace(batch, puts=[put], deletes=()))
        return answers


class LastWriteWins(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        puts = [replace(put, expected_revision=None) for put in batch.puts]
        return await super().put(scope, replace(batch, puts=puts))


class DuplicatesAreWritten(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        puts = [
            replace(p, memory=p.memory.model_copy(update={"content": p.memory.content + "\u200b" * n}))
            for n, p in enumerate(batch.puts, start=len(await self.inner.events(scope, EventQuery())))
        ]
        return await super().put(scope, replace(batch, puts=puts))


class DuplicatesAreCheckedBeforehand(Wrapped):
    """Looks whether the text is there, and writes later: the race that a database's own check rules out."""

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        count = len(await self.inner.events(scope, EventQuery()))
        await asyncio.sleep(0)
        if count or not batch.puts:
            return await super().put(scope, batch)
        put = batch.puts[0]
        other = put.memory.model_copy(update={"memory_target": put.memory.memory_id})
        return await super().put(scope, replace(batch, puts=[replace(put, memory=other)]))


class UpdateTakesTheNewCreationTime(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        ids = [put.memory.memory_id for put in batch.puts]
        held = {m.memory_id for m in (await self.inner.list_memories(scope, ListMemories(limit=9999))).memories}
        deletes = [*batch.deletes, *(DeleteMemory(memory_id=name) for name in ids if name in held)]
        return await super().put(scope, replace(batch, deletes=deletes))


class FilterComesAfterTheLimit(Wrapped):
    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        best = await self.inner.search(scope, replace(search, filter=MemoryFilter(include_superseded=True)))
        allowed = await self.inner.search(scope, replace(search, limit=9999))
        return [item for item in best if item in allowed]


class FilterIsIgnored(Wrapped):
    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        return await self.inner.search(scope, replace(search, filter=MemoryFilter()))


class UnsupportedFiltersAreDropped(Wrapped):
    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        metadata = {k: v for k, v in query.filter.metadata.items() if v is None or isinstance(v, (str, int, float))}
        return await self.inner.list_memories(scope, replace(query, filter=replace(query.filter, metadata=metadata)))


class MetadataTakesTrueForOne(Wrapped):
    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        metadata = {
            key: int(value) if isinstance(value, bool) else value for key, value in query.filter.metadata.items()
        }
        return await self.inner.list_memories(scope, replace(query, filter=replace(query.filter, metadata=metadata)))


class SupersededOnesAreShown(Wrapped):
    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        wanted = replace(query.filter, include_superseded=query.filter.as_of is None)
        return await self.inner.list_memories(scope, replace(query, filter=wanted))


class EndedOnesAreHidden(Wrapped):
    """Takes an end for a replacement."""

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        found = await self.inner.search(scope, search)
        return [item for item in found if item.memory.valid_to is None]

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        page = await self.inner.list_memories(scope, query)
        return page.model_copy(update={"memories": tuple(m for m in page.memories if m.valid_to is None)})


class EqualOnesAreAnsweredWhateverTheirTime(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        held = (await self.inner.list_memories(scope, ListMemories(limit=9999))).memories
        equal = [m for m in held for p in batch.puts if m.content.lower() == p.memory.content.lower().strip(".")]
        return equal or await super().put(scope, batch)


class WorstComesFirst(Wrapped):
    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        return (await self.inner.search(scope, search))[::-1]


class ScoresAreDistances(Wrapped):
    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        found = await self.inner.search(scope, replace(search, min_score=None))
        return [replace(item, score=(item.score + 1) / 2) for item in found]


class FloorIsIgnored(Wrapped):
    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        return await self.inner.search(scope, replace(search, min_score=None))


class PagesOverlap(Wrapped):
    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        page = await self.inner.list_memories(scope, query)
        before = await self.inner.list_memories(scope, replace(query, limit=max(query.limit - 1, 1)))
        return page.model_copy(update={"next_cursor": before.next_cursor if page.next_cursor else None})


class AnyCursorIsTheFirstPage(Wrapped):
    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        try:
            return await self.inner.list_memories(scope, query)
        except ValueError:
            return await self.inner.list_memories(scope, replace(query, cursor=None))


class ResultsAreTheStoresOwn(Wrapped):
    def __init__(self) -> None:
        super().__init__()
        self.shown: dict[str, Memory] = {}

    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        return [self.shown.setdefault(memory.memory_id, memory) for memory in await self.inner.get(scope, memory_ids)]


class EventsAreNotWritten(Wrapped):
    async def events(self, scope: Scope, query: EventQuery) -> list[Event]:
        return [event for event in await self.inner.events(scope, query) if event.before is None]


class EventsForgetTheRun(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        return await super().put(scope, replace(batch, run_id=None))


class BadVectorsAreTaken(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        try:
            return await super().put(scope, batch)
        except ValueError:
            return await super().put(scope, replace(batch, puts=[PutMemory(memory=put.memory) for put in batch.puts]))


class MissingIdsAreLeftOut(Wrapped):
    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        page = await self.inner.list_memories(scope, ListMemories(limit=9999))
        return [memory for memory in page.memories if memory.memory_id in memory_ids]


class UsesAreReadAndWrittenLater(Wrapped):
    """Loses what is counted while another call counts, as one does that writes what it has read and added to."""

    def __init__(self) -> None:
        super().__init__()
        self.counting = 0

    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        self.counting += 1
        try:
            if self.counting > 1:
                return await self.inner.get(scope, [use.memory_id for use in uses])
            return await self.inner.record_uses(scope, uses)
        finally:
            self.counting -= 1


class UsesNamedTwiceCountOnce(Wrapped):
    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        await self.inner.record_uses(scope, list({use.memory_id: use for use in uses}.values()))
        return await self.inner.get(scope, [use.memory_id for use in uses])


class UsesOfSomeAreCounted(Wrapped):
    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        return [memory for use in uses for memory in await self.inner.record_uses(scope, [use])]


class UsesOfUnknownOnesAreLeftOut(Wrapped):
    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        held = (await self.inner.list_memories(scope, ListMemories(limit=9999))).memories
        known = {memory.memory_id for memory in held}
        return await self.inner.record_uses(scope, [use for use in uses if use.memory_id in known])


class UsesAreChanges(Wrapped):
    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        used = await self.inner.record_uses(scope, uses)
        puts = [PutMemory(memory=memory) for memory in used]
        return await self.inner.put(scope, WriteBatch(puts=puts, at=NOW))


class UsesAreSeenLate(Wrapped):
    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        found = await self.inner.search(scope, search)
        return [replace(item, memory=item.memory.model_copy(update={"freq": 0})) for item in found]


class HelpfulUsesCountWhole(Wrapped):
    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        return await self.inner.record_uses(scope, [replace(use, helpful=round(use.helpful)) for use in uses])


class UsesReachOtherScopes(Wrapped):
    async def record_uses(self, scope: Scope, uses: Sequence[UseMemory]) -> list[Memory]:
        for other in self.scopes - {scope}:
            with suppress(MemoryNotFoundError):
                await self.inner.record_uses(other, uses)
        return await self.inner.record_uses(scope, uses)


class WhatIsUsefulIsDeleted(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        return await super().put(
            scope, replace(batch, deletes=[replace(item, only_if_useless=None) for item in batch.deletes])
        )


class ReasonsAreThoseOfTheBatch(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        puts = [replace(put, reason=None) for put in batch.puts]
        deletes = [replace(item, reason=None) for item in batch.deletes]
        return await super().put(scope, replace(batch, puts=puts, deletes=deletes))


class TrustIsWhatIsSaid(Wrapped):
    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        puts = [replace(put, memory=put.memory.model_copy(update={"sources": ()})) for put in batch.puts]
        return await super().put(scope, replace(batch, puts=puts))


class WorksAfterClosing(Wrapped):
    async def close(self) -> None:
        pass


FAULTS: list[tuple[type[Wrapped], str, tuple[object, ...]]] = [
    (GetIgnoresTheScope, "test_a_scope_without_memories_shows_none_of_another", ()),
    (SearchIgnoresTheUser, "test_no_reading_call_shows_anything_of_another_scope", ()),
    (ScopesFoldCase, "test_a_scope_without_memories_shows_none_of_another", ()),
    (EraseTakesTheWholeSpace, "test_erasing_a_scope_leaves_every_other_alone", ()),
    (EraseLeavesEvents, "test_erasing_removes_memories_vectors_texts_and_events", ()),
    (DeleteIsIgnored, "test_a_deleted_memory_is_gone_from_every_call", ()),
    (DeleteOfNothingIsFine, "test_deleting_what_is_not_there_is_not_found", ()),
    (DeleteOfNothingIsFine, "test_deleting_another_scopes_memory_is_not_found", ()),
    (VectorIsLost, "test_the_nearest_comes_first_and_its_score_is_the_cosine", ()),
    (BatchIsNotAtomic, "test_one_bad_change_leaves_the_whole_batch_unwritten", ("revision", "last")),
    (BatchIsWrittenInPieces, "test_a_write_cancelled_at_any_moment_is_whole_or_absent", ()),
    (LastWriteWins, "test_only_the_expected_revision_is_replaced", ()),
    (LastWriteWins, "test_of_many_updates_at_once_that_expect_a_revision_one_succeeds", ()),
    (DuplicatesAreWritten, "test_a_duplicate_answers_with_the_memory_that_is_there", ("i like tea",)),
    (DuplicatesAreCheckedBeforehand, "test_many_identical_adds_at_once_make_one_memory_and_one_event", ()),
    (UpdateTakesTheNewCreationTime, "test_an_update_keeps_id_and_creation_time", ()),
    (FilterComesAfterTheLimit, "test_filters_apply_before_the_limit", ()),
    (FilterIsIgnored, "test_filters_by_type_and_target_hold_together", ()),
    (FilterIsIgnored, "test_filters_by_trust_keep_to_these_classes", ()),
    (TrustIsWhatIsSaid, "test_a_memory_has_the_class_of_its_least_trusted_message", (("user", "web"), TrustClass.WEB)),
    (UnsupportedFiltersAreDropped, "test_an_operand_that_is_no_scalar_is_refused", ({"$ne": 1},)),
    (MetadataTakesTrueForOne, "test_metadata_is_compared_by_value_and_type", ()),
    (SupersededOnesAreShown, "test_what_a_replacement_closed_held_from_its_start_and_before_its_end", ()),
    (SupersededOnesAreShown, "test_what_was_replaced_is_not_found_however_long_its_own_time_lasts", ()),
    (EndedOnesAreHidden, "test_what_is_over_and_what_lies_ahead_are_found_like_what_holds", ()),
    (EndedOnesAreHidden, "test_an_end_is_an_update_that_leaves_a_memory_current", ()),
    (
        EqualOnesAreAnsweredWhateverTheirTime,
        "test_an_equal_memory_of_a_later_time_takes_the_place_of_the_one_that_is_over",
        (5,),
    ),
    (
        EqualOnesAreAnsweredWhateverTheirTime,
        "test_an_equal_memory_of_an_earlier_time_is_kept_as_one_that_was_superseded",
        (),
    ),
    (WorstComesFirst, "test_the_nearest_comes_first_and_its_score_is_the_cosine", ()),
    (ScoresAreDistances, "test_the_nearest_comes_first_and_its_score_is_the_cosine", ()),
    (FloorIsIgnored, "test_the_score_floor_is_a_similarity", ()),
    (PagesOverlap, "test_pages_of_any_size_partition_the_list", (3,)),
    (AnyCursorIsTheFirstPage, "test_a_cursor_that_is_not_ours_is_refused", ("x",)),
    (ResultsAreTheStoresOwn, "test_what_is_returned_is_a_copy", ()),
    (EventsAreNotWritten, "test_every_change_is_told_with_before_and_after", ()),
    (EventsForgetTheRun, "test_every_change_is_told_with_before_and_after", ()),
    (BadVectorsAreTaken, "test_a_vector_that_is_not_one_is_refused", ("zero",)),
    (MissingIdsAreLeftOut, "test_every_unknown_id_is_named", ()),
    (WorksAfterClosing, "test_every_call_after_closing_says_that_it_is_closed", ()),
    (WorksAfterClosing, "test_using_a_memory_of_a_closed_store_says_that_it_is_closed", ()),
    (UpdateTakesTheNewCreationTime, "test_a_new_memory_brings_its_counts_and_an_update_leaves_them", ()),
    (UpdateTakesTheNewCreationTime, "test_an_update_from_what_was_read_before_a_use_keeps_the_use", ()),
    (UpdateTakesTheNewCreationTime, "test_of_many_uses_and_updates_at_once_none_is_lost", ()),
    (UsesAreReadAndWrittenLater, "test_of_many_uses_and_updates_at_once_none_is_lost", ()),
    (UsesNamedTwiceCountOnce, "test_memories_come_back_in_the_order_given_and_count_as_often_as_named", ()),
    (UsesOfSomeAreCounted, "test_unknown_memories_are_all_named_and_nothing_is_counted", ()),
    (UsesOfSomeAreCounted, "test_what_is_no_count_is_refused_and_nothing_is_counted", ()),
    (UsesOfUnknownOnesAreLeftOut, "test_unknown_memories_are_all_named_and_nothing_is_counted", ()),
    (UsesAreChanges, "test_uses_add_up_and_change_nothing_else", ()),
    (UsesAreSeenLate, "test_every_reading_call_shows_the_counts_at_once", ()),
    (HelpfulUsesCountWhole, "test_uses_add_up_and_change_nothing_else", ()),
    (UsesReachOtherScopes, "test_another_scope_cannot_use_a_memory", ()),
    (
        WhatIsUsefulIsDeleted,
        "test_a_delete_of_what_is_useless_is_refused_after_a_use_that_helped_and_not_after_one_in_vain",
        (),
    ),
    (
        WhatIsUsefulIsDeleted,
        "test_a_delete_of_a_memory_that_is_not_useless_is_refused_with_all_of_its_batch",
        ((9, 0.5),),
    ),
    (WhatIsUsefulIsDeleted, "test_what_was_never_used_is_not_useless", ()),
    (
        ReasonsAreThoseOfTheBatch,
        "test_a_change_with_a_reason_of_its_own_is_told_with_that_and_the_others_with_the_batchs",
        (),
    ),
]


async def run(make: Callable[[], Store], test: str, args: tuple[object, ...]) -> None:
    store = make()
    await getattr(StoreContract(), test)(store, *args)


@pytest.mark.parametrize(
    ("fault", "test", "args"), FAULTS, ids=[f"{fault.__name__}-{test}" for fault, test, _ in FAULTS]
)
async def test_the_contract_catches_the_fault_and_passes_the_right_store(
    fault: type[Wrapped], test: str, args: tuple[object, ...]
) -> None:
    await run(Wrapped, test, args)
    with pytest.raises((AssertionError, pytest.fail.Exception, ExceptionGroup, ReMeError)):
        await run(fault, test, args)
