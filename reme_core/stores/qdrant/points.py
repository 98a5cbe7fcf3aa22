"""Memories as points: their ids, payloads and vectors.

A point tells what a search compares, and none of it in words: terms, targets and metadata are digests. Beside the
memories of a scope stands one point with the position of the store that they have reached.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping

import numpy as np
from qdrant_client import models

from reme_core.errors import CorruptDataError
from reme_core.ports import IndexEntry, Vector
from reme_core.rules import metadata_tokens
from reme_core.schema import Scope, format_time
from reme_core.stores._list_order import Place, place_of
from reme_core.stores.qdrant.collection import DENSE, WORDS
from reme_core.stores.qdrant.words import document_vector, keys_of_terms
from reme_core.text import TERMS_VERSION, terms

_NAMESPACE = uuid.UUID("8d0e1d2c-5f6b-4d0a-9a86-3f5b1c7e2a41")
_FORM = f"1.{TERMS_VERSION}"
"""What points say and how words are cut: points of another form are written anew."""

MEMORY, POSITION = "memory", "position"


def scope_key(scope: Scope) -> str:
    """Write a scope as a key in ASCII; different scopes have different keys."""
    return json.dumps([scope.memory_space, scope.user_id])


def text_key(text: str) -> str:
    """Return the digest by which a text is compared."""
    return hashlib.blake2b(json.dumps(text).encode(), digest_size=16).hexdigest()


def point_id(scope: Scope, key: str, kind: str = MEMORY) -> str:
    """Return the id of a point: made of the scope and the entry's key, never of a content."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([scope.memory_space, scope.user_id, kind, key])))


def entry_point(scope: Scope, entry: IndexEntry) -> models.PointStruct:
    """Write an entry."""
    memory, place = entry.memory, place_of(entry.memory)
    words = keys_of_terms(terms(memory.index_text))
    payload: dict[str, object] = {
        "scope": scope_key(scope),
        "kind": MEMORY,
        "memory_id": memory.memory_id,
        "age": place.age,
        "type": memory.memory_type.value,
        "target": text_key(memory.memory_target),
        "current": memory.is_current,
        "valid_from": format_time(memory.valid_from),
        "observed_at": format_time(memory.observed_at),
        "metadata": [text_key(token) for token in metadata_tokens(memory.metadata)],
        "words": sorted(set(words)),
    }
    if memory.valid_to is not None:
        payload["valid_to"] = format_time(memory.valid_to)
    vectors: dict[str, models.Vector] = {}
    if entry.vector is not None:
        vectors[DENSE] = entry.vector.tolist()
    if words:
        vectors[WORDS] = document_vector(words)
    return models.PointStruct(id=point_id(scope, entry.key), vector=vectors, payload=payload)


def position_point(scope: Scope, position: str) -> models.PointStruct:
    """Write the position of a scope."""
    payload: dict[str, object] = {"scope": scope_key(scope), "kind": POSITION, "position": position, "form": _FORM}
    return models.PointStruct(id=point_id(scope, "", POSITION), vector={}, payload=payload)


def read_position(payload: Mapping[str, object] | None) -> str | None:
    """Read the position of a scope, None where the points are of another form."""
    position = None if payload is None or payload.get("form") != _FORM else payload.get("position")
    return position if isinstance(position, str) else None


def read_place(payload: Mapping[str, object] | None) -> Place:
    """Read whose point this is, and its place in a list (CorruptDataError: it can't be what we wrote)."""
    age, memory_id = (payload or {}).get("age"), (payload or {}).get("memory_id")
    if isinstance(age, int) and isinstance(memory_id, str):
        return Place(age, memory_id)
    msg = "a point of this collection names no memory: something else has written here"
    raise CorruptDataError(msg)


def dense_of(vectors: object) -> Vector | None:
    """Return the dense vector among those that came with a point."""
    dense = vectors.get(DENSE) if isinstance(vectors, Mapping) else None
    return None if dense is None else np.asarray(dense, np.float32)
