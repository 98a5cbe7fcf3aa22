"""Jobs as rows. Plain functions over a connection; the caller holds the transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from pydantic import JsonValue, TypeAdapter, ValidationError

from reme_core.errors import ConflictError, InvalidInputError, JobNotFoundError
from reme_core.ports import ClaimJob, SettleJob
from reme_core.schema import Job, JobState, Scope, describe, new_id, parse_time
from reme_core.schema.checks import JsonObject, check_text
from reme_core.stores.sql.bookkeeping import enter_scope, find_scope, insert_row
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.memory_rows import microseconds

_TEXT_BYTES = 1 << 16
"""What is kept of a model's answer that could not be used, and of a reason. Source: `Job.raw`."""

_PAYLOAD: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(JsonObject)


def check_claim(claim: ClaimJob) -> ClaimJob:
    """Check what can be checked without the file (InvalidInputError)."""
    try:
        now = parse_time(claim.now)
        parse_time(now + claim.hold)
        return replace(claim, owner=check_text(claim.owner), now=now)
    except (ValueError, OverflowError) as exc:
        msg = f"claim: {exc}"
        raise InvalidInputError(msg) from exc


def check_settle(settle: SettleJob) -> SettleJob:
    """Check what can be checked without the file, and make the texts such that they can be stored.

    Raises:
        InvalidInputError: A payload that is no JSON object, a time that is none, or `renew` without `held_until`.
    """
    if settle.outcome == "renew" and settle.held_until is None:
        msg = f"job {settle.job_id!r}: to renew it, held_until is needed: until when it is to be held"
        raise InvalidInputError(msg)
    try:
        return replace(
            settle,
            due_at=None if settle.due_at is None else parse_time(settle.due_at),
            held_until=None if settle.held_until is None else parse_time(settle.held_until),
            error=_storable(settle.error),
            raw=_storable(settle.raw),
            payload=None if settle.payload is None else _PAYLOAD.validate_python(dict(settle.payload)),
        )
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "payload", with_values=False)) from exc
    except ValueError as exc:
        msg = f"job {settle.job_id!r}: {exc}"
        raise InvalidInputError(msg) from exc


def _storable(text: str) -> str:
    """Cut a text to `_TEXT_BYTES` of UTF-8, between characters, without what no file keeps (see `check_text`)."""
    some = text[:_TEXT_BYTES].replace("\0", "").encode("utf-8", "replace")
    return some[:_TEXT_BYTES].decode("utf-8", "ignore")


def add_jobs(connection: SqlConnection, scope: Scope, jobs: Sequence[Job]) -> None:
    """Add jobs; the same ones that are there already are left alone, whatever became of them (ConflictError)."""
    if not jobs:
        return
    number = enter_scope(connection, scope)
    for job in jobs:
        origin = _digest(job)
        row = connection.execute(
            "SELECT origin FROM jobs WHERE scope = ? AND job_id = ?", (number, job.job_id)
        ).fetchone()
        if row is None:
            columns = {
                "scope": number,
                "job_id": job.job_id,
                "origin": origin,
                "kind": job.kind,
                "state": job.state,
                "created": microseconds(job.created_at),
                "due": microseconds(job.due_at),
                "body": job.model_dump_json(),
            }
            insert_row(connection, "jobs", columns)
        elif row[0] != origin:
            msg = f"job {job.job_id!r} exists and is another one: ids are unique in a scope; leave it out to get one"
            raise ConflictError(msg)


