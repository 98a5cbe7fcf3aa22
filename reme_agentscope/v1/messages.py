"""Messages of AgentScope 1.x as ours, and back.

What a `Message` has no place for is carried in its metadata under `agentscope`, or in a block that nobody reads where
metadata can't hold it. So a message comes back as it was, `invocation_id` included, with these exceptions:

- Values that are not JSON come back as JSON: tuples as lists, other objects as a short text. Nothing is pickled.
- A message of a subclass comes back as a `Msg`.
- What does not fit into 8 MiB is left out, and a note says so.

Where the core has changed a block since, the changed one comes back. Messages of AgentScope 2.x come back as those of
1.x that say the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypeAlias, cast

from agentscope.message import ContentBlock as Block
from agentscope.message import Msg
from pydantic import JsonValue

from reme_agentscope._shared.carried_fields import AgentScopeFields, pack, unpack
from reme_agentscope._shared.content_blocks import Plain, read_block, write_block
from reme_agentscope._shared.local_times import local_time, read_local
from reme_agentscope.v1._blocks import AgentScope1Blocks
from reme_core.errors import InvalidInputError
from reme_core.schema import ContentBlock, Message, Role, TextBlock, shown
from reme_core.schema.plain import as_json, as_object, clean_text, usable_id, usable_name

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
    given: object = [msgs] if msgs is None or isinstance(msgs, Msg) else msgs
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        msg = f"msgs: wanted a list of Msg, found {shown(given)}"
        raise InvalidInputError(msg)
    read = []
    for place, item in enumerate(given):
        if isinstance(item, Msg):
            read.append(_read(item))
        elif item is not None:
            msg = f"msgs[{place}]: wanted a Msg of AgentScope, found {shown(item)}"
            raise InvalidInputError(msg)
    return read


def to_agentscope(messages: Iterable[Message]) -> list[Msg]:
    """Return messages in AgentScope's form, each with its id, independent of ours.

    Raises:
        InvalidInputError: Something in the list is not a `Message`.
    """
    written = []
    items: Iterable[object] = messages
    for place, message in enumerate(items):
        if not isinstance(message, Message):
            msg = f"messages[{place}]: wanted a Message of reme, found {shown(message)}"
            raise InvalidInputError(msg)
        written.append(_write(message))
    return written


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
