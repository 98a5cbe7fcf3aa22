"""Messages and blocks of AgentScope 2.x as ours, and back.

An assistant's message that holds results of tools becomes several of ours: what was said and called, the results, what
was said then; the first keeps the id, the others add `-1`, `-2` to it. Together they come back as the one that they
were, wherever some of them are missing as the rest of it.

What a `Message` has no place for is carried in its metadata under `agentscope`, or in a block that nobody reads where
metadata can't hold it. So a message comes back as it was, with these exceptions:

- Values that are not JSON come back as JSON: tuples as lists, other objects as a short text. Nothing is pickled.
- A message of a subclass comes back as a `Msg`.
- What does not fit into 8 MiB is left out, and a note says so.

Where the core has changed a block since, the changed one comes back. Messages of AgentScope 1.x come back as those of
2.x that say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from agentscope.message import Msg
from pydantic import AnyUrl, JsonValue, TypeAdapter, ValidationError

from reme_agentscope._shared.content_blocks import (
    AgentScopeFields,
    Path,
    Plain,
    arguments_of,
    call_block,
    guess_type,
    json_text,
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
from reme_core.schema.plain import as_object, clean_text, usable_id, usable_name

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
                return call_block(part, parsed_arguments(text_field(part, "input")))
            case "tool_result":
                return result_block(part, is_error=part.get("state") in _FAILED)
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
        arguments = block.arguments if isinstance(block, ToolCallBlock) else None
        return shown_value(block, json_text(arguments) if isinstance(arguments, dict) else arguments)


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
    shown_kind = kind if kind in {"image", "audio", "video"} else "file"
    return media_block(shown_kind, whole, media_type, text_field(part, "name"))


def _source(block: ImageBlock | FileBlock) -> dict[str, JsonValue] | None:
    """Return the source of a data block; None where the reference is no URL."""
    usual = "image/*" if isinstance(block, ImageBlock) else "application/octet-stream"
    media_type = block.media_type or guess_type(block.url) or usual
    head, comma, data = block.url.partition(";base64,")
    if head.startswith("data:") and comma:
        return {"type": "base64", "data": data, "media_type": media_type}
    if is_blob_reference(block.url):  # which nobody else can follow
        return None
    try:
        _URLS.validate_python(block.url)
    except ValidationError:
        return None
    return {"type": "url", "url": block.url, "media_type": media_type}


_BLOCKS = AgentScope2Blocks()
_SHARED_FIELDS = ("name", "metadata")  # of both generations
_LEGAL = {"user": ("text", "data"), "system": ("text",)}  # an assistant's message holds any block


def from_agentscope(msgs: Msg | Iterable[Msg | None] | None) -> list[Message]:
    """Return messages of AgentScope in our form; nothing that is handed in is changed.

    Args:
        msgs: One message or several; None is passed over.

    Raises:
        InvalidInputError: Something in the list is no `Msg`.
    """
    return [message for msg in msgs_of(msgs, Msg) for message in _read(msg)]


def to_agentscope(messages: Iterable[Message]) -> list[Msg]:
    """Return messages in AgentScope's form, independent of ours.

    A tool's result goes into the message of its call. What a user's or a system's message may not hold is told in it
    as text.

    Raises:
        InvalidInputError: Something in the list is not a `Message`.
    """
    gathered: list[_Gathered] = []
    for message in messages_of(messages):
        _gather(message, gathered)
    return [_write(one) for one in gathered]


def _read(msg: Msg) -> list[Message]:
    fields = as_object(msg.model_dump())
    content = fields.pop("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    runs = list(_runs(parts))
    role = cast("Role", msg.role)
    name = usable_name(msg.name) if msg.name else None
    message_id = usable_id(msg.id)
    said_at = read_local(msg.created_at)
    messages = []
    for number, run in enumerate(runs):
        read = [read_block(part, _BLOCKS) for part in run]
        is_result = any(isinstance(block, ToolResultBlock) for block, _ in read)
        forms = [form for _, form in read]
        carried: dict[str, object] = {"generation": 2, "forms": forms if any(forms) else []}
        if len(runs) > 1:
            carried |= {"of": msg.id, "part": number}
        if number == 0:
            usual = _fields(message_id, role, name, said_at)
            carried["fields"] = {key: value for key, value in fields.items() if usual.get(key, ...) != value}
        metadata, kept = pack(AgentScopeFields.model_validate(carried), [block for block, _ in read])
        when = said_at if number == 0 else read_local(run[0].get("created_at")) or said_at
        data = {
            "message_id": message_id if number == 0 else usable_id(f"{message_id}-{number}"),
            "role": "tool" if is_result and role == "assistant" else role,
            "name": name,
            "content": tuple(kept),
            "metadata": metadata,
        }
        messages.append(Message.model_validate(data if when is None else {**data, "created_at": when}))
    return messages


def _runs(parts: list[Plain]) -> Iterator[list[Plain]]:
    """Yield results together, and what stands between them together; at least one run."""
    run: list[Plain] = []
    for part in parts:
        if run and (part.get("type") == "tool_result") != (run[-1].get("type") == "tool_result"):
            yield run
            run = []
        run.append(part)
    yield run


def _fields(message_id: str, role: Role, name: str | None, said_at: datetime | None) -> dict[str, JsonValue]:
    """Return the fields that a message of ours is written with, where nothing else is carried."""
    return {
        "id": message_id,
        "name": name or role,
        "role": "assistant" if role == "tool" else role,
        "metadata": {},
        "created_at": None if said_at is None else local_time(said_at).isoformat(),
        "usage": None,
        "finished_at": None,
        "finished_reason": None,
        "structured_output": None,
        "error": None,
    }


@dataclass(slots=True)
class _Gathered:
    """A message of AgentScope in the making: its fields, and its blocks with what is written for each."""

    message: Message
    carried: AgentScopeFields | None
    blocks: list[tuple[ContentBlock, Plain]] = field(default_factory=list)
    part: int = 0

    @property
    def is_own(self) -> bool:
        return self.carried is not None and self.carried.generation == 2

    def is_followed_by(self, carried: AgentScopeFields) -> bool:
        """Tell whether a part belongs to the same message and comes later in it."""
        return self.is_own and self.carried is not None and self.carried.of == carried.of and self.part < carried.part


def _gather(message: Message, gathered: list[_Gathered]) -> None:
    carried, blocks = unpack(message)
    is_own = carried is not None and carried.generation == 2
    same = carried is not None and len(carried.forms) == len(blocks)
    forms = carried.forms if carried is not None and same else [None] * len(blocks)
    written = [
        (block, write_block(block, form, _BLOCKS, is_own=is_own)) for block, form in zip(blocks, forms, strict=True)
    ]
    last = gathered[-1] if gathered else None
    if carried is not None and is_own and carried.of is not None:
        if last is not None and last.is_followed_by(carried):
            last.blocks += written
            last.part = carried.part
            return
    elif message.role == "tool" and not is_own:  # one of AgentScope's that held results alone comes back as it was
        written = [pair for pair in written if not _answered(pair, gathered)]
        if not written and blocks:
            return
    gathered.append(_Gathered(message, carried, written, 0 if carried is None else carried.part))


def _answered(pair: tuple[ContentBlock, Plain], gathered: list[_Gathered]) -> bool:
    """Put a result into the message of its call; tell whether there is one."""
    result = pair[0]
    if not isinstance(result, ToolResultBlock):
        return False
    for one in reversed(gathered):
        if any(isinstance(block, ToolCallBlock) and block.call_id == result.call_id for block, _ in one.blocks):
            one.blocks.append(pair)
            return True
    return False


def _write(gathered: _Gathered) -> Msg:
    message, carried = gathered.message, gathered.carried
    usual = _fields(message.message_id, message.role, message.name, message.created_at)
    fields = dict(usual)
    if carried is not None:
        if gathered.is_own and carried.of is not None:
            fields["id"] = carried.of
        fields |= {
            key: value
            for key, value in carried.fields.items()
            if key in usual and (gathered.is_own or key in _SHARED_FIELDS)
        }
    parts = [_legal(part, block, str(fields["role"])) for block, part in gathered.blocks]
    try:
        return Msg.model_validate({**fields, "content": _completed(parts, usual)})
    except ValidationError:  # fields or blocks that AgentScope does not take: they were never a message of its
        parts = [_BLOCKS.write(block, is_own=False) for block, _ in gathered.blocks]
        role = str(usual["role"])
        parts = [_legal(part, block, role) for part, (block, _) in zip(parts, gathered.blocks, strict=True)]
        return Msg.model_validate({**usual, "content": _completed(parts, usual)})


def _legal(part: Plain, block: ContentBlock, role: str) -> Plain:
    return (
        part if part.get("type") in _LEGAL.get(role, (part.get("type"),)) else {"type": "text", "text": text_of(block)}
    )


def _completed(parts: list[Plain], fields: dict[str, JsonValue]) -> list[Plain]:
    """Return the blocks with ids and times where they have none: always the same, as blocks are compared by id."""
    usual = [{"id": f"{fields['id']}-{place}", "created_at": fields["created_at"]} for place in range(len(parts))]
    # What is AgentScope's own has all its fields; releases of 2.x differ in them, and thinking blocks take any.
    return [
        {**own, **part} if "id" not in part or part.get("type") in {"tool_call", "tool_result"} else part
        for own, part in zip(usual, parts, strict=True)
    ]
