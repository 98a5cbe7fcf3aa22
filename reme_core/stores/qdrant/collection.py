"""The collection: how it is created, and whether one that is there fits. docs/qdrant.md says the same in words."""

from __future__ import annotations

from dataclasses import dataclass

from qdrant_client import AsyncQdrantClient, models

from reme_core.errors import ConfigurationError, DimensionMismatchError, StoreUnavailableError
from reme_core.stores.qdrant.failures import translated

DENSE = "dense"
WORDS = "words"
OLDEST_SERVER = (1, 11)
"""The first release whose indexes can be told that a field tells tenants apart."""

# No graph over all scopes, one for each scope instead. Source: Qdrant's page on multitenancy.
_HNSW = models.HnswConfigDiff(m=0, payload_m=16)

# What tells a collection that was no index but the only place of its memories.
_KEPT_HERE = models.Filter(must=[models.FieldCondition(key="kind", match=models.MatchValue(value="commit"))])


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantLayout:
    """How a new collection lies on the nodes of a cluster; one that exists keeps its own.

    Attributes:
        shard_number: Shards of the collection, or of each space with `shard_by_space`. None: the server's choice.
        replication_factor: Copies of each shard. None: one.
        write_consistency_factor: Copies that have to confirm a write. None: one.
        shard_by_space: A shard key, and so shards of its own, for each memory space; needs a cluster.
    """

    shard_number: int | None = None
    replication_factor: int | None = None
    write_consistency_factor: int | None = None
    shard_by_space: bool = False


def payload_indexes() -> dict[str, models.PayloadSchemaType | models.KeywordIndexParams]:
    """Return the payload fields that a server indexes, and how."""
    keyword, time = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.DATETIME
    return {
        "scope": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        "kind": keyword,
        "type": keyword,
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
) -> None:
    """Create the collection with its indexes, or check the one that is there and add the indexes that it lacks.

    Raises:
        ConfigurationError: The server is too old, or a collection of this name is not one of ours, or holds what an
            earlier release kept in Qdrant alone.
        DimensionMismatchError: The collection holds vectors of another dimension.
    """
    with translated(f"opening the collection {name!r}"):
        if remote:
            _check_version((await client.info()).version)
        if not await client.collection_exists(name):
            await _create(client, name, dimension, layout)
        info = await client.get_collection(name)
        _check_collection(info, name, dimension)
        if (await client.count(name, _KEPT_HERE, exact=True)).count:
            msg = (
                f"the collection {name!r} holds memories that an earlier release kept here alone: export them with "
                "that release (`reme export`), name another collection, and import them"
            )
            raise ConfigurationError(msg)
        if not remote:
            return  # the local mode has no indexes
        for field, schema in payload_indexes().items():
            if field not in info.payload_schema:
                await client.create_payload_index(name, field, schema, wait=True)


async def _create(client: AsyncQdrantClient, name: str, dimension: int, layout: QdrantLayout) -> None:
    try:
        with translated(f"creating the collection {name!r}"):
            await client.create_collection(
                name,
                vectors_config={DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE)},
                sparse_vectors_config={WORDS: models.SparseVectorParams()},
                hnsw_config=_HNSW,
                on_disk_payload=True,
                shard_number=layout.shard_number,
                replication_factor=layout.replication_factor,
                write_consistency_factor=layout.write_consistency_factor,
                sharding_method=models.ShardingMethod.CUSTOM if layout.shard_by_space else None,
            )
    except StoreUnavailableError:
        if not await client.collection_exists(name):  # else another process was quicker
            raise


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
