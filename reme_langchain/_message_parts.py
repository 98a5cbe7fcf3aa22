"""Parts of LangChain's messages: content lists, tool calls, and fields that ours have no place for."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from langchain_core.messages import InvalidToolCall, ToolCall
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

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
    is_blob_reference,
    is_embedded,
    shown,
)
from reme_core.schema.plain import (
    FieldCarrier,
    as_object,
    ascii_json,
    clean_json,
    clean_text,
    fit_blocks,
    is_kept,
    usable_id,
)

Part: TypeAlias = str | dict[str, JsonValue]

CARRIER = FieldCarrier("langchain", "langchain_fields")

_MEDIA = frozenset({"image", "file", "audio", "video"})


class PartForm(BaseModel):
    """How a block was written as a part, beside the value that the block shows.

    Attributes:
        bare: The part is a text and no object.
        at: The path of the value in the part.
        part: The part without the value.
        prefix: What the block's value has in front of the part's: the beginning of a data URL.
        was: The value as it came, where the core can't keep it.
        as_text: The block holds the whole part, as JSON text.
        chars: In the result of a tool: how much of the output this part is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bare: bool = False
    at: list[str] = Field(default_factory=list)
    part: dict[str, JsonValue] = Field(default_factory=dict)
    prefix: str = ""
    was: str | None = None
    as_text: bool = False
    chars: int | None = None


PLAIN = PartForm(at=["text"], part={"type": "text"})


def read_part(given: object) -> tuple[ContentBlock, PartForm]:
    """Return the block that shows a part, and what else there is to it."""
    if isinstance(given, str):
        text = clean_text(given)
        return TextBlock(text=text), PartForm(bare=True, was=_unless(given, text))
    part = as_object(given if isinstance(given, dict) else {"value": given})
    kind = part.get("type")
    for path, prefix in _places(part):
        rest, value = _take(part, path)
        if value is not None:
            whole = prefix + value
            kept = clean_text(whole)
            if kind != "text" and not can_be_kept(kept):
                continue
            form = PartForm(at=list(path), part=rest, prefix=prefix, was=_unless(whole, kept))
            return _block(str(kind), kept, part), form
    name = clean_text(kind) if isinstance(kind, str) and kind != CARRIER.kind else "unknown"
    if is_kept(part):
        return OtherBlock(kind=name, data=part), PartForm()
    return OtherBlock(kind=name, data=ascii_json(part)), PartForm(as_text=True)


def write_part(block: ContentBlock, form: PartForm | None) -> Part | None:
    """Return the part that a block was read from; None where the block is not one of that form."""
    form = form or PLAIN
    match block:
        case TextBlock():
            value = block.text
        case ImageBlock() | FileBlock() if is_blob_reference(block.url):  # which nobody else can follow
            return None
        case ImageBlock() | FileBlock():
            value = block.url
        case OtherBlock():
            return _whole(block.data, form)
        case _:
            return None
    prefix = clean_text(form.prefix)
    if form.was is not None and clean_text(form.was) == value:
        value, prefix = form.was, form.prefix
    if form.bare:
        return value if isinstance(block, TextBlock) else None
    if not form.at or not value.startswith(prefix):
        return None
    return _put(copy.deepcopy(form.part), tuple(form.at), value.removeprefix(prefix))


