"""Actions of the commands that write: add, undo, import, delete."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import typer
from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import count_import_lines, file_to_read
from reme_core.cli.items import print_memory
from reme_core.cli.output import Output, counted, listed
from reme_core.cli.visible import one_line
from reme_core.cli.where import CommonOptions
from reme_core.errors import InvalidInputError, PartialFailureError
from reme_core.ports import Counts
from reme_core.schema import SummaryResult

_SHOWN = 60


async def add_memory(
    where: CommonOptions,
    output: Output,
    content: str,
    *,
    memory_type: str,
    memory_target: str,
    when_to_use: str,
    observed_at: str | None,
    since: str | None,
    until: str | None,
    metadata: Mapping[str, JsonValue] | None,
    with_embedding: bool,
) -> ExitCode:
    """Add one memory and print its id."""
    user_id = where.user_id
    async with where.open(with_embedding=with_embedding) as memory:
        added = await memory.add_memory(
            content,
            user_id=user_id,
            memory_type=memory_type,
            memory_target=memory_target,
            when_to_use=when_to_use,
            observed_at=observed_at,
            valid_from=since,
            valid_to=until,
            metadata=metadata,
        )
    if output.as_json:
        output.value(added.model_dump(mode="json"))
    else:
        output.line(f"memory {added.memory_id}")
    return ExitCode.DONE


async def add_messages(
    where: CommonOptions,
    output: Output,
    messages: Sequence[object],
    *,
    session_id: str | None,
    end_session: bool | None,
    memory_type: str,
    with_llm: bool,
    with_embedding: bool,
    background: bool,
) -> ExitCode:
    """Add messages to a session and print what became of them.

    Raises:
        PartialFailureError: The messages are kept, which is printed; what follows from them failed, or what earlier
            commands have left did.
    """
    user_id = where.user_id
    async with where.open(with_llm=with_llm, with_embedding=with_embedding) as memory:
        try:
            result = await memory.summary(
                messages,
                user_id=user_id,
                session_id=session_id,
                memory_type=memory_type,
                end_session=end_session,
                background=background,
            )
        except PartialFailureError as exc:
            if isinstance(exc.done, SummaryResult):
                _print_summary(output, exc.done)
            raise
        _print_summary(output, result)
        if background:
            await memory.close(finish_jobs=False)  # reme flush does them
    return ExitCode.PARTLY_DONE if result.degraded else ExitCode.DONE


def _print_summary(output: Output, result: SummaryResult) -> None:
    for sentence in result.degraded:
        output.remark(sentence)
    for rejected in result.rejected:
        output.remark(f"left out: {rejected.content} ({rejected.reason})")
    if output.as_json:
        output.value(result.model_dump(mode="json"))
        return
    known = len(result.known_message_ids)
    there = f" ({known} more were there already)" if known else ""
    count = len(result.message_ids) - known
    blocks = counted(len(result.block_ids), "new block")
    output.line(f"{counted(count, 'message')}{there} in {blocks}, session {result.session_id}")
    for memory in result.memories:
        print_memory(output, memory)
    for run_id in result.run_ids:
        output.line(f"written by run {run_id}; reme undo takes it back")
    if result.job_ids:
        output.line(f"{counted(len(result.job_ids), 'job')} left: reme flush makes memories of these messages")


async def undo(where: CommonOptions, output: Output, run_id: str, *, with_embedding: bool) -> ExitCode:
    """Take back what a run has changed and print what that came to."""
    user_id = where.user_id
    where.check_file()
    async with where.open(with_embedding=with_embedding) as memory:
        undone = await memory.undo(run_id, user_id=user_id)
    if output.as_json:
        output.value(undone.model_dump(mode="json"))
        return ExitCode.DONE
    removed, restored = counted(len(undone.removed), "memory"), counted(len(undone.restored), "memory")
    output.line(f"removed {removed} and put back {restored}; this was run {undone.undo_run_id}")
    return ExitCode.DONE


async def import_file(where: CommonOptions, output: Output, source: str, *, with_embedding: bool) -> ExitCode:
    """Read an exported file, or standard input, into a user's memory, with a bar on a terminal."""
    user_id = where.user_id
    with file_to_read(source) as file:
        lines = count_import_lines(file)
        async with where.open(with_embedding=with_embedding) as memory:
            with output.progress(f"importing {file.name}", lines) as tell:
                moved = await memory.import_(file, user_id=user_id, progress=tell)
    if output.as_json:
        output.value(moved.model_dump(mode="json", exclude={"events"}))
    else:
        read = listed(
            counted(moved.messages, "message"),
            counted(moved.blocks, "block"),
            counted(moved.offloads, "offload") if moved.offloads else "",
            counted(moved.tool_calls, "tool call") if moved.tool_calls else "",
            counted(moved.memories, "memory"),
        )
        output.line(f"read {read}")
    return ExitCode.DONE


async def delete_memory(where: CommonOptions, output: Output, memory_id: str, *, is_sure: bool) -> ExitCode:
    """Delete one memory; asks first."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        found = await memory.get_memory(memory_id, user_id=user_id)
        if not is_sure:
            ask(f"delete {one_line(found.content)[:_SHOWN]!r}?")
        await memory.delete_memory(memory_id, user_id=user_id, reason="reme delete")
    if output.as_json:
        output.value({"deleted": memory_id})
    else:
        output.line(f"deleted {memory_id}; reme history still shows it")
    return ExitCode.DONE


async def delete_all(where: CommonOptions, output: Output, *, is_sure: bool) -> ExitCode:
    """Delete everything of a user for good; asks first."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        if not is_sure:
            counts = await memory.stats(user_id=user_id)
            whose = f"user {one_line(user_id)!r}" if user_id else "the shared scope"
            ask(f"delete {_what_is_there(counts)} of {whose} in memory space {one_line(where.space)!r} for good?")
        erased = await memory.delete_all_memories(user_id=user_id)
    if output.as_json:
        output.value(erased.model_dump(mode="json"))
    else:
        gone = listed(
            counted(erased.messages, "message"),
            counted(erased.blocks, "block"),
            counted(erased.offloads, "offload") if erased.offloads else "",
            counted(erased.tool_calls, "tool call") if erased.tool_calls else "",
            counted(erased.memories, "memory"),
            counted(erased.events, "event"),
        )
        output.line(f"deleted {gone}")
    return ExitCode.DONE


def _what_is_there(counts: Counts) -> str:
    return listed(
        counted(counts.messages, "message"),
        counted(counts.offloads, "offload") if counts.offloads else "",
        counted(counts.tool_calls, "tool call") if counts.tool_calls else "",
        counted(counts.memories, "memory"),
    )


def ask(question: str, *, can_be_undone: bool = False) -> None:
    """Ask on the terminal whether to do what removes something.

    Raises:
        InvalidInputError: There is no terminal to ask on.
        typer.Abort: The answer was no.
    """
    if not sys.stdin.isatty():
        why = "" if can_be_undone else "this can't be undone, and "
        msg = f"{why}there is no terminal to ask on: say --yes"
        raise InvalidInputError(msg)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Abort
