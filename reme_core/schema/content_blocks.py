"""Blocks: the parts that the content of a message is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from reme_core.errors import InvalidInputError
from reme_core.schema.blobs import (
    Blob,
    data_url,
    is_blob_reference,
    is_embedded,
    make_blob,
    may_hold_base64,
    read_data_url,
    settled_url,
    take_base64,
    with_url,
)
from reme_core.schema.checks import Id, Json, JsonObject, Text


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TextBlock(_Block):
    """Text as it was said."""

    type: Literal["text"] = "text"
    text: Text


class _MediaBlock(_Block):
    """What images and files have alike.

    Attributes:
        url: Where the bytes are: a URL or path, a data URL that holds them, or `sha256:...` of what the store keeps. In
            place of it, `data` is taken: the bytes, or their base64.
        media_type: What they are, as the sender said.
        size: How many bytes the store keeps.
    """

    url: Text
    media_type: Text | None = None
    size: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_url(cls, fields: object) -> object:
        if not isinstance(fields, Mapping):
            return fields
        given = with_url(fields) if "data" in fields else dict(fields)
        url, media_type = given.get("url"), given.get("media_type")
        if isinstance(url, str):
            given["url"] = settled_url(url, media_type if isinstance(media_type, str) else None)
        return given

    def apart(self) -> tuple[Self, Blob | None]:
        """Return the block with a reference in place of its bytes, and these, if it holds any (ValueError)."""
        found = read_data_url(self.url)
        if found is None:
            return self, None
        blob = make_blob(found[1], self.media_type or found[0])
        told = {"url": blob.ref, "media_type": self.media_type or found[0] or blob.media_type, "size": len(blob.data)}
        return self.model_copy(update=told), blob

    def joined(self, blob: Blob) -> Self:
        """Return the block with the bytes that it refers to, as a data URL."""
        return self.model_copy(update={"url": data_url(blob.data, blob.media_type)})


class ImageBlock(_MediaBlock):
    """An image, by reference. It is found by its caption, which is searched like text."""

    type: Literal["image"] = "image"
    caption: Text | None = None

    @property
    def said(self) -> str:
        """What it is in words, `""` where nobody has said it."""
        return self.caption or ""


class FileBlock(_MediaBlock):
    """A file (audio and video included), by reference. It is found by its name, and by `text`: what stands in it."""

    type: Literal["file"] = "file"
    name: Text | None = None
    text: Text | None = None

    @property
    def said(self) -> str:
        """What it is in words, `""` where nobody has said it."""
        return "\n".join(filter(None, (self.name, self.text)))


class ToolCallBlock(_Block):
    """A call that a model asked for. `arguments` is the JSON object, or the text as it came where it isn't one."""

    type: Literal["tool_call"] = "tool_call"
    call_id: Id
    name: Text
    arguments: JsonObject | Text = Field(default_factory=dict)


class ToolResultBlock(_Block):
    """The answer to the tool call `call_id`."""

    type: Literal["tool_result"] = "tool_result"
    call_id: Id
    name: Text | None = None
    output: Text
    is_error: bool = False


class OtherBlock(_Block):
    """A part that we keep and don't read: thinking, vendor data. It is neither searched nor shown as text."""

    type: Literal["other"] = "other"
    kind: Text
    data: Json = None


ContentBlock: TypeAlias = Annotated[
    TextBlock | ImageBlock | FileBlock | ToolCallBlock | ToolResultBlock | OtherBlock, Field(discriminator="type")
]


def block_holds_bytes(block: ContentBlock) -> bool:
    """Whether bytes of images or files may stand in a block."""
    match block:
        case ImageBlock() | FileBlock():
            return block.url.startswith("data:")
        case OtherBlock():
            return may_hold_base64(block.data)
        case _:
            return False


def block_apart(block: ContentBlock, place: str, taken: dict[str, Blob]) -> ContentBlock:
    """Return a block without bytes, which go into `taken` (InvalidInputError, naming the place)."""
    match block:
        case ImageBlock() | FileBlock():
            try:
                told, blob = block.apart()
            except ValueError as exc:
                msg = f"{place}: {exc}"
                raise InvalidInputError(msg) from exc
            if blob is not None:
                taken.setdefault(blob.ref, blob)
            return told
        case OtherBlock():
            data = take_base64(block.data, lambda blob: taken.setdefault(blob.ref, blob))
            return block if data is block.data else block.model_copy(update={"data": data})
        case _:
            return block


def media_references(content: Iterable[ContentBlock]) -> Iterator[str]:
    """Yield what images and files refer to of what the store keeps."""
    for block in content:
        if (block.type == "image" or block.type == "file") and is_blob_reference(block.url):
            yield block.url


def pieces(content: Sequence[ContentBlock]) -> Iterable[str]:
    """Yield what can be read in blocks."""
    for block in content:
        match block:
            case TextBlock():
                yield block.text
            case ImageBlock() | FileBlock():
                yield block.said or _reference(block.url)
            case ToolCallBlock():
                arguments = block.arguments
                yield f"{block.name}({arguments if isinstance(arguments, str) else compact_json(arguments)})"
            case ToolResultBlock():
                yield block.output
            case OtherBlock():
                continue


def _reference(url: str) -> str:
    return "[embedded data]" if is_embedded(url) else url


def compact_json(value: JsonValue) -> str:
    """Write JSON in a line."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
