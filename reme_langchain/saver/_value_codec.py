"""Values of channels as bytes: lists of messages message by message, anything else whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, TypeAlias, TypeGuard

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from reme_langchain.saver._strict_serde import TypeCheck


class ValueForm(IntEnum):
    """How a value lies in the file; the numbers are written there."""

    WHOLE = 0
    MESSAGE = 1
    MESSAGES = 2
    SNAPSHOT = 3


Typed: TypeAlias = tuple[str, bytes]
"""What a serialiser makes of a value: the type's name and the bytes."""

_NOTHING: Typed = ("", b"")


@dataclass(frozen=True, slots=True)
class MessageList:
    """Messages serialised in a row (not yet sealed): their bytes, and where each one ends."""

    types: tuple[str, ...]
    body: bytes
    ends: tuple[int, ...]

    def parts(self, start: int) -> list[Typed]:
        """Return the messages from the given one on."""
        begins = (0, *self.ends)[start:]
        return [(self.types[start + i], self.body[a:b]) for i, (a, b) in enumerate(pairwise(begins))]

    def shared(self, other: MessageList) -> int:
        """Return how many messages at the start are the same in another row."""
        if set(self.types) != set(other.types) or len(set(self.types)) > 1:
            return 0  # equal bytes of different types are different messages
        low, high = 0, min(len(self.ends), len(other.ends))
        while low < high:
            middle = (low + high + 1) // 2
            # Where each one ends counts too: a serialiser may make of two messages the bytes that others joined have.
            if self.ends[:middle] == other.ends[:middle] and other.body.startswith(self.body[: self.ends[middle - 1]]):
                low = middle
            else:
                high = middle - 1
        return low


@dataclass(frozen=True, slots=True)
class EncodedValue:
    """A value ready to be written: `whole` (sealed), or a `row` for the forms made of messages."""

    form: ValueForm
    whole: Typed = _NOTHING
    row: MessageList | None = None


class ValueCodec:
    """Serialises and seals for one saver. Parts are told apart before they are sealed, so equal ones are found."""

    def __init__(self, serde: SerializerProtocol) -> None:
        """Keep the serialiser; an `EncryptedSerializer` is taken apart into what packs and what seals."""
        self.serde = serde
        # A subclass may do more in its methods, so it is asked as a whole.
        sealed = serde if type(serde) is EncryptedSerializer else None
        self._cipher = None if sealed is None else sealed.cipher
        self._inner = serde if sealed is None else sealed.serde
        self._joins = type(serde) is JsonPlusSerializer
        self._types = TypeCheck(self._inner) if isinstance(self._inner, JsonPlusSerializer) else None

    def encode(self, what: str, value: object) -> EncodedValue:
        """Serialise a value now, so that later changes of it don't matter.

        Raises:
            TypeError: It can't be serialised, or would not be rebuilt; `what` is named.
        """
        if isinstance(value, BaseMessage):
            return EncodedValue(ValueForm.MESSAGE, row=self._row(what, [value]))
        if isinstance(value, _DeltaSnapshot) and _is_messages(value.value):
            return EncodedValue(ValueForm.SNAPSHOT, row=self._row(what, value.value))
        if _is_messages(value):
            return EncodedValue(ValueForm.MESSAGES, row=self._row(what, value))
        plain = self._dump(what, value)
        self.check(what, plain)
        return EncodedValue(ValueForm.WHOLE, whole=self.seal(plain))

    def check(self, what: str, plain: Typed) -> None:
        """Refuse what would not be rebuilt (TypeError, naming `what`)."""
        if self._types is not None:
            try:
                self._types.check(*plain)
            except TypeError as exc:
                msg = f"{what}: {exc}"
                raise TypeError(msg) from None

    def seal(self, plain: Typed) -> Typed:
        """Encrypt, if this saver does; the form is that of `EncryptedSerializer`."""
        if self._cipher is None:
            return plain
        type_, data = plain
        name, sealed = self._cipher.encrypt(data)
        return f"{type_}+{name}", sealed

    def load(self, stored: Typed) -> Any:  # noqa: ANN401  # what a channel holds
        """Rebuild a value written whole."""
        return self.serde.loads_typed(stored)

    def decode(self, form: int, whole: Typed, parts: Sequence[Typed]) -> Any:  # noqa: ANN401  # what a channel holds
        """Rebuild a value from what was stored of it."""
        match ValueForm(form):
            case ValueForm.WHOLE:
                return self.load(whole)
            case ValueForm.MESSAGE:
                return self.load(parts[0])
            case ValueForm.MESSAGES:
                return self._load_list(parts)
            case ValueForm.SNAPSHOT:
                return _DeltaSnapshot(self._load_list(parts))

    def _row(self, what: str, messages: list[BaseMessage]) -> MessageList:
        if type(self._inner) is JsonPlusSerializer:
            # A msgpack array is its length and then its elements, so one call packs them all.
            body = self._dump(what, messages)[1][len(_array_head(len(messages))) :]
            ends = _ends(body)
            if len(ends) == len(messages):
                return MessageList(("msgpack",) * len(messages), body, ends)
        parts = [self._dump(what, message) for message in messages]
        ends = tuple(accumulate(len(data) for _, data in parts))
        return MessageList(tuple(type_ for type_, _ in parts), b"".join(data for _, data in parts), ends)

    def _dump(self, what: str, value: object) -> Typed:
        try:
            type_, data = self._inner.dumps_typed(value)
        except (TypeError, ValueError) as exc:
            msg = f"{what} can't be serialised: {exc}"
            raise TypeError(msg) from exc
        return type_, bytes(data)  # a bytearray is handed through as it is, and may change before it is written

    def _load_list(self, parts: Sequence[Typed]) -> list[Any]:
        if self._joins and {type_ for type_, _ in parts} == {"msgpack"}:
            # As in `_row`, one call unpacks them all.
            joined = b"".join([_array_head(len(parts)), *[data for _, data in parts]])
            messages: list[Any] = self.serde.loads_typed(("msgpack", joined))
            return messages
        return [self.load(part) for part in parts]


def digest_of(part: Typed, key: bytes) -> bytes:
    """Return the 16 bytes that stand for a part in one file."""
    type_, data = part
    if type_ == "msgpack":
        return blake2b(data, digest_size=16, key=key).digest()
    return blake2b(type_.encode() + b"\0" + data, digest_size=16, key=key, person=b"typed").digest()


def _is_messages(value: object) -> TypeGuard[list[BaseMessage]]:
    return type(value) is list and bool(value) and all(isinstance(item, BaseMessage) for item in value)


def _array_head(length: int) -> bytes:
    """Begin a msgpack array. Source: https://github.com/msgpack/msgpack/blob/master/spec.md#array-format-family."""
    if length < 16:
        return bytes([0x90 | length])
    if length < 1 << 16:
        return b"\xdc" + length.to_bytes(2, "big")
    return b"\xdd" + length.to_bytes(4, "big")


# The first byte of an extension whose length follows, and how many bytes that takes.
_EXT_SIZES = MappingProxyType({0xC7: 1, 0xC8: 2, 0xC9: 4})


def _ends(body: bytes) -> tuple[int, ...]:
    """Return where each of a row of msgpack extensions, which messages are, ends; fewer where it is something else."""
    ends: list[int] = []
    at = 0
    while at < len(body):
        size = _EXT_SIZES.get(body[at])
        if size is None:
            break
        at += 2 + size + int.from_bytes(body[at + 1 : at + 1 + size], "big")
        ends.append(at)
    return tuple(ends)
