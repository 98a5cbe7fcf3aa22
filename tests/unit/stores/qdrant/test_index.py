"""What the Qdrant index adds to the contract: places, failures, words."""

import asyncio
import errno
import gc
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from reme_bench.bm25 import bm25_order

from reme_core.errors import (
    ConfigurationError,
    CorruptDataError,
    DimensionMismatchError,
    InvalidInputError,
    ReMeError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.ports import MemorySearch
from reme_core.stores.qdrant import QdrantIndex, QdrantLayout
from reme_core.stores.qdrant.backend import CollectionGoneError, translated
from reme_core.stores.qdrant.points import (
    REQUEST_BYTES,
    document_vector,
    in_requests,
    keys_of_terms,
    product,
    query_vector,
    query_weights,
)
from reme_core.testing.memory_index_contract import entry, found, upsert
from reme_core.testing.store_values import ALICE, DIMENSION
from reme_core.text import terms


def status(code: int, content: bytes = b"{}") -> UnexpectedResponse:
    return UnexpectedResponse(code, "reason", content, httpx.Headers())


def rpc(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata())


FAILURES: list[tuple[Exception, type[ReMeError]]] = [
    (status(401), StoreAccessError),
    (status(403), StoreAccessError),
    (status(400), StoreError),
    (status(404), CollectionGoneError),
    (rpc(grpc.StatusCode.NOT_FOUND), CollectionGoneError),
    (status(408), StoreUnavailableError),
    (status(409), StoreUnavailableError),
    (status(413), InvalidInputError),
    (status(429), StoreUnavailableError),
    (status(500), StoreUnavailableError),
    (status(500, b"No space left on device"), StorageFullError),
    (status(503), StoreUnavailableError),
    (status(507), StorageFullError),
    (ResponseHandlingException(httpx.ConnectError("refused")), StoreUnavailableError),
    (ResponseHandlingException(httpx.ReadTimeout("slow")), StoreUnavailableError),
    (ResourceExhaustedResponse("busy", 3), StoreUnavailableError),
    (rpc(grpc.StatusCode.UNAUTHENTICATED), StoreAccessError),
    (rpc(grpc.StatusCode.PERMISSION_DENIED), StoreAccessError),
    (rpc(grpc.StatusCode.UNAVAILABLE), StoreUnavailableError),
    (rpc(grpc.StatusCode.DEADLINE_EXCEEDED), StoreUnavailableError),
    (rpc(grpc.StatusCode.RESOURCE_EXHAUSTED), StoreUnavailableError),
    (rpc(grpc.StatusCode.INVALID_ARGUMENT), StoreError),
    (PermissionError(errno.EACCES, "Permission denied"), StoreAccessError),
    (OSError(errno.ENOSPC, "No space left"), StorageFullError),
    (RuntimeError("Storage folder x is already accessed by another instance of Qdrant client."), StoreUnavailableError),
    (RuntimeError("something else"), StoreError),
    (sqlite3.OperationalError("database or disk is full"), StorageFullError),
    (sqlite3.OperationalError("database is locked"), StoreUnavailableError),
    (sqlite3.DatabaseError("database disk image is malformed"), CorruptDataError),
    (sqlite3.DatabaseError("file is not a database"), CorruptDataError),
]


@pytest.mark.parametrize(("failure", "expected"), FAILURES, ids=lambda value: repr(value)[:60])
def test_every_failure_of_the_client_becomes_one_of_ours(failure: Exception, expected: type[ReMeError]) -> None:
    with pytest.raises(expected) as caught, translated("doing something"):
        raise failure
    assert caught.type is expected
    assert str(caught.value).startswith("doing something: ")
    assert caught.value.__cause__ is failure


@pytest.mark.parametrize(
    "make",
    [
        lambda: QdrantIndex(dimension=8),
        lambda: QdrantIndex(dimension=8, location=":memory:", url="http://localhost:6333"),
        lambda: QdrantIndex(dimension=8, location="http://localhost:6333"),
        lambda: QdrantIndex(dimension=0, location=":memory:"),
        lambda: QdrantIndex(dimension=8, location=":memory:", api_key="key"),
        lambda: QdrantIndex(dimension=8, path="folder", layout=QdrantLayout(shard_by_space=True)),
    ],
)
def test_settings_that_do_not_go_together_are_refused(make: Callable[[], QdrantIndex]) -> None:
    with pytest.raises(ConfigurationError):
        make()


def test_the_key_is_not_shown() -> None:
    store = QdrantIndex(dimension=8, url="https://example.org:6333", api_key="a-secret")
    assert "a-secret" not in repr(store) + str(vars(store))


async def test_nothing_is_opened_before_the_first_call(tmp_path: Path) -> None:
    store = QdrantIndex(dimension=8, path=tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    await store.close()


# The client leaves the lock file open that it could not lock.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_folder_that_another_index_has_open_is_unavailable(tmp_path: Path) -> None:
    first, second = (QdrantIndex(dimension=DIMENSION, path=tmp_path) for _ in range(2))
    await upsert(first, entry("fact"))
    with pytest.raises(StoreUnavailableError, match="another client has this folder open"):
        await second.find_position(ALICE)
    gc.collect()  # a file that the refused client left open would be warned of here, and warnings are errors
    await first.close()
    assert await found(second, MemorySearch(text="fact")) == ["fact"]
    await second.close()


async def test_who_closes_second_waits_until_it_is_closed(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    await upsert(index, entry("fact"))
    first, second = asyncio.create_task(index.close()), asyncio.create_task(index.close())
    await asyncio.sleep(0)
    first.cancel()  # that goes on, and the second waits for it
    await second
    again = index_in(tmp_path)
    assert await found(again, MemorySearch(text="fact")) == ["fact"]
    await again.close()


@pytest.mark.parametrize("place", ["memory", "folder"])
async def test_the_child_of_a_fork_opens_the_index_itself_or_is_told_why_not(tmp_path: Path, place: str) -> None:
    index = index_in(tmp_path) if place == "folder" else QdrantIndex(dimension=DIMENSION, location=":memory:")
    await upsert(index, entry("fact"))
    receiving, sending = get_context("fork").Pipe(duplex=False)
    child = get_context("fork").Process(target=tell_count, args=(index, sending))
    child.start()
    told = await asyncio.to_thread(lambda: receiving.recv() if receiving.poll(30) else "nothing")
    await asyncio.to_thread(child.join, 30)
    assert told == {"folder": "StoreUnavailableError", "memory": "0"}[place]
    assert child.exitcode == 0
    assert await index.count(ALICE) == 1
    await index.close()


def tell_count(index: QdrantIndex, sending: Connection) -> None:
    async def count() -> str:
        try:
            return str(await index.count(ALICE))
        except ReMeError as exc:
            return type(exc).__name__
        finally:
            await index.close()

    with ThreadPoolExecutor(1) as pool:  # the loop of the parent counts as running here
        sending.send(pool.submit(asyncio.run, count()).result())


def test_points_go_in_requests_that_a_server_takes() -> None:
    long = models.PointStruct(id=1, vector=[], payload={"words": ["w" * 100] * (REQUEST_BYTES // 200)})
    short = models.PointStruct(id=2, vector=[], payload={})
    requests = list(in_requests([short, long, long, long, long, short]))
    assert [point.id for request in requests for point in request] == [2, 1, 1, 1, 1, 2]
    assert len(requests) == 4
    assert list(in_requests([])) == []
    larger = models.PointStruct(id=3, vector=[], payload={"words": "w" * REQUEST_BYTES})
    assert [len(request) for request in in_requests([short, larger, short])] == [1, 1, 1]


def index_in(folder: Path) -> QdrantIndex:
    return QdrantIndex(dimension=DIMENSION, path=folder)


async def test_points_of_another_form_count_as_none(tmp_path: Path) -> None:
    index = index_in(tmp_path)
    await upsert(index, entry("fact"))
    await index.close()
    client = QdrantClient(path=str(tmp_path))
    position = models.FieldCondition(key="kind", match=models.MatchValue(value="position"))
    client.set_payload("reme_memories", {"form": "0.0"}, models.Filter(must=[position]))
    client.close()
    again = index_in(tmp_path)
    assert await again.find_position(ALICE) is None
    await again.close()


async def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = QdrantIndex(dimension=DIMENSION, path=tmp_path / "file")
    with pytest.raises(StoreAccessError):
        await store.find_position(ALICE)
    await store.close()


async def test_a_folder_of_another_dimension_is_refused(tmp_path: Path) -> None:
    store = QdrantIndex(dimension=DIMENSION, path=tmp_path)
    await upsert(store, entry("fact"))
    await store.close()
    other = QdrantIndex(dimension=DIMENSION + 1, path=tmp_path)
    with pytest.raises(DimensionMismatchError):
        await other.find_position(ALICE)
    await other.close()


@pytest.mark.parametrize("query", ["violin lessons", "the red bicycle of her brother", "网球 周末", "coffee in Kyoto"])
def test_products_of_sparse_vectors_rank_like_bm25(query: str) -> None:
    texts = [
        "She takes violin lessons on Mondays.",
        "Her brother sold the red bicycle to a neighbour.",
        "The bicycle is blue and her brother is away.",
        "她喜欢在周末打网球",
        "他周末在家看书",
        "They drank coffee in Kyoto, and coffee again in Osaka.",
    ]
    documents = [keys_of_terms(terms(text)) for text in texts]
    weights = query_weights(query)
    holding = {key: sum(key in document for document in documents) for key in weights}
    asked = query_vector(weights, holding, len(texts))
    scores = [product(asked, document_vector(document)) for document in documents]
    ranked = sorted(range(len(texts)), key=lambda place: -scores[place])
    assert ranked[0] == bm25_order(query, texts)[0]
    assert scores[ranked[0]] > 0


def test_a_query_without_known_words_has_no_vector() -> None:
    assert query_vector(query_weights("the of and"), {}, 10) is None
    weights = query_weights("zebra")
    assert query_vector(weights, dict.fromkeys(weights, 0), 10) is None
