"""The few calls of the client that the index makes, each in one scope and durable; errors mapped to ours."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import grpc  # type: ignore[import-untyped]
import portalocker
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from reme_core.errors import (
    CorruptDataError,
    InvalidInputError,
    StorageFullError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from reme_core.schema import Scope


class CollectionGoneError(StoreUnavailableError):
    """Somebody has removed the collection; it is made anew when the index is used next."""


_RETRY = "try again; if it lasts, look at the server's log"
_ACCESS_CODES = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
_BUSY_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
    }
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise failures of the client as ours; `what` says what was being done. Keys and contents are not repeated."""
    try:
        yield
    except UnexpectedResponse as exc:
        raise _of_status(exc, what) from exc
    except ResponseHandlingException as exc:
        msg = f"{what}: Qdrant can't be reached or didn't answer in time ({type(exc.source).__name__}); {_RETRY}"
        raise StoreUnavailableError(msg) from exc
    except ResourceExhaustedResponse as exc:
        msg = f"{what}: Qdrant has too much to do; wait {exc.retry_after_s} seconds"
        raise StoreUnavailableError(msg) from exc
    except grpc.RpcError as exc:
        raise _of_code(exc, what) from exc
    except (sqlite3.Error, OSError, RuntimeError) as exc:
        raise _of_folder(exc, what) from exc


def _of_status(exc: UnexpectedResponse, what: str) -> StoreError | InvalidInputError:
    status = exc.status_code or 0
    found = f"{what}: Qdrant answered {status} {exc.reason_phrase}"
    if status in {401, 403}:
        return StoreAccessError(f"{found}; check the API key and what it is allowed to do")
    if status == 413:
        return InvalidInputError(f"{found}: the batch is larger than the server accepts; write it in parts")
    if status == 507 or b"No space left" in exc.content:
        return StorageFullError(f"{found}: no space left on the server")
    if status == 404:
        return CollectionGoneError(f"{found}: the collection is gone, and made anew by the next call")
    if status in {408, 409, 429} or status >= 500:
        return StoreUnavailableError(f"{found}; {_RETRY}")
    return StoreError(f"{found}: {exc.content[:200].decode(errors='replace')}")


def _of_code(exc: grpc.RpcError, what: str) -> StoreError:
    code = exc.code() if isinstance(exc, grpc.aio.AioRpcError) else None
    found = f"{what}: Qdrant answered {code.name if code is not None else type(exc).__name__}"
    if code in _ACCESS_CODES:
        return StoreAccessError(f"{found}; check the API key and what it is allowed to do")
    if code == grpc.StatusCode.NOT_FOUND:
        return CollectionGoneError(f"{found}: the collection is gone, and made anew by the next call")
    if code in _BUSY_CODES:
        return StoreUnavailableError(f"{found}; {_RETRY}")
    return StoreError(found)


def _of_folder(exc: sqlite3.Error | OSError | RuntimeError, what: str) -> StoreError:
    text = str(exc)
    if isinstance(exc, RuntimeError):
        if "already accessed" in text:
            return StoreUnavailableError(f"{what}: another process has this folder open; run a Qdrant server instead")
        return StoreError(f"{what}: {text[:200]}")
    if isinstance(exc, OSError):
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            return StorageFullError(f"{what}: no space left in the folder")
        return StoreAccessError(f"{what}: {exc.strerror or type(exc).__name__}; check the folder and its permissions")
    if "full" in text:
        return StorageFullError(f"{what}: no space left in the folder")
    if "malformed" in text or "not a database" in text:
        return CorruptDataError(f"{what}: the folder's file is damaged; restore it from a copy")
    return StoreUnavailableError(f"{what}: {text[:200]}")


_LOCK = ".lock"  # the name qdrant-client gives it


