"""The port of durable work: jobs that outlive the process which promised them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from pydantic import JsonValue

from reme_core.ports.transcript import BlockSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimJob:
    """Asks for the oldest job that may be begun.

    At most one job of a scope runs at a time: as long as one is held, no other is given out. A job is held while
    `held_until` lies ahead and its owner is not gone; one that is not held any more is begun anew.

    Attributes:
        owner: Who asks: a process and a place in it.
        now: The time of asking.
        hold: For how long, unless renewed.
        is_gone: Tells of an owner whether it certainly is no more; called within the write, so it must not wait.
        kinds: Jobs of these kinds.
        waiting: Also those that are not due yet.
        skip: Not these jobs.
    """

    owner: str
    now: datetime
    hold: timedelta
    is_gone: Callable[[str], bool]
    kinds: tuple[str, ...]
    waiting: bool = False
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleJob:
    """Ends, prolongs or gives back a job.

    Attributes:
        job_id: Which.
        owner: Who holds it. None: nobody does; to revive or drop one by hand.
        outcome: `done` or `drop`: it is removed. `retry`: pending from `due_at` on. `release`: the same, and the
            attempt doesn't count. `renew`: held until `held_until`. `dead`: given up. `revive`: pending as if new.
        due_at: For `retry`, `release` and `revive`.
        held_until: For `renew`.
        error: For `retry` and `dead`: why.
        raw: For `retry` and `dead`: the model's answer, if that was why.
        payload: Replaces the payload, if given (what is left to do), and gives the job a new run id.
        summaries: Entries of the block index that are written with it, where the queue keeps blocks as well. One of a
            block that is gone is passed over.
    """

    job_id: str
    owner: str | None
    outcome: Literal["done", "drop", "retry", "release", "renew", "dead", "revive"]
    due_at: datetime | None = None
    held_until: datetime | None = None
    error: str = ""
    raw: str = ""
    payload: Mapping[str, JsonValue] | None = None
    summaries: Sequence[BlockSummary] = ()
