"""Blocks of AgentScope 2.x, as plain objects, and those of the core."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import AnyUrl, JsonValue, TypeAdapter, ValidationError

from reme_agentscope._shared.content_blocks import (
    Path,
    Plain,
    arguments_of,
    described,
    guess_type,
    json_text,
    read_other,
    text_field,
    text_of,
    told,
    write_other,
)
from reme_core.schema import ContentBlock, FileBlock, ImageBlock, OtherBlock, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.schema.plain import clean_text, usable_id

_FAILED = frozenset({"error", "denied", "interrupted"})
_URLS: TypeAdapter[AnyUrl] = TypeAdapter(AnyUrl)


class AgentScope2Blocks:
    """The dialect of AgentScope 2.x. Ids and times of blocks are left to whoever writes the message."""

    def read(self, part: Plain) -> ContentBlock:
        """Return the block that shows a part; any part can be read."""
        match part.get("type"):
            case "text" if isinstance(part.get("text"), str):
                return TextBlock(text=text_field(part, "text"))
            case "tool_call":
                return ToolCallBlock(
                    call_id=usable_id(text_field(part, "id")),
                    name=text_field(part, "name"),
                    arguments=parsed_arguments(text_field(part, "input")),
                )
            case "tool_result":
                return ToolResultBlock(
                    call_id=usable_id(text_field(part, "id")),
                    name=text_field(part, "name") or None,
                    output=told(part.get("output")),
                    is_error=part.get("state") in _FAILED,
                )
            case "data":
                return _read_data(part) or read_other(part)
            case _:
                return read_other(part)

    def write(self, block: ContentBlock, *, is_own: bool) -> Plain:
        """Return a part that says what a block does."""
        match block:
            case ToolCallBlock():
                return {"type": "tool_call", "id": block.call_id, "name": block.name, "input": self.shown(block)}
            case ToolResultBlock():
                state = "error" if block.is_error else "success"
                name = block.name or ""
                return {
                    "type": "tool_result",
                    "id": block.call_id,
                    "name": name,
                    "output": block.output,
                    "state": state,
                }
            case ImageBlock() | FileBlock() if (source := _source(block)) is not None:
                return {"type": "data", "source": source}
            case OtherBlock() if is_own and (part := write_other(block)) is not None:
                return part
            case OtherBlock(kind="thinking"):
                return {"type": "thinking", "thinking": text_of(block)}
            case _:
                return {"type": "text", "text": text_of(block)}

    def places(self, part: Plain) -> Sequence[Path]:
        """Return the paths where the value of a part may stand."""
        match part.get("type"):
            case "text":
                return [["text"]]
            case "tool_call":
                return [["input"]]
            case "tool_result":
                return [["output"], ["output", 0, "text"]]
            case "data":
                return [["source", "url"], ["source", "data"]]
            case _:
                return []

    def shown(self, block: ContentBlock) -> JsonValue:
        """Return the value of a block as it stands in a part."""
        match block:
            case TextBlock():
                return block.text
            case ToolCallBlock():
                return block.arguments if isinstance(block.arguments, str) else json_text(block.arguments)
            case ToolResultBlock():
                return block.output
            case ImageBlock() | FileBlock():
                _, comma, data = block.url.partition(";base64,")
                return data if comma and block.url.startswith("data:") else block.url
            case OtherBlock():
                return None


def parsed_arguments(text: str) -> dict[str, JsonValue] | str:
    """Return the arguments that a model wrote; the text where they are no JSON object."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return arguments_of(arguments) if isinstance(arguments, dict) else text


def _read_data(part: Plain) -> ContentBlock | None:
    source = part.get("source")
    if not isinstance(source, dict):
        return None
    media_type = text_field(source, "media_type") or "application/octet-stream"
    url = source.get("url")
    data = source.get("data")
    if isinstance(url, str):
        whole = clean_text(url)
    elif isinstance(data, str):
        whole = f"data:{media_type};base64,{clean_text(data)}"
    else:
        return None
    kind = media_type.partition("/")[0]
    in_words = described(kind if kind in {"image", "audio", "video"} else "file", whole, media_type)
    if kind == "image":
        return ImageBlock(url=whole, media_type=media_type, caption=in_words)
    return FileBlock(url=whole, media_type=media_type, name=text_field(part, "name") or in_words)


def _source(block: ImageBlock | FileBlock) -> dict[str, JsonValue] | None:
    """Return the source of a data block; None where the reference is no URL."""
    usual = "image/*" if isinstance(block, ImageBlock) else "application/octet-stream"
    media_type = block.media_type or guess_type(block.url) or usual
    head, comma, data = block.url.partition(";base64,")
    if head.startswith("data:") and comma:
        return {"type": "base64", "data": data, "media_type": media_type}
    try:
        _URLS.validate_python(block.url)
    except ValidationError:
        return None
    return {"type": "url", "url": block.url, "media_type": media_type}
