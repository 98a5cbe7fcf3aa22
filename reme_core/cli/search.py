"""The commands that find: searching, listing, showing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, TypeVar, assert_never

import typer
from pydantic import BaseModel, JsonValue

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import read_object
from reme_core.cli.items import find_item, print_block, print_hit, print_item, print_memory, print_message, sources_of
from reme_core.cli.options import (
    AsOf,
    CommonOptions,
    KnownAt,
    NoEmbedding,
    Session,
    Superseded,
    Targets,
    Trust,
    Types,
    types_of,
    with_common_options,
)
from reme_core.cli.output import Output
from reme_core.errors import InvalidInputError
from reme_core.schema import Block, Memory, Reloaded, StoredMessage
from reme_core.steps.user_input import read_metadata_filter


class LayerName(StrEnum):
    """The layers of a memory."""

    MEMORY = "memory"
    SUMMARY = "summary"
    MESSAGE = "message"


@with_common_options
async def search(
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
    trust: Trust = None,
    start: Annotated[str | None, typer.Option("--from", help="Said at this time or later.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Said before this time.")] = None,
    as_of: AsOf = None,
    superseded: Superseded = False,
    include_shared: Annotated[bool, typer.Option("--include-shared", help="Also the shared scope.")] = False,
    no_embedding: NoEmbedding = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="The parts of each score, what was left out and why, and the time.")
    ] = False,
    why_not: Annotated[
        str | None, typer.Option("--why-not", metavar="ID", help="Why this is no result; with --explain's account.")
    ] = None,
) -> int:
    """Find what answers a question, or lies in a time. Exit code 1: nothing found."""
    names = read_metadata_filter(read_object(metadata, "--metadata")) or None
    async with where.existing(with_embedding=not no_embedding) as (memory, whose):
        found = await memory.retrieve(
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
            trust=trust or None,
            start_time=start,
            end_time=end,
            as_of=as_of,
            include_superseded=superseded,
            include_shared=include_shared,
            explain=explain,
            why_not=why_not,
        )
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    elif found.explanation is not None:
        from reme_core.cli.explanations import print_explanation  # noqa: PLC0415  # other searches need none of it

        print_explanation(output, found.explanation)
    for place, hit in enumerate(found.results if not output.as_json and found.explanation is None else (), start=1):
        print_hit(output, place, hit)
    for sentence in found.degraded:
        output.remark(sentence)
    if found.results:
        return ExitCode.DONE
    output.remark("nothing found")  # the exit code tells it as well, as that of grep does
    return ExitCode.NOTHING_FOUND


@with_common_options
async def list_(
    where: CommonOptions,
    output: Output,
    *,
    layer: Annotated[LayerName, typer.Option("--layer", help="What to list.")] = LayerName.MEMORY,
    types: Types = None,
    targets: Targets = None,
    keyword: Annotated[str | None, typer.Option("--keyword", "-k", help="Holding every word of this.")] = None,
    session: Session = None,
    trust: Trust = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
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
        "--trust": bool(trust),
        "--as-of": as_of is not None,
        "--known-at": known_at is not None,
        "--superseded": superseded,
    }
    _check_page_options(layer, given)
    async with where.existing() as (memory, whose):
        match layer:
            case LayerName.MEMORY:
                page = await memory.list_memories(
                    **whose,
                    memory_type=types_of(types or ()),
                    memory_target=targets or None,
                    keyword=keyword,
                    trust=trust or None,
                    as_of=as_of,
                    include_superseded=superseded,
                    known_at=known_at,
                    limit=limit,
                    cursor=cursor,
                )
                _print_page(output, "memories", page.memories, page.next_cursor, print_memory)
            case LayerName.MESSAGE:
                said = await memory.find_messages(
                    **whose, keyword=keyword, session_id=session, limit=limit, cursor=cursor
                )
                _print_page(output, "messages", said.messages, said.next_cursor, print_message)
            case LayerName.SUMMARY:
                blocks, following = await memory.list_blocks(**whose, session_id=session, limit=limit, cursor=cursor)
                _print_page(output, "blocks", blocks, following, print_block)
            case _:
                assert_never(layer)
    return ExitCode.DONE


def _check_page_options(layer: str, given: Mapping[str, bool]) -> None:
    """Refuse options that a layer of `reme list` can't honour (InvalidInputError); ignoring them would mislead."""
    known = {
        "memory": {"--type", "--target", "--keyword", "--trust", "--as-of", "--known-at", "--superseded"},
        "message": {"--keyword", "--session"},
        "summary": {"--session"},
    }[layer]
    for name, is_given in given.items():
        if is_given and name not in known:
            msg = f"{name} can't be applied to --layer {layer}: leave out one of the two"
            raise InvalidInputError(msg)


ItemT = TypeVar("ItemT", bound=BaseModel)


def _print_page(
    output: Output, name: str, items: Sequence[ItemT], cursor: str | None, show: Callable[[Output, ItemT], None]
) -> None:
    if output.as_json:
        output.value({name: [item.model_dump(mode="json") for item in items], "next_cursor": cursor})
        return
    for item in items:
        show(output, item)
    if not items:
        hint = "; messages are listed by: reme list --layer message" if name == "memories" else ""
        output.remark(f"no {name}{hint}")
    if cursor is not None:
        output.remark(f"more: --cursor {cursor}")


@with_common_options
async def show(
    where: CommonOptions,
    output: Output,
    item_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a memory, a message or a block, or a reference.")
    ],
) -> int:
    """Show a memory, a message, a block or the beginning of an offload, with the messages that it comes from."""
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
