"""The commands about what models do in the background: open jobs, finishing them, and taking a run back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.keyboard import ask
from reme_core.cli.options import (
    CommonOptions,
    NoEmbedding,
    Whose,
    Yes,
    of_the_space,
    refuse,
    whose_of,
    with_common_options,
)
from reme_core.cli.output import Output, counted, minute
from reme_core.cli.wording import one_line
from reme_core.errors import ConfigurationError, InvalidInputError, JobNotFoundError, PartialFailureError
from reme_core.facade.reme import ReMe
from reme_core.schema import Job, JobState, Usage
from reme_core.steps.user_input import missing_model_message, read_id


@dataclass(frozen=True, slots=True)
class _UserJob:
    """A job and whose it is."""

    user_id: str
    job: Job

    @property
    def is_dead(self) -> bool:
        return self.job.state is JobState.DEAD


@with_common_options
async def jobs(
    where: CommonOptions,
    output: Output,
    *,
    everyone: Annotated[bool, typer.Option("--all", help="Of every user of the space.")] = False,
    retry: Annotated[str | None, typer.Option("--retry", metavar="ID", help="Try this one again now.")] = None,
    drop: Annotated[str | None, typer.Option("--drop", metavar="ID", help="Give this one up for good.")] = None,
    yes: Yes = False,
) -> int:
    """List work that is not done: what waits, runs, or was given up, and why."""
    if retry is not None and drop is not None:
        msg = "give either --retry ID or --drop ID"
        raise InvalidInputError(msg)
    if retry is not None or drop is not None:
        refuse("one job", {"--all": everyone or None})
    if drop is None:
        refuse("listing and retrying", {"--yes": yes or None})
    if retry is not None:
        return await _retry(where, output, retry)
    if drop is not None:
        return await _drop(where, output, drop, is_sure=yes)
    return await _list_jobs(where, output, everyone=everyone)


async def _list_jobs(where: CommonOptions, output: Output, *, everyone: bool) -> ExitCode:
    """Print the jobs of a user, or of all users of the space."""
    owners = None if everyone else [where.whose]
    where.check_file()
    async with where.open() as memory:
        found = await _open_jobs(memory, owners)
    if output.as_json:
        output.value({"jobs": [{"user_id": item.user_id, **item.job.model_dump(mode="json")} for item in found]})
        return ExitCode.DONE
    if not found:
        output.remark("no jobs: nothing is left to do")
        return ExitCode.DONE
    for item in found:
        _print_job(output, item)
    dead = sum(item.is_dead for item in found)
    if dead:
        output.remark(f"{dead} dead: reme jobs --retry ID tries one again, --drop ID gives it up for good")
    return ExitCode.DONE


def _print_job(output: Output, item: _UserJob) -> None:
    job = item.job
    due = f"due {minute(job.due_at)}" if job.state is JobState.PENDING else ""
    user = f"user {item.user_id}" if item.user_id else "shared"
    head = (job.kind, str(job.state), counted(job.attempts, "attempt"), due)
    output.record(head, job.error or "no failure so far", (f"id {job.job_id}", user))


async def _retry(where: CommonOptions, output: Output, job_id: str) -> ExitCode:
    """Have a job tried again: now, where the environment names a chat model."""
    whose = where.whose
    where.check_file()
    # Revived before a model is there: what is due is begun as soon as there is one, and then can't be revived.
    async with where.open() as memory:
        await memory.retry_job(job_id, **whose)
    async with where.open(with_llm=True, with_embedding=True) as memory:
        has_model = memory.tool_context(**whose).model is not None
    async with where.open() as memory:
        is_done = all(item.job.job_id != job_id for item in await _open_jobs(memory, [whose]))
    if output.as_json:
        output.value({"retried": job_id, "done": is_done})
    elif is_done:
        output.line(f"job {job_id} is done")
    else:
        why = "another process is at it" if has_model else "there is no chat model; reme flush does it with one"
        output.line(f"job {job_id} waits: {why}")
    return ExitCode.DONE


async def _drop(where: CommonOptions, output: Output, job_id: str, *, is_sure: bool) -> ExitCode:
    """Give a job up; asks first."""
    whose = where.whose
    read_id(job_id, "job_id")
    where.check_file()
    async with where.open() as memory:
        job = next((item.job for item in await _open_jobs(memory, [whose]) if item.job.job_id == job_id), None)
        if job is None:
            raise JobNotFoundError([job_id])
        if not is_sure:
            ask(f"drop job {job_id} ({one_line(job.kind)}, {job.state})? Its messages stay.")
        await memory.drop_job(job_id, **whose)
    if output.as_json:
        output.value({"dropped": job_id})
    else:
        output.line(f"dropped {job_id}; its messages stay")
    return ExitCode.DONE


@of_the_space
async def flush(where: CommonOptions, output: Output, *, no_embedding: NoEmbedding = False) -> int:
    """Finish what is left to do for all users of the space: memories to be made, vectors to be computed."""
    where.check_file()
    failure: PartialFailureError | None = None
    # Not as a context: that would begin before the jobs are counted, and go on after `flush` has found the model out.
    memory = replace(where, hints=False).open(with_llm=True, with_embedding=not no_embedding)
    try:
        before = await _open_jobs(memory, None)
        try:
            usage = await memory.flush()
        except PartialFailureError as exc:
            failure, usage = exc, exc.done if isinstance(exc.done, Usage) else Usage()
        after = await _open_jobs(memory, None)
    finally:
        await memory.close(finish_jobs=False)
    _tell_flushed(output, before, after, usage)
    if failure is not None:
        raise failure
    waiting = [item for item in after if not item.is_dead]
    if waiting:
        raise ConfigurationError(missing_model_message(f"finishing {counted(len(waiting), 'job')}"))
    return ExitCode.DONE


def _tell_flushed(output: Output, before: Sequence[_UserJob], after: Sequence[_UserJob], usage: Usage) -> None:
    left = [item.job.job_id for item in after if not item.is_dead]
    dead = [item.job.job_id for item in after if item.is_dead]
    done = [item.job.job_id for item in before if item.job.job_id not in {*left, *dead}]
    if output.as_json:
        output.value({"done": [*done], "left": [*left], "dead": [*dead], "usage": usage.model_dump(mode="json")})
        return
    calls = [f"{counted(usage.model_calls, 'call')} of the chat model"] if usage.model_calls else []
    calls += [f"{counted(usage.embedding_calls, 'call')} of the embedding model"] if usage.embedding_calls else []
    parts = [counted(len(done), "job") + " done"] if done else []
    parts += [counted(len(left), "job") + " left"] if left else []
    output.line(", ".join([*parts, *calls]) or "nothing was left to do")
    if dead:
        output.remark(f"{counted(len(dead), 'job')} given up earlier or now: reme jobs --all shows why")


async def _open_jobs(memory: ReMe, owners: Sequence[Whose] | None) -> list[_UserJob]:
    """Return the jobs of these scopes; None for all of the space."""
    found = [whose_of(user_id) for user_id in await memory.users_with_jobs()] if owners is None else owners
    return [_UserJob(whose["user_id"] or "", job) for whose in found for job in await memory.list_jobs(**whose)]


@with_common_options
async def undo(
    where: CommonOptions,
    output: Output,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run; reme add and reme history name it.")],
    *,
    no_embedding: NoEmbedding = False,
) -> int:
    """Take back what a run has changed. It can be undone in turn."""
    async with where.existing(with_embedding=not no_embedding) as (memory, whose):
        undone = await memory.undo(run_id, **whose)
    if output.as_json:
        output.value(undone.model_dump(mode="json"))
        return ExitCode.DONE
    removed, restored = counted(len(undone.removed), "memory"), counted(len(undone.restored), "memory")
    output.line(f"removed {removed} and put back {restored}; this was run {undone.undo_run_id}")
    return ExitCode.DONE
