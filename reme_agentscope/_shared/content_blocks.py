"""Blocks of AgentScope as the core's, both ways, and the fields of messages that ours have no place for.

A dialect tells how one generation reads and writes a block. What its writing would not give back is carried as a form.
"""

from __future__ import annotations

import copy
import json
import mimetypes
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    can_be_kept,
    is_embedded,
    parse_time,
    shown,
)
from reme_core.schema.plain import FieldCarrier, ascii_json, clean_json, clean_text, fit_blocks, is_kept, usable_id

T = TypeVar("T")


def read_local(text: JsonValue) -> datetime | None:
    """Return a point in time in UTC, None for what is none; what has no zone is read as local time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        parse_time(moment)  # the years that the core takes
        return parse_time(moment.astimezone())
    except (ValueError, OverflowError, OSError):
        return None


def local_time(moment: datetime) -> datetime:
    """Return a point in time as local time without a zone."""
    return moment.astimezone().replace(tzinfo=None)


CARRIER = FieldCarrier("agentscope", "agentscope_fields")


class BlockForm(BaseModel):
    """How a block was written, beside the value that ours shows.

    Attributes:
        at: The path of the value in the block; empty: `rest` is the whole block.
        rest: The block without the value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: list[str | int] = Field(default_factory=list)
    rest: dict[str, JsonValue]


class AgentScopeFields(BaseModel):
    """The fields of a message that ours does not show, or shows otherwise. Texts stand as they came.

    Attributes:
        generation: Of AgentScope.
        fields: Of the message, where they are not what ours would give.
        is_text: The content was a text and no list.
        text: That text, where the core can't keep it.
        forms: Of each block, where it is not what ours would give.
        of: The id of the message that this is a part of.
        part: Which part, from 0.
        left_out: What was too large to be kept: what, and of how many bytes or characters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    generation: Literal[1, 2]
    fields: dict[str, JsonValue] = Field(default_factory=dict)
    is_text: bool = False
    text: str | None = None
    forms: list[BlockForm | None] = Field(default_factory=list)
    of: str | None = None
    part: int = 0
    left_out: list[str] = Field(default_factory=list)


def pack(carried: AgentScopeFields, blocks: Sequence[ContentBlock]) -> tuple[dict[str, JsonValue], list[ContentBlock]]:
    """Return metadata and content of a message that carries it.

    It goes into the metadata, or into a block where metadata can't hold it. What is too large for a message is left
    out, the fields first, and the text of a block that ends with a note saying so.
    """
    kept, left_out = fit_blocks(blocks)
    if left_out:
        carried = carried.model_copy(update={"left_out": left_out, "forms": []})
    return CARRIER.pack(carried.model_dump(exclude_defaults=True), kept, {"generation": carried.generation})


def unpack(message: Message) -> tuple[AgentScopeFields | None, list[ContentBlock]]:
    """Return what a message carries, None where it is not AgentScope's, and its content without the carrier."""
    fields, blocks = CARRIER.unpack(message)
    try:
        return AgentScopeFields.model_validate(fields), blocks
    except ValidationError:  # a user's own metadata under this key: no message of ours
        return None, blocks


Plain: TypeAlias = dict[str, JsonValue]
Path: TypeAlias = Sequence[str | int]

_TEXT_FIELDS = ("text", "thinking", "hint", "content", "output")


class BlockDialect(Protocol):
    """How one generation of AgentScope writes its blocks."""

    def read(self, part: Plain) -> ContentBlock:
        """Return the block that shows a part; any part can be read."""
        ...

    def write(self, block: ContentBlock, *, is_own: bool) -> Plain:
        """Return a part that says what a block does; `is_own` where it was read from this generation."""
        ...

    def places(self, part: Plain) -> Sequence[Path]:
        """Return the paths where the value of a part may stand."""
        ...

    def shown(self, block: ContentBlock) -> JsonValue:
        """Return the value of a block as it stands in a part."""
        ...


