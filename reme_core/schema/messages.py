"""Messages: the one form of a turn inside the core, the ways in, and the blocks of a session that they lie in."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import count
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, ValidationInfo, model_validator

from reme_core.errors import InvalidInputError
from reme_core.schema.blobs import Blob, may_hold_base64, put_base64, take_base64
from reme_core.schema.checks import MAX_METADATA_BYTES, Id, Metadata, Text, check_metadata, describe, kind_of
from reme_core.schema.content_blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    block_apart,
    block_holds_bytes,
    compact_json,
    media_references,
    pieces,
)
from reme_core.schema.foreign import message_hint
from reme_core.schema.mapping import told_fields
from reme_core.schema.scope import new_id
from reme_core.schema.times import UtcTime, utc_now
from reme_core.schema.trust import TRUST, TrustClass, least_trusted
from reme_core.schema.wire import normalise_message

MAX_MESSAGE_BYTES = 8 << 20
"""A message is at most 8 MiB of UTF-8; larger things belong into a file, and its reference into a message."""

_STORED = {"stored": True}

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


# What a system prompt says, the application says.
_TRUST_OF_ROLE: Mapping[Role, TrustClass] = {
    "system": TrustClass.USER,
    "user": TrustClass.USER,
    "assistant": TrustClass.ASSISTANT,
    "tool": TrustClass.TOOL,
}

ORIGINAL_ID = "reme_original_id"
"""In the metadata of a message whose own id is taken by another one: the id that it had."""


class Message(BaseModel):
    """One turn.

    Built from keywords or, with `Message.model_validate`, from a dictionary in our own form or OpenAI's (`content` a
    string or parts, `tool_calls`, `tool_call_id`); `time_created` and `timestamp` are read as `created_at`.

    Attributes:
        message_id: Unique within a scope; random unless given.
        role: Who speaks: system, user, assistant or tool (developer and function are read as system and tool).
        name: The speaker's name, where there is one.
        content: At least one block.
        created_at: When it was said (UTC; naive times are taken as UTC); now unless given.
        starts_block: The caller's mark for a business boundary: a new block begins with this message.
        metadata: A JSON object; kept, not searched.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    message_id: Id = Field(default_factory=new_id)
    role: Role
    name: Annotated[Text, Field(max_length=512)] | None = None
    content: Annotated[tuple[ContentBlock, ...], Field(min_length=1)]
    created_at: UtcTime = Field(default_factory=utc_now)
    starts_block: bool = False
    metadata: Metadata = Field(default_factory=dict)

    __repr__ = told_fields

    def __str__(self) -> str:
        """Tell when it was said, who said it, and what."""
        return f"{self.created_at:%Y-%m-%d %H:%M} {self.speaker}: {self.full_text}"

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: object, info: ValidationInfo) -> object:
        return normalise_message(data) if isinstance(data, Mapping) and info.context is not _STORED else data

    @model_validator(mode="after")
    def _bounded(self, info: ValidationInfo) -> Message:
        if info.context is _STORED:
            return self
        if not any(block.type != "text" or block.text.strip() for block in self.content):
            msg = "content is empty: give a text, a tool call, a tool result or a reference"
            raise ValueError(msg)
        size = sum(len(piece.encode()) for piece in pieces(self.content))
        size += sum(len(compact_json(block.data).encode()) for block in self.content if block.type == "other")
        if size > MAX_MESSAGE_BYTES:
            msg = f"content has {size} bytes, at most {MAX_MESSAGE_BYTES} are kept in one message: split it"
            raise ValueError(msg)
        return self

    def repeats(self, other: Message) -> bool:
        """Whether this is `other` said again: equal, a mark of trust and a time that its sender left to us apart.

        It doesn't matter which of them holds the bytes of an image itself.
        """
        mark = {TRUST: other.metadata[TRUST]} if TRUST in other.metadata else {}
        same: dict[str, object] = {"metadata": {**{k: v for k, v in self.metadata.items() if k != TRUST}, **mark}}
        if "created_at" not in self.model_fields_set:
            same["created_at"] = other.created_at
        again = self.model_copy(update=same)
        return again == other or ((again.holds_bytes or other.holds_bytes) and again.apart()[0] == other.apart()[0])

    @property
    def holds_bytes(self) -> bool:
        """Whether bytes of images or files may stand in it."""
        return may_hold_base64(self.metadata) or any(map(block_holds_bytes, self.content))

    def apart(self) -> tuple[Message, dict[str, Blob]]:
        """Return the message with references in place of all bytes, and these by their references.

        Long base64 inside of vendors' parts and metadata goes as well; `with_base64` puts it back.

        Raises:
            InvalidInputError: An image or file is broken or too large, naming its place.
        """
        if not self.holds_bytes:
            return self, {}
        taken: dict[str, Blob] = {}
        where = f"message {self.message_id!r}, content"
        kept = tuple(block_apart(block, f"{where}[{place}]", taken) for place, block in enumerate(self.content))
        metadata = take_base64(self.metadata, lambda blob: taken.setdefault(blob.ref, blob))
        return (self.model_copy(update={"content": kept, "metadata": metadata}), taken) if taken else (self, {})

    @property
    def blob_references(self) -> tuple[str, ...]:
        """What its images and files refer to of what the store keeps, each once."""
        return tuple(dict.fromkeys(media_references(self.content)))

    def joined(self, blobs: Mapping[str, Blob]) -> Message:
        """Return the message with the bytes of its images and files as data URLs, as far as they are among these."""
        content = (
            block.joined(blobs[block.url])
            if isinstance(block, (ImageBlock, FileBlock)) and block.url in blobs
            else block
            for block in self.content
        )
        return self.model_copy(update={"content": tuple(content)})

    def with_base64(self, find: Callable[[str, int], Blob | None]) -> Message:
        """Return the message with the base64 that `apart` took out of vendors' parts and metadata.

        `find` returns what a reference names, unless it has more bytes than are asked for.
        """
        held = [block.data for block in self.content if block.type == "other"]
        *data, metadata = put_base64([*held, self.metadata], find, MAX_MESSAGE_BYTES + MAX_METADATA_BYTES)
        put = iter(data)
        content = (
            block.model_copy(update={"data": next(put)}) if block.type == "other" else block for block in self.content
        )
        return self.model_copy(update={"content": tuple(content), "metadata": metadata})

    @property
    def text(self) -> str:
        """What was said: the text blocks, a line break between two."""
        return "\n".join(block.text for block in self.content if block.type == "text")

    @property
    def full_text(self) -> str:
        """Everything that can be read: texts, captions, file names, tool calls and results, in order."""
        return "\n".join(pieces(self.content))

    @property
    def speaker(self) -> str:
        """The name, or the role where there is none."""
        return self.name or self.role

    @property
    def trust(self) -> TrustClass:
        """Whose words it holds: its role's, a tool's if it carries a result, or what its metadata lower that to."""
        classes = [_TRUST_OF_ROLE[self.role], *(TrustClass.TOOL for _ in self.result_ids)]
        marked = self.metadata.get(TRUST)
        return least_trusted([*classes, *(known for known in TrustClass if known == marked)])

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The ids of the tool calls asked for here."""
        return tuple(block.call_id for block in self.content if block.type == "tool_call")

    @property
    def result_ids(self) -> tuple[str, ...]:
        """The ids of the tool calls answered here."""
        return tuple(block.call_id for block in self.content if block.type == "tool_result")


def renamings(message: Message, session_id: str) -> Iterator[Message]:
    """Yield a message under other ids, for one whose own is taken in this scope; always the same ones, without end."""
    metadata = with_original_id(message)
    for number in count(1):
        name = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([session_id, message.message_id, number])).hex
        yield message.model_copy(update={"message_id": name, "metadata": metadata})


def with_original_id(message: Message) -> dict[str, JsonValue]:
    """Return the metadata of a message with its id, for when it gets another one."""
    metadata: dict[str, JsonValue] = {**message.metadata, ORIGINAL_ID: message.message_id}
    try:
        return check_metadata(metadata)
    except ValueError:  # as large as it may be: what its sender put there goes first
        return message.metadata


def read_stored_message(body: str) -> Message:
    """Read a message that we wrote: its form is checked, its aliases and size are not looked at a second time.

    Raises:
        ValidationError: It is not what we wrote.
    """
    return Message.model_validate_json(body, context=_STORED)


def parse_messages(
    items: object, *, now: Callable[[], datetime] = utc_now, new_id: Callable[[], str] = new_id
) -> tuple[Message, ...]:
    """Read messages from `Message` objects, dictionaries and `(role, text)` pairs.

    Raises:
        InvalidInputError: Naming the place (`messages[3].content`) and the reason; one bad message refuses all.
    """
    hint = message_hint(items)
    if hint or isinstance(items, (str, bytes, Mapping, Message)) or not isinstance(items, Iterable):
        msg = f"messages: wanted a list of messages, found {kind_of(items)}{hint}"
        raise InvalidInputError(msg)
    if isinstance(items, (list, tuple)) and set(map(type, items)) == {Message}:  # a context, say: they may be thousands
        messages = tuple(items)
        if len({message.message_id for message in messages}) == len(messages):
            return messages
    else:
        messages = tuple(_parse_one(item, index, now, new_id) for index, item in enumerate(items))
    seen: set[str] = set()
    for index, message in enumerate(messages):
        if message.message_id in seen:
            msg = f"messages[{index}].message_id: {message.message_id!r} stands twice in one call: ids are unique"
            raise InvalidInputError(msg)
        seen.add(message.message_id)
    return messages


def _parse_one(item: object, index: int, now: Callable[[], datetime], new_id: Callable[[], str]) -> Message:
    if isinstance(item, Message):
        return item
    if isinstance(item, (tuple, list)) and len(item) == 2 and all(isinstance(part, str) for part in item):
        item = {"role": item[0], "content": item[1]}
    if not isinstance(item, Mapping):
        wanted = "wanted a Message, a dictionary or a (role, text) pair"
        msg = f"messages[{index}]: {wanted}, found {kind_of(item)}{message_hint(item)}"
        raise InvalidInputError(msg)
    try:
        data = normalise_message(item)
        timed = data.get("created_at") is not None
        if not timed:
            data["created_at"] = now()
        if data.get("message_id") is None:
            data["message_id"] = new_id()
        message = Message.model_validate(data)
    except ValidationError as exc:
        msg = describe(exc, f"messages[{index}]", form=Message) + message_hint(item)
        raise InvalidInputError(msg) from exc
    except ValueError as exc:
        msg = f"messages[{index}]: {exc}{message_hint(item)}"
        raise InvalidInputError(msg) from exc
    if not timed:
        message.model_fields_set.discard("created_at")
    return message


EXTRACTIVE = "extractive"


class Block(BaseModel):
    """A slice of one session's messages with its entry in the block index; appended, never rewritten.

    Attributes:
        block_id: Random, unique within the scope.
        session_id: The session it is a slice of.
        message_ids: Its messages, in order.
        repeats: How many of them, at the beginning, are repeated from the block before (overlap).
        started_at: The time of the first message.
        ended_at: The time of the last message.
        summary: What the index says of it.
        summary_author: `extractive` (sentences taken from the messages) or the name of the agent that wrote it.
        created_at: When it was sliced.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    block_id: Id = Field(default_factory=new_id)
    session_id: Id
    message_ids: Annotated[tuple[Id, ...], Field(min_length=1)]
    repeats: Annotated[int, Field(ge=0)] = 0
    started_at: UtcTime
    ended_at: UtcTime
    summary: Text = ""
    summary_author: Text = EXTRACTIVE
    created_at: UtcTime = Field(default_factory=utc_now)

    __repr__ = told_fields

    def __str__(self) -> str:
        """Tell when it was said and what the index says of it."""
        return f"{self.started_at:%Y-%m-%d %H:%M} {self.summary}"


class StoredMessage(BaseModel):
    """A message with the session and the block that it lies in (None while it is not sliced yet)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message: Message
    session_id: Id
    block_id: Id | None = None

    def __str__(self) -> str:
        """Tell the message as `Message` does."""
        return str(self.message)
