"""Foreign items in the form that is stored: ids that follow from the source's own, and where each came from."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.schema import STATEMENTS, Memory, MemoryType, Message, Scope, Source
from reme_core.schema.checks import check_metadata
from reme_core.steps.user_input import check_time_not_future
from reme_core.transfer.importers.items import ImportedMemory, ImportedSession, Unreadable
from reme_core.transfer.trees.statement import target

_NAMESPACE = uuid.UUID("6f2f3a1e-1f63-5f0e-9a55-8d0c1b6d2e47")
"""Of all ids that imports make; it never changes."""

_NOT_IMPORTED = frozenset({MemoryType.HISTORY, MemoryType.RECORD})
_SHOWN_CHARS = 80


def session_id(source: str, item: ImportedSession) -> str:
    """Return the id of a session here, which begins with the name of the source."""
    return f"{source}-{_id(source, 'session', item.source_id)}"


def stored_messages(source: str, item: ImportedSession, now: datetime) -> Iterator[Message | Unreadable]:
    """Yield the messages of a session as they are stored; one that can't be, or lies in the future, is none."""
    said_at = next((one.created_at for one in item.messages if _is_dated(one)), now)
    seen = set[str]()
    for place, message in enumerate(item.messages):
        said_at = message.created_at if _is_dated(message) else said_at
        key = message.message_id if "message_id" in message.model_fields_set else ""
        key = key if key and key not in seen else str(place)
        while key in seen:  # an id of another one may look like a place
            key = f"{key}+"
        seen.add(key)
        told: dict[str, JsonValue] = {"imported_from": source, "source_id": key, "source_session": item.source_id}
        titled: dict[str, JsonValue] = {"title": item.title} if item.title else {}
        changes: dict[str, object] = {
            "message_id": _id(source, "message", item.source_id, key),
            "created_at": said_at,
            "metadata": {**titled, **message.metadata, **told},
        }
        stored = message.model_copy(update=changes)
        try:
            check_metadata(stored.metadata)
            check_time_not_future(said_at, "created_at", now)
            stored.apart()  # a broken image is the fault of this message alone
        except ValueError as exc:
            yield Unreadable(f"session {_short(item.source_id)}, message {_short(key)}", str(exc))
        else:
            yield stored


def stored_memory(source: str, item: ImportedMemory, scope: Scope, now: datetime) -> Memory:
    """Return a memory as it is stored.

    Raises:
        ValidationError: It can't be one.
        InvalidInputError: Its type is not one that is imported, or it lies in the future.
    """
    if item.memory_type not in STATEMENTS or item.memory_type in _NOT_IMPORTED:
        msg = f"memories of type {item.memory_type} are not imported"
        raise InvalidInputError(msg)
    about = target(item.memory_type, item.memory_target)
    created_at = item.created_at or now
    observed_at = item.observed_at or created_at
    updated_at = max(item.updated_at or created_at, created_at)
    for name, moment in (("observed_at", observed_at), ("created_at", created_at), ("updated_at", updated_at)):
        check_time_not_future(moment, name, now)
    return Memory.model_validate(
        {
            **item.fields,
            "memory_id": _memory_id(source, item.source_id),
            "memory_space": scope.memory_space,
            "user_id": scope.user_id,
            "memory_type": about.memory_type,
            "memory_target": about.memory_target,
            "content": item.content,
            "when_to_use": item.when_to_use,
            "observed_at": observed_at,
            "valid_from": item.valid_from,
            "valid_to": item.valid_to,
            "created_at": created_at,
            "updated_at": updated_at,
            "superseded_by": None if item.superseded_by is None else _memory_id(source, item.superseded_by),
            "author": item.author or source,
            "sources": [_source(source, session, ids) for session, ids in item.said_in],
            "metadata": {**item.metadata, "imported_from": source, "source_id": item.source_id},
        }
    )


def place_of(item: ImportedMemory) -> str:
    """Return where a memory stands in its source, for people."""
    return item.where or f"memory {_short(item.source_id)}"


def _source(source: str, session: str, ids: Sequence[str]) -> Source:
    return Source(message_ids=tuple(_id(source, "message", session, key) for key in ids))


def _memory_id(source: str, source_id: str) -> str:
    return _id(source, "memory", source_id)


def _id(*parts: str) -> str:
    return uuid.uuid5(_NAMESPACE, json.dumps(parts)).hex


def _is_dated(message: Message) -> bool:
    return "created_at" in message.model_fields_set


def _short(text: str) -> str:
    return repr(text[:_SHOWN_CHARS])
