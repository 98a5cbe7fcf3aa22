"""Memories, messages, blocks and offloads: found by id, with what they come from, and printed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from reme_core.cli.options import Whose
from reme_core.cli.output import Output, counted, minute
from reme_core.cli.wording import json_line
from reme_core.errors import (
    BlockNotFoundError,
    MemoryNotFoundError,
    MessageNotFoundError,
    NotFoundError,
    OffloadNotFoundError,
)
from reme_core.facade.reme import ReMe
from reme_core.schema import Block, Hit, Memory, OffloadKind, Reloaded, StoredMessage, shown_successor, shown_validity

Item: TypeAlias = Memory | StoredMessage | Block | Reloaded
# Of an offloaded text `show` prints the beginning; `reload` prints all of it.
_SHOWN_CHARS = 4000


class NoSuchItemError(NotFoundError):
    """An id that is none of a memory, a message, a block or an offload of this scope."""

    noun = "memory, message, block or offload"


async def find_item(memory: ReMe, item_id: str, whose: Whose) -> Item:
    """Return the memory, message or block of an id, or the beginning of an offloaded text (NoSuchItemError)."""
    try:
        return await memory.get_memory(item_id, **whose)
    except MemoryNotFoundError:
        pass
    try:
        return (await memory.get_messages([item_id], **whose))[0]
    except MessageNotFoundError:
        pass
    try:
        return await memory.get_block(item_id, **whose)
    except BlockNotFoundError:
        pass
    try:
        found = await memory.reload_context(**whose, reference=item_id, limit_chars=_SHOWN_CHARS)
    except OffloadNotFoundError as exc:
        raise NoSuchItemError([item_id]) from exc
    return found.results[0]


async def sources_of(memory: ReMe, item: Item, whose: Whose) -> list[StoredMessage]:
    """Return the messages that something comes from; those that are gone are left out."""
    ids: list[str] = []
    if isinstance(item, Block):
        ids += item.message_ids
    if isinstance(item, Reloaded) and item.kind is not OffloadKind.MESSAGES:  # whose text is the messages
        ids += item.message_ids
    for source in item.sources if isinstance(item, Memory) else ():
        ids += source.message_ids
        if source.block_id is not None and not source.message_ids:
            ids += await _block_messages(memory, source.block_id, whose)
    from reme_core.steps.message_lines import find_all  # noqa: PLC0415  # help is shown without it

    return await find_all(partial(memory.get_messages, **whose), ids)


async def _block_messages(memory: ReMe, block_id: str, whose: Whose) -> Sequence[str]:
    try:
        return (await memory.get_block(block_id, **whose)).message_ids
    except BlockNotFoundError:
        return ()


def print_item(output: Output, item: Item, messages: Sequence[StoredMessage]) -> None:
    """Print something in full, and below it the messages that it comes from."""
    match item:
        case Memory():
            print_memory(output, item, in_full=True)
        case Block():
            print_block(output, item)
        case StoredMessage():
            print_message(output, item)
        case Reloaded():
            print_offload(output, item)
    if messages:
        output.line(f"from {counted(len(messages), 'message')}:", style="italic")
    for message in messages:
        print_message(output, message)


def print_memory(output: Output, memory: Memory, *, place: int | None = None, in_full: bool = False) -> None:
    """Print a memory, numbered where it has a place, with its own time where one was told."""
    head = (
        "" if place is None else f"{place}.",
        minute(memory.observed_at),
        f"{memory.memory_type} / {memory.memory_target}",
        shown_validity(memory),
    )
    foot = [f"id {memory.memory_id}"]
    foot += [shown_successor(memory)]
    if in_full:
        foot += [f"revision {memory.revision}", f"by {memory.author}", f"changed {minute(memory.updated_at)}"]
        foot += [f"when to use: {memory.when_to_use}"] if memory.when_to_use else []
        foot += [f"metadata {json_line(memory.metadata)}"] if memory.metadata else []
    output.record(head, memory.content, foot)


def print_message(output: Output, stored: StoredMessage) -> None:
    """Print a message with its session and block; one that nothing is read of by the kinds of its parts."""
    message = stored.message
    foot = (
        f"id {message.message_id}",
        f"session {stored.session_id}",
        f"block {stored.block_id or 'none yet'}",
    )
    unread = ", ".join(block.kind for block in message.content if block.type == "other")
    body = message.full_text or f"[{unread}]"
    output.record((minute(message.created_at), message.speaker), body, (*foot, *message.blob_references))


def print_block(output: Output, block: Block) -> None:
    """Print the index entry of a block."""
    head = (f"{minute(block.started_at)} to {minute(block.ended_at)}", counted(len(block.message_ids), "message"))
    output.record(head, block.summary, (f"id {block.block_id}", f"session {block.session_id}"))


def print_offload(output: Output, item: Reloaded) -> None:
    """Print the beginning of an offloaded text."""
    head = (minute(item.created_at), str(item.kind), item.name or "")
    foot = [f"reference {item.reference}", f"session {item.session_id}"]
    foot += [] if item.next_offset is None else [f"up to line {item.last_line} of {item.lines}, reme reload prints all"]
    output.record(head, item.memory, foot)


def print_hit(output: Output, place: int, hit: Hit, *, with_score: bool = True) -> None:
    """Print something found."""
    about = f"{hit.memory_type} / {hit.memory_target}" if hit.layer == "memory" else hit.name or hit.role or ""
    head = (
        f"{place}.",
        f"{hit.score:.2f}" if with_score else "",
        hit.layer,
        minute(hit.observed_at or hit.created_at),
        about,
        shown_validity(hit),
    )
    session = "" if hit.session_id is None else f"session {hit.session_id}"
    # The text of a passage ends with its reference.
    named = "" if hit.reference is not None else f"id {id_of_hit(hit)}"
    output.record(head, hit.memory, (named, session, shown_successor(hit)))


def id_of_hit(hit: Hit) -> str:
    """Return the id of the memory, block or message that was found, or the reference of an offloaded text."""
    match hit.layer:
        case "memory":
            return hit.memory_id or ""
        case "summary":
            return hit.block_id or ""
        case "message":
            return hit.reference or hit.message_ids[0]
