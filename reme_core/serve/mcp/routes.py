"""MCP over streamable HTTP, at `/mcp`.

Without sessions: each request stands alone and says by its key who sends it, so that nothing is kept of a client, a key
that is revoked ends at once, and a server that starts again is the same to its clients.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.routing import BaseRoute, Route

from reme_core.serve.access import Principal
from reme_core.serve.guard import MAX_BODY_BYTES
from reme_core.serve.mcp.options import McpOptions
from reme_core.serve.mcp.server import Context, make_server
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
    return [Route(MCP_PATH, StreamableHTTPASGIApp(manager))], manager.run()


def _principal_of(context: Context) -> Principal:
    assert context.request is not None  # noqa: S101  # the SDK hands on what came over HTTP
    return principal_of(context.request)
