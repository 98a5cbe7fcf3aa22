"""Values of channels as bytes: lists message by message, anything else whole; and strict serialisers."""

from __future__ import annotations

import importlib
import re
import threading
import zlib
from collections.abc import Collection, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from itertools import accumulate, pairwise
from json import JSONDecodeError
from struct import Struct
from types import ModuleType
from typing import Any, TypeAlias, TypeGuard

import ormsgpack
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, EXT_PYDANTIC_V2, JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from reme_core.errors import ConfigurationError, CorruptDataError
from reme_core.schema import shown
from reme_langchain.saver._deflate import MSGPACK, deflated, inflated, inflated_all
from reme_langchain.saver._payloads import APART, Payloads, take_out

TypeName = tuple[str, str]
Allowed: TypeAlias = type | ModuleType | TypeName
"""A class; a module, for all that it defines; or a module and a name."""


def make_serde(serde: SerializerProtocol | None, allow: Collection[Allowed]) -> SerializerProtocol:
    """Return the serialiser of a saver: that given, or a strict one, extended by `allow`.

    Raises:
        ConfigurationError: An entry of `allow` is neither a class nor (module, name), or the given serialiser has no
            list of allowed types.
    """
    named = tuple(name for entry in allow for name in _named(entry))
    if serde is None:
        # Said explicitly: left out, it would follow LANGGRAPH_STRICT_MSGPACK.
        return JsonPlusSerializer(allowed_msgpack_modules=named or None)
    if not named:
        return serde
    if isinstance(serde, JsonPlusSerializer):
        return serde.with_msgpack_allowlist(named)
    if isinstance(serde, EncryptedSerializer) and isinstance(serde.serde, JsonPlusSerializer):
        return EncryptedSerializer(serde.cipher, serde.serde.with_msgpack_allowlist(named))
    msg = f"allow: {type(serde).__name__} has no list of allowed types: leave `allow` out, or leave `serde` out"
    raise ConfigurationError(msg)


def _named(entry: object) -> list[TypeName]:
    match entry:
        case type():
            return [(entry.__module__, entry.__name__)]
        case (str() as module, str() as name):
            return [(module, name)]
        case ModuleType():
            made_there = [thing for thing in vars(entry).values() if isinstance(thing, type)]
            return [(entry.__name__, each.__name__) for each in made_there if each.__module__ == entry.__name__]
    msg = f"allow: wanted classes, modules or pairs (module, name), found {shown(entry)}"
    raise ConfigurationError(msg)


def _is_strict(serde: object) -> TypeGuard[JsonPlusSerializer]:
    """Return whether types have to be allowed: one that rebuilds all of them has no list to add to."""
    return isinstance(serde, JsonPlusSerializer) and serde.with_msgpack_allowlist([("", "")]) is not serde


class TypeCheck:
    """Says of serialised values whether this serialiser rebuilds them; what it has seen once it knows."""

    def __init__(self, serde: JsonPlusSerializer, declared: Set[TypeName]) -> None:
        """Keep the serialiser, and the types that graphs declare: they may be such as only the graph makes anew."""
        self._serde = serde
        self._declared = declared
        self._known: set[TypeName] = set()

    def check(self, type_: str, data: bytes) -> None:
        """Refuse what would come back as something else.

        Raises:
            TypeError: Names the class, and the entry of `allow` that is missing.
        """
        if type_ != "msgpack" or _EXTENSION.search(data) is None:
            return
        unknown = named_types(data) - self._known
        if not unknown:
            return
        with _blocked() as blocked:
            loaded = self._serde.loads_typed((type_, data))
        for module, name in sorted(unknown & blocked):
            msg = (
                f"{module}.{name} would not be rebuilt when the checkpoint is read: "
                f"add allow=[({module!r}, {name!r})], or the class itself, to the saver"
            )
            raise TypeError(msg)
        # What could not be rebuilt is there as what was packed of it, which names no class.
        again, packed = self._serde.dumps_typed(loaded)
        rebuilt = named_types(packed) if again == "msgpack" else set()
        for module, name in sorted(unknown - rebuilt - self._declared):
            raise TypeError(why_not_rebuilt(module, name))
        self._known |= unknown


# No value of a class is without one of these bytes: https://github.com/msgpack/msgpack/blob/master/spec.md#formats.
_EXTENSION = re.compile(rb"[\xc7-\xc9\xd4-\xd8]")


