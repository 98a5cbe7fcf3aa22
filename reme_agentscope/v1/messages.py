"""Messages and blocks of AgentScope 1.x as ours, and back.

What a `Message` has no place for is carried in its metadata under `agentscope`, or in a block that nobody reads where
metadata can't hold it. So a message comes back as it was, `invocation_id` included, with these exceptions:

- Values that are not JSON come back as JSON: tuples as lists, other objects as a short text. Nothing is pickled.
- A message of a subclass comes back as a `Msg`.
- What does not fit into 8 MiB is left out, and a note says so.

Where the core has changed a block since, the changed one comes back. Messages of AgentScope 2.x come back as those of
1.x that say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias, cast

from agentscope.message import ContentBlock as Block
from agentscope.message import Msg
from pydantic import JsonValue

from reme_agentscope._shared.content_blocks import (
    AgentScopeFields,
    Path,
    Plain,
    arguments_of,
    call_block,
    guess_type,
    local_time,
    media_block,
    messages_of,
    msgs_of,
    pack,
    read_block,
    read_local,
    read_other,
    result_block,
    shown_value,
    text_field,
    text_of,
    unpack,
    write_block,
    write_other,
)
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    is_blob_reference,
)
from reme_core.schema.plain import as_json, as_object, clean_text, usable_id, usable_name

_MEDIA = frozenset({"image", "audio", "video"})


class AgentScope1Blocks:
    """The dialect of AgentScope 1.x."""

    def read(self, part: Plain) -> ContentBlock:
        """Return the block that shows a part; any part can be read."""
        match part.get("type"):
            case "text" if isinstance(part.get("text"), str):
                return TextBlock(text=text_field(part, "text"))
            case "tool_use":
                return call_block(part, arguments_of(part.get("input")))
            case "tool_result":
                return result_block(part)
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
            case ImageBlock() | FileBlock() if is_blob_reference(block.url):  # which nobody else can follow
                return {"type": "text", "text": text_of(block)}
            case ImageBlock():
                return _media("image", block.url, block.media_type)
            case FileBlock() if (
                not is_blob_reference(block.url) and (kind := (block.media_type or "").partition("/")[0]) in _MEDIA
            ):
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
        return shown_value(block, block.arguments if isinstance(block, ToolCallBlock) else None)


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
    return media_block(kind, whole, media_type)


def _media(kind: str, url: str, media_type: str | None) -> Plain:
    head, comma, data = url.partition(";base64,")
    if url.startswith("data:") and comma:
        known = media_type or head.removeprefix("data:")
        return {"type": kind, "source": {"type": "base64", "media_type": known, "data": data}}
    return {"type": kind, "source": {"type": "url", "url": url}}


_Speaker: TypeAlias = Literal["user", "assistant", "system"]

_BLOCKS = AgentScope1Blocks()
_SHARED_FIELDS = ("name", "metadata")  # of both generations


def from_agentscope(msgs: Msg | Iterable[Msg | None] | None) -> list[Message]:
    """Return messages of AgentScope in our form; nothing that is handed in is changed.

    Args:
        msgs: One message or several; None is passed over.

    Raises:
        InvalidInputError: Something in the list is no `Msg`.
    """
    return [_read(msg) for msg in msgs_of(msgs, Msg)]


def to_agentscope(messages: Iterable[Message]) -> list[Msg]:
    """Return messages in AgentScope's form, each with its id, independent of ours.

    Raises:
        InvalidInputError: Something in the list is not a `Message`.
    """
    return [_write(message) for message in messages_of(messages)]


def _read(msg: Msg) -> Message:
    content: object = msg.content
    fields = as_object({**msg.to_dict(), "content": None, "invocation_id": getattr(msg, "invocation_id", None)})
    del fields["content"]
    carried: dict[str, object] = {"generation": 1}
    blocks: list[ContentBlock]
    if isinstance(content, str):
        blocks = [TextBlock(text=clean_text(content))] if content else []
        carried["is_text"] = True
        carried["text"] = None if clean_text(content) == content else content
    else:
        parts = [_plain(part) for part in content] if isinstance(content, Iterable) else []
        read = [read_block(part, _BLOCKS) for part in parts]
        blocks = [block for block, _ in read]
        forms = [form for _, form in read]
        carried["forms"] = forms if any(forms) else []
    role = _role(fields["role"], blocks)
    name = usable_name(msg.name) if isinstance(msg.name, str) and msg.name else None
    message_id = usable_id(msg.id if isinstance(msg.id, str) else "")
    said_at = read_local(fields["timestamp"])
    usual = _fields(message_id, role, name, said_at)
    carried["fields"] = {key: value for key, value in fields.items() if usual.get(key) != value}
    metadata, kept = pack(AgentScopeFields.model_validate(carried), blocks)
    timed = {} if said_at is None else {"created_at": said_at}
    return Message.model_validate(
        {"message_id": message_id, "role": role, "name": name, "content": tuple(kept), "metadata": metadata, **timed}
    )


def _plain(part: object) -> Plain:
    return as_object(part) if isinstance(part, dict) else {"type": "unknown", "value": as_json(part)}


def _role(role: JsonValue, blocks: list[ContentBlock]) -> Role:
    if role == "system" and any(block.type == "tool_result" for block in blocks):
        return "tool"
    return cast("Role", role) if role in {"user", "assistant", "system"} else "user"


def _fields(message_id: str, role: Role, name: str | None, said_at: datetime | None) -> dict[str, JsonValue]:
    """Return the fields that a message of ours is written with, where nothing else is carried."""
    timestamp = None
    if said_at is not None:
        text = local_time(said_at).strftime("%Y-%m-%d %H:%M:%S.%f")
        timestamp = text.removesuffix("000")  # AgentScope writes milliseconds
    return {
        "id": message_id,
        "name": name or role,
        "role": "system" if role == "tool" else role,
        "metadata": {},
        "timestamp": timestamp,
        "invocation_id": None,
    }


def _write(message: Message) -> Msg:
    carried, blocks = unpack(message)
    is_own = carried is not None and carried.generation == 1
    fields = _fields(message.message_id, message.role, message.name, message.created_at)
    if carried is not None:
        fields |= {key: value for key, value in carried.fields.items() if is_own or key in _SHARED_FIELDS}
    if message.role == "tool" and not message.result_ids:  # what a tool says that answers no call is no instruction
        fields["role"] = "user"
    msg = Msg(
        name=str(fields["name"]),
        content=_write_content(blocks, carried if is_own else None),
        role=cast("_Speaker", fields["role"] if fields["role"] in {"user", "assistant", "system"} else "user"),
    )
    msg.id = str(fields["id"])
    msg.metadata = as_object(metadata) if isinstance(metadata := fields["metadata"], dict) else {}
    msg.timestamp = str(fields["timestamp"])
    invocation_id = fields["invocation_id"]
    msg.invocation_id = invocation_id if isinstance(invocation_id, str) else None
    return msg


def _write_content(blocks: list[ContentBlock], carried: AgentScopeFields | None) -> str | list[Block]:
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    is_text = carried.is_text if carried is not None else len(blocks) == 1
    if is_text and len(texts) == len(blocks) <= 1:
        text = "".join(texts)
        if carried is not None and carried.text is not None and clean_text(carried.text) == text:
            return carried.text
        return text
    forms = list(carried.forms) if carried is not None and len(carried.forms) == len(blocks) else [None] * len(blocks)
    parts = [
        write_block(block, form, _BLOCKS, is_own=carried is not None) for block, form in zip(blocks, forms, strict=True)
    ]
    return cast("list[Block]", parts)