def plain_part(block: ContentBlock) -> dict[str, JsonValue]:
    """Return a block in LangChain's standard form, where we don't know another one."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock() if not is_blob_reference(block.url):
            return _media("image", block.url, block.media_type)
        case ImageBlock():
            return {"type": "text", "text": f"[image: {block.said or 'embedded data'}]"}
        case FileBlock() if block.url.startswith(("http://", "https://", "data:")):
            kind = (block.media_type or "").partition("/")[0]
            return _media(kind if kind in {"audio", "video"} else "file", block.url, block.media_type)
        case FileBlock():
            known = block.said or ("embedded data" if is_embedded(block.url) else block.url)
            return {"type": "text", "text": f"[file: {known}]"}
        case OtherBlock(kind="thinking") if isinstance(block.data, str):
            return {"type": "reasoning", "reasoning": block.data}
        case OtherBlock():
            return {"type": "non_standard", "value": {"kind": block.kind, "data": copy.deepcopy(block.data)}}
        case ToolCallBlock() | ToolResultBlock():
            msg = f"{block.type} is no part of a content"
            raise AssertionError(msg)


def _unless(original: str, kept: str) -> str | None:
    return None if original == kept else original


def _places(part: dict[str, JsonValue]) -> list[tuple[tuple[str, ...], str]]:
    """Return where the value of a part may stand, and what a URL of it begins with."""
    match part.get("type"):
        case "text":
            return [(("text",), "")]
        case "image_url":
            return [(("image_url", "url"), ""), (("image_url",), "")]
        case str() as kind if kind in _MEDIA:
            source = part.get("source")
            nested = source.get("media_type") if isinstance(source, dict) else None
            return [
                (("url",), ""),
                (("base64",), _data_url(kind, part.get("mime_type"))),
                (("data",), _data_url(kind, part.get("mime_type"))),
                (("source", "url"), ""),
                (("source", "data"), _data_url(kind, nested)),
                (("file", "file_data"), ""),
                (("file", "file_id"), ""),
            ]
        case _:
            return []


def _data_url(kind: str, media_type: JsonValue) -> str:
    known = media_type if isinstance(media_type, str) else "image/*" if kind == "image" else "application/octet-stream"
    return f"data:{known};base64,"


def _take(part: dict[str, JsonValue], path: tuple[str, ...]) -> tuple[dict[str, JsonValue], str | None]:
    """Return a copy of the part without the text at the path, and that text; None where there is none."""
    head, *rest = path
    value = part.get(head)
    if not rest:
        return {key: item for key, item in part.items() if key != head}, value if isinstance(value, str) else None
    if not isinstance(value, dict):
        return part, None
    inner, found = _take(value, tuple(rest))
    return {**part, head: inner}, found


def _put(part: dict[str, JsonValue], path: tuple[str, ...], value: str) -> dict[str, JsonValue]:
    head, *rest = path
    if not rest:
        return {**part, head: value}
    inner = part.get(head)
    return {**part, head: _put(inner if isinstance(inner, dict) else {}, tuple(rest), value)}


def _block(kind: str, value: str, part: dict[str, JsonValue]) -> ContentBlock:
    media_type = clean_json(part.get("mime_type"))
    media_type = media_type if isinstance(media_type, str) else None
    match kind:
        case "text":
            return TextBlock(text=value)
        case "image" | "image_url":
            return ImageBlock(url=value, media_type=media_type)
        case _:
            file = part.get("file")
            name = clean_json(file.get("filename") if isinstance(file, dict) else part.get("filename"))
            return FileBlock(url=value, media_type=media_type, name=name if isinstance(name, str) else None)


def _whole(data: JsonValue, form: PartForm) -> Part | None:
    if form.as_text and isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            return None
    return copy.deepcopy(data) if isinstance(data, dict) and not form.at and not form.bare else None


def _media(kind: str, url: str, media_type: str | None) -> dict[str, JsonValue]:
    named: dict[str, JsonValue] = {"mime_type": media_type} if media_type else {}
    head, comma, payload = url.partition(";base64,")
    if url.startswith("data:") and comma:
        return {"type": kind, "base64": payload, "mime_type": media_type or head.removeprefix("data:")}
    return {"type": kind, "url": url, **named}


class LangChainFields(BaseModel):
    """The fields of a message that its blocks do not show, or show otherwise. Texts stand as they came.

    Attributes:
        type: Of a message of one of the rarer types.
        role: Of a `ChatMessage`.
        id: Where it can't be our id.
        name: Where it can't be our name.
        tool_call_id: Where it can't be our id of a call.
        text: The content, where it was a text that the core can't keep.
        parts: The form of each part, where the content was a list; None for a plain text.
        calls: The tool calls that the blocks do not show exactly, each at its place.
        left_out: What was too large to be kept: what, and of how many bytes or characters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str | None = None
    role: str | None = None
    id: str | None = None
    name: str | None = None
    tool_call_id: str | None = None
    text: str | None = None
    parts: list[PartForm | None] | None = None
    calls: list[dict[str, JsonValue] | None] = Field(default_factory=list)
    invalid_tool_calls: list[dict[str, JsonValue]] = Field(default_factory=list)
    additional_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    response_metadata: dict[str, JsonValue] = Field(default_factory=dict)
    usage_metadata: dict[str, JsonValue] | None = None
    artifact: JsonValue = None
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    left_out: list[str] = Field(default_factory=list)


