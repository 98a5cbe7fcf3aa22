"""Failures as answers: which error has which status, as problem+json, or in OpenAI's form on OpenAI's paths.

Sources: RFC 9457 (problem details), https://platform.openai.com/docs/guides/error-codes.
"""

from __future__ import annotations

import logging

from pydantic import JsonValue
from starlette.responses import JSONResponse

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    DimensionMismatchError,
    InvalidInputError,
    InvalidLinesError,
    ModelError,
    ModelUnavailableError,
    NotFoundError,
    PartialFailureError,
    ReMeError,
    StorageFullError,
    StoreUnavailableError,
    UnsupportedFilterError,
)
from reme_core.serve.access import ForbiddenError, UnauthorizedError

_LOG = logging.getLogger("reme.serve")
OPENAI_PATHS = ("/v1/chat/", "/v1/models")


class BodyTooLargeError(InvalidInputError):
    """A request body above the bound."""


class ForeignOriginError(ReMeError):
    """A Host or Origin header that is not of this service: a page of somebody else may have sent it."""


_STATUS: tuple[tuple[type[ReMeError], int], ...] = (
    (UnauthorizedError, 401),
    (ForbiddenError, 403),
    (ForeignOriginError, 403),
    (BodyTooLargeError, 413),
    (InvalidInputError, 422),
    (UnsupportedFilterError, 422),
    (DimensionMismatchError, 422),
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


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def failure_response(path: str, error: Exception) -> JSONResponse:
    """Tell a failure to a caller, in the form of the path that was called.

    Errors of ours keep their words; anything else is a bug, whose words may quote what was said: they go to the log by
    their class alone.
    """
    status = status_of(error)
    if isinstance(error, ReMeError):
        kind, words = type(error).__name__, error.message
    else:
        kind, words = "InternalError", "something went wrong here; the service's log says where"
        _LOG.error("%s failed with %s", path, type(error).__name__, exc_info=error)
    headers = _headers(status)
    if path.startswith(OPENAI_PATHS):
        return JSONResponse(_openai_error(words, kind, status), status, headers=headers)
    return JSONResponse(_problem(error, words, kind, status), status, headers, "application/problem+json")


def _headers(status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": "1"} if status == 503 else {}


def _problem(error: Exception, words: str, kind: str, status: int) -> dict[str, JsonValue]:
    problem: dict[str, JsonValue] = {
        "type": f"urn:reme:error:{kind}",
        "title": kind,
        "status": status,
        "detail": words,
        "retryable": isinstance(error, ReMeError) and error.retryable,
    }
    if isinstance(error, InvalidLinesError):
        problem["lines"] = [{"line": number, "reason": reason} for number, reason in error.lines]
    return problem


def _openai_error(words: str, kind: str, status: int) -> dict[str, JsonValue]:
    family = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    default = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": words, "type": family.get(status, default), "param": None, "code": kind}}
