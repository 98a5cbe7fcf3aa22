# asserts are what a contract suite is made of
"""A queue in a few lines, and the promise that no sequence of calls can tell another one from it."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.ports import ClaimJob, SettleJob
from reme_core.schema import Job, JobState, Scope, new_id
from reme_core.testing.store_values import at
from tests.contract.suites.job_settling import OUTCOMES
from tests.contract.suites.job_values import Store, asks, job

# Examples use scopes of their own in the store of one test, and each backend runs the same function in its own class.
SUPPRESSED = (HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)
KINDS = ("work", "else")


class PlainQueue:
    """The jobs of one scope in a dictionary, in the order of adding."""

    def __init__(self) -> None:
        """Start empty."""
        self._jobs: dict[str, Job] = {}

    def jobs(self) -> list[Job]:
        """Return all jobs, oldest first."""
        return sorted(self._jobs.values(), key=lambda item: item.created_at)

    def add(self, added: Job) -> None:
        """Add a job, unless it is there."""
        self._jobs.setdefault(added.job_id, added)

    def claim(self, claim: ClaimJob) -> Job | None:
        """Take the oldest job that may be begun."""
        running = [item for item in self.jobs() if item.state is JobState.RUNNING]
        if any(item.held_until and item.held_until > claim.now for item in running):
            return None
        for item in self.jobs():
            waits = item.state is JobState.PENDING and (claim.waiting or item.due_at <= claim.now)
            if item.kind in claim.kinds and (waits or item in running):
                begun = {
                    "state": JobState.RUNNING,
                    "attempts": item.attempts + 1,
                    "owner": claim.owner,
                    "held_until": claim.now + claim.hold,
                }
                return self._change(item, begun)
        return None

    def settle(self, settle: SettleJob) -> None:
        """Do what an outcome says of a job, for whom it may be done."""
        item = self._jobs[settle.job_id]
        free = {"state": JobState.PENDING, "owner": None, "held_until": None, "due_at": settle.due_at}
        match settle.outcome:
            case "done" | "drop":
                del self._jobs[settle.job_id]
            case "renew":
                self._change(item, {"held_until": settle.held_until})
            case "release":
                self._change(item, {**free, "attempts": max(item.attempts - 1, 0)})
            case "retry":
                self._change(item, {**free, "error": settle.error, "raw": settle.raw})
            case "revive":
                self._change(item, {**free, "attempts": 0, "error": "", "raw": ""})
            case "dead":
                reason = {"state": JobState.DEAD, "error": settle.error, "raw": settle.raw}
                self._change(item, {**free, **reason, "due_at": item.due_at})

    def clear(self) -> None:
        """Forget all jobs."""
        self._jobs.clear()

    def _change(self, item: Job, changes: Mapping[str, object]) -> Job:
        self._jobs[item.job_id] = item.model_copy(update=changes)
        return self._jobs[item.job_id]


class JobSequences:
    """Whatever is called in whatever order, the queue does what the plain one does."""

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 1),
                st.sampled_from(["add", "add", "claim", "claim", "settle", "settle", "erase"]),
                st.integers(0, 5),
                st.integers(0, 60),
            ),
            max_size=25,
        )
    )
    @settings(max_examples=50, deadline=None, suppress_health_check=SUPPRESSED)
    async def test_no_sequence_of_calls_tells_the_queue_from_a_plain_one(
        self, store: Store, steps: list[tuple[int, str, int, int]]
    ) -> None:
        space = new_id()
        scopes = (Scope(memory_space=space, user_id="a"), Scope(memory_space=space, user_id="*"))
        plain = (PlainQueue(), PlainQueue())
        for which, action, number, minute in steps:
            scope, model = scopes[which], plain[which]
            if action == "add":
                added = job(f"{number}", minute=number % 3, due=10 * number, kind=KINDS[number % 2])
                model.add(added)
                await store.add_jobs(scope, [added])
            elif action == "claim":
                kinds = KINDS[: 1 + minute % 2]
                claim = asks(f"worker {number}", minute=minute, waiting=number == 0, kinds=kinds)
                assert await store.claim_job(scope, claim) == model.claim(claim)
            elif action == "settle" and model.jobs():
                item = model.jobs()[number % len(model.jobs())]
                outcome = OUTCOMES[minute % len(OUTCOMES)]
                settle = SettleJob(
                    job_id=item.job_id,
                    owner=item.owner,
                    outcome="release" if outcome == "renew" and item.owner is None else outcome,
                    due_at=at(minute + 5),
                    held_until=at(minute + 5),
                    error=f"error {minute}",
                    raw=f"raw {number}",
                )
                model.settle(settle)
                await store.settle_job(scope, settle)
            elif action == "erase" and minute > 40:
                assert (await store.erase(scope)).jobs == len(model.jobs())
                model.clear()
            for other, kept in zip(scopes, plain, strict=True):
                assert await store.list_jobs(other) == kept.jobs()
            assert set(await store.job_scopes(space)) == {s for s, p in zip(scopes, plain, strict=True) if p.jobs()}