def open_folder(folder: Path) -> AsyncQdrantClient:
    """Open a folder unless somebody else has it open.

    The client asks for the lock itself, but where it is refused it leaves the lock's file open until the garbage is
    collected. So we ask first.

    Raises:
        StoreUnavailableError: Another client, of this process or another, has the folder open.
    """
    lock = folder / _LOCK
    if lock.is_file():
        with lock.open("r+b") as handle:
            try:
                portalocker.lock(handle, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
            except portalocker.exceptions.LockException as exc:
                msg = f"opening {str(folder)!r}: another client has this folder open; run a Qdrant server instead"
                raise StoreUnavailableError(msg) from exc
            portalocker.unlock(handle)
    return AsyncQdrantClient(path=str(folder))


DENSE = "dense"
WORDS = "words"
ReadConsistency: TypeAlias = Literal["majority", "quorum", "all"] | int
_STRONG = models.WriteOrdering.STRONG


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One collection behind one client.

    Attributes:
        client: The client.
        collection: The name of the collection.
        shard_by_space: Whether each memory space has a shard key.
        consistency: How many copies are asked by a read.
        search_params: How a search by vector uses small copies of the vectors; None: there are none.
        spaces: Memory spaces whose shard key is known to be there.
    """

    client: AsyncQdrantClient
    collection: str
    shard_by_space: bool = False
    consistency: models.ReadConsistencyType | int = models.ReadConsistencyType.MAJORITY
    search_params: models.SearchParams | None = None
    spaces: set[str] = field(default_factory=set)

    async def find_payload(self, scope: Scope, point: str) -> Mapping[str, object] | None:
        """Return the payload of a point, None where there is none."""
        if not await self._has_shards(scope):
            return None
        with translated("reading"):
            records = await self.client.retrieve(
                self.collection,
                [point],
                with_payload=True,
                with_vectors=False,
                consistency=self.consistency,
                shard_key_selector=self._shard_key(scope),
            )
        return records[0].payload if records else None

    async def count(self, scope: Scope, wanted: models.Filter) -> int:
        """Count the points that match."""
        if not await self._has_shards(scope):
            return 0
        with translated("counting"):
            result = await self.client.count(
                self.collection, wanted, exact=True, shard_key_selector=self._shard_key(scope)
            )
        return result.count

    async def nearest(
        self,
        scope: Scope,
        query: list[float] | models.SparseVector,
        using: str,
        *,
        wanted: models.Filter,
        limit: int,
        fetch: str | None,
    ) -> list[models.ScoredPoint]:
        """Return the points that match and have the highest product with a vector; `fetch` another vector of each."""
        if not await self._has_shards(scope):
            return []
        with translated("searching"):
            answer = await self.client.query_points(
                self.collection,
                query=query,
                using=using,
                query_filter=wanted,
                search_params=self.search_params if using == DENSE else None,
                limit=limit,
                with_payload=["memory_id", "age"],
                with_vectors=[fetch] if fetch else False,
                consistency=self.consistency,
                shard_key_selector=self._shard_key(scope),
            )
        return answer.points

    async def upsert(self, scope: Scope, points: Sequence[models.PointStruct]) -> None:
        """Write points, over those that have their ids."""
        await self._ensure_shards(scope)
        with translated("writing"):
            result = await self.client.upsert(
                self.collection, points, wait=True, ordering=_STRONG, shard_key_selector=self._shard_key(scope)
            )
        _check_done(result)

    async def delete(self, scope: Scope, wanted: models.Filter | models.PointIdsList) -> None:
        """Remove the points that match, or that have these ids."""
        if not await self._has_shards(scope):
            return
        with translated("deleting"):
            result = await self.client.delete(
                self.collection, wanted, wait=True, ordering=_STRONG, shard_key_selector=self._shard_key(scope)
            )
        _check_done(result)

    def _shard_key(self, scope: Scope) -> str | None:
        return scope.memory_space if self.shard_by_space else None

    async def _has_shards(self, scope: Scope) -> bool:
        """Tell whether the shards of a scope are there; what was never written to has none."""
        if not self.shard_by_space or scope.memory_space in self.spaces:
            return True
        with translated("reading shard keys"):
            answer = await self.client.list_shard_keys(self.collection)
        self.spaces.update(str(item.key) for item in answer.shard_keys or ())
        return scope.memory_space in self.spaces

    async def _ensure_shards(self, scope: Scope) -> None:
        if await self._has_shards(scope):
            return
        try:
            with translated("creating a shard key"):
                await self.client.create_shard_key(self.collection, scope.memory_space)
        except StoreUnavailableError:
            if not await self._has_shards(scope):  # else another process was quicker
                raise
        self.spaces.add(scope.memory_space)


def _check_done(result: models.UpdateResult) -> None:
    """Refuse an answer that promises less than that the write is done."""
    if result.status != models.UpdateStatus.COMPLETED:
        msg = (
            f"writing: Qdrant answered {result.status.value}, so the write may be done later or never; read, then retry"
        )
        raise StoreUnavailableError(msg)
