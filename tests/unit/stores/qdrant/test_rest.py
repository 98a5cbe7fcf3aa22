"""The Qdrant index over REST, against a server on the loopback address that the client's local mode answers for.

It is no Qdrant server: it shows that what the index sends is well-formed, that stores of several processes may share
it, and what it asks for when it creates a collection.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from reme_core import ReMe
from reme_core.errors import (
    ConfigurationError,
    DimensionMismatchError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.ports import DeleteEntries, MemorySearch, Store
from reme_core.stores.qdrant import QdrantIndex, QdrantLayout
from reme_core.stores.qdrant.backend import CollectionGoneError
from reme_core.stores.qdrant.points import Quantization, payload_indexes
from reme_core.testing import HashedEmbedder
from reme_core.testing._memory_lifetime import MemoryConcurrency, MemoryDurability
from reme_core.testing._memory_search import MemoryFilters
from reme_core.testing.memory_index_contract import entry, found, upsert
from reme_core.testing.store_values import ALICE, DIMENSION, Opener, StoreCapabilities, axis
from tests.support.indexed import on_server
from tests.support.qdrant_rest import KEY, RestServer, running


@pytest.fixture
def server() -> Iterator[RestServer]:
    with running() as server:
        yield server


# The client says that a key over plain HTTP can be read on the way; here it only goes to the loopback address.
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
class TestIndexedOverRest(MemoryConcurrency, MemoryDurability, MemoryFilters):
    """The parts of the contract in which the way to the server matters; the whole of it holds too, and takes longer."""

    capabilities = StoreCapabilities(persistent=True, shared=True)

    @pytest.fixture
    async def store(self, server: RestServer, tmp_path: Path) -> AsyncIterator[Store]:
        server.indexes += payload_indexes()  # asking for all of them takes most of the time of a test
        store = on_server(tmp_path, server.url, KEY)
        yield store
        await store.close()

    @pytest.fixture
    def opener(self, server: RestServer, tmp_path: Path) -> Opener[Store]:
        return partial(on_server, tmp_path, server.url, KEY)


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
class TestRequests:
    layout = QdrantLayout(
        shard_number=3,
        replication_factor=2,
        write_consistency_factor=2,
        shard_by_space=True,
        quantization="scalar",
        on_disk=True,
    )

    @pytest.fixture
    async def index(self, server: RestServer) -> AsyncIterator[QdrantIndex]:
        index = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, layout=self.layout)
        yield index
        await index.close()

    async def test_a_new_collection_gets_what_the_page_says(self, server: RestServer, index: QdrantIndex) -> None:
        await upsert(index, entry("fact"))
        [created] = [
            body for command, path, _, body in server.seen if (command, path) == ("PUT", "/collections/reme_memories")
        ]
        assert created == {
            "vectors": {"dense": {"size": DIMENSION, "distance": "Cosine", "on_disk": True}},
            "sparse_vectors": {"words": {}},
            "hnsw_config": {"m": 0, "payload_m": 16},
            "quantization_config": {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}},
            "on_disk_payload": True,
            "shard_number": 3,
            "replication_factor": 2,
            "write_consistency_factor": 2,
            "sharding_method": "custom",
        }
        indexes = {
            body["field_name"]: body["field_schema"] for _, path, _, body in server.seen if path.endswith("/index")
        }
        assert indexes["scope"] == {"type": "keyword", "is_tenant": True}
        assert set(indexes) == set(payload_indexes())
        assert server.shard_keys == [ALICE.memory_space]

    async def test_the_settings_of_a_memory_reach_the_collection(self, server: RestServer, tmp_path: Path) -> None:
        qdrant = {
            "backend": "qdrant",
            "url": server.url,
            "api_key": KEY,
            "collection": "mine",
            "timeout_s": 20,
            "shard_number": 6,
            "replication_factor": 3,
            "write_consistency_factor": 2,
            "read_consistency": "quorum",
            "quantization": "binary",
            "oversampling": 4,
            "on_disk": True,
        }
        async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(8), vector_store=qdrant) as memory:
            await memory.add_memory("Alice plays the violin.", user_id="alice")
            await memory.retrieve("violin", user_id="alice")
        wanted = {name: qdrant[name] for name in ("shard_number", "replication_factor", "write_consistency_factor")}
        assert wanted.items() <= server.created["mine"].items()
        assert server.created["mine"]["vectors"]["dense"]["on_disk"] is True
        assert server.created["mine"]["quantization_config"] == {"binary": {"always_ram": True}}
        searches = [(query, body) for _, path, query, body in server.seen if path.endswith("/query")]
        assert {query["consistency"][0] for query, _ in searches} == {"quorum"}
        assert {"quantization": {"rescore": True, "oversampling": 4.0}} in [body.get("params") for _, body in searches]

    async def test_every_write_waits_and_is_strongly_ordered(self, server: RestServer, index: QdrantIndex) -> None:
        await upsert(index, entry("fact"))
        await index.delete(ALICE, DeleteEntries())
        writes = [(path, query) for _, path, query, body in server.seen if is_write(path, body)]
        assert len(writes) == 4
        assert all(query["wait"] == ["true"] and query["ordering"] == ["strong"] for _, query in writes)

    async def test_a_page_of_long_vectors_goes_in_requests_that_the_server_takes(self, server: RestServer) -> None:
        index = QdrantIndex(url=server.url, api_key=KEY, dimension=4096)
        vector = np.full(4096, 1 / 64 + 1e-9)
        await upsert(index, *(entry(f"fact {n}", vector=vector) for n in range(500)))
        assert await index.count(ALICE) == 500
        await index.close()

    async def test_every_request_for_points_names_the_scope_and_its_shards(
        self, server: RestServer, index: QdrantIndex
    ) -> None:
        await upsert(index, entry("fact"))
        await index.find_position(ALICE)
        await found(index, MemorySearch(text="fact"))
        await index.delete(ALICE, DeleteEntries())
        asked = [body for _, path, _, body in server.seen if "/points" in path and not path.endswith("/batch")]
        for body in asked:
            assert body["shard_key"] == ALICE.memory_space
            if "filter" in body:
                assert body["filter"]["must"][0] == {"key": "scope", "match": {"value": '["space", "alice"]'}}

    async def test_indexes_that_are_there_are_not_made_again(self, server: RestServer, index: QdrantIndex) -> None:
        await upsert(index, entry("fact"))
        other = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, layout=self.layout)
        assert await other.find_position(ALICE) == "1"
        await other.close()
        assert len(server.indexes) == len(payload_indexes())

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (401, StoreAccessError),
            (403, StoreAccessError),
            (400, StoreError),
            (404, CollectionGoneError),
            (429, StoreUnavailableError),
            (500, StoreUnavailableError),
            (503, StoreUnavailableError),
        ],
    )
    async def test_answers_of_the_server_are_errors_of_ours(
        self, server: RestServer, index: QdrantIndex, status: int, error: type[StoreError]
    ) -> None:
        await upsert(index, entry("fact"))
        server.failing = status
        with pytest.raises(error) as caught:
            await upsert(index, entry("other"))
        assert caught.type is error
        assert str(status) in str(caught.value)
        server.failing = 0
        await upsert(index, entry("other"))
        assert await found(index, MemorySearch(text="other")) == ["other"]

    async def test_a_server_that_does_not_answer_is_unavailable(self, server: RestServer, index: QdrantIndex) -> None:
        await asyncio.to_thread(server.shutdown)
        server.socket.close()
        with pytest.raises(StoreUnavailableError, match="can't be reached"):
            await index.find_position(ALICE)

    async def test_a_wrong_key_is_refused_and_no_key_is_ever_shown(self, server: RestServer) -> None:
        index = QdrantIndex(url=server.url, api_key="wrong-key", dimension=DIMENSION)
        with pytest.raises(StoreAccessError) as caught:
            await index.find_position(ALICE)
        assert "wrong-key" not in str(caught.value) + repr(caught.value.__cause__) + repr(index)
        await index.close()

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            ({"shard_number": 2}, r"shard_number=3 \(wanted 2\)"),
            ({"replication_factor": 3}, "replication_factor=2"),
            ({"write_consistency_factor": 1}, "write_consistency_factor=2"),
            ({"shard_by_space": False}, "shard_by_space=True"),
            ({"quantization": "binary"}, "quantization='scalar'"),
            ({"on_disk": False}, "on_disk=True"),
        ],
    )
    async def test_a_collection_that_lies_otherwise_is_told_and_left_as_it_is(
        self, server: RestServer, index: QdrantIndex, asked: dict[str, Any], told: str
    ) -> None:
        await upsert(index, entry("fact"))
        before = len(server.seen)
        other = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, layout=replace(self.layout, **asked))
        with pytest.raises(ConfigurationError, match=told):
            await other.find_position(ALICE)
        assert {command for command, *_ in server.seen[before:]} == {"GET"}
        same = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, layout=QdrantLayout(shard_by_space=True))
        assert await same.find_position(ALICE) == "1"  # what is not asked for may be anything
        await same.close()
        await other.close()

    @pytest.mark.parametrize(
        ("kind", "sent"),
        [
            ("binary", {"binary": {"always_ram": True}}),
            ("product", {"product": {"compression": "x16", "always_ram": True}}),
        ],
    )
    async def test_small_copies_of_vectors_are_made_as_asked(
        self, server: RestServer, kind: Quantization, sent: dict[str, Any]
    ) -> None:
        layout = QdrantLayout(quantization=kind)
        index = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, layout=layout)
        await upsert(index, entry("fact"))
        await index.close()
        assert server.created["reme_memories"]["quantization_config"] == sent

    async def test_a_quantised_collection_is_scored_by_whole_vectors_whoever_made_it(
        self, server: RestServer, index: QdrantIndex
    ) -> None:
        await upsert(index, entry("fact", vector=axis(0)))
        shards = QdrantLayout(shard_by_space=True)
        other = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, layout=shards, oversampling=5.0)
        await found(other, MemorySearch(text="fact", vector=axis(0)))
        await other.close()
        asked = {body["using"]: body.get("params") for _, path, _, body in server.seen if path.endswith("/query")}
        assert asked == {"dense": {"quantization": {"rescore": True, "oversampling": 5.0}}, "words": None}

    async def test_as_many_copies_are_read_as_asked(self, server: RestServer) -> None:
        for consistency, sent in (("majority", "majority"), ("all", "all"), (2, "2")):
            index = QdrantIndex(
                url=server.url,
                api_key=KEY,
                dimension=DIMENSION,
                read_consistency=consistency,  # type: ignore[arg-type]
            )
            await upsert(index, entry("fact", vector=axis(0)))
            server.seen.clear()
            await index.find_position(ALICE)
            await found(index, MemorySearch(vector=axis(0)))
            await index.close()
            reads = [query for _, path, query, _ in server.seen if path.endswith(("/points", "/query"))]
            assert [query["consistency"] for query in reads] == [[sent], [sent]]

    async def test_a_server_that_takes_too_long_is_unavailable(self, server: RestServer) -> None:
        index = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, timeout_s=1)
        await upsert(index, entry("fact"))
        with server.lock, pytest.raises(StoreUnavailableError, match="didn't answer in time"):
            await index.find_position(ALICE)
        await index.close()

    async def test_a_collection_that_somebody_removes_is_made_anew(
        self, server: RestServer, index: QdrantIndex
    ) -> None:
        await upsert(index, entry("fact"))
        server.local.delete_collection("reme_memories")
        with pytest.raises(StoreUnavailableError, match="the collection is gone"):
            await index.find_position(ALICE)
        assert await index.find_position(ALICE) is None
        await upsert(index, entry("fact"))
        assert await found(index, MemorySearch(text="fact")) == ["fact"]

    async def test_a_server_that_knows_no_tenants_is_refused(self, server: RestServer, index: QdrantIndex) -> None:
        server.version = "1.10.1"
        with pytest.raises(ConfigurationError, match=r"1\.11"):
            await index.find_position(ALICE)

    async def test_a_collection_of_another_dimension_or_kind_is_refused(self, server: RestServer) -> None:
        server.local.create_collection("foreign", vectors_config=models.VectorParams(size=3, distance="Dot"))
        right = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION)
        await upsert(right, entry("fact"))
        await right.close()
        wrong = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION + 1)
        with pytest.raises(DimensionMismatchError):
            await wrong.find_position(ALICE)
        await wrong.close()
        foreign = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, collection="foreign")
        with pytest.raises(ConfigurationError):
            await foreign.find_position(ALICE)
        await foreign.close()


def is_write(path: str, body: dict[str, Any]) -> bool:
    return path.endswith(("/points/batch", "/points/delete")) or (path.endswith("/points") and "points" in body)
