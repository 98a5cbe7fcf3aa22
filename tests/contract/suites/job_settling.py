# asserts are what a contract suite is made of
"""Promises of a job queue about the end of an attempt, and about writes that settle a job."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import JsonValue

from reme_core.errors import ConflictError, InvalidInputError, JobNotFoundError, MemoryNotFoundError
from reme_core.ports import DeleteMemory, EventQuery, PutMemory, SettleJob
from reme_core.schema import JobState
from reme_core.testing._memory_writes import add, everything
from reme_core.testing.store_values import ALICE, BOB, ELSEWHERE, at, batch, memory
from tests.contract.suites.job_values import Outcome, Store, asks, claimed, ids, job, only, settle

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
KEPT_BYTES = 1 << 16


class JobSettling:
    """Ending, prolonging and giving back."""

    @pytest.mark.parametrize("outcome", ["done", "drop"])
    async def test_a_job_that_is_done_is_no_more(self, store: Store, outcome: Outcome) -> None:
        await store.add_jobs(ALICE, [job("a"), job("b")])
        await claimed(store)
        await settle(store, "a", outcome)
        assert await ids(store) == ["b"]
        with pytest.raises(JobNotFoundError):
            await settle(store, "a", outcome)
        assert (await claimed(store)).job_id == "b"

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_a_job_is_settled_by_its_owner_alone(self, store: Store, outcome: Outcome) -> None:
        await store.add_jobs(ALICE, [job("a")])
        taken = await claimed(store)
        for stranger in ("stranger", "Worker", "", None):
            with pytest.raises(ConflictError):
                await settle(store, "a", outcome, owner=stranger)
        assert await only(store) == taken

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_a_job_that_nobody_holds_is_settled_by_no_worker(self, store: Store, outcome: Outcome) -> None:
        await store.add_jobs(ALICE, [job("a")])
        with pytest.raises(ConflictError):
            await settle(store, "a", outcome)
        await claimed(store)
        await settle(store, "a", "release")
        released = await only(store)
        with pytest.raises(ConflictError):
            await settle(store, "a", outcome)
        assert await only(store) == released

    @pytest.mark.parametrize("outcome", OUTCOMES)
    async def test_a_job_that_is_not_there_is_not_found(self, store: Store, outcome: Outcome) -> None:
        await store.add_jobs(BOB, [job("b")])
        await store.add_jobs(ELSEWHERE, [job("e")])
        await claimed(store, scope=BOB)
        for scope in (ALICE, BOB):
            for unknown in ("no such", "*", "e"):
                with pytest.raises(JobNotFoundError) as caught:
                    await settle(store, unknown, outcome, scope=scope)
                assert caught.value.missing == (unknown,)
        with pytest.raises(JobNotFoundError):
            await settle(store, "b", outcome)
        assert (await only(store, scope=BOB)).state is JobState.RUNNING

    async def test_a_job_to_be_tried_again_waits_and_tells_why(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store)
        failure = SettleJob(
            job_id="a", owner="worker", outcome="retry", due_at=at(90), error="no connection", raw='{"cut'
        )
        await store.settle_job(ALICE, failure)
        waits = await only(store)
        assert (waits.state, waits.attempts, waits.due_at) == (JobState.PENDING, 1, at(90))
        assert (waits.error, waits.raw, waits.owner, waits.held_until) == ("no connection", '{"cut', None, None)
        assert await store.claim_job(ALICE, asks(minute=89)) is None
        again = await claimed(store, asks(minute=90))
        assert (again.attempts, again.run_id, again.error) == (2, "run of a", "no connection")

    async def test_an_attempt_that_was_given_back_does_not_count(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        for _ in range(3):
            assert (await claimed(store)).attempts == 1
            await settle(store, "a", "release")
            released = await only(store)
            assert (released.state, released.attempts, released.owner) == (JobState.PENDING, 0, None)
        await settle(store, "a", "release", owner=None)
        assert (await only(store)).attempts == 0
        for _ in range(3):
            await claimed(store)
            await settle(store, "a", "retry")
        await claimed(store)
        await settle(store, "a", "release")
        assert (await only(store)).attempts == 3

    async def test_a_renewed_job_is_held_for_longer(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        taken = await claimed(store, asks(minute=60))
        await store.settle_job(ALICE, SettleJob(job_id="a", owner="worker", outcome="renew", held_until=at(80)))
        assert await only(store) == taken.model_copy(update={"held_until": at(80)})
        assert await store.claim_job(ALICE, asks("heir", minute=79)) is None
        assert (await claimed(store, asks("heir", minute=80))).attempts == 2
        with pytest.raises(ConflictError):
            await settle(store, "a", "renew")

    async def test_to_renew_wants_a_time(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        taken = await claimed(store)
        with pytest.raises(InvalidInputError):
            await store.settle_job(ALICE, SettleJob(job_id="a", owner="worker", outcome="renew"))
        assert await only(store) == taken

    async def test_a_dead_job_is_kept_with_its_reason_and_never_given_out(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a"), job("b")])
        await claimed(store)
        await store.settle_job(ALICE, SettleJob(job_id="a", owner="worker", outcome="dead", error="why", raw="what"))
        dead = (await store.list_jobs(ALICE))[0]
        assert (dead.state, dead.attempts, dead.error, dead.raw) == (JobState.DEAD, 1, "why", "what")
        assert (dead.owner, dead.held_until) == (None, None)
        assert (await claimed(store, asks(waiting=True))).job_id == "b"
        await settle(store, "b", "done")
        assert await store.claim_job(ALICE, asks(minute=10_000, waiting=True)) is None

    async def test_a_dead_job_can_be_revived_as_if_new(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store)
        await store.settle_job(ALICE, SettleJob(job_id="a", owner="worker", outcome="dead", error="why", raw="what"))
        await store.settle_job(ALICE, SettleJob(job_id="a", owner=None, outcome="revive", due_at=at(70)))
        assert await only(store) == job("a", due=70)
        assert await store.claim_job(ALICE, asks(minute=69)) is None
        assert (await claimed(store, asks(minute=70))).attempts == 1

    @pytest.mark.parametrize("state", ["pending", "dead"])
    async def test_a_job_that_nobody_holds_can_be_dropped_by_hand(self, store: Store, state: str) -> None:
        await store.add_jobs(ALICE, [job("a"), job("b")])
        if state == "dead":
            await settle(store, "a", "dead", owner=None)
        await settle(store, "a", "drop", owner=None)
        assert await ids(store) == ["b"]

    @pytest.mark.parametrize("outcome", ["retry", "release", "dead", "revive", "renew"])
    async def test_a_payload_replaced_makes_it_another_run(self, store: Store, outcome: Outcome) -> None:
        await store.add_jobs(ALICE, [job("a", payload={"left": [1, 2], "session": "s"})])
        taken = await claimed(store)
        rest: dict[str, JsonValue] = {"left": [2], "剩": "下"}
        await store.settle_job(
            ALICE,
            SettleJob(
                job_id="a", owner="worker", outcome=outcome, due_at=at(0), held_until=at(99), error="", payload=rest
            ),
        )
        after = await only(store)
        assert after.payload == rest
        assert after.run_id not in {taken.run_id, ""}
        rest["left"] = []
        assert (await only(store)).payload["left"] == [2]

    async def test_an_attempt_without_a_new_payload_stays_the_same_run(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a", payload={"x": 1})])
        for outcome in ("retry", "release"):
            await claimed(store)
            await settle(store, "a", "retry" if outcome == "retry" else "release")
        assert ((await only(store)).run_id, (await only(store)).payload) == ("run of a", {"x": 1})

    @pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": "half \ud83d"}, {"x": "\0"}, {"x": object()}])
    async def test_a_payload_that_cannot_be_stored_is_refused(
        self, store: Store, payload: dict[str, JsonValue]
    ) -> None:
        await store.add_jobs(ALICE, [job("a")])
        taken = await claimed(store)
        with pytest.raises(InvalidInputError):
            await store.settle_job(
                ALICE, SettleJob(job_id="a", owner="worker", outcome="retry", due_at=at(0), payload=payload)
            )
        assert await only(store) == taken

    @pytest.mark.parametrize("outcome", ["retry", "dead"])
    @pytest.mark.parametrize(
        ("answer", "kept"),
        [
            ("x" * (KEPT_BYTES + 1), "x" * KEPT_BYTES),
            ("你" * KEPT_BYTES, "你" * (KEPT_BYTES // 3)),
            ("x" + "🎾" * KEPT_BYTES, "x" + "🎾" * ((KEPT_BYTES - 1) // 4)),
        ],
        ids=["one byte each", "three bytes each", "four bytes each"],
    )
    async def test_a_long_answer_is_cut_between_characters(
        self, store: Store, outcome: Outcome, answer: str, kept: str
    ) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store)
        await store.settle_job(ALICE, SettleJob(job_id="a", owner="worker", outcome=outcome, error="why", raw=answer))
        assert (await only(store)).raw == kept

    async def test_an_answer_with_what_no_file_keeps_is_kept_without_it(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store)
        hostile = SettleJob(
            job_id="a", owner="worker", outcome="dead", error="not \0 JSON \ud83d", raw='{"x": "\0 \ud83d 🎾"}'
        )
        await store.settle_job(ALICE, hostile)
        [dead] = await store.list_jobs(ALICE, (JobState.DEAD,))
        for text, parts in ((dead.error, ("not ", " JSON ")), (dead.raw, ('{"x": "', ' 🎾"}'))):
            assert all(part in text for part in parts)
            assert "\0" not in text
            assert text.encode()


class JobWrites:
    """A write and the end of its job, in one: for queues that keep memories as well (`Store`)."""

    async def test_the_memories_are_written_and_the_job_is_done(self, store: Store) -> None:
        [old] = await add(store, memory("old"))
        await store.add_jobs(ALICE, [job("a"), job("b")])
        await claimed(store)
        write = batch(memory("new"), deletes=(DeleteMemory(memory_id=old.memory_id),))
        [new] = await store.put_and_settle(ALICE, write, SettleJob(job_id="a", owner="worker", outcome="done"))
        assert await everything(store) == [new]
        assert await ids(store) == ["b"]

    async def test_a_write_may_leave_the_rest_of_the_job_for_later(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a", payload={"left": [1, 2]})])
        await claimed(store)
        rest = SettleJob(job_id="a", owner="worker", outcome="retry", due_at=at(90), error="2", payload={"left": [2]})
        [new] = await store.put_and_settle(ALICE, batch(memory("one")), rest)
        assert await everything(store) == [new]
        waits = await only(store)
        assert (waits.state, waits.payload, waits.error) == (JobState.PENDING, {"left": [2]}, "2")

    async def test_a_job_that_led_to_nothing_is_done_all_the_same(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store)
        assert await store.put_and_settle(ALICE, batch(), SettleJob(job_id="a", owner="worker", outcome="done")) == []
        assert await ids(store) == []

    @pytest.mark.parametrize("wrong", ["revision", "duplicate", "delete", "scope"])
    async def test_a_batch_that_is_refused_leaves_the_job_as_it_was(self, store: Store, wrong: str) -> None:
        [held] = await add(store, memory("held"))
        await store.add_jobs(ALICE, [job("a")])
        taken = await claimed(store)
        write, error = {
            "revision": (batch(memory("new"), PutMemory(memory=held, expected_revision=7)), ConflictError),
            "duplicate": (batch(memory("new"), PutMemory(memory=memory("held"), on_duplicate="raise")), ConflictError),
            "delete": (batch(memory("new"), deletes=(DeleteMemory(memory_id="no such"),)), MemoryNotFoundError),
            "scope": (batch(memory("new"), memory("planted", scope=BOB)), InvalidInputError),
        }[wrong]
        with pytest.raises(error):
            await store.put_and_settle(ALICE, write, SettleJob(job_id="a", owner="worker", outcome="done"))
        assert await only(store) == taken
        assert await everything(store) == [held]
        assert len(await store.events(ALICE, EventQuery())) == 1

    @pytest.mark.parametrize("owner", ["stranger", None])
    async def test_a_stranger_writes_nothing(self, store: Store, owner: str | None) -> None:
        await store.add_jobs(ALICE, [job("a")])
        taken = await claimed(store)
        with pytest.raises(ConflictError):
            await store.put_and_settle(ALICE, batch(memory("new")), SettleJob(job_id="a", owner=owner, outcome="done"))
        assert await only(store) == taken
        assert await everything(store) == []

    async def test_who_was_replaced_by_another_writes_nothing_and_the_other_does(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store, asks("slow", minute=60))
        await claimed(store, asks("heir", minute=80))
        for owner in ("slow", "heir"):
            done = SettleJob(job_id="a", owner=owner, outcome="done")
            if owner == "slow":
                with pytest.raises(ConflictError):
                    await store.put_and_settle(ALICE, batch(memory("slow")), done)
            else:
                await store.put_and_settle(ALICE, batch(memory("heir")), done)
        assert [item.content for item in await everything(store)] == ["heir"]
        with pytest.raises(JobNotFoundError):
            await store.put_and_settle(
                ALICE, batch(memory("late")), SettleJob(job_id="a", owner="slow", outcome="done")
            )
        assert len(await everything(store)) == 1

    async def test_nothing_is_written_for_a_scope_that_was_erased(self, store: Store) -> None:
        await add(store, memory("old"))
        await store.add_jobs(ALICE, [job("a")])
        await claimed(store)
        assert (await store.erase(ALICE)).jobs == 1
        done = SettleJob(job_id="a", owner="worker", outcome="done")
        with pytest.raises(JobNotFoundError):
            await store.put_and_settle(ALICE, batch(memory("new")), done)
        await store.add_jobs(ALICE, [job("other")])
        with pytest.raises(JobNotFoundError):
            await store.put_and_settle(ALICE, batch(memory("new")), done)
        assert await everything(store) == []
        assert await store.events(ALICE, EventQuery()) == []
