"""Memories and commits as points: their ids, payloads and vectors.

Each point of a scope is a memory, the place of a deleted one, or a commit: the changes of one batch (see `log.py`).
Texts that come from outside are compared as JSON strings in ASCII, so that every value can be sent and none is folded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import TypeAdapter
from qdrant_client import models

from reme_core.errors import CorruptDataError
from reme_core.ports import Vector
from reme_core.rules import Claim, claim_of, metadata_tokens
from reme_core.schema import Event, Memory, Scope, format_time
from reme_core.stores.qdrant.collection import DENSE, WORDS
from reme_core.stores.qdrant.words import document_vector, keys_of_terms
from reme_core.text import terms

_NAMESPACE = uuid.UUID("8d0e1d2c-5f6b-4d0a-9a86-3f5b1c7e2a41")
_EVENTS = TypeAdapter(list[Event])
_MEMORIES = TypeAdapter(list[Memory])

MEMORY, GONE, COMMIT = "memory", "gone", "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoint:
    """A memory as it is stored, with its vector, if it has one, and whether it waits for it."""

    memory: Memory
    vector: Vector | None
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The changes of one batch, or uses that were counted.

    Attributes:
        token: Random: tells whose commit it is.
        events: What happened, numbered; nothing where uses were counted.
        number: The number of a commit without events, which no event has.
        counted: The memories with their new counts, where uses were counted, or as they are, where points of an earlier
            release are written anew; empty once the commit was applied.
        vectors: The vector of each memory that has one afterwards; empty once the commit was applied.
        waiting: Those that wait for theirs afterwards.
        applied: Whether the memories have been brought to this state.
    """

    token: str
    events: tuple[Event, ...]
    number: int = 0
    counted: tuple[Memory, ...] = ()
    vectors: Mapping[str, Vector]
    waiting: frozenset[str] = frozenset()
    applied: bool = False

    @property
    def first(self) -> int:
        """The number of its first event, or its own."""
        return self.events[0].sequence if self.events else self.number

    @property
    def last(self) -> int:
        """The number of its last event, or its own."""
        return self.events[-1].sequence if self.events else self.number


def text_key(text: str) -> str:
    """Write any text as a key in ASCII; different texts have different keys."""
    return json.dumps(text)


def scope_key(scope: Scope) -> str:
    """Write a scope as a key in ASCII; different scopes have different keys."""
    return json.dumps([scope.memory_space, scope.user_id])


def claim_key(claim: Claim) -> str:
    """Return the digest of what only one current memory of a scope may have."""
    return hashlib.sha256(json.dumps(list(claim)).encode()).hexdigest()


def point_id(scope: Scope, kind: str, name: str) -> str:
    """Return the id of a point: made of the scope and the memory's id or the commit's number, never of a content."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([scope.memory_space, scope.user_id, kind, name])))


def memory_id_point(scope: Scope, memory_id: str) -> str:
    """Return the id of a memory's point."""
    return point_id(scope, MEMORY, memory_id)


def commit_id_point(scope: Scope, first: int) -> str:
    """Return the id of the point of the commit whose first event has this number."""
    return point_id(scope, COMMIT, str(first))


def memory_point(memory: Memory, vector: Vector | None, sequence: int, *, waits: bool) -> models.PointStruct:
    """Write a memory; `sequence` numbers the commit that brought it to this state."""
    scope = memory.scope
    claim = claim_of(memory)
    words = keys_of_terms(terms(memory.index_text))
    payload: dict[str, object] = {
        "scope": scope_key(scope),
        "kind": MEMORY,
        "sequence": sequence,
        "type": memory.memory_type.value,
        "target": text_key(memory.memory_target),
        "current": memory.is_current,
        "valid_from": format_time(memory.valid_from),
        "observed_at": format_time(memory.observed_at),
        "created_at": format_time(memory.created_at),
        "metadata": metadata_tokens(memory.metadata),
        "words": sorted(set(words)),
        "memory": memory.model_dump_json(),
    }
    if claim is not None:
        payload["claim"] = claim_key(claim)
    if memory.valid_to is not None:
        payload["valid_to"] = format_time(memory.valid_to)
    if memory.superseded_by is not None:
        payload["superseded_by"] = text_key(memory.superseded_by)
    if waits:
        payload["waits"] = True
    vectors: dict[str, models.Vector] = {}
    if vector is not None:
        vectors[DENSE] = vector.tolist()
    if words:
        vectors[WORDS] = document_vector(words)
    return models.PointStruct(id=memory_id_point(scope, memory.memory_id), vector=vectors, payload=payload)


