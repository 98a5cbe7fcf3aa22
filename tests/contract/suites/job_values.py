# asserts are what a contract suite is made of
"""Values and small helpers for the contract of job queues."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, TypeAlias

from pydantic import JsonValue

from reme_core.ports import ClaimJob, SettleJob, Store
from reme_core.schema import Job, JobState, Scope
from reme_core.testing.store_values import ALICE, NOW, at

HOLD = timedelta(minutes=10)

Outcome: TypeAlias = Literal["done", "drop", "retry", "release", "renew", "dead", "revive"]


def is_never_gone(owner: str) -> bool:
    """Say of every owner that it may still be at work."""
    return not owner


def job(
    job_id: str,
    *,
    minute: float = 0,
    due: float | None = None,
    kind: str = "work",
    payload: Mapping[str, JsonValue] | None = None,
) -> Job:
    """Build a job that was promised `minute` minutes after `NOW`, and is due then or at another minute."""
    return Job(
        job_id=job_id,
        run_id=f"run of {job_id}",
        kind=kind,
        payload=dict(payload or {}),
        created_at=at(minute),
        due_at=at(minute if due is None else due),
    )


def asks(
    owner: str = "worker", *, minute: float = 60, waiting: bool = False, kinds: tuple[str, ...] = ("work",)
) -> ClaimJob:
    """Ask for a job `minute` minutes after `NOW`, to hold it for `HOLD`."""
    return ClaimJob(owner=owner, now=at(minute), hold=HOLD, is_gone=is_never_gone, kinds=kinds, waiting=waiting)


async def claimed(store: Store, claim: ClaimJob | None = None, *, scope: Scope = ALICE) -> Job:
    """Claim a job, and check that there is one and that it is held as was asked."""
    wanted = claim or asks()
    taken = await store.claim_job(scope, wanted)
    assert taken is not None
    assert (taken.state, taken.owner) == (JobState.RUNNING, wanted.owner)
    assert taken.held_until == wanted.now + wanted.hold
    assert taken in await store.list_jobs(scope)
    return taken


async def settle(
    store: Store, job_id: str, outcome: Outcome, *, owner: str | None = "worker", scope: Scope = ALICE
) -> None:
    """Settle a job in the simplest way; what is tried again is due at `NOW`."""
    held_until = at(999) if outcome == "renew" else None
    due_at = NOW if outcome in {"retry", "release", "revive"} else None
    await store.settle_job(
        scope, SettleJob(job_id=job_id, owner=owner, outcome=outcome, due_at=due_at, held_until=held_until)
    )


async def ids(store: Store, *, scope: Scope = ALICE) -> list[str]:
    """Return the ids of a scope's jobs, in the order of the list."""
    return [item.job_id for item in await store.list_jobs(scope)]


async def only(store: Store, *, scope: Scope = ALICE) -> Job:
    """Return the one job of a scope."""
    held = await store.list_jobs(scope)
    assert len(held) == 1
    return held[0]
