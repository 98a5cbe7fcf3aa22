"""Routes of the HTTP door: reading a request, doing what it asks for its caller, and answering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from reme_core.errors import InvalidInputError, PartialFailureError
from reme_core.facade.reme import ReMe
from reme_core.serve.access import Right
from reme_core.serve.blob_response import send_blob
from reme_core.serve.failures import failure_response
from reme_core.serve.http.calls import CALLS, Call
from reme_core.serve.http.event_stream import EventStream, wants_events
from reme_core.serve.http.export import export
from reme_core.serve.http.forms import read_body, read_query
from reme_core.serve.http.health import health_routes
from reme_core.serve.http.kept_answers import KeptAnswers
from reme_core.serve.http.older_service import older_routes
from reme_core.serve.http.openapi import openapi_route
from reme_core.serve.service import Service, principal_of


def http_routes(service: Service) -> list[BaseRoute]:
    """Return all routes of this door."""
    kept = KeptAnswers(service.memories.store, service.memories.clock)
    paths = groupby(sorted(CALLS, key=_order), key=lambda call: call.path)
    return [
        *(_route(path, _Path(service, kept, {call.verb: call for call in calls})) for path, calls in paths),
        Route("/v1/blobs/{ref}/data", partial(send_blob, service)),
        Route("/v1/export", partial(export, service)),
        *older_routes(service),
        *health_routes(service),
        openapi_route(),
    ]


def _route(path: str, app: _Path) -> BaseRoute:
    return _PathRoute(path, app, methods=list(app.calls))


def _order(call: Call) -> tuple[bool, int, str]:
    """Sort paths so that one without an argument is tried before one that an argument makes match."""
    return bool(call.path_names), -call.path.count("/"), call.path


@dataclass(frozen=True, slots=True)
class _Path:
    """ASGI application of one path: its calls by HTTP method."""

    service: Service
    kept: KeptAnswers
    calls: Mapping[str, Call]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        call = self.calls["GET" if request.method == "HEAD" else request.method]
        principal = principal_of(request)
        principal.require(call.right)
        body = await request.body()
        arguments = _read(call, request, body)
        if arguments.get(call.admin_flag) is True:
            principal.require(Right.ADMIN)
        memory = await self.service.memory_of(principal)

        async def work() -> Response:
            return await _answered(call, memory, principal.scope.user_id, arguments)

        async def once() -> Response:
            key = request.headers.get("idempotency-key")
            if key is None or not call.is_kept or call.right is Right.READ:
                return await work()
            told = b"\0".join((call.verb.encode(), _target(scope), body))
            return await self.kept.once(principal, key, told, work)

        if call.is_long and wants_events(request):
            await EventStream(scope["path"], once)(scope, receive, send)
        else:
            await (await once())(scope, receive, send)


def _read(call: Call, request: Request, body: bytes) -> dict[str, Any]:
    path = {name: unquote(value) for name, value in request.path_params.items()}
    if not call.has_body:
        return read_query(call.form, request.query_params.multi_items(), path)
    if request.query_params:
        msg = f"query.{next(iter(request.query_params))}: this call takes its arguments in its body"
        raise InvalidInputError(msg)
    return read_body(call.form, body, path)


async def _answered(call: Call, memory: ReMe, user_id: str, arguments: Mapping[str, Any]) -> Response:
    """Do what is asked; what was kept before the rest failed is an answer, and not to be done again."""
    try:
        value = await call.run(memory, user_id, arguments)
    except PartialFailureError as exc:
        return failure_response(call.path, exc)
    if value is None:
        return Response(status_code=204)
    # A store makes lists where a model says tuples: the same JSON.
    return Response(call.answer.dump_json(value, warnings=False), media_type="application/json")


def _target(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query


class _PathRoute(Route):
    """A route that is matched before the path is unquoted: an id may hold any character, `%2F` too."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether a request is for this path."""
        raw = scope.get("raw_path")
        return super().matches(scope if raw is None else {**scope, "path": raw.decode("latin-1")})