def pack(carried: LangChainFields, blocks: Sequence[ContentBlock]) -> tuple[dict[str, JsonValue], list[ContentBlock]]:
    """Return metadata and content of a message that carries it.

    It goes into the metadata, or into a block where metadata can't hold it. What is too large for a message is left
    out, the fields first, and the text of a block that ends with a note saying so.
    """
    kept, left_out = fit_blocks(blocks)
    fields = carried.model_copy(update={"left_out": left_out}).model_dump(exclude_defaults=True)
    return CARRIER.pack(fields, kept, {})


def unpack(message: Message) -> tuple[LangChainFields, list[ContentBlock]]:
    """Return what a message carries, and its content without the carrier; nothing where it is not from LangChain."""
    fields, blocks = CARRIER.unpack(message)
    try:
        return LangChainFields.model_validate({} if fields is None else fields), blocks
    except ValidationError:  # a user's own metadata under this key: no message of ours
        return LangChainFields(), blocks


def read_call(call: Mapping[str, object], message_id: str, place: int) -> ToolCallBlock:
    """Return the block of a tool call. One without an id gets one of its own: each call needs it."""
    call_id, name, args = call.get("id"), call.get("name"), call.get("args")
    arguments = {key: clean_json(item) for key, item in as_object(args if isinstance(args, dict) else {}).items()}
    arguments = {clean_text(key): item for key, item in arguments.items()}
    return ToolCallBlock(
        call_id=usable_id(call_id) if isinstance(call_id, str) else f"{usable_id(message_id)[:480]}-call-{place}",
        name=clean_text(str(name or "")),
        arguments=arguments if is_kept(arguments) else shown(arguments),
    )


def write_calls(
    blocks: Sequence[ToolCallBlock], carried: LangChainFields, message_id: str
) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for place, block in enumerate(blocks):
        original = carried.calls[place] if place < len(carried.calls) else None
        call = write_call(block) if original is None else _original_call(original, block, message_id, place)
        if call is not None:
            valid.append(call)
        else:
            arguments = block.arguments if isinstance(block.arguments, str) else None
            invalid.append(
                InvalidToolCall(name=block.name, args=arguments, id=block.call_id, error=None, type="invalid_tool_call")
            )
    for given in carried.invalid_tool_calls:
        name, args, call_id, error = (_text(given.get(key)) for key in ("name", "args", "id", "error"))
        invalid.append(InvalidToolCall(name=name, args=args, id=call_id, error=error, type="invalid_tool_call"))
    return valid, invalid


def write_call(block: ToolCallBlock) -> ToolCall | None:
    """Return the call; None where its arguments are no object."""
    if isinstance(block.arguments, str):
        return None
    return ToolCall(name=block.name, args=copy.deepcopy(block.arguments), id=block.call_id, type="tool_call")


def _original_call(
    original: Mapping[str, JsonValue], block: ToolCallBlock, message_id: str, place: int
) -> ToolCall | None:
    """Return the call as it came, if the block still shows it."""
    if read_call(original, message_id, place) != block:
        return write_call(block)
    args = original.get("args")
    arguments = copy.deepcopy(args) if isinstance(args, dict) else {}
    return ToolCall(
        name=_text(original.get("name")) or "", args=arguments, id=_text(original.get("id")), type="tool_call"
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
