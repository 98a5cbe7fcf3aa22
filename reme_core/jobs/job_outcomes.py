"""Outcomes of jobs, and the error of a call whose jobs did not all end well."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from reme_core.errors import JobNotFoundError, PartialFailureError, ReMeError
from reme_core.schema import Job, Memory, RejectedExperience, RejectedFact, Usage
from reme_core.steps.distillation import Distilled

_LOG = logging.getLogger("reme")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What became of one job.

    Attributes:
        job: The job as it was taken.
        memories: What it wrote.
        usage: What it cost.
        failure: Why it is not done, if it is not; it is pending or dead then.
        has_written: Whether it changed anything, deletions included: there is a run to undo then.
        is_lost: Somebody else has taken it meanwhile, and decides what becomes of it.
        rejected: Experiences that it left out, and why.
        rejected_facts: Facts likewise.
        degraded: What failed and was done without.
    """

    job: Job
    memories: tuple[Memory, ...] = ()
    usage: Usage = field(default_factory=Usage)
    failure: ReMeError | None = None
    has_written: bool = False
    is_lost: bool = False
    rejected: tuple[RejectedExperience, ...] = ()
    rejected_facts: tuple[RejectedFact, ...] = ()
    degraded: tuple[str, ...] = ()


def distinct(memories: tuple[Memory, ...]) -> tuple[Memory, ...]:
    """Return the last state of each memory, in the order of writing."""
    return tuple({memory.memory_id: memory for memory in memories}.values())


def outcome_of(job: Job, distilled: Distilled, written: tuple[Memory, ...], usage: Usage) -> JobOutcome:
    """Return what a job came to, given what was written of it."""
    failure = distilled.failures[0][1] if distilled.failures else None
    if failure is not None:
        _LOG.error("job %s is done in part, the rest is tried again: %s", job.job_id, failure)
    if distilled.rejected_facts:
        _LOG.warning("job %s: %d facts can't be used, and are left out", job.job_id, len(distilled.rejected_facts))
    batch = distilled.batch
    # A put that would repeat what somebody has just written is answered with that, and writes nothing.
    answered = [(put.memory, memory) for put, memory in zip(batch.puts, written, strict=True)] if written else []
    own = [memory for new, memory in answered if memory.memory_id == new.memory_id]
    known = [(new, memory) for new, memory in answered if memory.memory_id != new.memory_id]
    return JobOutcome(
        job=job,
        memories=distinct(tuple(own)),
        usage=usage,
        failure=failure,
        has_written=bool(own or batch.deletes),
        rejected=(*distilled.rejected, *(_repeated(new, memory) for new, memory in known)),
        rejected_facts=distilled.rejected_facts,
        degraded=distilled.degraded,
    )


def _repeated(new: Memory, known: Memory) -> RejectedExperience:
    return RejectedExperience(
        when_to_use=new.when_to_use,
        content=new.content,
        kind="duplicate",
        reason=f"memory {known.memory_id!r} says it already",
    )


def with_outcomes_degraded(degraded: Sequence[str], outcomes: Sequence[JobOutcome]) -> tuple[str, ...]:
    """Return what a call and its jobs have done without, each once."""
    return tuple(dict.fromkeys([*degraded, *(item for outcome in outcomes for item in outcome.degraded)]))


def undone(outcomes: Sequence[JobOutcome]) -> tuple[str, ...]:
    """Return the jobs that are still to be done, in order; those that are no more are not among them."""
    failed = (outcome for outcome in outcomes if outcome.failure is not None)
    return tuple(outcome.job.job_id for outcome in failed if not isinstance(outcome.failure, JobNotFoundError))


def not_all_done(done: object, failures: Sequence[ReMeError], *, kept: str) -> PartialFailureError:
    """Return the error of a call that has kept what it was given and could not do what follows.

    `kept` names it: "the messages".
    """
    if all(isinstance(failure, JobNotFoundError) for failure in failures):
        msg = "what follows was dropped, or all of this user was deleted, while it was done"
    else:
        msg = (
            f"{kept} are kept; what follows from them is not done ({failures[0]}): flush() and the next start try "
            "again what list_jobs (`reme jobs`) shows as pending"
        )
    return PartialFailureError(msg, done=done, failures=failures)