def _digest(job: Job) -> bytes:
    """Return a digest of a job as it was promised, by which a repeated promise is told from another one."""
    text = json.dumps(job.model_dump(mode="json"), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def claim_job(connection: SqlConnection, scope: Scope, claim: ClaimJob) -> Job | None:
    """Take the oldest job that may be begun, within a write; see `Store.claim_job`."""
    number = find_scope(connection, scope)
    if number is None:
        return None
    running = [(created, row, Job.model_validate_json(body)) for created, row, body in _running(connection, number)]
    if any(_is_held(job, claim) for _, _, job in running):
        return None
    # Nobody holds these any more; they were due when they were begun.
    found = [
        (created, row, job) for created, row, job in running if job.kind in claim.kinds and job.job_id not in claim.skip
    ]
    pending = connection.execute(
        "SELECT created, job, body FROM jobs WHERE scope = ? AND state = 'pending' AND (? OR due <= ?)"
        " AND kind IN (SELECT value FROM json_each(?)) AND job_id NOT IN (SELECT value FROM json_each(?))"
        " ORDER BY created, job LIMIT 1",
        (number, claim.waiting, microseconds(claim.now), json.dumps(claim.kinds), json.dumps(sorted(claim.skip))),
    ).fetchone()
    if pending is not None:
        found.append((pending[0], pending[1], Job.model_validate_json(pending[2])))
    if not found:
        return None
    _, row, job = min(found, key=lambda item: item[:2])
    begun: Mapping[str, object] = {
        "state": JobState.RUNNING,
        "attempts": job.attempts + 1,
        "owner": claim.owner,
        "held_until": claim.now + claim.hold,
    }
    taken = job.model_copy(update=begun)
    _update(connection, row, taken)
    return taken


def _running(connection: SqlConnection, scope: int) -> Iterator[tuple[int, int, str]]:
    yield from connection.execute("SELECT created, job, body FROM jobs WHERE scope = ? AND state = 'running'", (scope,))


def _is_held(job: Job, claim: ClaimJob) -> bool:
    if job.held_until is None or job.held_until <= claim.now:
        return False
    return job.owner is None or not claim.is_gone(job.owner)


def settle_job(connection: SqlConnection, scope: Scope, settle: SettleJob) -> None:
    """End, prolong or give back a job, as checked before; see `Store.settle_job` for what is raised."""
    number = find_scope(connection, scope)
    row = connection.execute(
        "SELECT job, body FROM jobs WHERE scope = ? AND job_id = ?", (number, settle.job_id)
    ).fetchone()
    if row is None:
        raise JobNotFoundError([settle.job_id])
    job = Job.model_validate_json(row[1])
    _expect_owner(job, settle.owner)
    changes = _outcome(job, settle)
    if changes is None:
        connection.execute("DELETE FROM jobs WHERE job = ?", (row[0],))
        return
    if settle.payload is not None:
        changes = {**changes, "payload": dict(settle.payload), "run_id": new_id()}
    _update(connection, row[0], job.model_copy(update=changes))


def _expect_owner(job: Job, owner: str | None) -> None:
    running = job.state is JobState.RUNNING
    if (running and job.owner == owner is not None) or (not running and owner is None):
        return
    state = f"is held by {job.owner!r}" if running else f"is {job.state} and held by nobody"
    wanted = "nobody was to hold it" if owner is None else f"it was to be held by {owner!r}"
    msg = f"job {job.job_id!r} {state}, {wanted}: leave it to whoever holds it, or claim it anew"
    raise ConflictError(msg)


def _outcome(job: Job, settle: SettleJob) -> Mapping[str, object] | None:
    """Return what an outcome changes; None: the job is to go."""
    due_at: datetime = job.due_at if settle.due_at is None else settle.due_at
    free: Mapping[str, object] = {"owner": None, "held_until": None}
    failure: Mapping[str, object] = {"error": settle.error, "raw": settle.raw}
    match settle.outcome:
        case "done" | "drop":
            return None
        case "renew" if job.state is JobState.RUNNING:
            return {"held_until": settle.held_until}
        case "renew":
            msg = f"job {job.job_id!r} is {job.state}, there is nothing to renew: claim it first"
            raise ConflictError(msg)
        case "release":
            attempts = max(job.attempts - 1, 0)
            return {**free, "state": JobState.PENDING, "attempts": attempts, "due_at": due_at}
        case "retry":
            return {**free, **failure, "state": JobState.PENDING, "due_at": due_at}
        case "dead":
            return {**free, **failure, "state": JobState.DEAD}
        case "revive":
            return {**free, "state": JobState.PENDING, "attempts": 0, "due_at": due_at, "error": "", "raw": ""}
        case _:
            assert_never(settle.outcome)


def _update(connection: SqlConnection, row: int, job: Job) -> None:
    connection.execute(
        "UPDATE jobs SET state = ?, due = ?, body = ? WHERE job = ?",
        (job.state, microseconds(job.due_at), job.model_dump_json(), row),
    )


def list_jobs(connection: SqlConnection, scope: Scope, states: tuple[JobState, ...] | None = None) -> list[Job]:
    """Return the jobs of a scope, oldest first."""
    number = find_scope(connection, scope)
    wanted = tuple(JobState) if states is None else states
    rows = connection.execute(
        "SELECT body FROM jobs WHERE scope = ? AND state IN (SELECT value FROM json_each(?)) ORDER BY created, job",
        (number, json.dumps(wanted)),
    )
    return [Job.model_validate_json(body) for (body,) in rows]


def job_scopes(connection: SqlConnection, memory_space: str) -> list[Scope]:
    """Return the scopes of a memory space that have jobs."""
    rows = connection.execute(
        "SELECT user_id FROM scopes WHERE memory_space = ?"
        " AND EXISTS (SELECT 1 FROM jobs WHERE jobs.scope = scopes.scope) ORDER BY scope",
        (memory_space,),
    )
    return [Scope(memory_space=memory_space, user_id=user_id) for (user_id,) in rows]
