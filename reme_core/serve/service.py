"""The service: one application with all its doors, which opens the memories at its start and closes them at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive

from reme_core.facade.reme import ReMe
from reme_core.serve.access import AccessKeys, Principal
from reme_core.serve.failures import failure_response
from reme_core.serve.guard import Guard, GuardRules
from reme_core.serve.memories import Memories


@dataclass(frozen=True, slots=True)
class Service:
    """What the doors stand on.

    Attributes:
        memories: The memory of each space.
        keys: Who may call.
    """

    memories: Memories
    keys: AccessKeys

    async def memory_of(self, principal: Principal) -> ReMe:
        """Return the memory of the caller's space; every call to it names `principal.scope.user_id`."""
        return await self.memories.of(principal.scope.memory_space)


def make_service(home: ReMe) -> Service:
    """Return the service of a memory, whose store and models its other spaces share."""
    memories = Memories(home)
    return Service(memories, AccessKeys(memories.store, memories.clock))


def principal_of(request: Request) -> Principal:
    """Return who calls, as the guard has found out."""
    principal = request.state.principal
    assert isinstance(principal, Principal)  # noqa: S101  # the guard is around every route
    return principal


async def until_gone(receive: Receive) -> None:
    """Wait until the caller leaves; the body was read before."""
    while (await receive())["type"] != "http.disconnect":
        continue


def make_app(
    service: Service,
    rules: GuardRules,
    routes: Sequence[BaseRoute],
    running: Sequence[AbstractAsyncContextManager[object]] = (),
) -> Starlette:
    """Return the ASGI application of these routes behind the guard.

    Args:
        service: What the routes stand on; its memories are open while the application is.
        rules: Which requests are let in.
        routes: Those of all doors.
        running: What else runs as long as the application, such as MCP's sessions.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(service.memories)
            for part in running:
                await stack.enter_async_context(part)
            yield

    async def failed(request: Request, error: Exception) -> Response:
        return failure_response(request.url.path, error)

    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(rules.origins),
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["*"],
    )
    app = Starlette(
        routes=list(routes),
        middleware=[*([cors] if rules.origins else []), Middleware(Guard, keys=service.keys, rules=rules)],
        lifespan=lifespan,
        exception_handlers={HTTPException: failed},  # the guard tells the others
    )
    app.router.redirect_slashes = False  # behind a proxy, to http:// with the key
    return app
