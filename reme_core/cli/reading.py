"""Actions of the commands that read: search, list, show, history, export, stats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import STANDARD_OUTPUT, file_to_write
from reme_core.cli.items import (
    find_item,
    print_block,
    print_hit,
    print_item,
    print_memory,
    print_message,
    sources_of,
)
from reme_core.cli.options import types_of
from reme_core.cli.output import Output, counted, listed, minute
from reme_core.cli.where import CommonOptions
from reme_core.errors import InvalidInputError
from reme_core.schema import Block, Event, Memory, Reloaded, StoredMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """What `reme search` was asked; see `ReMe.retrieve`."""

    query: str | None
    limit: int | None
    top_k: int | None
    token_budget: int | None
    min_score: float | None
    types: Sequence[str]
    targets: Sequence[str]
    layers: Sequence[str]
    metadata: Mapping[str, str | int | float | bool | None] | None
    session_id: str | None
    start_time: str | None
    end_time: str | None
    as_of: str | None
    include_superseded: bool
    include_shared: bool


async def search(where: CommonOptions, output: Output, question: SearchOptions, *, with_embedding: bool) -> ExitCode:
    """Print what answers a question; nothing found is told by the exit code, as grep does."""
    user_id = where.user_id
    where.check_file()
    async with where.open(with_embedding=with_embedding) as memory:
        found = await memory.retrieve(
            question.query,
            user_id=user_id,
            limit=question.limit,
            top_k=question.top_k,
            token_budget=question.token_budget,
            min_score=question.min_score,
            memory_type=types_of(question.types),
            memory_target=question.targets or None,
            layers=question.layers or None,
            metadata=question.metadata,
            session_id=question.session_id,
            start_time=question.start_time,
            end_time=question.end_time,
            as_of=question.as_of,
            include_superseded=question.include_superseded,
            include_shared=question.include_shared,
        )
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    for place, hit in enumerate(found.results if not output.as_json else (), start=1):
        print_hit(output, place, hit)
    for sentence in found.degraded:
        output.remark(sentence)
    if found.results:
        return ExitCode.DONE
    output.remark("nothing found")
    return ExitCode.NOTHING_FOUND


async def list_memories(
    where: CommonOptions,
    output: Output,
    *,
    types: Sequence[str],
    targets: Sequence[str],
    keyword: str | None,
    as_of: str | None,
    include_superseded: bool,
    limit: int,
    cursor: str | None,
) -> ExitCode:
    """Print a page of memories, newest first."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        page = await memory.list_memories(
            user_id=user_id,
            memory_type=types_of(types),
            memory_target=targets or None,
            keyword=keyword,
            as_of=as_of,
            include_superseded=include_superseded,
            limit=limit,
            cursor=cursor,
        )
    if output.as_json:
        output.value(page.model_dump(mode="json"))
        return ExitCode.DONE
    for item in page.memories:
        print_memory(output, item)
    if not page.memories:
        output.remark("no memories; messages are listed by: reme list --layer message")
    _tell_next(output, page.next_cursor)
    return ExitCode.DONE


async def list_messages(
    where: CommonOptions, output: Output, *, keyword: str | None, session_id: str | None, limit: int, cursor: str | None
) -> ExitCode:
    """Print a page of messages in the order in which they were said."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        page = await memory.find_messages(
            user_id=user_id, keyword=keyword, session_id=session_id, limit=limit, cursor=cursor
        )
    if output.as_json:
        messages: list[JsonValue] = [item.model_dump(mode="json") for item in page.messages]
        output.value({"messages": messages, "next_cursor": page.next_cursor})
        return ExitCode.DONE
    for item in page.messages:
        print_message(output, item)
    if not page.messages:
        output.remark("no messages")
    _tell_next(output, page.next_cursor)
    return ExitCode.DONE


async def list_blocks(
    where: CommonOptions, output: Output, *, session_id: str | None, limit: int, cursor: str | None
) -> ExitCode:
    """Print a page of the block index, oldest first."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        blocks, next_cursor = await memory.list_blocks(
            user_id=user_id, session_id=session_id, limit=limit, cursor=cursor
        )
    if output.as_json:
        output.value({"blocks": [block.model_dump(mode="json") for block in blocks], "next_cursor": next_cursor})
        return ExitCode.DONE
    for block in blocks:
        print_block(output, block)
    if not blocks:
        output.remark("no blocks")
    _tell_next(output, next_cursor)
    return ExitCode.DONE


def _tell_next(output: Output, cursor: str | None) -> None:
    if cursor is not None:
        output.remark(f"more: --cursor {cursor}")


async def show(where: CommonOptions, output: Output, item_id: str) -> ExitCode:
    """Print a memory, a message, a block or an offload with the messages it comes from."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        item = await find_item(memory, item_id, user_id)
        messages = await sources_of(memory, item, user_id)
    kind = {Memory: "memory", Block: "block", StoredMessage: "message", Reloaded: "offload"}[type(item)]
    if output.as_json:
        sources: list[JsonValue] = [message.model_dump(mode="json") for message in messages]
        output.value({"kind": kind, kind: item.model_dump(mode="json"), "messages": sources})
        return ExitCode.DONE
    print_item(output, item, messages)
    return ExitCode.DONE


async def history(where: CommonOptions, output: Output, memory_id: str) -> ExitCode:
    """Print every change of a memory, oldest first."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        events = await memory.history(memory_id, user_id=user_id)
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


async def export(where: CommonOptions, output: Output, file: str) -> ExitCode:
    """Write everything of a user to a file, or to standard output, whole."""
    user_id = where.user_id
    where.check_file()
    with file_to_write(file, as_json=output.as_json) as path:
        async with where.open() as memory:
            moved = await memory.export(path, user_id=user_id)
    if output.as_json:
        output.value({"file": file, **moved.model_dump(mode="json")})
    else:
        written = listed(
            counted(moved.messages, "message"),
            counted(moved.blocks, "block"),
            counted(moved.offloads, "offload") if moved.offloads else "",
            counted(moved.tool_calls, "tool call") if moved.tool_calls else "",
            counted(moved.memories, "memory"),
            counted(moved.events, "event"),
        )
        if file == STANDARD_OUTPUT:
            output.remark(f"wrote {written}")
        else:
            output.line(f"wrote {written} to {file}")
    return ExitCode.DONE


async def stats(where: CommonOptions, output: Output) -> ExitCode:
    """Print how much a user's memory holds."""
    user_id = where.user_id
    where.check_file()
    async with where.open() as memory:
        counts = await memory.stats(user_id=user_id)
    size = sum(path.stat().st_size for path in where.file.parent.glob(f"{where.file.name}*"))
    if output.as_json:
        output.value({**counts.model_dump(mode="json"), "file": str(where.file), "file_bytes": size})
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
            "file": f"{where.file} ({size:,} bytes, all users)",
        }
    )
    return ExitCode.DONE


def check_page_options(layer: str, given: Mapping[str, bool]) -> None:
    """Refuse options that a layer of `reme list` can't honour (InvalidInputError); ignoring them would mislead."""
    known = {
        "memory": {"--type", "--target", "--keyword", "--as-of", "--superseded"},
        "message": {"--keyword", "--session"},
        "summary": {"--session"},
    }[layer]
    for name, is_given in given.items():
        if is_given and name not in known:
            msg = f"{name} can't be applied to --layer {layer}: leave out one of the two"
            raise InvalidInputError(msg)
