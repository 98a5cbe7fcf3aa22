"""A service on a file of its own, and the SDK's client connected to it in memory, in both protocol eras."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from mcp.client.client import Client

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.access import DEFAULT_RIGHTS, Principal, Right
from reme_core.serve.mcp import McpOptions, make_server
from reme_core.serve.service import Service, make_service

ERAS = ("legacy", "2026-07-28")
"""As the SDK's client names them: the handshake of 2025-11-25, and requests that stand alone."""

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    service = make_service(ReMe("space", tmp_path, llm=None, embedding=None))
    async with service.memories:
        yield service


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def principal(user_id: str = "ana", rights: frozenset[Right] = DEFAULT_RIGHTS, space: str = "space") -> Principal:
    return Principal(scope=make_scope(space, user_id), rights=rights)


@asynccontextmanager
async def client_of(
    service: Service, caller: Principal | None = None, era: str = "legacy", **options: object
) -> AsyncIterator[Client]:
    """Connect a client whose requests are this caller's."""
    who = caller or principal()
    server = make_server(service, McpOptions(**options), lambda _: who)
    async with Client(server, mode=era) as client:
        yield client


@pytest.fixture
def connect(service: Service, era: str) -> Connect:
    def connect(caller: Principal | None = None, **options: object) -> AbstractAsyncContextManager[Client]:
        return client_of(service, caller, era, **options)

    return connect
