"""The commands that find: searching, listing, showing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Annotated, assert_never

import typer
from pydantic import JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import read_object
from reme_core.cli.items import find_item, print_block, print_hit, print_item, print_memory, print_message, sources_of
from reme_core.cli.options import (
    AsOf,
    CommonOptions,
    NoEmbedding,
    Session,
    Superseded,
    Targets,
    Types,
    Whose,
    types_of,
    with_common_options,
)
from reme_core.cli.output import Output
from reme_core.errors import InvalidInputError
from reme_core.facade.reme import ReMe
from reme_core.schema import Block, Memory, MemoryPage, Reloaded, RetrieveResult, StoredMessage
from reme_core.steps.user_input import read_metadata_filter


class LayerName(StrEnum):
    """The layers of a memory."""

    MEMORY = "memory"
    SUMMARY = "summary"
    MESSAGE = "message"


@with_common_options
def search(
    where: CommonOptions,
    output: Output,
    query: Annotated[
        str | None, typer.Argument(help="The question, in words; not needed beside --from or --to.")
    ] = None,
    *,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="At most so many; 10 without --tokens.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="The same as --limit.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens", help="As many as fit into so many tokens.")] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Nothing that scores lower, 0 to 1.")] = None,
    types: Types = None,
    targets: Targets = None,
    layers: Annotated[list[LayerName] | None, typer.Option("--layer", help="Look here; repeatable.")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help="A JSON object that must match.")] = None,
    session: Session = None,
    start: Annotated[str | None, typer.Option("--from", help="Said at this time or later.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Said before this time.")] = None,
    as_of: AsOf = None,
    superseded: Superseded = False,
    include_shared: Annotated[bool, typer.Option("--include-shared", help="Also the shared scope.")] = False,
    no_embedding: NoEmbedding = False,
) -> int:
    """Find what answers a question, or lies in a time. Exit code 1: nothing found."""
    names = read_metadata_filter(read_object(metadata, "--metadata")) or None

    async def find(memory: ReMe, whose: Whose) -> RetrieveResult:
        return await memory.retrieve(
            query,
            **whose,
            limit=limit,
            top_k=top_k,
            token_budget=tokens,
            min_score=min_score,
            memory_type=types_of(types or ()),
            memory_target=targets or None,
            layers=[str(layer) for layer in layers or ()] or None,
            metadata=names,
            session_id=session,
            start_time=start,
            end_time=end,
            as_of=as_of,
            include_superseded=superseded,
            include_shared=include_shared,
        )

    return asyncio.run(_search(where, output, find, with_embedding=not no_embedding))


async def _search(
    where: CommonOptions,
    output: Output,
    find: Callable[[ReMe, Whose], Awaitable[RetrieveResult]],
    *,
    with_embedding: bool,
) -> ExitCode:
    """Print what answers a question; nothing found is told by the exit code, as grep does."""
    async with where.existing(with_embedding=with_embedding) as (memory, whose):
        found = await find(memory, whose)
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


@with_common_options
def list_(
    where: CommonOptions,
    output: Output,
    *,
    layer: Annotated[LayerName, typer.Option("--layer", help="What to list.")] = LayerName.MEMORY,
    types: Types = None,
    targets: Targets = None,
    keyword: Annotated[str | None, typer.Option("--keyword", "-k", help="Holding every word of this.")] = None,
    session: Session = None,
    as_of: AsOf = None,
    superseded: Superseded = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 100,
    cursor: Annotated[str | None, typer.Option("--cursor", help="The next page; from the page before.")] = None,
) -> int:
    """List memories (newest first), messages or blocks (oldest first)."""
    given = {
        "--type": bool(types),
        "--target": bool(targets),
        "--keyword": keyword is not None,
        "--session": session is not None,
        "--as-of": as_of is not None,
        "--superseded": superseded,
    }
    _check_page_options(layer, given)

    async def find(memory: ReMe, whose: Whose) -> MemoryPage:
        return await memory.list_memories(
            **whose,
            memory_type=types_of(types or ()),
            memory_target=targets or None,
            keyword=keyword,
            as_of=as_of,
            include_superseded=superseded,
            limit=limit,
            cursor=cursor,
        )

    match layer:
        case LayerName.MEMORY:
            page = _list_memories(where, output, find)
        case LayerName.MESSAGE:
            page = _list_messages(where, output, keyword=keyword, session_id=session, limit=limit, cursor=cursor)
        case LayerName.SUMMARY:
            page = _list_blocks(where, output, session_id=session, limit=limit, cursor=cursor)
        case _:
            assert_never(layer)
    return asyncio.run(page)


def _check_page_options(layer: str, given: Mapping[str, bool]) -> None:
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


async def _list_memories(
    where: CommonOptions, output: Output, find: Callable[[ReMe, Whose], Awaitable[MemoryPage]]
) -> ExitCode:
    """Print a page of memories, newest first."""
    async with where.existing() as (memory, whose):
        page = await find(memory, whose)
    if output.as_json:
        output.value(page.model_dump(mode="json"))
        return ExitCode.DONE
    for item in page.memories:
        print_memory(output, item)
    if not page.memories:
        output.remark("no memories; messages are listed by: reme list --layer message")
    _tell_next(output, page.next_cursor)
    return ExitCode.DONE


async def _list_messages(
    where: CommonOptions, output: Output, *, keyword: str | None, session_id: str | None, limit: int, cursor: str | None
) -> ExitCode:
    """Print a page of messages in the order in which they were said."""
    async with where.existing() as (memory, whose):
        page = await memory.find_messages(**whose, keyword=keyword, session_id=session_id, limit=limit, cursor=cursor)
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


async def _list_blocks(
    where: CommonOptions, output: Output, *, session_id: str | None, limit: int, cursor: str | None
) -> ExitCode:
    """Print a page of the block index, oldest first."""
    async with where.existing() as (memory, whose):
        blocks, next_cursor = await memory.list_blocks(**whose, session_id=session_id, limit=limit, cursor=cursor)
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


@with_common_options
def show(
    where: CommonOptions,
    output: Output,
    item_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a memory, a message or a block, or a reference.")
    ],
) -> int:
    """Show a memory, a message, a block or the beginning of an offload, with the messages that it comes from."""
    return asyncio.run(_show(where, output, item_id))


async def _show(where: CommonOptions, output: Output, item_id: str) -> ExitCode:
    """Print a memory, a message, a block or an offload with the messages it comes from."""
    async with where.existing() as (memory, whose):
        item = await find_item(memory, item_id, whose)
        messages = await sources_of(memory, item, whose)
    kind = {Memory: "memory", Block: "block", StoredMessage: "message", Reloaded: "offload"}[type(item)]
    if output.as_json:
        sources: list[JsonValue] = [message.model_dump(mode="json") for message in messages]
        output.value({"kind": kind, kind: item.model_dump(mode="json"), "messages": sources})
        return ExitCode.DONE
    print_item(output, item, messages)
    return ExitCode.DONE
