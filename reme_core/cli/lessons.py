"""Actions of the commands about attempts at tasks: learning from them, finding and forgetting what they taught."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import FileItem
from reme_core.cli.options import types_of
from reme_core.cli.output import Output, counted
from reme_core.cli.visible import one_line
from reme_core.cli.where import CommonOptions
from reme_core.cli.writing import ask
from reme_core.errors import InvalidInputError, PartialFailureError
from reme_core.facade.reme import ReMe
from reme_core.schema import Forgotten, Memory, TaskSummary

_PLACE = re.compile(r"^trajectories\[(\d+)\][.:]? ?")


async def learn(
    where: CommonOptions,
    output: Output,
    items: Sequence[FileItem],
    *,
    task_name: str,
    with_llm: bool,
    with_embedding: bool,
    background: bool,
) -> ExitCode:
    """Keep attempts at tasks, learn from them, and print what was learnt.

    Raises:
        PartialFailureError: The attempts are kept, which is printed; learning from them failed, or what earlier
            commands have left did.
    """
    user_id = where.user_id
    async with where.open(with_llm=with_llm, with_embedding=with_embedding) as memory:
        try:
            with _named_by_line(items):
                result = await memory.summary_task(
                    [item.value for item in items], user_id=user_id, task_name=task_name, background=background
                )
        except PartialFailureError as exc:
            if isinstance(exc.done, TaskSummary):
                _print_learnt(output, exc.done)
            raise
        _print_learnt(output, result)
        if background:
            await memory.close(finish_jobs=False)  # reme flush does them
    return ExitCode.DONE


@contextmanager
def _named_by_line(items: Sequence[FileItem]) -> Iterator[None]:
    """Let what is refused of a trajectory be told by where it stands in the file."""
    try:
        yield
    except InvalidInputError as exc:
        match = _PLACE.match(str(exc))
        if match is None:
            raise
        msg = f"{items[int(match[1])].place}: {str(exc)[match.end() :]}; nothing was kept"
        raise InvalidInputError(msg) from exc


def _print_learnt(output: Output, result: TaskSummary) -> None:
    if output.as_json:
        output.value(result.model_dump(mode="json"))
        return
    known = len(result.known_block_ids)
    there = f" ({known} more were there already)" if known else ""
    output.line(f"{counted(len(result.block_ids) - known, 'attempt')} kept{there}, session {result.session_id}")
    for memory in result.memories:
        _print_lesson(output, memory)
    for rejected in result.rejected:
        output.remark(f"left out, {rejected.kind}: {rejected.content} ({rejected.reason})")
    for run_id in result.run_ids:
        output.line(f"written by run {run_id}; reme undo takes it back")
    if result.job_ids:
        output.line(f"{counted(len(result.job_ids), 'job')} left: reme flush learns from these attempts")


def _print_lesson(output: Output, memory: Memory) -> None:
    about = f"{memory.memory_type} / {memory.memory_target}"
    used = f"helped in {memory.utility:g} of {counted(memory.freq, 'use')}" if memory.freq else ""
    output.record(
        (about, used),
        f"{memory.when_to_use}\n{memory.content}" if memory.when_to_use else memory.content,
        (f"id {memory.memory_id}",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What `reme tasks` was asked; see `ReMe.retrieve_task_memory`."""

    query: str
    task_name: str | None
    limit: int
    token_budget: int | None
    include_shared: bool
    rerank: bool
    rewrite: bool


async def find(where: CommonOptions, output: Output, task: TaskOptions, *, with_embedding: bool) -> ExitCode:
    """Print what was learnt for a task; nothing found is told by the exit code."""
    user_id = where.user_id
    where.check_file()
    async with where.open(with_llm=task.rerank or task.rewrite, with_embedding=with_embedding) as memory:
        found = await memory.retrieve_task_memory(
            task.query,
            user_id=user_id,
            task_name=task.task_name,
            limit=task.limit,
            token_budget=task.token_budget,
            include_shared=task.include_shared,
            rerank=task.rerank,
            rewrite=task.rewrite,
        )
    for sentence in found.degraded:
        output.remark(sentence)
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    elif found.text:
        output.piece(f"{found.text}\n")
    if not found.results:
        output.remark("nothing found")
        return ExitCode.NOTHING_FOUND
    if not found.text:
        output.remark(f"{counted(len(found.results), 'memory')} found, and no room for any of them: a larger --tokens")
    return ExitCode.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOptions:
    """What `reme forget` is to remove; see `ReMe.forget_memories`."""

    task_name: str | None
    types: Sequence[str]
    freq: int
    utility: float


async def forget(
    where: CommonOptions, output: Output, useless: ForgetOptions, *, dry_run: bool, is_sure: bool
) -> ExitCode:
    """Remove memories that were used often and seldom helped; says how many, and asks."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        if not dry_run and not is_sure:
            would = await _forget(memory, user_id, useless, dry_run=True)
            if would.memories:
                ask(f"{_what_goes(would, where, user_id)} Remove them?", can_be_undone=True)
        forgotten = await _forget(memory, user_id, useless, dry_run=dry_run)
    _tell_forgotten(output, forgotten)
    return ExitCode.DONE


async def _forget(memory: ReMe, user_id: str, useless: ForgetOptions, *, dry_run: bool) -> Forgotten:
    return await memory.forget_memories(
        user_id=user_id,
        task_name=useless.task_name,
        memory_type=types_of(useless.types),
        freq_threshold=useless.freq,
        utility_threshold=useless.utility,
        dry_run=dry_run,
    )


def _what_goes(forgotten: Forgotten, where: CommonOptions, user_id: str) -> str:
    whose = f"user {one_line(user_id)!r}" if user_id else "the shared scope"
    count = counted(len(forgotten.memories), "memory")
    return (
        f"{count} of {whose} in memory space {one_line(where.space)!r}, used often and seldom of help, would go; "
        "--dry-run lists them."
    )


def _tell_forgotten(output: Output, forgotten: Forgotten) -> None:
    if output.as_json:
        output.value(forgotten.model_dump(mode="json"))
        return
    for memory in forgotten.memories:
        _print_lesson(output, memory)
    done = "would remove" if forgotten.dry_run else "removed"
    undo = "" if forgotten.run_id is None else f" by run {forgotten.run_id}; reme undo takes it back"
    output.line(f"{done} {counted(len(forgotten.memories), 'memory')}{undo}")
