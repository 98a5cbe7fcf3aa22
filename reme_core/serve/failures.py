"""Failures as answers: which error has which status, as problem+json, or in OpenAI's form on OpenAI's paths.

Sources: RFC 9457 (problem details), https://platform.openai.com/docs/guides/error-codes.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping

from pydantic import JsonValue
from pydantic_core import to_jsonable_python
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    DimensionMismatchError,
    EmbeddingModelMismatchError,
    InvalidInputError,
    InvalidLinesError,
    ModelError,
    ModelUnavailableError,
    NotFoundError,
    PartialFailureError,
    ReMeError,
    StorageFullError,
    StoreError,
    StoreUnavailableError,
    UnsupportedFilterError,
)
from reme_core.serve.access import ForbiddenError, UnauthorizedError

_LOG = logging.getLogger("reme.serve")
OPENAI_PATHS = ("/v1/chat/", "/v1/models")
PROBLEM = "application/problem+json"
"""The media type of a failure. Source: RFC 9457, section 3."""


class BodyTooLargeError(InvalidInputError):
    """A request body above the bound."""


class TooSlowError(ReMeError):
    """A request whose body did not come in time."""

    retryable = True


class TooManyRequestsError(ReMeError):
    """More is being asked at once than there is room for."""

    retryable = True


class ForeignOriginError(ReMeError):
    """A Host or Origin header that is not of this service: a page of somebody else may have sent it."""


_STATUS: tuple[tuple[type[ReMeError], int], ...] = (
    (UnauthorizedError, 401),
    (ForbiddenError, 403),
    (ForeignOriginError, 403),
    (TooSlowError, 408),
    (TooManyRequestsError, 503),
    (BodyTooLargeError, 413),
    (InvalidInputError, 422),
    (UnsupportedFilterError, 422),
    (DimensionMismatchError, 422),
    (EmbeddingModelMismatchError, 422),
    (ConfigurationError, 422),
    (NotFoundError, 404),
    (ConflictError, 409),
    (StorageFullError, 507),
    (StoreUnavailableError, 503),
    (ModelUnavailableError, 503),
    (ModelError, 502),
    (PartialFailureError, 502),
)
"""The first class that an error is an instance of decides; any other failure is 500."""

# As `repr` writes it.
_PATH = re.compile(r"""'[^']*[/\\][^']*'|"[^"]*[/\\][^"]*\"""")
_HEADERS: Mapping[int, Mapping[str, str]] = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def failure_response(path: str, error: Exception) -> JSONResponse:
    """Tell a failure to a caller, in the form of the path that was called.

    Errors of ours keep their words; anything else is a bug, whose words may quote what was said: the log has its class,
    and where it happened.
    """
    if isinstance(error, HTTPException):
        return _response(path, None, error.detail, "HTTPError", error.status_code, dict(error.headers or {}))
    status = status_of(error)
    headers = _HEADERS.get(status, {})
    if isinstance(error, ReMeError):
        if status >= 500:
            _LOG.error("%s failed: %s", path, error.message)
        return _response(path, error, told_words(error), type(error).__name__, status, headers)
    log_bug(path, error)
    return _response(path, None, "something went wrong here; the service's log says where", "InternalError", 500, {})


def told_words(error: ReMeError) -> str:
    """Return the words of an error for a caller elsewhere: where the store's file lies is for the log alone."""
    is_of_the_disk = isinstance(error, StoreError) and status_of(error) >= 500
    return _PATH.sub("the store", error.message) if is_of_the_disk else error.message


def log_bug(what: str, error: Exception) -> None:
    """Tell the log of a bug: its class and where it happened, and not its words, which may quote what was said."""
    where = "".join(traceback.format_tb(error.__traceback__))
    _LOG.error("%s failed with %s\n%s", what, type(error).__name__, where)


def _response(
    path: str, error: ReMeError | None, words: str, kind: str, status: int, headers: Mapping[str, str]
) -> JSONResponse:
    if path.startswith(OPENAI_PATHS):
        return JSONResponse(_openai_error(words, kind, status), status, headers=headers)
    problem: dict[str, JsonValue] = {
        "type": f"urn:reme:error:{kind}",
        "title": kind,
        "status": status,
        "detail": words,
        "retryable": error is not None and error.retryable,
        **({} if error is None else _details(error)),
    }
    return JSONResponse(problem, status, headers, PROBLEM)


def _details(error: ReMeError) -> dict[str, JsonValue]:
    """Return what an error knows beside its words, for clients that raise it again."""
    match error:
        case InvalidLinesError():
            return {"lines": [{"line": number, "reason": reason} for number, reason in error.lines]}
        case NotFoundError():
            return {"missing": list(error.missing)}
        case PartialFailureError():
            failures: list[JsonValue] = [
                {"title": type(failure).__name__, "detail": told_words(failure), "retryable": failure.retryable}
                for failure in error.failures
            ]
            return {"done": to_jsonable_python(error.done), "failures": failures}
        case _:
            return {}


def _openai_error(words: str, kind: str, status: int) -> dict[str, JsonValue]:
    family = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    default = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": words, "type": family.get(status, default), "param": None, "code": kind}}
