"""MCP over streamable HTTP, at `/mcp`.

Whose memory a request touches is told by its own key, in a session, too: a key that is revoked ends at once, and a
session of 2025-11-25 is not found with another key. Requests of 2026-07-28 have no session.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reme_core.serve.access import Principal
from reme_core.serve.guard import MAX_BODY_BYTES
from reme_core.serve.mcp.options import McpOptions
from reme_core.serve.mcp.server import Context, make_server
from reme_core.serve.mcp.wire import RefusalError, read_message
from reme_core.serve.service import Service, principal_of

MCP_PATH = "/mcp"

MAX_SESSIONS = 2_000
"""Windows of agents that are open at once, some 43 KB each; one that is idle for half an hour makes room."""


def mcp_routes(
    service: Service, options: McpOptions | None = None
) -> tuple[list[BaseRoute], AbstractAsyncContextManager[object]]:
    """Return the route, and what runs as long as the application, for `make_app(..., running=...)`.

    The guard around the application looks at Host, Origin and the key, and bounds bodies.
    """
    server = make_server(service, options or McpOptions(), _principal_of)
    manager = StreamableHTTPSessionManager(
        app=server, json_response=True, max_sessions=MAX_SESSIONS, max_request_body_size=MAX_BODY_BYTES
    )
    door = Door(StreamableHTTPASGIApp(manager))
    return [Route(path, door) for path in (MCP_PATH, f"{MCP_PATH}/")], manager.run()


@dataclass(frozen=True, slots=True)
class Door:
    """Tells the SDK whose a session is, and refuses bodies that are no message: the SDK tells its validator's words."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; the guard has bounded its body."""
        scope["user"] = _owner(principal_of(Request(scope)))
        if scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        message = read_message(body)
        if isinstance(message, RefusalError):
            refusal = message.model_dump_json(by_alias=True)
            await Response(refusal, 400, media_type="application/json")(scope, receive, send)
            return
        await self.app(scope, _once_more(body, receive), send)


def _owner(principal: Principal) -> AuthenticatedUser:
    """Return who opens a session, and alone may go on with it."""
    who = json.dumps([principal.key_id, principal.scope.memory_space, principal.scope.user_id])
    return AuthenticatedUser(AccessToken(token="", client_id=who, scopes=[]))


def _once_more(body: bytes, receive: Receive) -> Receive:
    """Return the source of a request whose body was read: the body, then what comes of the client."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return whole.pop() if whole else await receive()

    return replayed


def _principal_of(context: Context) -> Principal:
    assert context.request is not None  # noqa: S101  # the SDK hands on what came over HTTP
    return principal_of(context.request)