def gone_point(scope: Scope, memory_id: str, sequence: int) -> models.PointStruct:
    """Write the place of a deleted memory: nothing of it but that a later commit than others left it empty."""
    payload = {"scope": scope_key(scope), "kind": GONE, "sequence": sequence}
    return models.PointStruct(id=memory_id_point(scope, memory_id), vector={}, payload=payload)


def commit_point(scope: Scope, commit: Commit) -> models.PointStruct:
    """Write a commit."""
    run_id = commit.events[0].run_id if commit.events else None
    payload: dict[str, object] = {
        "scope": scope_key(scope),
        "kind": COMMIT,
        "first": commit.first,
        "last": commit.last,
        "token": commit.token,
        "applied": commit.applied,
        "memory_ids": sorted({text_key(event.memory_id) for event in commit.events}),
        "events": _EVENTS.dump_json(list(commit.events)).decode(),
        "vectors": json.dumps({name: _pack(vector) for name, vector in commit.vectors.items()}),
    }
    if run_id is not None:
        payload["run_id"] = text_key(run_id)
    if commit.waiting:
        payload["waiting"] = json.dumps(sorted(commit.waiting))
    if not commit.events:
        payload["counts"] = True
        payload["counted"] = _MEMORIES.dump_json(list(commit.counted)).decode()
    return models.PointStruct(id=commit_id_point(scope, commit.first), vector={}, payload=payload)


def outcome_points(scope: Scope, commit: Commit) -> list[models.PointStruct]:
    """Return the points of all memories that a commit touched, as they are after it."""
    after = {memory.memory_id: memory for memory in commit.counted} | {
        event.memory_id: event.after for event in commit.events
    }
    return [
        gone_point(scope, name, commit.first)
        if memory is None
        else memory_point(memory, commit.vectors.get(name), commit.first, waits=name in commit.waiting)
        for name, memory in after.items()
    ]


def read_memory(payload: Mapping[str, object] | None) -> Memory:
    """Read the memory of a payload.

    Raises:
        CorruptDataError: It can't be what we wrote.
    """
    return Memory.model_validate_json(_text(payload, "memory"))


def read_commit(payload: Mapping[str, object] | None) -> Commit:
    """Read the commit of a payload.

    Raises:
        CorruptDataError: It can't be what we wrote.
    """
    vectors: dict[str, str] = json.loads(_text(payload, "vectors")) if payload and "vectors" in payload else {}
    counted = _MEMORIES.validate_json(_text(payload, "counted")) if payload and "counted" in payload else []
    return Commit(
        token=_text(payload, "token"),
        events=tuple(_EVENTS.validate_json(_text(payload, "events"))),
        number=_number(payload, "first"),
        counted=tuple(counted),
        vectors={name: _unpack(packed) for name, packed in vectors.items()},
        waiting=frozenset(json.loads(_text(payload, "waiting")) if payload and "waiting" in payload else ()),
        applied=bool(payload and payload.get("applied")),
    )


def dense_of(vectors: object) -> Vector | None:
    """Return the dense vector among those that came with a point."""
    dense = vectors.get(DENSE) if isinstance(vectors, Mapping) else None
    return None if dense is None else np.asarray(dense, np.float32)


def final_vectors(outcome: Iterable[tuple[str, Vector | None]]) -> dict[str, Vector]:
    """Leave out memories without vector."""
    return {name: vector for name, vector in outcome if vector is not None}


def _text(payload: Mapping[str, object] | None, key: str) -> str:
    value = None if payload is None else payload.get(key)
    if not isinstance(value, str):
        msg = f"a point of this collection has no {key!r}: something else has written here"
        raise CorruptDataError(msg)
    return value


def _number(payload: Mapping[str, object] | None, key: str) -> int:
    value = None if payload is None else payload.get(key)
    if not isinstance(value, int):
        msg = f"a point of this collection has no number {key!r}: something else has written here"
        raise CorruptDataError(msg)
    return value


def _pack(vector: Vector) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _unpack(packed: str) -> Vector:
    return np.frombuffer(base64.b64decode(packed), "<f4").astype(np.float32)
