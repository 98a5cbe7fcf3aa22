"""Stores that are wrong on purpose: for each, a test of the contract that fails on it and passes on the right store."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from reme_core.errors import ConflictError, MessageNotFoundError, NotFoundError
from reme_core.ports import (
    CleanOffloads,
    HoldOffloads,
    ListOffloads,
    OffloadPage,
    OffloadSearch,
    PutOffloads,
    ScoredOffload,
    WrappedStore,
)
from reme_core.schema import CleanedOffloads, Erased, OffloadKind, OffloadRecord, Scope, new_reference
from reme_core.stores import LocalStore
from reme_core.testing.store_values import NOW
from tests.contract.suites.offload_contract import OffloadContract


class Wrapped(WrappedStore):
    """Hands every call on; a fault changes one of them."""

    def __init__(self, path: Path) -> None:
        self.inner = LocalStore(path, synchronous="NORMAL")
        super().__init__(self.inner)
        self.scopes: dict[Scope, None] = {}

    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        self.scopes[scope] = None
        return await self.inner.put_offloads(scope, put)

    async def all_of(self, scope: Scope) -> list[OffloadRecord]:
        page = await self.inner.list_offloads(scope, ListOffloads(limit=10_000))
        return [await self.inner.get_offload(scope, info.reference) for info in page.offloads]


class TheSameIsKeptTwice(Wrapped):
    """Tells equal ones apart by a time of its own."""

    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        apart = [
            item.model_copy(update={"name": f"{item.name}{new_reference()}" if item.text else item.name})
            for item in put.offloads
        ]
        return await super().put_offloads(scope, replace(put, offloads=apart))


class TextsAloneMakeTheSame(Wrapped):
    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        known = {item.text: item.reference for item in await self.all_of(scope)}
        references = []
        for item in put.offloads:
            if item.text not in known:
                [known[item.text]] = await super().put_offloads(scope, replace(put, offloads=[item]))
            references.append(known[item.text])
        return references


class TheSameIsLookedForFirst(Wrapped):
    """Looks first and keeps later: the race that a write of the database rules out."""

    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        known = {item.text: item.reference for item in await self.all_of(scope)}
        await asyncio.sleep(0)
        fresh = [item for item in put.offloads if item.text not in known]
        apart = [item.model_copy(update={"name": new_reference()}) for item in fresh]
        await super().put_offloads(scope, replace(put, offloads=apart))
        return [known.get(item.text, item.reference) for item in put.offloads]


class TakenReferencesGiveWay(Wrapped):
    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        try:
            return await super().put_offloads(scope, put)
        except ConflictError:
            fresh = [item.model_copy(update={"reference": new_reference()}) for item in put.offloads]
            return await super().put_offloads(scope, replace(put, offloads=fresh))


class SomeAreKept(Wrapped):
    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        kept = []
        for item in put.offloads:
            kept += await super().put_offloads(scope, replace(put, offloads=[item]))
        return kept


class PointersAtNothingAreKept(Wrapped):
    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        try:
            return await super().put_offloads(scope, put)
        except MessageNotFoundError:
            found = [item for item in put.offloads if item.kind is not OffloadKind.MESSAGES]
            return await super().put_offloads(scope, replace(put, offloads=found))


class TextsAreCut(Wrapped):
    async def get_offload(self, scope: Scope, reference: str) -> OffloadRecord:
        found = await super().get_offload(scope, reference)
        return found.model_copy(update={"text": found.text[:100_000]})


class LineEndsAreMadeOne(Wrapped):
    async def get_offload(self, scope: Scope, reference: str) -> OffloadRecord:
        found = await super().get_offload(scope, reference)
        return found.model_copy(update={"text": "\n".join(found.text.splitlines())})


class ReferencesArePatterns(Wrapped):
    async def get_offload(self, scope: Scope, reference: str) -> OffloadRecord:
        for item in await self.all_of(scope):
            if reference in {"%", "*"} or item.reference.startswith(reference):
                return item
        return await super().get_offload(scope, reference)


class OtherScopesAreRead(Wrapped):
    async def get_offload(self, scope: Scope, reference: str) -> OffloadRecord:
        for other in (scope, *self.scopes):
            if reference in [item.reference for item in await self.all_of(other)]:
                scope = other
        return await super().get_offload(scope, reference)


class OtherScopesAreListed(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        pages = [await self.inner.list_offloads(other, query) for other in self.scopes]
        return OffloadPage(offloads=tuple(info for page in pages for info in page.offloads))


class OtherScopesAreSearched(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        hits = [hit for other in (scope, *self.scopes) for hit in await self.inner.search_offloads(other, search)]
        return hits[: search.limit]


class OtherScopesAreHeld(Wrapped):
    async def hold_offloads(self, scope: Scope, hold: HoldOffloads) -> None:
        for other in {scope, *self.scopes}:
            await self.inner.hold_offloads(other, hold)


class OtherScopesAreCleaned(Wrapped):
    async def clean_offloads(self, scope: Scope, clean: CleanOffloads) -> CleanedOffloads:
        for other in self.scopes:
            if other != scope:
                await self.inner.clean_offloads(other, clean)
        return await self.inner.clean_offloads(scope, clean)


class TheNewestComeFirst(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        return await self.inner.list_offloads(scope, replace(query, newest_first=not query.newest_first))


class ListsAreByAge(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        page = await self.inner.list_offloads(scope, query)
        return replace(page, offloads=tuple(sorted(page.offloads, key=lambda info: info.created_at)))


class SessionsAreListedTogether(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        return await self.inner.list_offloads(scope, replace(query, session_id=None))


class MessagesAreListedTogether(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        return await self.inner.list_offloads(scope, replace(query, message_ids=query.message_ids or None))


class ReferencesAreNoFilter(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        return await self.inner.list_offloads(scope, replace(query, references=None))


class TimesOfAListAreIgnored(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        return await self.inner.list_offloads(scope, replace(query, made_from=None, made_to=None))


class KindsAreListedTogether(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        return await self.inner.list_offloads(scope, replace(query, kinds=None))


class PagesOverlap(Wrapped):
    async def list_offloads(self, scope: Scope, query: ListOffloads) -> OffloadPage:
        page = await self.inner.list_offloads(scope, query)
        one_less = await self.inner.list_offloads(scope, replace(query, limit=max(1, query.limit - 1)))
        return replace(page, next_cursor=page.next_cursor and one_less.next_cursor)


class OffsetsAreBytes(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        hits = await self.inner.search_offloads(scope, search)
        wholes = [(await self.inner.get_offload(scope, hit.info.reference)).text for hit in hits]
        return [
            replace(hit, offset=len(whole[: hit.offset + 1].encode())) for hit, whole in zip(hits, wholes, strict=True)
        ]


class WholeTextsAreFound(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        hits = await self.inner.search_offloads(scope, search)
        return [
            replace(hit, passage=(await self.inner.get_offload(scope, hit.info.reference)).text, offset=0, first_line=1)
            for hit in hits
        ]


class PassagesDoNotOverlap(Wrapped):
    """Cuts what overlaps off, as a store would that lays passages side by side."""

    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        hits = await self.inner.search_offloads(scope, search)
        return [replace(hit, passage=hit.passage[:1_000]) for hit in hits]


class LinesAreCountedFromZero(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        return [replace(hit, first_line=hit.first_line - 1) for hit in await self.inner.search_offloads(scope, search)]


class EveryWordMustBeThere(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        return [hit for hit in await self.inner.search_offloads(scope, search) if hit.score > 0.99]


class AllWordsCountAlike(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        words = search.text.split()
        hits = await self.inner.search_offloads(scope, search)
        shares = [sum(word in hit.passage for word in words) / len(words) for hit in hits]
        return [replace(hit, score=share) for hit, share in zip(hits, shares, strict=True) if share]


class OldestWinTies(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        hits = await self.inner.search_offloads(scope, replace(search, limit=10_000))
        oldest_first = hits[::-1]
        return sorted(oldest_first, key=lambda hit: -hit.score)[: search.limit]


class TimesOfASearchAreIgnored(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        return await self.inner.search_offloads(scope, replace(search, made_from=None))


class TimesOfKeepingAreSearched(Wrapped):
    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        untold = [item.model_copy(update={"said_at": None}) for item in put.offloads]
        return await super().put_offloads(scope, replace(put, offloads=untold))


class SessionsAreSearchedTogether(Wrapped):
    async def search_offloads(self, scope: Scope, search: OffloadSearch) -> list[ScoredOffload]:
        return await self.inner.search_offloads(scope, replace(search, session_id=None))


class HoldsAreIgnored(Wrapped):
    async def clean_offloads(self, scope: Scope, clean: CleanOffloads) -> CleanedOffloads:
        return await self.inner.clean_offloads(scope, replace(clean, idle_since=NOW + timedelta(days=1)))


class IdleSessionsHoldForEver(Wrapped):
    async def clean_offloads(self, scope: Scope, clean: CleanOffloads) -> CleanedOffloads:
        return await self.inner.clean_offloads(scope, replace(clean, idle_since=NOW - timedelta(days=1)))


class HoldsAddUp(Wrapped):
    async def hold_offloads(self, scope: Scope, hold: HoldOffloads) -> None:
        held = [item for item in await self.all_of(scope) if item.reference in hold.references]
        moved = [item.model_copy(update={"session_id": hold.session_id, "created_at": hold.now}) for item in held]
        if held:
            await self.inner.put_offloads(scope, PutOffloads(offloads=moved, hold=True))
        else:
            await self.inner.hold_offloads(scope, hold)


class SessionsStayOpen(Wrapped):
    async def hold_offloads(self, scope: Scope, hold: HoldOffloads) -> None:
        if hold.references:
            await self.inner.hold_offloads(scope, hold)


class KeepingHoldsNothing(Wrapped):
    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        return await super().put_offloads(scope, replace(put, hold=False))


class HoldsFollowLater(Wrapped):
    """Keeps first and holds in a write of its own: in between a clean-up may come."""

    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        references = await super().put_offloads(scope, replace(put, hold=False))
        await asyncio.sleep(0)
        return await super().put_offloads(scope, put) if put.hold else references


class TryingRemoves(Wrapped):
    async def clean_offloads(self, scope: Scope, clean: CleanOffloads) -> CleanedOffloads:
        cleaned = await self.inner.clean_offloads(scope, replace(clean, dry_run=False))
        return cleaned.model_copy(update={"dry_run": clean.dry_run})


class AgeIsTheOrderOfKeeping(Wrapped):
    """Lets what was kept first go first, however young it is."""

    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        times = sorted(item.created_at for item in put.offloads)
        aged = [item.model_copy(update={"created_at": at}) for item, at in zip(put.offloads, times, strict=True)]
        return await super().put_offloads(scope, replace(put, offloads=aged))


class SizesAreIgnored(Wrapped):
    async def clean_offloads(self, scope: Scope, clean: CleanOffloads) -> CleanedOffloads:
        return await self.inner.clean_offloads(scope, replace(clean, max_bytes=None))


class EraseLeavesOffloads(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        kept = [item for item in await self.all_of(scope) if item.text]
        gone = await self.inner.erase(scope)
        await self.inner.put_offloads(scope, PutOffloads(offloads=kept))
        return gone


class EraseTakesTheWholeSpace(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        gone = await self.inner.erase(scope)
        for other in self.scopes:
            if other.memory_space == scope.memory_space:
                await self.inner.erase(other)
        return gone


class WorksAfterClosing(Wrapped):
    async def close(self) -> None:
        pass


FAULTS: list[tuple[type[Wrapped], str, tuple[object, ...]]] = [
    (TheSameIsKeptTwice, "test_the_same_again_is_kept_once_and_keeps_its_reference", ()),
    (TheSameIsKeptTwice, "test_the_same_twice_in_one_call_is_kept_once", ()),
    (TextsAloneMakeTheSame, "test_what_differs_in_one_thing_is_kept_beside", ("place",)),
    (TheSameIsLookedForFirst, "test_of_many_equal_texts_kept_at_once_one_is_kept", ()),
    (TakenReferencesGiveWay, "test_something_else_under_a_taken_reference_conflicts_and_nothing_is_kept", ()),
    (SomeAreKept, "test_something_else_under_a_taken_reference_conflicts_and_nothing_is_kept", ()),
    (SomeAreKept, "test_what_cannot_be_kept_is_not_held_either", ()),
    (PointersAtNothingAreKept, "test_what_would_point_at_unknown_messages_is_refused_and_nothing_is_kept", ()),
    (TextsAreCut, "test_a_text_of_one_line_and_one_of_many_come_back_whole", ()),
    (LineEndsAreMadeOne, "test_a_text_comes_back_as_it_was", ("line one\r\nline two\n",)),
    (ReferencesArePatterns, "test_a_reference_that_is_none_is_not_found", ("%",)),
    (ReferencesArePatterns, "test_a_reference_that_is_none_is_not_found", ("0123456789abcde",)),
    (OtherScopesAreRead, "test_another_scope_sees_holds_and_removes_nothing", ()),
    (OtherScopesAreListed, "test_another_scope_sees_holds_and_removes_nothing", ()),
    (OtherScopesAreSearched, "test_another_scope_sees_holds_and_removes_nothing", ()),
    (OtherScopesAreHeld, "test_another_scope_sees_holds_and_removes_nothing", ()),
    (OtherScopesAreCleaned, "test_another_scope_sees_holds_and_removes_nothing", ()),
    (OtherScopesAreCleaned, "test_the_same_reference_in_two_scopes_is_two_offloads", ()),
    (TheNewestComeFirst, "test_offloads_are_listed_in_the_order_of_keeping_or_its_reverse", ()),
    (ListsAreByAge, "test_offloads_are_listed_in_the_order_of_keeping_or_its_reverse", ()),
    (SessionsAreListedTogether, "test_a_list_is_of_one_session_or_of_some_messages_or_both", ()),
    (MessagesAreListedTogether, "test_a_list_is_of_one_session_or_of_some_messages_or_both", ()),
    (ReferencesAreNoFilter, "test_a_list_is_of_one_session_or_of_some_messages_or_both", ()),
    (TimesOfAListAreIgnored, "test_a_list_is_of_some_time_of_saying_and_some_kinds", ()),
    (TimesOfKeepingAreSearched, "test_a_list_is_of_some_time_of_saying_and_some_kinds", ()),
    (KindsAreListedTogether, "test_a_list_is_of_some_time_of_saying_and_some_kinds", ()),
    (PagesOverlap, "test_pages_of_any_size_partition_the_list", (3, False)),
    (OffsetsAreBytes, "test_a_passage_is_found_where_it_stands", ()),
    (WholeTextsAreFound, "test_a_passage_is_found_where_it_stands", ()),
    (WholeTextsAreFound, "test_one_long_line_without_blanks_is_found_in_its_middle", ()),
    (PassagesDoNotOverlap, "test_a_phrase_is_found_whole_wherever_it_stands", (1038,)),
    (LinesAreCountedFromZero, "test_a_passage_is_found_where_it_stands", ()),
    (EveryWordMustBeThere, "test_what_holds_more_and_rarer_words_comes_first", ()),
    (AllWordsCountAlike, "test_what_holds_more_and_rarer_words_comes_first", ()),
    (OldestWinTies, "test_of_equal_texts_the_newest_comes_first", ()),
    (TimesOfASearchAreIgnored, "test_a_search_is_of_one_session_and_of_some_time", ()),
    (TimesOfKeepingAreSearched, "test_a_search_goes_by_the_time_of_saying", ()),
    (SessionsAreSearchedTogether, "test_a_search_is_of_one_session_and_of_some_time", ()),
    (HoldsAreIgnored, "test_what_a_session_holds_stays_and_is_named", ()),
    (HoldsFollowLater, "test_a_clean_up_takes_nothing_that_is_held_at_the_same_time", ()),
    (IdleSessionsHoldForEver, "test_a_session_that_said_nothing_for_long_counts_as_closed", ()),
    (HoldsAddUp, "test_what_is_said_replaces_what_was_said_before", ()),
    (SessionsStayOpen, "test_a_session_that_holds_nothing_any_more_is_closed", ()),
    (KeepingHoldsNothing, "test_what_is_kept_to_be_held_is_held_from_the_start", ()),
    (KeepingHoldsNothing, "test_the_same_again_is_held_by_the_reference_it_has", ()),
    (TryingRemoves, "test_trying_says_what_would_go_and_removes_nothing", ()),
    (AgeIsTheOrderOfKeeping, "test_texts_offloaded_before_a_time_go", ()),
    (SizesAreIgnored, "test_beyond_a_size_the_oldest_go_until_it_fits", (29, 2)),
    (SizesAreIgnored, "test_age_and_size_together_take_what_either_asks_for", (1, 20, 2)),
    (EraseLeavesOffloads, "test_erasing_a_scope_removes_its_offloads_and_no_others", ()),
    (EraseTakesTheWholeSpace, "test_erasing_a_scope_removes_its_offloads_and_no_others", ()),
    (WorksAfterClosing, "test_every_call_on_offloads_after_closing_says_that_it_is_closed", ()),
]


async def run(make: Callable[[], Wrapped], test: str, args: tuple[object, ...]) -> None:
    store = make()
    try:
        await getattr(OffloadContract(), test)(store, *args)
    finally:
        await store.inner.close()


@pytest.mark.parametrize(
    ("fault", "test", "args"), FAULTS, ids=[f"{fault.__name__}-{test}-{n}" for n, (fault, test, _) in enumerate(FAULTS)]
)
async def test_the_contract_catches_the_fault_and_passes_the_right_store(
    fault: type[Wrapped], test: str, args: tuple[object, ...], tmp_path: Path
) -> None:
    await run(lambda: Wrapped(tmp_path / "right.db"), test, args)
    with pytest.raises((AssertionError, pytest.fail.Exception, ExceptionGroup, ConflictError, NotFoundError)):
        await run(lambda: fault(tmp_path / "wrong.db"), test, args)