def named_types(data: bytes) -> set[TypeName]:
    """Collect the (module, name) pairs that a msgpack value names, without building any of them."""
    found: set[TypeName] = set()

    def note(code: int, payload: bytes) -> None:
        if code > EXT_DELTA_SNAPSHOT:
            return
        parts = ormsgpack.unpackb(payload, ext_hook=note, option=ormsgpack.OPT_NON_STR_KEYS)
        if code <= EXT_PYDANTIC_V2:
            found.add((parts[0], parts[1]))

    ormsgpack.unpackb(data, ext_hook=note, option=ormsgpack.OPT_NON_STR_KEYS)
    return found


@contextmanager
def _blocked() -> Iterator[set[TypeName]]:
    """Collect the types that a serialiser refuses in this thread meanwhile."""
    found: set[TypeName] = set()
    thread = threading.get_ident()

    def note(event: SerdeEvent) -> None:
        if event["kind"] != "msgpack_unregistered_allowed" and threading.get_ident() == thread:
            found.add((event["module"], event["name"]))

    unregister = register_serde_event_listener(note)
    try:
        yield found
    finally:
        unregister()


def why_not_rebuilt(module: str, name: str) -> str:
    """Say why a class, although allowed, is not rebuilt."""
    try:
        is_there = hasattr(importlib.import_module(module), name)
    except ImportError:
        is_there = False
    if is_there:
        return (
            f"{module}.{name} would not be rebuilt when the checkpoint is read: it can't be made of its fields, each "
            "given by name; let its constructor take them all (no `init=False`), or keep a dict in its place"
        )
    return (
        f"{module} has no {name!r}: a checkpoint names classes by module and name, so those made inside a function "
        "or another class would not be rebuilt; move the class to the top of its module"
    )


