"""The Qdrant index over REST, against a server on the loopback address that the client's local mode answers for.

It is no Qdrant server: it shows that what the index sends is well-formed, that stores of several processes may share
it, and what it asks for when it creates a collection.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

from reme_core.errors import (
    ConfigurationError,
    DimensionMismatchError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.ports import DeleteEntries, MemorySearch, Store
from reme_core.stores.qdrant import QdrantIndex, QdrantLayout
from reme_core.stores.qdrant.points import payload_indexes
from reme_core.testing._memory_lifetime import MemoryConcurrency, MemoryDurability
from reme_core.testing._memory_search import MemoryFilters
from reme_core.testing.memory_index_contract import entry, found, upsert
from reme_core.testing.store_values import ALICE, DIMENSION, Opener, StoreCapabilities
from tests.support.indexed import on_server

KEY = "a-key-that-nobody-may-see"
MOST_BYTES = 32 * 1024 * 1024  # as Qdrant's own
SELECTOR: TypeAdapter[models.PointsSelector] = TypeAdapter(models.PointsSelector)


class Rest(BaseHTTPRequestHandler):
    """Translates requests into calls of the local mode."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body of an answer in one packet
    disable_nagle_algorithm = True
    server: "RestServer"
    timeout: ClassVar[float] = 30.0

    def do_GET(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def log_message(self, *_: object) -> None:
        pass

    def answer(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        with self.server.lock:
            self.server.seen.append((self.command, url.path, parse_qs(url.query), body))
            status = 413 if length > MOST_BYTES else 401 if self.headers.get("api-key") != KEY else 200
            status = self.server.failing or status
            result = self.result(url.path, body) if status == 200 else {"error": "as told"}
        told = {"result": result, "status": "ok", "time": 0.0} if url.path != "/" else result
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def result(self, path: str, body: dict[str, Any]) -> Any:
        local, parts = self.server.local, path.strip("/").split("/")
        if path == "/":
            return {"title": "qdrant", "version": self.server.version, "commit": None}
        name, rest = parts[1], "/".join(parts[2:])
        match self.command, rest:
            case "GET", "exists":
                return {"exists": local.collection_exists(name)}
            case "PUT", "":
                wanted = models.CreateCollection(**body)
                return local.create_collection(
                    name, vectors_config=wanted.vectors, sparse_vectors_config=wanted.sparse_vectors
                )
            case "GET", "":
                info = plain(local.get_collection(name))
                indexed = {field: {"data_type": "keyword", "points": 0} for field in self.server.indexes}
                return {**info, "payload_schema": indexed}
            case "PUT", "index":
                self.server.indexes.append(models.CreateFieldIndex(**body).field_name)
                return done()
            case "GET", "shards":
                return {"shard_keys": [{"key": key} for key in self.server.shard_keys]}
            case "PUT", "shards":
                self.server.shard_keys.append(body["shard_key"])
                return True
        return points_result(local, name, self.command, rest, body)


def points_result(local: QdrantClient, name: str, command: str, rest: str, body: dict[str, Any]) -> Any:
    match command, rest:
        case "POST", "points":
            asked = models.PointRequest(**body)
            return [plain(item) for item in local.retrieve(name, asked.ids, asked.with_payload, asked.with_vector)]
        case "POST", "points/scroll":
            scroll = models.ScrollRequest(**body)
            records, _ = local.scroll(
                name, scroll.filter, scroll.limit, scroll.order_by, None, scroll.with_payload, scroll.with_vector
            )
            return {"points": [plain(item) for item in records]}
        case "POST", "points/count":
            return plain(local.count(name, models.CountRequest(**body).filter, exact=True))
        case "POST", "points/query":
            query = models.QueryRequest(**body)
            found = local.query_points(
                name,
                query=query.query,
                using=query.using,
                query_filter=query.filter,
                limit=query.limit,
                with_payload=query.with_payload,
                with_vectors=query.with_vector,
            )
            return plain(found)
        case "PUT", "points":
            write = models.PointsList(**body)
            local.upsert(name, write.points, update_filter=write.update_filter, update_mode=write.update_mode)
            return done()
        case "POST", "points/batch":
            operations = models.UpdateOperations(**body).operations
            local.batch_update_points(name, operations)
            return [done() for _ in operations]
        case "POST", "points/delete":
            local.delete(name, SELECTOR.validate_python(body))
            return done()
    raise AssertionError(f"{command} {rest} is not known here")


def plain(value: BaseModel) -> Any:
    return json.loads(value.model_dump_json(exclude_none=True))


def done() -> dict[str, object]:
    return {"operation_id": 0, "status": "completed"}


class RestServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Rest)
        self.local = QdrantClient(location=":memory:", force_disable_check_same_thread=True)
        self.lock = threading.Lock()
        self.seen: list[tuple[str, str, dict[str, list[str]], dict[str, Any]]] = []
        self.indexes: list[str] = []
        self.shard_keys: list[str] = []
        self.version = "1.17.0"
        self.failing = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[RestServer]:
    with RestServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
        server.local.close()


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
    @pytest.fixture
    async def index(self, server: RestServer) -> AsyncIterator[QdrantIndex]:
        layout = QdrantLayout(shard_number=3, replication_factor=2, write_consistency_factor=2, shard_by_space=True)
        index = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION, layout=layout)
        yield index
        await index.close()

    async def test_a_new_collection_gets_what_the_page_says(self, server: RestServer, index: QdrantIndex) -> None:
        await upsert(index, entry("fact"))
        [created] = [
            body for command, path, _, body in server.seen if (command, path) == ("PUT", "/collections/reme_memories")
        ]
        assert created == {
            "vectors": {"dense": {"size": DIMENSION, "distance": "Cosine"}},
            "sparse_vectors": {"words": {}},
            "hnsw_config": {"m": 0, "payload_m": 16},
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
        other = QdrantIndex(url=server.url, api_key=KEY, dimension=DIMENSION)
        assert await other.find_position(ALICE) == "1"
        await other.close()
        assert len(server.indexes) == len(payload_indexes())

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (401, StoreAccessError),
            (403, StoreAccessError),
            (404, StoreError),
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
