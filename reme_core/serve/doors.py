"""The doors of a service on one port, and the application that has them all."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from reme_core.serve.chat.door import chat_routes
from reme_core.serve.chat.upstream import Upstream
from reme_core.serve.evolving import evolving
from reme_core.serve.guard import GuardRules
from reme_core.serve.http.routes import http_routes
from reme_core.serve.inspect.door import BrowserSessions, inspect_routes
from reme_core.serve.mcp import mcp_routes
from reme_core.serve.mcp.options import McpOptions, Profile
from reme_core.serve.service import Service, make_app


def make_served(
    service: Service,
    rules: GuardRules,
    upstream: Upstream | None = None,
    *,
    profile: Profile = Profile.DEFAULT,
    browsers: BrowserSessions | None = None,
    inspector_writes: bool = False,
    evolve_every: timedelta | None = None,
) -> Starlette:
    """Return the application with every door: HTTP, MCP, chats and the inspector.

    Args:
        service: What the doors stand on.
        rules: Which requests are let in.
        upstream: The model behind the chat door; None: there is none.
        profile: The tools of MCP.
        browsers: Who is signed in to the inspector.
        inspector_writes: Whether it changes anything.
        evolve_every: How often each user's memories are consolidated; None: only when asked.
    """
    mcp, sessions = mcp_routes(service, McpOptions(profile=profile, read_only=rules.read_only))
    routes: list[BaseRoute] = [*http_routes(service), *mcp, *chat_routes(service, upstream)]
    writes = inspector_writes and not rules.read_only
    routes += inspect_routes(service, browsers or BrowserSessions(), write=writes)
    running: list[AbstractAsyncContextManager[object]] = [sessions, *([] if upstream is None else [upstream])]
    if evolve_every is not None:
        running.append(evolving(service.memories, evolve_every))
    return make_app(service, rules, routes, running)
