"""Stores that are wrong on purpose: for each, a test of the contract that fails on it and passes on the right store."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reme_core.errors import ConflictError, InvalidInputError, ReMeError, ToolCallNotFoundError
from reme_core.ports import AddedToolCalls, ListToolCalls, ListTools, ToolCallPage, ToolPage, WrappedStore
from reme_core.schema import Erased, Scope, ToolCallResult, ToolStatistics, new_id
from reme_core.stores import LocalStore
from tests.contract.suites.tool_call_contract import ToolCallContract


class Wrapped(WrappedStore):
    """Hands every call on; a fault changes one of them."""

    def __init__(self, path: Path) -> None:
        self.inner = LocalStore(path, synchronous="NORMAL")
        super().__init__(self.inner)
        self.scopes: dict[Scope, None] = {}

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        self.scopes[scope] = None
        return await self.inner.add_tool_calls(scope, calls)

    async def all_of(self, scope: Scope) -> list[ToolCallResult]:
        return list((await self.inner.list_tool_calls(scope, ListToolCalls(limit=10_000))).calls)


class TheSameIsRecordedAgain(Wrapped):
    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        taken = {item.call_id for item in await self.all_of(scope)}
        fresh = [item.model_copy(update={"call_id": new_id()}) if item.call_id in taken else item for item in calls]
        return await super().add_tool_calls(scope, fresh)


class TheFirstStays(Wrapped):
    """Takes an id for the call, whatever it says."""

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        taken = {item.call_id for item in await self.all_of(scope)}
        known = tuple(item.call_id for item in calls if item.call_id in taken)
        added = await super().add_tool_calls(scope, [item for item in calls if item.call_id not in taken])
        return replace(added, known=known)


class EqualIsTheSame(Wrapped):
    """Compares as Python does, to which true is 1 and 1 is 1.0."""

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        try:
            return await super().add_tool_calls(scope, calls)
        except ConflictError:
            held = await self.all_of(scope)
            if not all(item in held for item in calls):
                raise
            return AddedToolCalls(added=(), known=tuple(item.call_id for item in calls))


class SomeAreRecorded(Wrapped):
    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        parts = [await Wrapped.add_tool_calls(self, scope, [item]) for item in calls]
        return AddedToolCalls(
            added=tuple(name for part in parts for name in part.added),
            known=tuple(name for part in parts for name in part.known),
        )


class UnknownIsNothing(Wrapped):
    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        filled = [item.model_copy(update={"token_cost": item.token_cost or 0}) for item in calls]
        return await super().add_tool_calls(scope, filled)


class OutputsAreCut(Wrapped):
    async def get_tool_calls(self, scope: Scope, call_ids: Sequence[str]) -> list[ToolCallResult]:
        found = await super().get_tool_calls(scope, call_ids)
        return [item.model_copy(update={"output": item.output[:100_000]}) for item in found]


class MissingIdsAreLeftOut(Wrapped):
    async def get_tool_calls(self, scope: Scope, call_ids: Sequence[str]) -> list[ToolCallResult]:
        held = {item.call_id: item for item in await self.all_of(scope)}
        return [held[name] for name in call_ids if name in held]


class GetIgnoresTheScope(Wrapped):
    async def get_tool_calls(self, scope: Scope, call_ids: Sequence[str]) -> list[ToolCallResult]:
        for other in self.scopes:
            try:
                return await super().get_tool_calls(other, call_ids)
            except ToolCallNotFoundError:
                continue
        return await super().get_tool_calls(scope, call_ids)


class StatisticsIgnoreTheUser(Wrapped):
    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        same = [other for other in self.scopes if other.memory_space == scope.memory_space]
        return await super().tool_statistics((same or [scope])[0], tool_names)


class ScopesFoldCase(Wrapped):
    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        same = [other for other in self.scopes if other.user_id.lower() == scope.user_id.lower()]
        return await super().list_tool_calls((same or [scope])[0], query)


class NamesFoldCase(Wrapped):
    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        found = await super().tool_statistics(scope, [name.lower() for name in tool_names])
        return [item.model_copy(update={"tool_name": name}) for item, name in zip(found, tool_names, strict=True)]


class ErrorsAreIgnored(Wrapped):
    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        return await super().list_tool_calls(scope, replace(query, error=None))


class OutcomesAreIgnored(Wrapped):
    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        return await super().list_tool_calls(scope, replace(query, success=None))


class NewestIsAlwaysFirst(Wrapped):
    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        return await super().list_tool_calls(scope, replace(query, newest_first=True))


class TiesGoByName(Wrapped):
    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        page = await super().list_tool_calls(scope, query)
        ordered = sorted(page.calls, key=lambda item: item.call_id)
        ordered.sort(key=lambda item: item.create_time, reverse=query.newest_first)
        return replace(page, calls=tuple(ordered))


class PagesOverlap(Wrapped):
    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        page = await super().list_tool_calls(scope, query)
        before = await super().list_tool_calls(scope, replace(query, limit=max(query.limit - 1, 1)))
        return replace(page, next_cursor=before.next_cursor if page.next_cursor else None)


class AnyCursorIsTheFirstPage(Wrapped):
    async def list_tools(self, scope: Scope, query: ListTools) -> ToolPage:
        try:
            return await super().list_tools(scope, query)
        except InvalidInputError:
            return await super().list_tools(scope, replace(query, cursor=None))


class ToolsAreSortedAsWords(Wrapped):
    async def list_tools(self, scope: Scope, query: ListTools) -> ToolPage:
        page = await super().list_tools(scope, query)
        return replace(page, tools=tuple(sorted(page.tools, key=lambda item: item[0].lower())))


class TimesAreAddedOneByOne(Wrapped):
    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        calls = await self.all_of(scope)
        answers = []
        for found in await super().tool_statistics(scope, tool_names):
            total = 0.0  # `sum` may be exact itself
            for item in calls:
                total += (item.time_cost or 0.0) if item.tool_name == found.tool_name else 0.0
            mean = total / found.timed_calls if found.timed_calls else None
            answers.append(found.model_copy(update={"mean_time_s": mean}))
        return answers


class TokensAreFloats(Wrapped):
    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        found = await super().tool_statistics(scope, tool_names)
        return [item.model_copy(update={"tokens": int(float(item.tokens))}) for item in found]


class PercentilesAreRoundedDown(Wrapped):
    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        calls = await self.all_of(scope)
        answers = []
        for found in await super().tool_statistics(scope, tool_names):
            own = (item.time_cost for item in calls if item.tool_name == found.tool_name)
            times = sorted(time for time in own if time is not None)
            rank = math.floor(0.95 * len(times))
            answers.append(found.model_copy(update={"p95_time_s": times[rank - 1] if times else None}))
        return answers


class OtherErrorsAreForgotten(Wrapped):
    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        found = await super().tool_statistics(scope, tool_names)
        return [item.model_copy(update={"other_errors": 0}) for item in found]


class EqualErrorsGoByName(Wrapped):
    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        found = await super().tool_statistics(scope, tool_names)
        return [
            item.model_copy(update={"errors": tuple(sorted(item.errors, key=lambda kind: (-kind.count, kind.error)))})
            for item in found
        ]


class EraseLeavesCalls(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        return Erased(tool_calls=len(await self.all_of(scope)))


class EraseTakesTheWholeSpace(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        gone = await super().erase(scope)
        for other in self.scopes:
            if other.memory_space == scope.memory_space:
                await super().erase(other)
        return gone


class WorksAfterClosing(Wrapped):
    async def close(self) -> None:
        pass


FAULTS: list[tuple[type[Wrapped], str]] = [
    (TheSameIsRecordedAgain, "test_the_same_call_again_is_known_and_changes_nothing"),
    (TheFirstStays, "test_of_calls_recorded_together_all_or_none_are_kept"),
    (SomeAreRecorded, "test_of_calls_recorded_together_all_or_none_are_kept"),
    (UnknownIsNothing, "test_what_nobody_measured_stays_unknown"),
    (EqualIsTheSame, "test_an_id_of_other_content_is_a_conflict"),
    (PagesOverlap, "test_pages_of_any_size_partition_the_calls"),
    (OutputsAreCut, "test_an_output_of_the_largest_size_is_kept_and_counted"),
    (MissingIdsAreLeftOut, "test_every_unknown_call_is_named_once"),
    (GetIgnoresTheScope, "test_another_scope_sees_counts_and_removes_no_call"),
    (GetIgnoresTheScope, "test_the_same_id_in_two_scopes_is_two_calls"),
    (StatisticsIgnoreTheUser, "test_another_scope_sees_counts_and_removes_no_call"),
    (ScopesFoldCase, "test_another_scope_sees_counts_and_removes_no_call"),
    (NamesFoldCase, "test_tools_whose_names_look_alike_are_apart"),
    (NamesFoldCase, "test_a_tool_without_calls_has_zero_of_them"),
    (ErrorsAreIgnored, "test_a_list_is_of_one_tool_one_outcome_and_one_error_at_once"),
    (ErrorsAreIgnored, "test_a_success_has_no_error_whatever_it_says"),
    (OutcomesAreIgnored, "test_a_list_is_of_one_tool_one_outcome_and_one_error_at_once"),
    (NewestIsAlwaysFirst, "test_calls_are_listed_by_time_and_of_one_time_by_recording"),
    (TiesGoByName, "test_calls_are_listed_by_time_and_of_one_time_by_recording"),
    (AnyCursorIsTheFirstPage, "test_a_cursor_that_is_not_ours_is_refused"),
    (AnyCursorIsTheFirstPage, "test_a_cursor_of_another_list_is_refused"),
    (ToolsAreSortedAsWords, "test_tools_are_listed_by_name_with_the_number_of_their_calls"),
    (TimesAreAddedOneByOne, "test_a_sum_is_exact_where_adding_one_by_one_is_not"),
    (TokensAreFloats, "test_a_sum_is_exact_where_adding_one_by_one_is_not"),
    (PercentilesAreRoundedDown, "test_the_percentile_is_the_nearest_rank"),
    (PercentilesAreRoundedDown, "test_statistics_are_those_of_adding_everything_up_anew"),
    (OtherErrorsAreForgotten, "test_the_five_most_frequent_errors_are_named_and_of_equal_ones_the_latest"),
    (EqualErrorsGoByName, "test_the_five_most_frequent_errors_are_named_and_of_equal_ones_the_latest"),
    (EraseLeavesCalls, "test_erasing_a_scope_removes_its_calls_and_no_others"),
    (EraseTakesTheWholeSpace, "test_erasing_a_scope_removes_its_calls_and_no_others"),
    (WorksAfterClosing, "test_every_call_about_tool_calls_after_closing_says_that_it_is_closed"),
]


async def run(make: Callable[[], Wrapped], test: str) -> None:
    store = make()
    try:
        await getattr(ToolCallContract(), test)(store)
    finally:
        await store.inner.close()


@pytest.mark.parametrize(("fault", "test"), FAULTS, ids=[f"{fault.__name__}-{test}" for fault, test in FAULTS])
async def test_the_contract_catches_the_fault_and_passes_the_right_store(
    fault: type[Wrapped], test: str, tmp_path: Path
) -> None:
    await run(lambda: Wrapped(tmp_path / "right.db"), test)
    with pytest.raises((AssertionError, pytest.fail.Exception, ReMeError)):
        await run(lambda: fault(tmp_path / "wrong.db"), test)
