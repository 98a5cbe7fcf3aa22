"""Errors of Qdrant and its client, mapped to ours."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import grpc  # type: ignore[import-untyped]
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
    if status in {408, 409, 429} or status >= 500:
        return StoreUnavailableError(f"{found}; {_RETRY}")
    return StoreError(f"{found}: {exc.content[:200].decode(errors='replace')}")


def _of_code(exc: grpc.RpcError, what: str) -> StoreError:
    code = exc.code() if isinstance(exc, grpc.aio.AioRpcError) else None
    found = f"{what}: Qdrant answered {code.name if code is not None else type(exc).__name__}"
    if code in _ACCESS_CODES:
        return StoreAccessError(f"{found}; check the API key and what it is allowed to do")
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
