"""The commands about memories one by one: adding, looking back, deleting, counting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import read_messages, read_object, read_text
from reme_core.cli.items import print_memory
from reme_core.cli.keyboard import ask
from reme_core.cli.options import (
    CommonOptions,
    NoEmbedding,
    Whose,
    Yes,
    refuse,
    with_common_options,
)
from reme_core.cli.output import Output, counted, listed, minute
from reme_core.cli.wording import one_line
from reme_core.errors import InvalidInputError, PartialFailureError
from reme_core.facade.reme import ReMe
from reme_core.schema import Erased, Event, Memory, SummaryPreview, SummaryResult

if TYPE_CHECKING:
    from reme_core.ports import Counts

_SHOWN = 60


@with_common_options
def add(
    where: CommonOptions,
    output: Output,
    text: Annotated[str | None, typer.Argument(help="A memory, one statement; - reads it from standard input.")] = None,
    *,
    messages: Annotated[
        str | None, typer.Option("--messages", "-m", help="A file of messages, JSON or JSON Lines; - is stdin.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", help="The session that the messages continue.")] = None,
    end: Annotated[
        bool | None,
        typer.Option("--end/--open", help="Nothing more, or more, comes of this session. [default: end if new]"),
    ] = None,
    memory_type: Annotated[str | None, typer.Option("--type", help="The memory type.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Whom or what the memory is about.")] = None,
    when_to_use: Annotated[str | None, typer.Option("--when-to-use", help="What to match a question on.")] = None,
    observed: Annotated[str | None, typer.Option("--observed", help="When it was said, as 2026-01-31 09:30.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Since when it holds, as 2023, 2023-01 or 2023-01-05.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Until when it holds or held, as --since.")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help="A JSON object.")] = None,
    no_embedding: NoEmbedding = False,
    no_llm: Annotated[bool, typer.Option("--no-llm", help="No chat model, whatever the environment names.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Only keep the messages; reme flush makes memories of them.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be remembered of the messages; nothing is written.")
    ] = False,
) -> Coroutine[object, object, int]:
    """Add a memory, or the messages of a file; with a chat model, memories are made of these."""
    if (text is None) == (messages is None):
        msg = "give either a memory or --messages FILE"
        raise InvalidInputError(msg)
    if messages is not None:
        alone = {"--target": target, "--when-to-use": when_to_use, "--observed": observed, "--metadata": metadata}
        refuse("--messages", {**alone, "--since": since, "--until": until})
        if dry_run:
            refuse("--dry-run", {"--background": background or None, "--no-llm": no_llm or None})
            said = read_messages(messages)

            async def tell(memory: ReMe, whose: Whose) -> SummaryPreview:
                kind = memory_type or "auto"
                return await memory.preview_summary(
                    said, **whose, session_id=session, memory_type=kind, end_session=end
                )

            return _preview(where, output, tell, with_embedding=not no_embedding)
        return _add_messages(
            where,
            output,
            read_messages(messages),
            session_id=session,
            end_session=end,
            memory_type=memory_type or "auto",
            with_llm=not no_llm,
            with_embedding=not no_embedding,
            background=background,
        )
    refuse(
        "a memory",
        {"--session": session, "--end": end, "--background": background or None, "--dry-run": dry_run or None},
    )
    content = read_text("-").strip() if text == "-" else text or ""
    extra = read_object(metadata, "--metadata")

    async def keep(memory: ReMe, whose: Whose) -> Memory:
        return await memory.add_memory(
            content,
            **whose,
            memory_type=memory_type or "personal",
            memory_target=target or "self",
            when_to_use=when_to_use or "",
            observed_at=observed,
            valid_from=since,
            valid_to=until,
            metadata=extra,
        )

    return _add_memory(where, output, keep, with_embedding=not no_embedding)


async def _add_memory(
    where: CommonOptions,
    output: Output,
    keep: Callable[[ReMe, Whose], Awaitable[Memory]],
    *,
    with_embedding: bool,
) -> ExitCode:
    """Add one memory and print its id."""
    whose = where.whose
    async with where.open(with_embedding=with_embedding) as memory:
        added = await keep(memory, whose)
    if output.as_json:
        output.value(added.model_dump(mode="json"))
    else:
        output.line(f"memory {added.memory_id}")
    return ExitCode.DONE


async def _add_messages(
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
    whose = where.whose
    async with where.open(with_llm=with_llm, with_embedding=with_embedding) as memory:
        try:
            result = await memory.summary(
                messages,
                **whose,
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


async def _preview(
    where: CommonOptions,
    output: Output,
    tell: Callable[[ReMe, Whose], Awaitable[SummaryPreview]],
    *,
    with_embedding: bool,
) -> ExitCode:
    """Print what would be remembered of messages. Where there is no file yet, none is made."""
    whose = where.whose
    where.check_folder()
    with TemporaryDirectory() as empty:
        is_there = where.database_url is not None or where.file.exists()
        place = where if is_there else replace(where, folder=empty)
        # Not as a context, which would begin the jobs that are left.
        memory = place.open(with_llm=True, with_embedding=with_embedding)
        try:
            found = await tell(memory, whose)
        finally:
            await memory.close(finish_jobs=False)
    _print_preview(output, found)
    return ExitCode.PARTLY_DONE if found.degraded else ExitCode.DONE


def _print_preview(output: Output, found: SummaryPreview) -> None:
    for sentence in found.degraded:
        output.remark(sentence)
    if output.as_json:
        output.value(found.model_dump(mode="json"))
        return
    head, *rest = found.text.split("\n")
    output.record((head,), "\n".join(rest))
    if known := len(found.known_message_ids):
        output.remark(f"{counted(known, 'message')} there already, of which nothing is made again")
    output.remark(f"nothing was written; it took {counted(found.usage.model_calls, 'call')} of the chat model")


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


@with_common_options
async def history(
    where: CommonOptions,
    output: Output,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a memory, deleted ones included.")],
) -> int:
    """Show every change of a memory, oldest first."""
    async with where.existing() as (memory, whose):
        events = await memory.history(memory_id, **whose)
    if output.as_json:
        output.value({"events": [event.model_dump(mode="json") for event in events]})
        return ExitCode.DONE
    for event in events:
        _print_event(output, event)
    return ExitCode.DONE


def _print_event(output: Output, event: Event) -> None:
    before, after = event.before, event.after
    text = (after or before).content if (after or before) is not None else ""  # type: ignore[union-attr]
    if before is not None and after is not None and before.content != after.content:
        text = f"- {before.content}\n+ {after.content}"
    reason = f"because: {event.reason}" if event.reason else ""
    run = f"run {event.run_id}" if event.run_id else ""
    output.record((minute(event.at), str(event.operation), f"by {event.actor}"), text, (reason, run))


@with_common_options
async def delete(
    where: CommonOptions,
    output: Output,
    memory_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The id of a memory.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Everything of the user, for good.")] = False,
    erase: Annotated[bool, typer.Option("--erase", help="The history of the memory, too, for good.")] = False,
    yes: Yes = False,
) -> int:
    """Delete a memory, or with --all everything of a user."""
    if everything == (memory_id is not None):
        msg = "give either the ID of a memory or --all"
        raise InvalidInputError(msg)
    async with where.existing() as (memory, whose):
        if memory_id is None:
            await _delete_all(memory, whose, where, output, is_sure=yes)
        else:
            await _delete_memory(memory, whose, output, memory_id, erase=erase, is_sure=yes)
    return ExitCode.DONE


async def _delete_memory(
    memory: ReMe, whose: Whose, output: Output, memory_id: str, *, erase: bool, is_sure: bool
) -> None:
    """Delete one memory; asks first."""
    if not is_sure:
        last = (await memory.history(memory_id, **whose))[-1]  # it may be deleted already
        found = last.after or last.before
        what = "" if found is None else f" {one_line(found.content)[:_SHOWN]!r}"
        ask(f"delete{what}{' and its history, for good' if erase else ''}?", can_be_undone=not erase)
    await memory.delete_memory(memory_id, **whose, reason="reme delete", erase=erase)
    if output.as_json:
        output.value({"deleted": memory_id})
    elif erase:
        output.line(f"deleted {memory_id} and its history; the messages that it comes from stay")
    else:
        output.line(f"deleted {memory_id}; reme history still shows it")


async def _delete_all(memory: ReMe, whose: Whose, where: CommonOptions, output: Output, *, is_sure: bool) -> None:
    """Delete everything of a user for good; asks first."""
    if not is_sure:
        counts = await memory.stats(**whose)
        ask(f"delete {_what_is_there(counts)} of {where.scope_name} for good?")
    erased = await memory.delete_all_memories(**whose)
    if output.as_json:
        output.value(erased.model_dump(mode="json"))
    else:
        for line in _told_erased(erased):
            output.line(line)
        if not any(erased.model_dump(exclude=_STATES).values()):
            output.remark(f"nothing of {where.scope_name} was there; reme users lists who has a memory here")


_STATES = {"pages_cleared", "index_cleared", "left_to_operator"}


def _told_erased(erased: Erased) -> list[str]:
    """Tell what was removed from where, a line for each place."""
    gone = listed(
        counted(erased.messages, "message"),
        counted(erased.blocks, "block"),
        counted(erased.offloads, "offload") if erased.offloads else "",
        counted(erased.tool_calls, "tool call") if erased.tool_calls else "",
        counted(erased.blobs, "blob") if erased.blobs else "",
        counted(erased.memories, "memory"),
        counted(erased.events, "event"),
        counted(erased.jobs, "job") if erased.jobs else "",
        counted(erased.store_items, "item") if erased.store_items else "",
    )
    lines = [f"deleted {gone}"]
    if erased.adapter_rows:
        rows = listed(*(f"{count} of {one_line(table)}" for table, count in erased.adapter_rows.items()))
        lines.append(f"rows of adapters: {rows}")
    if erased.files:
        lines.append(f"files beside the store: {erased.files}")
    lines += [f"still there, on another machine: {one_line(file)}" for file in erased.files_elsewhere]
    if erased.pages_cleared:
        lines.append("nothing of it is left in the pages of the file")
    if erased.index_cleared:
        lines.append("nothing of it is left in the vector engine")
    lines += [f"left to whoever runs the server: {what}" for what in erased.left_to_operator]
    return lines


def _what_is_there(counts: Counts) -> str:
    return listed(
        counted(counts.messages, "message"),
        counted(counts.offloads, "offload") if counts.offloads else "",
        counted(counts.tool_calls, "tool call") if counts.tool_calls else "",
        counted(counts.blobs, "blob") if counts.blobs else "",
        counted(counts.memories, "memory"),
    )


@with_common_options
async def stats(where: CommonOptions, output: Output) -> int:
    """Show how much a user's memory holds."""
    async with where.existing() as (memory, whose):
        counts = await memory.stats(**whose)
    size = sum(path.stat().st_size for path in where.file.parent.glob(f"{where.file.name}*"))
    in_file = where.database_url is None
    if output.as_json:
        told = counts.model_dump(mode="json")
        if in_file:
            told |= {"file": str(where.file), "file_bytes": size}
        output.value(told)
        return ExitCode.DONE
    by_type = ", ".join(f"{count} {kind}" for kind, count in counts.current_memories.items())
    sessions = counted(counts.sessions, "session")
    output.table(
        {
            "messages": f"{counts.messages} in {sessions} and {counted(counts.blocks, 'block')}",
            "waiting for vectors": str(counts.waiting_for_vectors),
            "current memories": f"{sum(counts.current_memories.values())}{f' ({by_type})' if by_type else ''}",
            "all memories": str(counts.memories),
            "events": str(counts.events),
            "jobs": f"{counts.jobs}{f' ({counts.dead_jobs} dead)' if counts.dead_jobs else ''}",
            "offloads": f"{counts.offloads} ({counts.offload_bytes:,} bytes)",
            "tool calls": str(counts.tool_calls),
            **({"blobs": f"{counts.blobs} ({counts.blob_bytes:,} bytes)"} if counts.blobs else {}),
            **({"file": f"{where.file} ({size:,} bytes, all users)"} if in_file else {}),
        }
    )
    return ExitCode.DONE
