"""The commands about what was learnt: attempts at tasks, memories that don't help, and tools and their guidelines."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import typer
from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import FileItem, read_trajectories
from reme_core.cli.keyboard import ask
from reme_core.cli.options import (
    CommonOptions,
    NoEmbedding,
    Yes,
    refuse,
    types_of,
    with_common_options,
)
from reme_core.cli.output import Output, counted, listed
from reme_core.errors import InvalidInputError, PartialFailureError
from reme_core.facade.tasks import FREQ_THRESHOLD, UTILITY_THRESHOLD
from reme_core.schema import Forgotten, Memory, TaskSummary, ToolSummary

_DEFAULT_LIMIT = 5
_PLACE = re.compile(r"^trajectories\[(\d+)\][.:]? ?")


@with_common_options
def learn(
    where: CommonOptions,
    output: Output,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Attempts, one JSON object a line; - is stdin.")],
    *,
    task: Annotated[str, typer.Option("--task", help="The task domain that the attempts belong to.")],
    no_llm: Annotated[bool, typer.Option("--no-llm", help="No chat model, whatever the environment names.")] = False,
    no_embedding: NoEmbedding = False,
    background: Annotated[
        bool, typer.Option("--background", help="Only keep the attempts; reme flush learns from them.")
    ] = False,
) -> Coroutine[object, object, int]:
    """Keep attempts at tasks; with a chat model, learn from what worked, what failed, and what made the difference."""
    items, whose = read_trajectories(file), where.whose

    async def keep() -> ExitCode:
        async with where.open(with_llm=not no_llm, with_embedding=not no_embedding) as memory:
            try:
                with _named_by_line(items):
                    result = await memory.summary_task(
                        [item.value for item in items], **whose, task_name=task, background=background
                    )
            except PartialFailureError as exc:
                if isinstance(exc.done, TaskSummary):
                    _print_learnt(output, exc.done)
                raise
            _print_learnt(output, result)
            if background:
                await memory.close(finish_jobs=False)  # reme flush does them
        return ExitCode.DONE

    return keep()


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


@with_common_options
async def tasks(
    where: CommonOptions,
    output: Output,
    query: Annotated[str, typer.Argument(help="The task, in words.")],
    *,
    task: Annotated[str | None, typer.Option("--task", help="Only of this task domain.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = _DEFAULT_LIMIT,
    tokens: Annotated[int | None, typer.Option("--tokens", help="A text of at most so many tokens.")] = None,
    include_shared: Annotated[bool, typer.Option("--include-shared", help="Also the shared scope.")] = False,
    rerank: Annotated[bool, typer.Option("--rerank", help="Have the chat model put them in order.")] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Have the chat model write one text of them.")] = False,
    no_embedding: NoEmbedding = False,
) -> int:
    """Print what was learnt for a task, as a text for a prompt. Exit code 1: nothing found."""
    async with where.existing(with_llm=rerank or rewrite, with_embedding=not no_embedding) as (memory, whose):
        found = await memory.retrieve_task_memory(
            query,
            **whose,
            task_name=task,
            limit=limit,
            token_budget=tokens,
            include_shared=include_shared,
            rerank=rerank,
            rewrite=rewrite,
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


@with_common_options
async def forget(
    where: CommonOptions,
    output: Output,
    *,
    task: Annotated[str | None, typer.Option("--task", help="Only of this task domain.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Memories of this type; repeatable. [default: procedural]")
    ] = None,
    freq: Annotated[int, typer.Option("--freq", help="Only those used so often or more.")] = FREQ_THRESHOLD,
    utility: Annotated[
        float, typer.Option("--utility", help="Only those that helped in less than this share of their uses.")
    ] = UTILITY_THRESHOLD,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would go.")] = False,
    yes: Yes = False,
) -> int:
    """Remove memories that were used often and seldom helped; what was never used stays. Undo takes it back."""
    async with where.existing() as (memory, whose):
        forget_useless = partial(
            memory.forget_memories,
            **whose,
            task_name=task,
            memory_type=types_of(types or ["procedural"]),
            freq_threshold=freq,
            utility_threshold=utility,
        )
        if not dry_run and not yes:
            would = await forget_useless(dry_run=True)
            if would.memories:
                count = counted(len(would.memories), "memory")
                what = f"{count} of {where.scope_name}, used often and seldom of help, would go; --dry-run lists them."
                ask(f"{what} Remove them?", can_be_undone=True)
        forgotten = await forget_useless(dry_run=dry_run)
    _tell_forgotten(output, forgotten)
    return ExitCode.DONE


def _tell_forgotten(output: Output, forgotten: Forgotten) -> None:
    if output.as_json:
        output.value(forgotten.model_dump(mode="json"))
        return
    for memory in forgotten.memories:
        _print_lesson(output, memory)
    done = "would remove" if forgotten.dry_run else "removed"
    undo = "" if forgotten.run_id is None else f" by run {forgotten.run_id}; reme undo takes it back"
    output.line(f"{done} {counted(len(forgotten.memories), 'memory')}{undo}")


_TOOLS_LIMIT = 100


@with_common_options
async def tools(
    where: CommonOptions,
    output: Output,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of tools, exact.")] = None,
    *,
    summarize: Annotated[bool, typer.Option("--summarize", help="Have the chat model write guidelines.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", help="List at most so many; 100 by default.")] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where the last page ended.")] = None,
    no_embedding: NoEmbedding = False,
) -> int:
    """List the tools whose calls are recorded, or print what is known of some. Exit code 1: nothing is."""
    if summarize and not names:
        msg = "--summarize needs the NAMEs of tools: reme tools lists them"
        raise InvalidInputError(msg)
    if not names:
        return await _list_tools(where, output, limit=_TOOLS_LIMIT if limit is None else limit, cursor=cursor)
    refuse("tools that are named", {"--limit": limit, "--cursor": cursor})
    if summarize:
        return await _summarize(where, output, names, with_embedding=not no_embedding)
    return await _show_tools(where, output, names)


async def _list_tools(where: CommonOptions, output: Output, *, limit: int, cursor: str | None) -> ExitCode:
    """Print a page of the tools that were called, by name, with the number of their calls."""
    async with where.existing() as (memory, whose):
        page = await memory.list_tools(**whose, limit=limit, cursor=cursor)
    if output.as_json:
        tools: list[JsonValue] = [{"tool_name": name, "calls": calls} for name, calls in page.tools]
        output.value({"tools": tools, "next_cursor": page.next_cursor})
        return ExitCode.DONE
    for name, calls in page.tools:
        output.line(name, counted(calls, "call"))
    if not page.tools:
        output.remark("no tools: no call of one is recorded")
    if page.next_cursor is not None:
        output.remark(f"more: --cursor {page.next_cursor}")
    return ExitCode.DONE


async def _show_tools(where: CommonOptions, output: Output, names: Sequence[str]) -> ExitCode:
    """Print what is known of tools; if it is nothing of any of them, the exit code tells."""
    async with where.existing() as (memory, whose):
        found = await memory.retrieve_tool_memory(names, **whose)
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    elif found.text:
        output.piece(f"{found.text}\n")
    return _told(output, found.missing, has_found=bool(found.results))


def _told(output: Output, missing: Sequence[str], *, has_found: bool) -> ExitCode:
    if missing:
        output.remark(f"nothing is known of {listed(*missing)}: reme tools lists those that were called")
    return ExitCode.DONE if has_found else ExitCode.NOTHING_FOUND


async def _summarize(where: CommonOptions, output: Output, names: Sequence[str], *, with_embedding: bool) -> ExitCode:
    """Have guidelines written and print what is known of the tools then.

    Raises:
        PartialFailureError: Some were not written and are jobs now; what there is, is printed.
    """
    async with where.existing(with_llm=True, with_embedding=with_embedding) as (memory, whose):
        has_model = memory.tool_context(**whose).model is not None
        try:
            result = await memory.summarize_tool_memory(names, **whose)
        except PartialFailureError as exc:
            if isinstance(exc.done, ToolSummary):
                _print_summary(output, exc.done)
            raise
    _print_summary(output, result)
    if not has_model:
        output.remark("no guideline was written, since there is no chat model: set REME_LLM_MODEL and a key")
    return _told(output, result.missing, has_found=bool(result.results))


def _print_summary(output: Output, result: ToolSummary) -> None:
    if output.as_json:
        output.value(result.model_dump(mode="json"))
        return
    if result.results:
        output.piece("\n\n".join(item.text for item in result.results) + "\n")
    if result.unchanged:
        output.remark(f"nothing new of {listed(*result.unchanged)}: the guideline stays")
    for run_id in result.run_ids:
        output.line(f"written by run {run_id}; reme undo takes it back")
    if result.job_ids:
        output.line(f"{counted(len(result.job_ids), 'job')} left: reme flush writes these guidelines")
