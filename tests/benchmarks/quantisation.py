"""What quantisation costs in recall, in Qdrant's own engine: the table of docs/qdrant.md.

Run in an environment of its own, with numpy and `qdrant-edge-py`, on a file of vectors (see `minilm.py`):
`python quantisation.py VECTORS`. The collection is made as `reme_core.stores.qdrant.points` makes it.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import qdrant_edge as edge  # type: ignore[import-not-found]

DIMENSION, QUESTIONS, WANTED, FETCHED = 384, 500, 10, 64
RECORD = np.dtype([("sha1", "u1", 20), ("vector", "<f4", DIMENSION)])
KINDS = {
    "none": None,
    "scalar": edge.ScalarQuantizationConfig(edge.ScalarType.Int8, quantile=0.99, always_ram=True),
    "product": edge.ProductQuantizationConfig(edge.CompressionRatio.X16, always_ram=True),
    "binary": edge.BinaryQuantizationConfig(always_ram=True),
}
Matrix = npt.NDArray[np.float32]


def read(path: Path) -> tuple[Matrix, Matrix]:
    """Return questions and the rest, in an order that is always the same."""
    whole = path.read_bytes()
    records = np.frombuffer(whole[: len(whole) // RECORD.itemsize * RECORD.itemsize], RECORD)
    rows = records["vector"] / np.linalg.norm(records["vector"], axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(rows))
    return rows[order[:QUESTIONS]], rows[order[QUESTIONS:]]


def filled(folder: str, rows: Matrix, kind: str) -> tuple[edge.EdgeShard, float]:
    """Return a shard with these rows in one scope, and the seconds that its indexes took."""
    config = edge.EdgeConfig(
        vectors={"dense": edge.EdgeVectorParams(DIMENSION, edge.Distance.Cosine)},
        on_disk_payload=True,
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000, payload_m=16),
        quantization_config=KINDS[kind],
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1000, default_segment_number=1),
    )
    shard = edge.EdgeShard.create(folder, config)
    shard.update(edge.UpdateOperation.create_field_index("scope", edge.KeywordIndexParams(is_tenant=True)))
    for start in range(0, len(rows), 500):
        points = [
            edge.Point(start + place, {"dense": row.tolist()}, {"scope": "a"})
            for place, row in enumerate(rows[start : start + 500])
        ]
        shard.update(edge.UpdateOperation.upsert_points(points))
    begun = time.perf_counter()
    shard.optimize()
    return shard, time.perf_counter() - begun


def main() -> None:
    questions, rows = read(Path(sys.argv[1]))
    nearest = np.argsort(-(questions @ rows.T), axis=1)[:, :WANTED]
    scope = edge.Filter(must=[edge.FieldCondition(key="scope", match=edge.MatchValue(value="a"))])
    print(f"{len(rows)} vectors, {len(questions)} questions")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            shard, seconds = filled(folder, rows, kind)
            for oversampling in (1.0, 3.0, 8.0):
                params = edge.SearchParams(
                    quantization=edge.QuantizationSearchParams(rescore=True, oversampling=oversampling)
                )
                for limit in (WANTED, FETCHED):
                    kept, times = 0, []
                    for question, truth in zip(questions, nearest, strict=True):
                        query = edge.Query.Nearest(question.tolist(), using="dense")
                        begun = time.perf_counter()
                        found = shard.query(edge.QueryRequest(limit=limit, query=query, filter=scope, params=params))
                        times.append(time.perf_counter() - begun)
                        kept += len({point.id for point in found} & set(truth.tolist()))
                    share = kept / WANTED / len(questions)
                    told = f"{WANTED} best among {limit}: {share:.4f}, p50 {statistics.median(times) * 1000:.2f} ms"
                    print(f"{kind}, built in {seconds:.0f} s, oversampling {oversampling:g}, {told}", flush=True)
            shard.close()


if __name__ == "__main__":
    main()
