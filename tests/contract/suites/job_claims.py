# asserts are what a contract suite is made of
"""Promises of a job queue about adding jobs and giving them out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reme_core.errors import ConflictError, InvalidInputError
from reme_core.schema import JobState
from reme_core.testing.store_values import ALICE, BOB, at
from tests.contract.suites.job_values import HOLD, Store, asks, claimed, ids, job, only, settle


class JobAdding:
    """What is promised is kept, once."""

    async def test_a_job_comes_back_as_it_was_added(self, store: Store) -> None:
        wanted = job("a", minute=3, due=5, payload={"блок": ["块", 1, 2.5, True, None, {"a.b": "🎾"}], "": "empty"})
        await store.add_jobs(ALICE, [wanted])
        assert await store.list_jobs(ALICE) == [wanted]
        assert (wanted.state, wanted.attempts, wanted.owner) == (JobState.PENDING, 0, None)

    async def test_adding_the_same_job_again_changes_nothing(self, store: Store) -> None:
        first, second = job("a", payload={"x": 1, "y": 2}), job("b")
        await store.add_jobs(ALICE, [first, first])
        await store.add_jobs(ALICE, [job("a", payload={"y": 2, "x": 1}), second])
        assert await store.list_jobs(ALICE) == [first, second]

    async def test_adding_a_job_again_that_was_begun_meanwhile_leaves_it_begun(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        taken = await claimed(store)
        await store.add_jobs(ALICE, [job("a")])
        assert await store.list_jobs(ALICE) == [taken]

    @pytest.mark.parametrize("field", ["kind", "payload", "run_id", "created_at"])
    async def test_another_job_of_the_same_id_conflicts_and_nothing_is_added(self, store: Store, field: str) -> None:
        held = job("a")
        await store.add_jobs(ALICE, [held])
        other = {"kind": "else", "payload": {"x": 1}, "run_id": "another", "created_at": at(1)}[field]
        with pytest.raises(ConflictError):
            await store.add_jobs(ALICE, [job("b"), held.model_copy(update={field: other})])
        assert await store.list_jobs(ALICE) == [held]

    async def test_adding_nothing_leaves_nothing(self, store: Store) -> None:
        await store.add_jobs(ALICE, [])
        assert await store.list_jobs(ALICE) == []
        assert await store.job_scopes(ALICE.memory_space) == []
        assert await store.claim_job(ALICE, asks()) is None

    async def test_jobs_are_listed_oldest_first_and_by_state(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("late", minute=9), job("first", minute=1), job("second", minute=1)])
        assert await ids(store) == ["first", "second", "late"]
        await claimed(store)
        await settle(store, "late", "dead", owner=None)
        by_state = {state: [item.job_id for item in await store.list_jobs(ALICE, (state,))] for state in JobState}
        assert by_state == {JobState.RUNNING: ["first"], JobState.PENDING: ["second"], JobState.DEAD: ["late"]}
        both = await store.list_jobs(ALICE, (JobState.DEAD, JobState.RUNNING))
        assert [item.job_id for item in both] == ["first", "late"]
        assert await store.list_jobs(ALICE, ()) == []

    async def test_what_is_returned_is_a_copy(self, store: Store) -> None:
        wanted = job("a", payload={"x": [1]})
        await store.add_jobs(ALICE, [wanted])
        for item in (wanted, await only(store), await claimed(store)):
            item.payload["x"] = "changed"
        assert (await only(store)).payload == {"x": [1]}


class JobClaims:
    """The oldest that is due is given out, one at a time in each scope."""

    async def test_jobs_are_given_out_oldest_first(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("c", minute=2), job("a", minute=1), job("b", minute=1)])
        await store.add_jobs(ALICE, [job("d", minute=2)])
        order = []
        for _ in range(4):
            taken = await claimed(store)
            order.append(taken.job_id)
            await settle(store, taken.job_id, "done")
        assert order == ["a", "b", "c", "d"]
        assert await store.claim_job(ALICE, asks()) is None

    async def test_a_claimed_job_is_running_held_and_counts_one_more_attempt(self, store: Store) -> None:
        added = job("a", payload={"x": 1})
        await store.add_jobs(ALICE, [added])
        taken = await claimed(store)
        begun = {"state": JobState.RUNNING, "attempts": 1, "owner": "worker", "held_until": at(60) + HOLD}
        assert taken == added.model_copy(update=begun)

    async def test_while_a_job_is_held_no_other_of_the_scope_is_given_out(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a"), job("b"), job("other kind", kind="else")])
        await claimed(store)
        for claim in (asks(), asks("another"), asks(waiting=True), asks(kinds=("else",))):
            assert await store.claim_job(ALICE, claim) is None
        assert len(await store.list_jobs(ALICE, (JobState.RUNNING,))) == 1
        await settle(store, "a", "done")
        assert (await claimed(store, asks("another"))).job_id == "b"

    async def test_a_held_job_of_one_scope_does_not_keep_others_waiting(self, store: Store) -> None:
        for scope in (ALICE, BOB):
            await store.add_jobs(scope, [job("a")])
        first, second = await claimed(store), await claimed(store, scope=BOB)
        assert first.job_id == second.job_id == "a"

    async def test_only_the_kinds_asked_for_are_given_out(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a", kind="first"), job("b", kind="second")])
        assert await store.claim_job(ALICE, asks(kinds=())) is None
        assert await store.claim_job(ALICE, asks(kinds=("third",))) is None
        assert (await claimed(store, asks(kinds=("third", "second")))).job_id == "b"

    async def test_jobs_to_be_skipped_are_not_given_out(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a"), job("b")])
        assert (await claimed(store, replace(asks(), skip=frozenset({"a", "none"})))).job_id == "b"
        await settle(store, "b", "done")
        await claimed(store, asks("dead worker", minute=60))
        assert await store.claim_job(ALICE, replace(asks("heir", minute=70), skip=frozenset({"a"}))) is None

    async def test_a_job_whose_time_of_holding_has_passed_is_begun_anew(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a"), job("b")])
        await claimed(store, asks("dead worker", minute=60))
        assert await store.claim_job(ALICE, asks("heir", minute=69.9)) is None
        taken = await claimed(store, asks("heir", minute=70))
        assert (taken.job_id, taken.attempts) == ("a", 2)
        with pytest.raises(ConflictError):
            await settle(store, "a", "done", owner="dead worker")
        await settle(store, "a", "done", owner="heir")

    async def test_a_job_whose_owner_is_gone_is_begun_anew_at_once(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store, asks("dead worker"))
        assert await store.claim_job(ALICE, replace(asks("heir"), is_gone=lambda name: name == "another")) is None
        taken = await claimed(store, replace(asks("heir"), is_gone=lambda name: name == "dead worker"))
        assert (taken.job_id, taken.attempts) == ("a", 2)

    async def test_an_abandoned_job_goes_before_younger_ones_even_where_it_is_not_due(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("young", minute=5), job("old", due=600)])
        assert (await claimed(store, asks("dead worker", waiting=True))).job_id == "old"
        assert (await claimed(store, asks(minute=80))).job_id == "old"

    async def test_an_abandoned_job_of_another_kind_holds_nobody_up(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a", kind="else"), job("b")])
        await claimed(store, asks("dead worker", kinds=("else",)))
        assert (await claimed(store, asks(minute=80))).job_id == "b"

    async def test_a_job_that_is_not_due_waits_and_lets_later_ones_pass(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("waits", minute=0, due=61), job("due", minute=1)])
        assert (await claimed(store, asks(minute=60))).job_id == "due"
        await settle(store, "due", "done")
        assert await store.claim_job(ALICE, asks(minute=60.9)) is None
        assert (await claimed(store, asks(minute=61))).job_id == "waits"

    async def test_who_does_not_wait_gets_jobs_before_they_are_due_in_their_order(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("waits", minute=0, due=600), job("due", minute=1)])
        assert (await claimed(store, asks(waiting=True))).job_id == "waits"

    async def test_a_claim_that_cannot_be_stored_is_refused_and_takes_nothing(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        for owner in ("a\0b", "half \ud83d"):
            with pytest.raises(InvalidInputError):
                await store.claim_job(ALICE, asks(owner))
        assert await store.list_jobs(ALICE) == [job("a")]
