"""Checks of the lines of an exported scope against each other, before anything of them is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reme_core.errors import InvalidInputError
from reme_core.schema import Blob, Block, LineProblem, Memory, OffloadRecord, StoredMessage, ToolCallResult
from reme_core.text import with_broken_media_told
from reme_core.transfer.transfer_file import ScopeLine


@dataclass(frozen=True, slots=True)
class Media:
    """The bytes of images and files by reference: what a file brings, or is held, and what its lines refer to.

    `late` are those that a line brings behind one that refers to them.
    """

    known: set[str] = field(default_factory=set)
    borrowed: dict[str, list[int]] = field(default_factory=dict)
    late: dict[str, Blob] = field(default_factory=dict)


def contradictions(lines: Sequence[ScopeLine]) -> Iterator[LineProblem]:
    """Find messages and blocks that are others in an earlier line, and blocks that don't fit the messages."""
    said: dict[str, tuple[StoredMessage, int]] = {}
    for line in lines:
        if isinstance(line.item, StoredMessage):
            name = line.item.message.message_id
            before, first = said.setdefault(name, (line.item, line.line))
            if (before.message, before.session_id) != (line.item.message, line.item.session_id):
                yield LineProblem(line=line.line, reason=f"message {name!r} says something else in line {first}")
    sessions = {name: stored.session_id for name, (stored, _) in said.items()}
    blocks: dict[str, tuple[Block, int]] = {}
    sliced: dict[str, int] = {}
    for line in lines:
        if isinstance(line.item, Block):
            block, name = line.item, _name(line.item)
            same, first = blocks.setdefault(block.block_id, (block, line.line))
            new = block.message_ids[block.repeats :]
            if same != block or any(sliced.setdefault(message_id, first) != first for message_id in new):
                yield LineProblem(line=line.line, reason=f"{name} is another one, or has others' messages")
            elif any(
                sessions.get(message_id, block.session_id) != block.session_id for message_id in block.message_ids
            ):
                yield LineProblem(line=line.line, reason=f"{name} points at messages of another session")


def missing_parts(lines: Sequence[ScopeLine], media: Media) -> Iterator[LineProblem]:
    """Find what points at messages that the file lacks, and what stands in it twice; note what bytes there are."""
    said = {line.item.message.message_id for line in lines if isinstance(line.item, StoredMessage)}
    first: dict[str, int] = {}
    for line in lines:
        item = line.item
        if isinstance(item, StoredMessage):
            try:
                message, taken = item.message.apart()
            except InvalidInputError as exc:
                yield LineProblem(line=line.line, reason=str(exc))
                told = with_broken_media_told(item.message, known=item.message.blob_references)
                message, taken = told.apart()
            media.known.update(taken)
            media.late.update({ref: blob for ref, blob in taken.items() if media.borrowed.pop(ref, None)})
            for ref in message.blob_references:
                if ref not in media.known:
                    media.borrowed.setdefault(ref, []).append(line.line)
        if isinstance(item, (Block, OffloadRecord)) and not said.issuperset(item.message_ids):
            yield LineProblem(line=line.line, reason=f"{_name(item)} points at messages that the file lacks")
        # What stands twice as a message or a block is written once in any case.
        if isinstance(item, (Memory, OffloadRecord, ToolCallResult)):
            name = _name(item)
            if first.setdefault(name, line.line) != line.line:
                yield LineProblem(line=line.line, reason=f"{name} stands twice, in line {first[name]} already")


def _name(item: Block | Memory | OffloadRecord | ToolCallResult) -> str:
    match item:
        case Block():
            return f"block {item.block_id!r}"
        case Memory():
            return f"memory {item.memory_id!r}"
        case OffloadRecord():
            return f"offload {item.reference!r}"
        case ToolCallResult():
            return f"tool call {item.call_id!r}"
