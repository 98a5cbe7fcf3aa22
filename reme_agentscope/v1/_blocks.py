"""Blocks of AgentScope 1.x, which are dictionaries, and those of the core."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from reme_agentscope._shared.content_blocks import (
    Path,
    Plain,
    arguments_of,
    described,
    guess_type,
    read_other,
    text_field,
    text_of,
    told,
    write_other,
)
from reme_core.schema import ContentBlock, FileBlock, ImageBlock, OtherBlock, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.schema.plain import clean_text, usable_id

_MEDIA = frozenset({"image", "audio", "video"})


class AgentScope1Blocks:
    """The dialect of AgentScope 1.x."""

    def read(self, part: Plain) -> ContentBlock:
        """Return the block that shows a part; any part can be read."""
        match part.get("type"):
            case "text" if isinstance(part.get("text"), str):
                return TextBlock(text=text_field(part, "text"))
            case "tool_use":
                return ToolCallBlock(
                    call_id=usable_id(text_field(part, "id")),
                    name=text_field(part, "name"),
                    arguments=arguments_of(part.get("input")),
                )
            case "tool_result":
                return ToolResultBlock(
                    call_id=usable_id(text_field(part, "id")),
                    name=text_field(part, "name") or None,
                    output=told(part.get("output")),
                )
            case "image" | "audio" | "video" as kind:
                return _read_media(kind, part) or read_other(part)
            case _:
                return read_other(part)

    def write(self, block: ContentBlock, *, is_own: bool) -> Plain:
        """Return a part that says what a block does."""
        match block:
            case ToolCallBlock(arguments=str() as text):
                return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}, "raw_input": text}
            case ToolCallBlock():
                return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": self.shown(block)}
            case ToolResultBlock():
                return {"type": "tool_result", "id": block.call_id, "name": block.name or "", "output": block.output}
            case ImageBlock():
                return _media("image", block.url, block.media_type)
            case FileBlock() if (kind := (block.media_type or "").partition("/")[0]) in _MEDIA:
                return _media(kind, block.url, block.media_type)
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
            case "tool_use":
                return [["input"]]
            case "tool_result":
                return [["output"], ["output", 0, "text"]]
            case _:
                return [["source", "url"], ["source", "data"]]

    def shown(self, block: ContentBlock) -> JsonValue:
        """Return the value of a block as it stands in a part."""
        match block:
            case TextBlock():
                return block.text
            case ToolCallBlock():
                return block.arguments
            case ToolResultBlock():
                return block.output
            case ImageBlock() | FileBlock():
                return payload(block.url)
            case OtherBlock():
                return None


def payload(url: str) -> str:
    """Return the bytes of a data URL, in base64, or the URL itself."""
    return url.partition(";base64,")[2] if url.startswith("data:") and ";base64," in url else url


def _read_media(kind: str, part: Plain) -> ContentBlock | None:
    source = part.get("source")
    if not isinstance(source, dict):
        return None
    media_type = text_field(source, "media_type") or None
    url = source.get("url")
    data = source.get("data")
    if isinstance(url, str):
        whole = clean_text(url)
        guessed = guess_type(whole)
        media_type = media_type or (guessed if guessed and guessed.startswith(f"{kind}/") else f"{kind}/*")
    elif isinstance(data, str):
        whole = f"data:{media_type or f'{kind}/*'};base64,{clean_text(data)}"
    else:
        return None
    in_words = described(kind, whole, media_type)
    if kind == "image":
        return ImageBlock(url=whole, media_type=media_type, caption=in_words)
    return FileBlock(url=whole, media_type=media_type, name=in_words)


def _media(kind: str, url: str, media_type: str | None) -> Plain:
    head, comma, data = url.partition(";base64,")
    if url.startswith("data:") and comma:
        known = media_type or head.removeprefix("data:")
        return {"type": kind, "source": {"type": "base64", "media_type": known, "data": data}}
    return {"type": kind, "source": {"type": "url", "url": url}}
