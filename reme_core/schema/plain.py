"""Foreign values as JSON, and foreign texts, ids and blocks as the core keeps them: for adapters."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, JsonValue

from reme_core.schema import shown
from reme_core.schema.blobs import is_embedded
from reme_core.schema.checks import check_id, check_json, check_metadata
from reme_core.schema.content_blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OtherBlock,
    TextBlock,
    ToolResultBlock,
)
from reme_core.schema.messages import MAX_MESSAGE_BYTES, Message

_UNKEPT = re.compile("[\x00\ud800-\udfff]")
_MAX_NAME = 512
_MOST_DEPTH = 64
_MOST_BITS = 8192  # Python writes integers of up to 4,300 digits


def clean_text(text: str) -> str:
    """Replace each NUL and each lone surrogate, which no store keeps, by U+FFFD; the length stays."""
    return _UNKEPT.sub("\ufffd", text)


def usable_id(text: str) -> str:
    """Return the id itself where the core takes it, and else one that is derived from it, always the same."""
    try:
        return check_id(text)
    except ValueError:
        return f"id-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def usable_name(name: str) -> str:
    """Return a speaker's name as the core takes it."""
    return clean_text(name)[:_MAX_NAME]


def as_json(value: object, depth: int = 0) -> JsonValue:
    """Return a copy of any value as JSON, texts as they are.

    Tuples and sets become lists, keys texts, pydantic models objects; what else is not JSON becomes a short text that
    shows it, such as `<Thing object at 0x...>`. Nothing is pickled.
    """
    if depth > _MOST_DEPTH:
        return shown(value)
    match value:
        case None | bool() | float():
            return value
        case str():
            return str.__str__(value)
        case int():
            return int(value) if value.bit_length() <= _MOST_BITS else shown(value)
        case Mapping():
            return {_key(key): as_json(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [as_json(item, depth + 1) for item in value]
        case BaseModel():
            return as_json(dict(value), depth + 1)
        case _:
            return shown(value)


def _key(key: object) -> str:
    return str.__str__(key) if isinstance(key, str) else shown(key)


def as_object(value: Mapping[str, object]) -> dict[str, JsonValue]:
    """Return a copy of a mapping as a JSON object; see `as_json`."""
    return {_key(key): as_json(item, 1) for key, item in value.items()}


def clean_json(value: JsonValue) -> JsonValue:
    """Return a copy with every text cleaned, and NaN and infinities as texts."""
    match value:
        case str():
            return clean_text(value)
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return [clean_json(item) for item in value]
        case dict():
            return {clean_text(key): clean_json(item) for key, item in value.items()}
        case _:
            return value


def is_kept(value: JsonValue) -> bool:
    """Tell whether the core keeps a JSON value as it is."""
    try:
        check_json(value)
    except ValueError:
        return False
    return True


def ascii_json(value: JsonValue) -> str:
    """Write JSON in which NUL, lone surrogates, NaN and infinities survive as escapes and names."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


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
            what = block.kind[:40] if isinstance(block, OtherBlock) else block.type
            left_out.append(f"{what}, {size} bytes")
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
        case ImageBlock() | FileBlock():
            carried = is_embedded(block.url)  # the bytes are kept apart
            return len(block.said.encode()) + (0 if carried else len(block.url.encode()))
        case _:
            return len(block.model_dump_json())


@dataclass(frozen=True, slots=True)
class FieldCarrier:
    """The place in a message of what a framework's message has besides: for fields that ours has no place for.

    Attributes:
        key: Of the metadata.
        kind: Of the block that carries what metadata can't hold.
    """

    key: str
    kind: str

    def pack(
        self, fields: dict[str, JsonValue], blocks: Sequence[ContentBlock], least: Mapping[str, JsonValue]
    ) -> tuple[dict[str, JsonValue], list[ContentBlock]]:
        """Return metadata and content of a message that carries fields.

        Args:
            fields: What is carried; `left_out` of them lists what was too large (`fit_blocks`).
            blocks: The content, which fits.
            least: The fields that stay where all of them are too large.
        """
        says = any(not isinstance(block, TextBlock) or block.text.strip() for block in blocks)
        # A message that says nothing is kept for its carrier.
        whole = [*blocks, *([] if says else [OtherBlock(kind=self.kind)])]
        try:
            return (check_metadata({self.key: fields}) if fields else {}), whole
        except ValueError:
            text = ascii_json(fields)
        if len(text) > MAX_MESSAGE_BYTES - SPARE_BYTES - sum(map(block_bytes, blocks)):
            left_out = fields.get("left_out")
            note = f"additional fields, {len(text)} characters as JSON"
            text = ascii_json({**least, "left_out": [*(left_out if isinstance(left_out, list) else []), note]})
        return {}, [*blocks, OtherBlock(kind=self.kind, data=text)]

    def unpack(self, message: Message) -> tuple[JsonValue, list[ContentBlock]]:
        """Return what a message carries, None where that can't be read, and its content without the carrier."""
        blocks: list[ContentBlock] = []
        text: str | None = None
        for block in message.content:
            if not isinstance(block, OtherBlock) or block.kind != self.kind:
                blocks.append(block)
            elif text is None and isinstance(block.data, str):
                text = block.data
        if text is None:
            return message.metadata.get(self.key), blocks
        try:
            fields: JsonValue = json.loads(text)  # Python's JSON knows NaN and escaped lone surrogates
        except (ValueError, RecursionError):  # a block of somebody else under this kind
            return None, blocks
        return fields, blocks
