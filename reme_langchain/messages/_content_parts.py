"""Parts of a LangChain content list, and the content blocks of the core that say the same."""

from __future__ import annotations

import copy
import json
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from reme_core.schema import ContentBlock, FileBlock, ImageBlock, OtherBlock, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.schema.plain import as_object, ascii_json, clean_json, clean_text, is_kept

Part: TypeAlias = str | dict[str, JsonValue]

CARRIER = "langchain_fields"
"""The kind of the block that carries what neither metadata nor another block can."""

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
            form = PartForm(at=list(path), part=rest, prefix=prefix, was=_unless(whole, kept))
            return _block(str(kind), kept, part), form
    name = clean_text(kind) if isinstance(kind, str) and kind != CARRIER else "unknown"
    if is_kept(part):
        return OtherBlock(kind=name, data=part), PartForm()
    return OtherBlock(kind=name, data=ascii_json(part)), PartForm(as_text=True)


def write_part(block: ContentBlock, form: PartForm | None) -> Part | None:
    """Return the part that a block was read from; None where the block is not one of that form."""
    form = form or PLAIN
    match block:
        case TextBlock():
            value = block.text
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
        case ImageBlock():
            return _media("image", block.url, block.media_type)
        case FileBlock() if block.url.startswith(("http://", "https://", "data:")):
            kind = (block.media_type or "").partition("/")[0]
            return _media(kind if kind in {"audio", "video"} else "file", block.url, block.media_type)
        case FileBlock():
            return {"type": "text", "text": f"[file: {block.name or block.url}]"}
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
