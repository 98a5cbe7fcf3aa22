"""MCP over streamable HTTP, at `/mcp`.

Without sessions: each request stands alone and says by its key who sends it, so that nothing is kept of a client, a key
that is revoked ends at once, and a server that starts again is the same to its clients.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

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


def mcp_routes(
    service: Service, options: McpOptions | None = None
) -> tuple[list[BaseRoute], AbstractAsyncContextManager[object]]:
    """Return the route, and what runs as long as the application, for `make_app(..., running=...)`.

    The guard around the application looks at Host, Origin and the key, and bounds bodies.
    """
    server = make_server(service, options or McpOptions(), _principal_of)
    manager = StreamableHTTPSessionManager(
        app=server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
    )
    return [Route(MCP_PATH, MessagesOnly(StreamableHTTPASGIApp(manager)))], manager.run()


@dataclass(frozen=True, slots=True)
class MessagesOnly:
    """Refuses bodies that are no message in our words: the SDK would tell those of its validator."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; the guard has bounded its body."""
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


def _once_more(body: bytes, receive: Receive) -> Receive:
    """Return the source of a request whose body was read: the body, then what comes of the client."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return whole.pop() if whole else await receive()

    return replayed


def _principal_of(context: Context) -> Principal:
    assert context.request is not None  # noqa: S101  # the SDK hands on what came over HTTP
    return principal_of(context.request)
