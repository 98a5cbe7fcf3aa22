"""Qdrant's own engine, as `qdrant-edge-py` brings it, behind the calls that the server of the tests makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import qdrant_edge as edge  # type: ignore[import-not-found]
from qdrant_client import QdrantClient, models
from qdrant_client.http import models as http_models

from reme_core.stores.qdrant.points import payload_indexes

_TYPES = {
    models.PayloadSchemaType.KEYWORD: edge.PayloadSchemaType.Keyword,
    models.PayloadSchemaType.BOOL: edge.PayloadSchemaType.Integer,  # 0.9.0 asks for 1 where a condition says true
    models.PayloadSchemaType.DATETIME: edge.PayloadSchemaType.Datetime,
}


class Engine(QdrantClient):
    """Keeps points in the engine; what collections there are, in the local mode of the client."""

    def __init__(self, folder: Path) -> None:
        super().__init__(location=":memory:", force_disable_check_same_thread=True)
        self._folder = folder
        self._shards: dict[str, Any] = {}

    def create_collection(self, collection_name: str, **settings: Any) -> bool:  # type: ignore[override]
        vectors = {
            name: edge.EdgeVectorParams(wanted.size, edge.Distance.Cosine, quantization_config=edge_copies())
            for name, wanted in settings["vectors_config"].items()
        }
        config = edge.EdgeConfig(
            vectors=vectors,
            sparse_vectors={name: edge.EdgeSparseVectorParams() for name in settings["sparse_vectors_config"]},
            on_disk_payload=True,
            hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000, payload_m=16),
        )
        place = self._folder / f"{collection_name}-{len(self._shards)}"
        place.mkdir(parents=True)
        shard = edge.EdgeShard.create(str(place), config)
        for field, schema in payload_indexes().items():
            is_tenant = isinstance(schema, models.KeywordIndexParams)
            told = edge.KeywordIndexParams(is_tenant=True) if is_tenant else _TYPES[cast("Any", schema)]
            shard.update(edge.UpdateOperation.create_field_index(field, told))
        self._shards[collection_name] = shard
        return super().create_collection(collection_name, **settings)

    def close(self, **_: Any) -> None:
        for shard in self._shards.values():
            shard.close()
        super().close()

    def upsert(self, collection_name: str, points: Any, **_: Any) -> Any:
        written = [
            edge.Point(
                item.id,
                {name: to_edge(vector) for name, vector in item.vector.items()},
                {name: int(value) if isinstance(value, bool) else value for name, value in item.payload.items()},
            )
            for item in points
        ]
        self._shards[collection_name].update(edge.UpdateOperation.upsert_points(written))

    def delete(self, collection_name: str, points_selector: Any, **_: Any) -> Any:
        if isinstance(points_selector, models.PointIdsList):
            operation = edge.UpdateOperation.delete_points(list(points_selector.points))
        else:
            operation = edge.UpdateOperation.delete_points_by_filter(condition(points_selector.filter))
        self._shards[collection_name].update(operation)

    def count(self, collection_name: str, count_filter: Any = None, **_: Any) -> models.CountResult:
        asked = edge.CountRequest(exact=True, filter=condition(count_filter))
        return models.CountResult(count=self._shards[collection_name].count(asked))

    def retrieve(self, collection_name: str, ids: Any, *_: Any, **__: Any) -> list[models.Record]:
        found = self._shards[collection_name].retrieve(list(ids), with_payload=True, with_vector=False)
        return [models.Record(id=str(item.id), payload=item.payload) for item in found]

    def query_points(self, collection_name: str, *, query: Any, using: str, **asked: Any) -> http_models.QueryResponse:  # type: ignore[override]
        vector = to_edge(getattr(query, "nearest", query))
        params = edge.SearchParams(quantization=edge.QuantizationSearchParams(rescore=True, oversampling=3.0))
        request = edge.QueryRequest(
            limit=asked["limit"],
            query=edge.Query.Nearest(vector, using=using),
            filter=condition(asked["query_filter"]),
            with_payload=True,
            with_vector=asked["with_vectors"] or False,
            params=params,
        )
        points = [
            models.ScoredPoint(
                id=str(item.id), version=0, score=item.score, payload=item.payload, vector=from_edge(item.vector)
            )
            for item in self._shards[collection_name].query(request)
        ]
        return http_models.QueryResponse(points=points)


def edge_copies() -> edge.ScalarQuantizationConfig:
    return edge.ScalarQuantizationConfig(edge.ScalarType.Int8, quantile=0.99, always_ram=True)


def to_edge(vector: Any) -> Any:
    if isinstance(vector, models.SparseVector):
        return edge.SparseVector(vector.indices, vector.values)
    return vector


def from_edge(vectors: Any) -> Any:
    if not isinstance(vectors, dict):
        return None
    return {
        name: models.SparseVector(indices=vector.indices, values=vector.values)
        if isinstance(vector, edge.SparseVector)
        else vector
        for name, vector in vectors.items()
    }


def condition(wanted: Any) -> Any:
    """Write a condition of the client, or a filter of such, for the engine."""
    match wanted:
        case models.Filter():
            parts = {
                name: [condition(item) for item in getattr(wanted, name) or ()]
                for name in ("must", "should", "must_not")
            }
            return edge.Filter(**{name: items or None for name, items in parts.items()})
        case models.IsEmptyCondition():
            return edge.IsEmptyCondition(wanted.is_empty.key)
        case models.FieldCondition(match=models.MatchValue() as told):
            return edge.FieldCondition(wanted.key, match=edge.MatchValue(told.value))
        case models.FieldCondition(match=models.MatchAny() as told):
            return edge.FieldCondition(wanted.key, match=edge.MatchAny(list(told.any)))
        case models.FieldCondition(range=span) if span is not None:
            limits = {name: time.isoformat() for name in ("gte", "gt", "lte", "lt") if (time := getattr(span, name))}
            return edge.FieldCondition(wanted.key, range=edge.RangeDateTime(**limits))
    raise AssertionError(f"{wanted!r} is not known here")