def msgs_of(given: object, kind: type[T]) -> Iterator[T]:
    """Yield the messages of AgentScope that are handed in, one or several; None is passed over.

    Raises:
        InvalidInputError: It is no list, or something in it is of another kind.
    """
    items = [given] if given is None or isinstance(given, kind) else given
    if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
        msg = f"msgs: wanted a list of Msg, found {shown(items)}"
        raise InvalidInputError(msg)
    for place, item in enumerate(items):
        if isinstance(item, kind):
            yield item
        elif item is not None:
            msg = f"msgs[{place}]: wanted a Msg of AgentScope, found {shown(item)}"
            raise InvalidInputError(msg)


def messages_of(given: Iterable[object]) -> Iterator[Message]:
    """Yield the messages of the core that are handed in (InvalidInputError: something is none)."""
    for place, item in enumerate(given):
        if not isinstance(item, Message):
            msg = f"messages[{place}]: wanted a Message of reme, found {shown(item)}"
            raise InvalidInputError(msg)
        yield item


def call_block(part: Plain, arguments: dict[str, JsonValue] | str) -> ToolCallBlock:
    """Return the call that a part of either generation shows."""
    return ToolCallBlock(call_id=usable_id(text_field(part, "id")), name=text_field(part, "name"), arguments=arguments)


def result_block(part: Plain, *, is_error: bool = False) -> ToolResultBlock:
    """Return the result of a call that a part of either generation shows."""
    return ToolResultBlock(
        call_id=usable_id(text_field(part, "id")),
        name=text_field(part, "name") or None,
        output=told(part.get("output")),
        is_error=is_error,
    )


def media_block(kind: str, url: str, media_type: str | None, name: str = "") -> ImageBlock | FileBlock | None:
    """Return the block of a medium, with what it is in words; None where its bytes are broken, or too many."""
    if not can_be_kept(url):
        return None
    in_words = described(kind, url, media_type)
    if kind == "image":
        return ImageBlock(url=url, media_type=media_type, caption=in_words)
    return FileBlock(url=url, media_type=media_type, name=name or in_words)


def payload(url: str) -> str:
    """Return the bytes of a data URL, in base64, or the URL itself."""
    return url.partition(";base64,")[2] if url.startswith("data:") and ";base64," in url else url


def shown_value(block: ContentBlock, arguments: JsonValue) -> JsonValue:
    """Return the value of a block as it stands in a part; that of a call is its arguments, written as there."""
    match block:
        case TextBlock():
            return block.text
        case ToolCallBlock():
            return arguments
        case ToolResultBlock():
            return block.output
        case ImageBlock() | FileBlock():
            return payload(block.url)
        case OtherBlock():
            return None


def read_block(part: Plain, dialect: BlockDialect) -> tuple[ContentBlock, BlockForm | None]:
    """Return the block that shows a part, and what else there is to it (None where nothing is lost)."""
    block = dialect.read(part)
    if dialect.write(block, is_own=True) == part:
        return block, None
    for path in dialect.places(part):
        taken = _take(part, path)
        if taken is not None:
            form = BlockForm(at=list(path), rest=taken)
            if _put(taken, path, dialect.shown(block)) == part:
                return block, form
    return block, BlockForm(rest=part)


def write_block(block: ContentBlock, form: BlockForm | None, dialect: BlockDialect, *, is_own: bool) -> Plain:
    """Return the part that a block was read from; where the block has changed since, one that says what it does."""
    if is_own and form is not None:
        part = copy.deepcopy(form.rest)
        if form.at:
            part = _put(part, form.at, dialect.shown(block))
        if dialect.read(part) == block:
            return part
    return dialect.write(block, is_own=is_own)


def read_other(part: Plain) -> OtherBlock:
    """Return a block that keeps a part and does not read it."""
    kind = part.get("type")
    # Ours may not come from outside: it would be read as what we carry.
    name = clean_text(kind) if isinstance(kind, str) and kind != CARRIER.kind else "unknown"
    return OtherBlock(kind=name, data=part if is_kept(part) else ascii_json(part))


def write_other(block: OtherBlock) -> Plain | None:
    """Return the part that `read_other` was given; None where it was given none."""
    data = block.data
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            return None
    return copy.deepcopy(data) if isinstance(data, dict) else None


