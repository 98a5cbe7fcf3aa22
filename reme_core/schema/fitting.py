"""Blocks of other frameworks' messages that are longer than a message of ours may be."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.schema.messages import MAX_MESSAGE_BYTES, ContentBlock, TextBlock, ToolResultBlock

SPARE_BYTES = 4096
"""What stays free of a message, for notes about what was left out."""

_MOST_TOLD = 20


def fit_blocks(blocks: Sequence[ContentBlock]) -> tuple[list[ContentBlock], list[str]]:
    """Return the blocks that have room in a message, and what was shortened or left out, some of it by name."""
    room = MAX_MESSAGE_BYTES - SPARE_BYTES
    if sum(map(block_bytes, blocks)) <= room:
        return list(blocks), []
    kept: list[ContentBlock] = []
    left_out = []
    for block in blocks:
        size = block_bytes(block)
        fitting = block if size <= room else _shortened(block, room)
        if fitting is not block:
            left_out.append(f"{block.type}, {size} bytes")
        if fitting is not None:
            kept.append(fitting)
            room -= block_bytes(fitting)
    more = len(left_out) - _MOST_TOLD
    return kept, left_out[:_MOST_TOLD] + ([f"and {more} more"] if more > 0 else [])


def _shortened(block: ContentBlock, room: int) -> ContentBlock | None:
    """Return the beginning of a text with a note; None for what can't be shortened, or where there is no room."""
    if not isinstance(block, TextBlock | ToolResultBlock) or room < SPARE_BYTES:
        return None
    text = block.text if isinstance(block, TextBlock) else block.output
    begin = text.encode()[: room - SPARE_BYTES // 2].decode(errors="ignore")
    told = f"{begin}\n[{len(text) - len(begin)} characters left out: a message holds 8 MiB]"
    return block.model_copy(update={"text" if isinstance(block, TextBlock) else "output": told})


def block_bytes(block: ContentBlock) -> int:
    """Return about how many bytes of a message a block takes."""
    match block:
        case TextBlock():
            return len(block.text.encode())
        case ToolResultBlock():
            return len(block.output.encode())
        case _:
            return len(block.model_dump_json())
