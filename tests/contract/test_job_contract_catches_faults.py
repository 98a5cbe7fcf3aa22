"""Queues that are wrong on purpose: for each, a test of the contract that fails on it and passes on the right queue."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from reme_core.errors import ConflictError, NotFoundError
from reme_core.ports import (
    ClaimJob,
    SettleJob,
    WrappedStore,
    WriteBatch,
)
from reme_core.schema import Erased, Job, JobState, Memory, Scope
from reme_core.stores import LocalStore
from reme_core.testing.store_values import NOW
from tests.contract.suites.job_contract import JobContract


class Wrapped(WrappedStore):
    """Hands every call on; a fault changes one of them."""

    def __init__(self, path: Path) -> None:
        self.inner = LocalStore(path, synchronous="NORMAL")
        super().__init__(self.inner)
        self.scopes: dict[Scope, None] = {}

    async def add_jobs(self, scope: Scope, jobs: Sequence[Job]) -> None:
        self.scopes[scope] = None
        await self.inner.add_jobs(scope, jobs)

    async def job_scopes(self, memory_space: str) -> list[Scope]:
        return await self.inner.job_scopes(memory_space)


class TwoAreHeldAtOnce(Wrapped):
    """Gives the next one out while another is held."""

    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        taken = await self.inner.claim_job(scope, claim)
        if taken is not None:
            return taken
        for held in await self.inner.list_jobs(scope, (JobState.RUNNING,)):
            later = replace(claim, now=claim.now - timedelta(days=1), waiting=True, hold=timedelta(days=2))
            put_by = SettleJob(job_id=held.job_id, owner=held.owner, outcome="dead")
            await self.inner.settle_job(scope, put_by)
            taken = await self.inner.claim_job(scope, later)
        return taken


class TheSameIsGivenToTwo(Wrapped):
    """Looks first and takes later: the race that a write of the database rules out."""

    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        pending = await self.inner.list_jobs(scope, (JobState.PENDING,))
        await asyncio.sleep(0)
        taken = await self.inner.claim_job(scope, claim)
        return pending[0] if taken is None and pending else taken


class StrangersMaySettle(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        held = {item.job_id: item.owner for item in await self.inner.list_jobs(scope)}
        await self.inner.settle_job(scope, replace(settle, owner=held.get(settle.job_id)))


class WorkersSettleWhatNobodyHolds(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        try:
            await self.inner.settle_job(scope, settle)
        except ConflictError:
            await self.inner.settle_job(scope, replace(settle, owner=None))


class DoneJobsStay(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        await self.inner.settle_job(scope, replace(settle, outcome="dead") if settle.outcome == "done" else settle)


class UnknownJobsAreSettled(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        try:
            await self.inner.settle_job(scope, settle)
        except NotFoundError:
            return


class JobsOfOtherScopesAreSettled(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        for other in (scope, *self.scopes):
            if settle.job_id in [item.job_id for item in await self.inner.list_jobs(other)]:
                scope = other
                break
        await self.inner.settle_job(scope, settle)


class NewestComeFirst(Wrapped):
    async def add_jobs(self, scope: Scope, jobs: Sequence[Job]) -> None:
        turned = [item.model_copy(update={"created_at": NOW + (NOW - item.created_at)}) for item in jobs]
        await super().add_jobs(scope, turned[::-1])


class JobsOfOtherScopesAreListed(Wrapped):
    async def list_jobs(self, scope: Scope, states: tuple[JobState, ...] | None = None) -> list[Job]:
        return [item for other in self.scopes for item in await self.inner.list_jobs(other, states)]


class OtherSpacesAreListed(Wrapped):
    async def job_scopes(self, memory_space: str) -> list[Scope]:
        spaces = {scope.memory_space for scope in self.scopes} | {memory_space}
        return [scope for space in spaces for scope in await self.inner.job_scopes(space)]


class HoldingNeverEnds(Wrapped):
    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        return await self.inner.claim_job(scope, replace(claim, hold=timedelta(days=9)))


class ExpiredJobsAreForgotten(Wrapped):
    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        if await self.inner.list_jobs(scope, (JobState.RUNNING,)):
            return None
        return await self.inner.claim_job(scope, claim)


class TheGoneKeepTheirJobs(Wrapped):
    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        return await self.inner.claim_job(scope, replace(claim, is_gone=lambda _: False))


class KindsAreIgnored(Wrapped):
    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        kinds = {item.kind for item in await self.inner.list_jobs(scope)}
        return await self.inner.claim_job(scope, replace(claim, kinds=tuple(kinds)))


class NothingWaits(Wrapped):
    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        return await self.inner.claim_job(scope, replace(claim, waiting=True))


class WhatWaitsHoldsUpTheRest(Wrapped):
    async def claim_job(self, scope: Scope, claim: ClaimJob) -> Job | None:
        first = next(iter(await self.inner.list_jobs(scope, (JobState.PENDING,))), None)
        if first is not None and first.due_at > claim.now and not claim.waiting:
            return None
        return await self.inner.claim_job(scope, claim)


class ReleasedAttemptsCount(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        release = settle.outcome == "release"
        await self.inner.settle_job(scope, replace(settle, outcome="retry") if release else settle)


class RevivedJobsStayOld(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        revive = settle.outcome == "revive"
        await self.inner.settle_job(scope, replace(settle, outcome="release") if revive else settle)


class PayloadsStay(Wrapped):
    async def settle_job(self, scope: Scope, settle: SettleJob) -> None:
        await self.inner.settle_job(scope, replace(settle, payload=None))


class AddingAgainBeginsAnew(Wrapped):
    async def add_jobs(self, scope: Scope, jobs: Sequence[Job]) -> None:
        for item in jobs:
            for held in await self.inner.list_jobs(scope):
                if held.job_id == item.job_id:
                    drop = SettleJob(job_id=item.job_id, owner=held.owner, outcome="drop")
                    await self.inner.settle_job(scope, drop)
        await super().add_jobs(scope, jobs)


class SomeAreAdded(Wrapped):
    async def add_jobs(self, scope: Scope, jobs: Sequence[Job]) -> None:
        for item in jobs:
            await super().add_jobs(scope, [item])


class EraseLeavesJobs(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        jobs = await self.inner.list_jobs(scope)
        gone = await self.inner.erase(scope)
        await self.inner.add_jobs(scope, jobs)
        return gone


class EraseTakesTheWholeSpace(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        gone = await self.inner.erase(scope)
        for other in self.scopes:
            if other.memory_space == scope.memory_space:
                await self.inner.erase(other)
        return gone


class MemoriesAreWrittenBeforeTheJobIsSettled(Wrapped):
    async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
        stored = await self.inner.put(scope, batch)
        await self.inner.settle_job(scope, settle)
        return stored


class JobIsSettledBeforeTheMemoriesAreWritten(Wrapped):
    async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
        await self.inner.settle_job(scope, settle)
        return await self.inner.put(scope, batch)


class WorksAfterClosing(Wrapped):
    async def close(self) -> None:
        pass


FAULTS: list[tuple[type[Wrapped], str, tuple[object, ...]]] = [
    (TwoAreHeldAtOnce, "test_while_a_job_is_held_no_other_of_the_scope_is_given_out", ()),
    (TheSameIsGivenToTwo, "test_of_many_that_ask_at_once_one_gets_the_job", ()),
    (TheSameIsGivenToTwo, "test_threads_that_work_at_once_do_each_job_exactly_once", ()),
    (StrangersMaySettle, "test_a_job_is_settled_by_its_owner_alone", ("done",)),
    (StrangersMaySettle, "test_a_job_whose_time_of_holding_has_passed_is_begun_anew", ()),
    (WorkersSettleWhatNobodyHolds, "test_a_job_that_nobody_holds_is_settled_by_no_worker", ("done",)),
    (DoneJobsStay, "test_a_job_that_is_done_is_no_more", ("done",)),
    (UnknownJobsAreSettled, "test_a_job_that_is_not_there_is_not_found", ("done",)),
    (JobsOfOtherScopesAreSettled, "test_a_job_that_is_not_there_is_not_found", ("done",)),
    (NewestComeFirst, "test_jobs_are_given_out_oldest_first", ()),
    (NewestComeFirst, "test_jobs_are_listed_oldest_first_and_by_state", ()),
    (JobsOfOtherScopesAreListed, "test_another_scope_sees_and_gets_no_job", ()),
    (JobsOfOtherScopesAreListed, "test_the_same_id_in_two_scopes_is_two_jobs", ()),
    (OtherSpacesAreListed, "test_the_scopes_with_jobs_are_those_of_the_space_alone", ()),
    (HoldingNeverEnds, "test_a_job_whose_time_of_holding_has_passed_is_begun_anew", ()),
    (ExpiredJobsAreForgotten, "test_a_job_whose_time_of_holding_has_passed_is_begun_anew", ()),
    (ExpiredJobsAreForgotten, "test_a_renewed_job_is_held_for_longer", ()),
    (TheGoneKeepTheirJobs, "test_a_job_whose_owner_is_gone_is_begun_anew_at_once", ()),
    (KindsAreIgnored, "test_only_the_kinds_asked_for_are_given_out", ()),
    (NothingWaits, "test_a_job_that_is_not_due_waits_and_lets_later_ones_pass", ()),
    (WhatWaitsHoldsUpTheRest, "test_a_job_that_is_not_due_waits_and_lets_later_ones_pass", ()),
    (ReleasedAttemptsCount, "test_an_attempt_that_was_given_back_does_not_count", ()),
    (RevivedJobsStayOld, "test_a_dead_job_can_be_revived_as_if_new", ()),
    (PayloadsStay, "test_a_payload_replaced_makes_it_another_run", ("retry",)),
    (AddingAgainBeginsAnew, "test_adding_a_job_again_that_was_begun_meanwhile_leaves_it_begun", ()),
    (SomeAreAdded, "test_another_job_of_the_same_id_conflicts_and_nothing_is_added", ("payload",)),
    (EraseLeavesJobs, "test_erasing_a_scope_removes_its_jobs_and_no_others", ()),
    (EraseTakesTheWholeSpace, "test_erasing_a_scope_removes_its_jobs_and_no_others", ()),
    (MemoriesAreWrittenBeforeTheJobIsSettled, "test_a_stranger_writes_nothing", ("stranger",)),
    (MemoriesAreWrittenBeforeTheJobIsSettled, "test_nothing_is_written_for_a_scope_that_was_erased", ()),
    (
        JobIsSettledBeforeTheMemoriesAreWritten,
        "test_a_batch_that_is_refused_leaves_the_job_as_it_was",
        ("revision",),
    ),
    (WorksAfterClosing, "test_every_call_on_jobs_after_closing_says_that_it_is_closed", ()),
]


async def run(make: Callable[[], Wrapped], test: str, args: tuple[object, ...]) -> None:
    store = make()
    try:
        await getattr(JobContract(), test)(store, *args)
    finally:
        await store.inner.close()


@pytest.mark.parametrize(
    ("fault", "test", "args"), FAULTS, ids=[f"{fault.__name__}-{test}" for fault, test, _ in FAULTS]
)
async def test_the_contract_catches_the_fault_and_passes_the_right_queue(
    fault: type[Wrapped], test: str, args: tuple[object, ...], tmp_path: Path
) -> None:
    await run(lambda: Wrapped(tmp_path / "right.db"), test, args)
    with pytest.raises((AssertionError, pytest.fail.Exception, ExceptionGroup, ConflictError, NotFoundError)):
        await run(lambda: fault(tmp_path / "wrong.db"), test, args)