def text_of(block: ContentBlock) -> str:
    """Return what a block says to somebody who knows no such block."""
    match block:
        case TextBlock():
            return block.text
        case ImageBlock():
            return block.caption or described("image", block.url, block.media_type)
        case FileBlock():
            return block.name or described("file", block.url, block.media_type)
        case ToolCallBlock():
            arguments = block.arguments
            return f"{block.name}({arguments if isinstance(arguments, str) else json_text(arguments)})"
        case ToolResultBlock():
            return block.output
        case OtherBlock():
            found = "\n".join(_texts(block.data))
            return found or f"[{block.kind}]"


def described(kind: str, url: str, media_type: str | None) -> str:
    """Return a medium in words: `[image: url]`; never its bytes."""
    place = f"embedded {media_type or 'data'}" if is_embedded(url) else url
    return f"[{kind}: {place}]"


def guess_type(url: str) -> str | None:
    """Return the media type that the ending of a URL names."""
    if url.startswith("data:"):
        return url[5:].partition(";")[0].partition(",")[0] or None
    return _types().guess_type(url.partition("?")[0].partition("#")[0])[0]


@cache
def _types() -> mimetypes.MimeTypes:
    """Return the types that Python knows, whatever is installed on the machine; made with the first use."""
    return mimetypes.MimeTypes(filenames=())


def told(output: JsonValue) -> str:
    """Return the output of a tool as one text: its texts, and media in words."""
    if isinstance(output, str):
        return clean_text(output)
    parts = output if isinstance(output, list) else [] if output is None else [output]
    return "\n".join(_told_part(part) for part in parts)


def json_text(value: JsonValue) -> str:
    """Write JSON as models do."""
    return json.dumps(value, ensure_ascii=False)


def text_field(part: Plain, key: str) -> str:
    """Return a field as a text that the core keeps; `""` where it is missing."""
    value = part.get(key)
    if isinstance(value, str):
        return clean_text(value)
    return "" if value is None else clean_text(ascii_json(value))


def arguments_of(value: JsonValue) -> dict[str, JsonValue] | str:
    """Return the arguments of a call: the object, or a text where it is none or can't be kept."""
    if isinstance(value, dict):
        cleaned = {clean_text(key): clean_json(item) for key, item in value.items()}
        return cleaned if is_kept(cleaned) else ascii_json(value)
    return clean_text(value) if isinstance(value, str) else "" if value is None else ascii_json(value)


def _told_part(part: JsonValue) -> str:
    if not isinstance(part, dict):
        return clean_text(part if isinstance(part, str) else ascii_json(part))
    if isinstance(part.get("text"), str):
        return text_field(part, "text")
    source = part.get("source")
    kind = text_field(part, "type")
    if not isinstance(source, dict):
        return f"[{kind}]"
    media_type = text_field(source, "media_type")
    kind = media_type.partition("/")[0] or "file" if kind == "data" else kind
    return described(kind, text_field(source, "url") or "data:", media_type or None)


def _texts(data: JsonValue) -> Iterator[str]:
    if isinstance(data, str) and data.strip():
        yield data
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)
    elif isinstance(data, dict):
        for key in _TEXT_FIELDS:
            yield from _texts(data.get(key))


def _take(part: Plain, path: Path) -> Plain | None:
    """Return a copy of the part without the value at the path; None where there is none."""
    taken = copy.deepcopy(part)
    inner: JsonValue = taken
    *way, last = path
    for step in way:
        inner = _at(inner, step)
    if not isinstance(inner, dict) or not isinstance(last, str) or last not in inner:
        return None
    del inner[last]
    return taken


def _at(value: JsonValue, step: str | int) -> JsonValue:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _put(part: Plain, path: Path, value: JsonValue) -> Plain:
    """Return a copy of the part with a value at the path; unchanged where there is no such place."""
    whole = copy.deepcopy(part)
    inner: JsonValue = whole
    *way, last = path
    for step in way:
        inner = _at(inner, step)
    if isinstance(inner, dict) and isinstance(last, str):
        inner[last] = copy.deepcopy(value)
    return whole
