"""Memories as points of a collection: how it is created and checked; ids, payloads, vectors, words as sparse ones.

A point tells what a search compares, and none of it in words: terms, targets and metadata are digests. Beside the
memories of a scope stands one point with the position of the store that they have reached.

The server keeps, for each memory, how much each of its terms counts by how often it stands there and how long the text
is; the query brings how rare each term is *in its scope*. Rareness over the whole collection, which the server could
compute by itself, would let the memories of others move the scores.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, assert_never

import numpy as np
from qdrant_client import AsyncQdrantClient, models

from reme_core.errors import ConfigurationError, CorruptDataError, DimensionMismatchError, StoreUnavailableError
from reme_core.ports import IndexEntry, Vector
from reme_core.retrieval.arrays import inverse_frequency, length_norm
from reme_core.retrieval.query_words import query_words
from reme_core.rules import metadata_tokens
from reme_core.schema import Scope, format_time
from reme_core.stores._cursors import Place, place_of
from reme_core.stores.qdrant.backend import DENSE, WORDS, translated
from reme_core.text import TERMS_VERSION, pack_terms, terms, unpack_terms

OLDEST_SERVER = (1, 11)
"""The first release whose indexes can be told that a field tells tenants apart."""

# No graph over all scopes, one for each scope instead. Source: Qdrant's page on multitenancy.
_HNSW = models.HnswConfigDiff(m=0, payload_m=16)


Quantization: TypeAlias = Literal["scalar", "binary", "product"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantLayout:
    """How a new collection is kept. One that exists is never changed: what it has otherwise than told is an error.

    Attributes:
        shard_number: Shards of the collection, or of each space with `shard_by_space`. None: the server's choice.
        replication_factor: Copies of each shard. None: one.
        write_consistency_factor: Copies that have to confirm a write. None: one.
        shard_by_space: A shard key, and so shards of its own, for each memory space; needs a cluster.
        quantization: Small copies of the vectors, kept in RAM, that candidates are looked for in; scores are those of
            the vectors themselves. None: none.
        on_disk: Whether the vectors themselves are read from disk. None: the server's choice.
    """

    shard_number: int | None = None
    replication_factor: int | None = None
    write_consistency_factor: int | None = None
    shard_by_space: bool = False
    quantization: Quantization | None = None
    on_disk: bool | None = None


def payload_indexes() -> dict[str, models.PayloadSchemaType | models.KeywordIndexParams]:
    """Return the payload fields that a server indexes, and how."""
    keyword, time = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.DATETIME
    return {
        "scope": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        "kind": keyword,
        "type": keyword,
        "trust": keyword,
        "target": keyword,
        "metadata": keyword,
        "words": keyword,
        "current": models.PayloadSchemaType.BOOL,
        "valid_from": time,
        "valid_to": time,
        "observed_at": time,
    }


async def ensure_collection(
    client: AsyncQdrantClient, name: str, dimension: int, layout: QdrantLayout, *, remote: bool
) -> models.CollectionInfo:
    """Create the collection with its indexes, or check the one that is there and add the indexes that it lacks.

    Raises:
        ConfigurationError: The server is too old, or a collection of this name is not one of ours, or lies otherwise.
        DimensionMismatchError: The collection holds vectors of another dimension.
    """
    with translated(f"opening the collection {name!r}"):
        if remote:
            _check_version((await client.info()).version)
        if not await client.collection_exists(name):
            await _create(client, name, dimension, layout)
        info = await client.get_collection(name)
        _check_collection(info, name, dimension)
        if not remote:
            return info  # the local mode has no indexes and no layout
        _check_layout(info, name, layout)
        for field, schema in payload_indexes().items():
            if field not in info.payload_schema:
                await client.create_payload_index(name, field, schema, wait=True)
        return info


async def _create(client: AsyncQdrantClient, name: str, dimension: int, layout: QdrantLayout) -> None:
    try:
        with translated(f"creating the collection {name!r}"):
            await client.create_collection(
                name,
                vectors_config={
                    DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE, on_disk=layout.on_disk)
                },
                sparse_vectors_config={WORDS: models.SparseVectorParams()},
                hnsw_config=_HNSW,
                quantization_config=None if layout.quantization is None else _quantized(layout.quantization),
                on_disk_payload=True,
                shard_number=layout.shard_number,
                replication_factor=layout.replication_factor,
                write_consistency_factor=layout.write_consistency_factor,
                sharding_method=models.ShardingMethod.CUSTOM if layout.shard_by_space else None,
            )
    except StoreUnavailableError:
        if not await client.collection_exists(name):  # else another process was quicker
            raise


def _quantized(
    kind: Quantization,
) -> models.ScalarQuantization | models.BinaryQuantization | models.ProductQuantization:
    """Return how small copies are made: 1 byte a number, 1 bit a number, or 1 byte for each 4 numbers."""
    match kind:
        case "scalar":
            one_byte = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
            return models.ScalarQuantization(scalar=one_byte)
        case "binary":
            return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
        case "product":
            groups = models.ProductQuantizationConfig(compression=models.CompressionRatio.X16, always_ram=True)
            return models.ProductQuantization(product=groups)
    assert_never(kind)


def quantization_of(info: models.CollectionInfo) -> str | None:
    """Return the kind of small copies that a collection has, None where it has none."""
    found = info.config.quantization_config
    return None if found is None else next(iter(type(found).model_fields))


def _check_layout(info: models.CollectionInfo, name: str, layout: QdrantLayout) -> None:
    """Compare what was asked for with what the collection has; what was not asked for may be anything."""
    params = info.config.params
    dense = params.vectors.get(DENSE) if isinstance(params.vectors, dict) else None
    found: dict[str, object] = {
        "shard_number": params.shard_number,
        "replication_factor": params.replication_factor,
        "write_consistency_factor": params.write_consistency_factor,
        "shard_by_space": params.sharding_method == models.ShardingMethod.CUSTOM,
        "quantization": quantization_of(info),
        "on_disk": bool(dense and dense.on_disk),
    }
    wanted = {setting: value for setting, value in asdict(layout).items() if value is not None}
    differing = [
        f"{setting}={found[setting]!r} (wanted {value!r})"
        for setting, value in wanted.items()
        if found[setting] != value
    ]
    if differing:
        msg = (
            f"the collection {name!r} has {', '.join(differing)} and is left as it is: give its own settings, change "
            "it with Qdrant's tools, or name another collection, which is filled from the store"
        )
        raise ConfigurationError(msg)


def _check_version(version: str) -> None:
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers < OLDEST_SERVER:
        wanted = ".".join(map(str, OLDEST_SERVER))
        msg = f"the Qdrant server is {version}, at least {wanted} is needed: upgrade it"
        raise ConfigurationError(msg)


def _check_collection(info: models.CollectionInfo, name: str, dimension: int) -> None:
    params = info.config.params
    dense = params.vectors.get(DENSE) if isinstance(params.vectors, dict) else None
    if dense is None or WORDS not in (params.sparse_vectors or {}):
        msg = f"the collection {name!r} was not made by this store: name another one"
        raise ConfigurationError(msg)
    if dense.size != dimension:
        raise DimensionMismatchError(expected=dense.size, found=dimension, what="the embedding model configured")


MEAN_TERMS = 16.0
"""The length, in terms, of a text that is neither long nor short; fixed, so that memories needn't be written again
when the mean of their scope moves. Two sentences have about so many."""

MOST_WORDS = 64
"""Terms of a query that are looked up; the first ones, since each costs a count."""


def keys_of_terms(words: Iterable[str]) -> list[str]:
    """Return terms as hexadecimal hashes of 64 bits, with repetition."""
    return [_key(term) for term in unpack_terms(pack_terms(words)).tolist()]


def document_vector(keys: Sequence[str]) -> models.SparseVector:
    """Return the sparse vector of a text with these terms."""
    norm = float(length_norm(np.array([len(keys)]), MEAN_TERMS)[0])
    return _sparse({key: count / (count + norm) for key, count in Counter(keys).items()})


def query_weights(text: str) -> dict[str, float]:
    """Return the terms of a query, and those related to them, with what each counts."""
    words = query_words(text)
    weights = words.weights[words.units].tolist()
    pairs = zip(words.hashes.tolist(), weights, strict=True)
    return {_key(term): weight for term, weight in list(pairs)[:MOST_WORDS]}


def query_vector(weights: Mapping[str, float], holding: Mapping[str, int], memories: int) -> models.SparseVector | None:
    """Return the sparse vector of a query.

    `holding` says how many of the scope's memories hold each term. None where no memory holds any.
    """
    known = {key: weight for key, weight in weights.items() if holding.get(key)}
    if not known:
        return None
    counts = np.array([holding[key] for key in known])
    rareness = inverse_frequency(counts, max(memories, int(counts.max())))
    return _sparse({key: known[key] * rare for key, rare in zip(known, rareness.tolist(), strict=True)})


def product(query: models.SparseVector | None, document: models.SparseVector | None) -> float:
    """Multiply the sparse vectors of a query and a memory."""
    if query is None or document is None:
        return 0.0
    held = dict(zip(document.indices, document.values, strict=True))
    pairs = zip(query.indices, query.values, strict=True)
    return sum(value * held.get(index, 0.0) for index, value in pairs)


def _key(term: int) -> str:
    return f"{term:016x}"


def _sparse(weights: Mapping[str, float]) -> models.SparseVector:
    """Write weights at 32 bits of each hash; the rare terms that meet there are added up."""
    places: dict[int, float] = {}
    for key, weight in weights.items():
        place = int(key[-8:], 16)
        places[place] = places.get(place, 0.0) + weight
    ordered = sorted(places)
    return models.SparseVector(indices=ordered, values=[places[place] for place in ordered])


_NAMESPACE = uuid.UUID("8d0e1d2c-5f6b-4d0a-9a86-3f5b1c7e2a41")
_FORM = f"2.{TERMS_VERSION}"
"""What points say and how words are cut: points of another form are written anew."""

REQUEST_BYTES = 8 * 1024 * 1024
"""The most that one request carries, as JSON. Source: a server takes 32 MB (`service.max_request_size_mb` in Qdrant's
configuration), proxies in front of it often less."""

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
        "trust": memory.trust.value,
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


def in_requests(points: Iterable[models.PointStruct]) -> Iterator[list[models.PointStruct]]:
    """Part points into requests of at most `REQUEST_BYTES` each; a point that is larger goes alone."""
    request: list[models.PointStruct] = []
    size = 0
    for point in points:
        more = len(point.model_dump_json())
        if request and size + more > REQUEST_BYTES:
            yield request
            request, size = [], 0
        request.append(point)
        size += more
    if request:
        yield request


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
