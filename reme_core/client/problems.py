"""Errors of a service, raised again as what they were there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from reme_core.errors import (
    ConflictError,
    InvalidInputError,
    ModelError,
    NotFoundError,
    ReMeError,
    StoreUnavailableError,
    rebuild_error,
)
from reme_core.serve.access import ForbiddenError, UnauthorizedError

_BY_STATUS: Mapping[int, type[ReMeError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidInputError,
    422: InvalidInputError,
    502: ModelError,
    503: StoreUnavailableError,
}
"""Of failures that are told in a form of somebody else's, a proxy's say."""
_PROBLEM = TypeAdapter(dict[str, JsonValue])


def error_of(status: int, body: bytes, answer: TypeAdapter[Any]) -> ReMeError:
    """Return the error that an answer tells; `answer`: the form of what was done before the rest failed."""
    try:
        problem = _PROBLEM.validate_json(body)
    except ValidationError:
        problem = {}
    detail = problem.get("detail")
    message = detail if isinstance(detail, str) else f"the service answers with the status {status}"
    kind = _kinds().get(str(problem.get("title")), _BY_STATUS.get(status, ReMeError))
    return rebuild_error(kind, message, {"message": message, **_attributes(problem, answer)})


def _attributes(problem: Mapping[str, JsonValue], answer: TypeAdapter[Any]) -> dict[str, object]:
    """Read what an error knows beside its words."""
    found: dict[str, object] = {}
    if isinstance(missing := problem.get("missing"), list):
        found["missing"] = tuple(str(item) for item in missing)
    if isinstance(lines := problem.get("lines"), list):
        found["lines"] = tuple((item["line"], item["reason"]) for item in lines if isinstance(item, dict))
    if isinstance(failures := problem.get("failures"), list):
        found["failures"] = tuple(_failure(item) for item in failures if isinstance(item, dict))
        found["done"] = answer.validate_python(problem.get("done"))
    return found


def _failure(told: Mapping[str, JsonValue]) -> ReMeError:
    kind, message = _kinds().get(str(told.get("title")), ReMeError), str(told.get("detail"))
    return rebuild_error(kind, message, {"message": message})


def _kinds() -> dict[str, type[ReMeError]]:
    return {kind.__name__: kind for kind in _below(ReMeError)}


def _below(kind: type[ReMeError]) -> Iterator[type[ReMeError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)