class ValueForm(IntEnum):
    """How a value lies in the file; the numbers are written there."""

    WHOLE = 0
    PART = 1  # a message, or a long value of another kind
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
        step = 1  # mostly all of the other one is there, or all but its last
        while low < high:
            middle = max(high + 1 - step, (low + high + 1) // 2)
            # Where each one ends counts too: a serialiser may make of two messages the bytes that others joined have.
            if self.ends[:middle] == other.ends[:middle] and other.body.startswith(self.body[: self.ends[middle - 1]]):
                low = middle
            else:
                high = middle - 1
                step *= 2
        return low


@dataclass(frozen=True, slots=True)
class EncodedValue:
    """A value ready to be written: `whole` (sealed) and what was taken out, or a `row` for the forms of messages."""

    form: ValueForm
    whole: Typed = _NOTHING
    row: MessageList | None = None
    payloads: Payloads = ()


class ValueCodec:
    """Serialises and seals for one saver. Parts are told apart before they are sealed, so equal ones are found."""

    def __init__(self, serde: SerializerProtocol, declared: Set[TypeName] = frozenset()) -> None:
        """Keep the serialiser; an `EncryptedSerializer` is taken apart into what packs and what seals."""
        self.serde = serde
        # A subclass may do more in its methods, so it is asked as a whole.
        sealed = serde if type(serde) is EncryptedSerializer else None
        self._cipher = None if sealed is None else sealed.cipher
        self._inner = serde if sealed is None else sealed.serde
        self._joins = type(serde) is JsonPlusSerializer
        self._types = TypeCheck(self._inner, declared) if _is_strict(self._inner) else None

    @property
    def is_strict(self) -> bool:
        """Whether types have to be allowed."""
        return self._types is not None

    def encode(self, what: str, value: object) -> EncodedValue:
        """Serialise a value now, so that later changes of it don't matter.

        Raises:
            TypeError: It can't be serialised, or would not be rebuilt; `what` is named.
            ValueError: The serialiser refuses it with one; `what` is named.
        """
        if type(value) in _PLAIN:  # a look at the type takes a tenth of asking an abstract class
            return self._encoded_whole(what, value)
        if isinstance(value, BaseMessage):
            return EncodedValue(ValueForm.PART, row=self._row(what, [value]))
        if isinstance(value, _DeltaSnapshot) and _is_messages(value.value):
            return EncodedValue(ValueForm.SNAPSHOT, row=self._row(what, value.value))
        if _is_messages(value):
            return EncodedValue(ValueForm.MESSAGES, row=self._row(what, value))
        return self._encoded_whole(what, value)

    def encode_whole(self, what: str, value: object) -> Typed:
        """Serialise a value, whatever it is, in one piece; see `encode`."""
        return self.seal(self._checked(what, value))

    def _encoded_whole(self, what: str, value: object) -> EncodedValue:
        sealed, payloads = self.seal_apart(self._checked(what, value))
        return EncodedValue(ValueForm.WHOLE, whole=sealed, payloads=payloads)

    def _checked(self, what: str, value: object) -> Typed:
        plain = self._dump(what, value)
        if type(value) not in _SCALARS:
            self.check(what, plain)
        return plain

    def check(self, what: str, plain: Typed) -> None:
        """Refuse what would not be rebuilt (TypeError, naming `what`)."""
        if self._types is not None:
            try:
                self._types.check(*plain)
            except TypeError as exc:
                msg = f"{what}: {exc}"
                raise TypeError(msg) from None

    def seal(self, plain: Typed) -> Typed:
        """Encrypt, if this saver does, in the form of `EncryptedSerializer`; else deflate."""
        if self._cipher is None:
            return deflated(*plain)
        type_, data = plain
        name, sealed = self._cipher.encrypt(data)
        return f"{type_}+{name}", sealed

    def seal_apart(self, plain: Typed) -> tuple[Typed, Payloads]:
        """Seal a value without its payloads, and return these; of what is encrypted, nothing is taken out."""
        taken = None if self._cipher is not None else take_out(*plain)
        if taken is None:
            return self.seal(plain), ()
        rest, cuts, payloads = taken
        return (APART, ormsgpack.packb([*self.seal((plain[0], rest)), cuts])), payloads

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Refuse what is loaded in here if some of it was not rebuilt.

        Raises:
            ConfigurationError: Names the class, and the entry of `allow` that is missing.
            CorruptDataError: Something in here is no value at all.
        """
        with _blocked() as blocked:
            try:
                yield
            except _UNREADABLE as exc:
                msg = f"a checkpoint holds a value that can't be read ({type(exc).__name__}): restore a backup"
                raise CorruptDataError(msg) from exc
        for module, name in sorted(blocked):
            msg = (
                f"the checkpoint holds a {module}.{name}, which is rebuilt only if it is allowed: read it through the "
                f"graph that declares it, or add allow=[({module!r}, {name!r})], or the class itself, to the saver"
            )
            raise ConfigurationError(msg)

    def load(self, stored: Typed) -> Any:  # noqa: ANN401  # what a channel holds
        """Rebuild a value written whole."""
        return self.serde.loads_typed(inflated(*stored))

    def decode(self, form: int, whole: Typed, parts: Sequence[Typed]) -> Any:  # noqa: ANN401  # what a channel holds
        """Rebuild a value from what was stored of it."""
        match ValueForm(form):
            case ValueForm.WHOLE:
                return self.load(whole)
            case ValueForm.PART:
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
            raise (ValueError if isinstance(exc, ValueError) else TypeError)(msg) from exc
        return type_, bytes(data)  # a bytearray is handed through as it is, and may change before it is written

    def _load_list(self, parts: Sequence[Typed]) -> list[Any]:
        if self._joins and {type_ for type_, _ in parts} <= MSGPACK:
            # As in `_row`, one call unpacks them all.
            joined = b"".join([_array_head(len(parts)), *inflated_all(parts)])
            messages: list[Any] = self.serde.loads_typed(("msgpack", joined))
            return messages
        return [self.load(part) for part in parts]


def digest_of(part: Typed, key: bytes) -> bytes:
    """Return the 16 bytes that stand for a part in one file."""
    type_, data = part
    if type_ == "msgpack":
        return blake2b(data, digest_size=16, key=key).digest()
    return blake2b(type_.encode() + b"\0" + data, digest_size=16, key=key, person=b"typed").digest()


_UNREADABLE = (ormsgpack.MsgpackDecodeError, UnicodeDecodeError, JSONDecodeError, zlib.error)
_SCALARS = frozenset({type(None), bool, bytes, float, int, str})
_PLAIN = _SCALARS | {dict}


def _is_messages(value: object) -> TypeGuard[list[BaseMessage]]:
    return type(value) is list and bool(value) and all(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def _array_head(length: int) -> bytes:
    """Begin a msgpack array. Source: https://github.com/msgpack/msgpack/blob/master/spec.md#array-format-family."""
    if length < 16:
        return bytes([0x90 | length])
    if length < 1 << 16:
        return b"\xdc" + length.to_bytes(2, "big")
    return b"\xdd" + length.to_bytes(4, "big")


# The first byte of an extension whose length follows, and how that is written.
_EXT_LENGTHS = {0xC7: Struct(">B"), 0xC8: Struct(">H"), 0xC9: Struct(">I")}


def _ends(body: bytes) -> tuple[int, ...]:
    """Return where each of a row of msgpack extensions, which messages are, ends; fewer where it is something else."""
    ends: list[int] = []
    at = 0
    size = len(body)
    while at < size and (length := _EXT_LENGTHS.get(body[at])) is not None:
        at += 2 + length.size + length.unpack_from(body, at + 1)[0]
        ends.append(at)
    return tuple(ends)
