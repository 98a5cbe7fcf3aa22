"""Serialisers that rebuild only what they were told to, and a check that says so before anything is written."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, EXT_PYDANTIC_V2, JsonPlusSerializer

from reme_core.errors import ConfigurationError
from reme_core.schema import shown

TypeName = tuple[str, str]


def make_serde(serde: SerializerProtocol | None, allow: Collection[type | TypeName]) -> SerializerProtocol:
    """Return the serialiser of a saver: that given, or a strict one, extended by `allow`.

    Raises:
        ConfigurationError: An entry of `allow` is neither a class nor (module, name), or the given serialiser has no
            list of allowed types.
    """
    named = tuple(_named(entry) for entry in allow)
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


def _named(entry: object) -> TypeName:
    match entry:
        case type():
            return entry.__module__, entry.__name__
        case (str() as module, str() as name):
            return module, name
    msg = f"allow: wanted classes or pairs (module, name), found {shown(entry)}"
    raise ConfigurationError(msg)


class TypeCheck:
    """Says of serialised values whether this serialiser rebuilds them; what it has seen once it knows."""

    def __init__(self, serde: JsonPlusSerializer) -> None:
        """Keep the serialiser."""
        self._serde = serde
        self._known: set[TypeName] = set()

    def check(self, type_: str, data: bytes) -> None:
        """Refuse what would come back as something else.

        Raises:
            TypeError: Names the class, and the entry of `allow` that is missing.
        """
        if type_ != "msgpack":
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
        for module, name in sorted(unknown - (named_types(packed) if again == "msgpack" else set())):
            raise TypeError(_why_not(module, name))
        self._known |= unknown


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


def _why_not(module: str, name: str) -> str:
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
