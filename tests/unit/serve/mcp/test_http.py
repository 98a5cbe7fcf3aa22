"""MCP over HTTP: the SDK's client against the application as it is served, keys and the guard included."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.testclient import TestClient

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.doors import make_served
from reme_core.serve.guard import GuardRules
from reme_core.serve.mcp import Profile, mcp_routes
from reme_core.serve.service import Service, make_app, make_service
from tests.unit.serve.mcp.conftest import principal

URL = "http://localhost:2334/mcp"
ACCEPTED = {"Accept": "application/json, text/event-stream", "Host": "localhost:2334"}


@pytest.fixture
def service(tmp_path):
    return make_service(ReMe("space", tmp_path, llm=None, embedding=None))


def app_of(service: Service, **rules):
    routes, running = mcp_routes(service)
    return make_app(service, GuardRules(**rules), routes, [running])


@asynccontextmanager
async def served(app) -> AsyncIterator[httpx2.ASGITransport]:
    """Run the application, its lifespan in a task of its own, as servers do."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.router.lifespan_context(app):
            begun.set()
            await over.wait()

    life = asyncio.create_task(live())
    await begun.wait()
    try:
        yield httpx2.ASGITransport(app=app)
    finally:
        over.set()
        await life


@asynccontextmanager
async def client_of(transport, era: str, **headers: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(transport=transport, headers=headers) as http,
        Client(streamable_http_client(URL, http_client=http), mode=era) as client,
    ):
        yield client


def call(tool: str, arguments: object, own_id: object = 1) -> dict[str, object]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": own_id, "method": "tools/call", "params": params}


async def test_a_client_with_a_key_reaches_its_users_memory_and_no_other(service, era):
    async with served(app_of(service)) as transport:
        ana, _ = await service.keys.add(make_scope("space", "ana"), ["read", "write"])
        bob, _ = await service.keys.add(make_scope("space", "bob"), ["read"])
        async with client_of(transport, era, authorization=f"Bearer {ana}") as client:
            kept = await client.call_tool("remember", {"content": "Ana likes tea. 茶 😀"})
            found = await client.call_tool("recall", {"query": "tea"})
            assert "Ana likes tea. 茶 😀" in found.structured_content["text"]
        async with client_of(transport, era, authorization=f"Bearer {bob}") as client:
            assert len((await client.list_tools()).tools) == 5
            assert (await client.call_tool("recall", {"query": "tea"})).structured_content["results"] == []
            other = await client.call_tool("get_memory", {"id": kept.structured_content["id"]})
            assert other.is_error
            assert "no memory" in other.content[0].text


async def test_a_revoked_key_ends_at_the_next_call(service, era):
    async with served(app_of(service)) as transport:
        token, key = await service.keys.add(make_scope("space", "ana"), ["read", "write"])
        async with client_of(transport, era, authorization=f"Bearer {token}") as client:
            assert not (await client.call_tool("status", {})).is_error
            await service.keys.revoke(key.key_id)
            with pytest.raises(Exception, match=r"401|error"):
                await client.call_tool("status", {})


async def test_a_user_may_be_named_by_header_where_the_key_says_so_alone(service):
    async with served(app_of(service)) as transport:
        token, _ = await service.keys.add(make_scope("space", "proxy"), ["read", "write", "act_as"])
        headers = {"authorization": f"Bearer {token}"}
        async with client_of(transport, "legacy", **headers, **{"x-reme-user": "ana"}) as client:
            await client.call_tool("remember", {"content": "Ana likes tea."})
        async with client_of(transport, "legacy", **headers) as client:
            assert (await client.call_tool("status", {})).structured_content["memories"] == 0
        memory = await service.memories.of("space")
        assert (await memory.stats(user_id="ana")).memories == 1


async def test_clients_at_once_each_get_their_own_answers(service, era):
    async with served(app_of(service)) as transport:
        tokens = [(await service.keys.add(make_scope("space", f"user {n}"), ["read", "write"]))[0] for n in range(5)]

        async def live(number: int) -> list[str]:
            async with client_of(transport, era, authorization=f"Bearer {tokens[number]}") as client:
                for step in range(3):
                    await client.call_tool("remember", {"content": f"pelican {number} {step}"})
                found = await client.call_tool("recall", {"query": "pelican"})
                return [line for line in found.structured_content["text"].splitlines() if "pelican" in line]

        for number, lines in enumerate(await asyncio.gather(*map(live, range(5)))):
            assert len(lines) == 3
            assert all(f"pelican {number} " in line for line in lines)


def test_without_a_key_nothing_is_told(service):
    with TestClient(app_of(service), headers=ACCEPTED) as client:
        assert client.post("/mcp", json=call("status", {})).status_code == 401


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
def test_a_foreign_page_is_refused(service, headers):
    with TestClient(app_of(service, anonymous=principal()), headers=ACCEPTED) as client:
        assert client.post("/mcp", json=call("status", {}), headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"no JSON", 400),
        (b"[]", 400),
        (b"1", 400),
        (b"\xff\xfe", 400),
        (b'{"jsonrpc": "2.0", "id": 1}', 400),
        (b"[" * 100_000, 400),
    ],
)
def test_a_body_that_is_no_message_is_refused_without_a_traceback(service, body, status):
    with TestClient(app_of(service, anonymous=principal()), headers=ACCEPTED) as client:
        for version in ({}, {"mcp-protocol-version": "2026-07-28"}):
            answer = client.post("/mcp", content=body, headers={"content-type": "application/json", **version})
            assert answer.status_code == status
            for word in ("Traceback", "pydantic", "File "):
                assert word not in answer.text
        session = {"mcp-session-id": hello(client).headers["mcp-session-id"]}
        assert client.post("/mcp", json=call("status", {}), headers=session).json()["result"]["isError"] is False


def test_half_of_a_broken_emoji_is_answered(service):
    body = json.dumps(call("recall", {"query": "\ud83d"}, 7))
    with TestClient(app_of(service, anonymous=principal()), headers=ACCEPTED) as client:
        answer = client.post("/mcp", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["id"] == 7
        assert "broken character" in answer.json()["error"]["message"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_body_above_the_bound_is_refused(service, is_streamed):
    with TestClient(app_of(service, anonymous=principal(), max_body_bytes=1000), headers=ACCEPTED) as client:
        body = iter([b"x" * 600] * 3) if is_streamed else b"x" * 1800
        answer = client.post("/mcp", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 413


def hello(client, **headers):
    """Open a session as clients of 2025-11-25 do, and return the answer."""
    own = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": own}
    return client.post("/mcp", json=body, headers=headers)


def test_the_address_is_served_without_a_redirect(service):
    with TestClient(app_of(service, anonymous=principal()), headers=ACCEPTED, follow_redirects=False) as client:
        answer = hello(client)
        assert answer.status_code == 200
        assert answer.json()["result"]["serverInfo"]["name"] == "reme"


def test_a_session_is_not_found_with_another_key(service):
    with TestClient(app_of(service), headers=ACCEPTED) as client:
        assert client.portal is not None
        scopes = [make_scope("space", name) for name in ("ana", "bob")]
        ana, bob = (
            {"Authorization": f"Bearer {client.portal.call(service.keys.add, scope, ['read', 'write'])[0]}"}
            for scope in scopes
        )
        session = {"mcp-session-id": hello(client, **ana).headers["mcp-session-id"]}
        assert client.post("/mcp", json=call("status", {}), headers={**ana, **session}).status_code == 200
        for method in ("post", "delete"):
            body = {"json": call("status", {})} if method == "post" else {}
            answer = getattr(client, method)("/mcp", headers={**bob, **session}, **body)
            assert answer.status_code == 404
        assert client.post("/mcp", json=call("status", {}), headers={**ana, **session}).status_code == 200


def test_only_so_many_sessions_are_kept(service, monkeypatch):
    monkeypatch.setattr("reme_core.serve.mcp.routes.MAX_SESSIONS", 3)
    with TestClient(app_of(service, anonymous=principal()), headers=ACCEPTED) as client:
        assert [hello(client).status_code for _ in range(5)] == [200, 200, 200, 503, 503]


def test_the_two_tools_of_connectors_are_served_where_the_service_says_so(service):
    app = make_served(service, GuardRules(anonymous=principal()), profile=Profile.CHATGPT)
    with TestClient(app, headers=ACCEPTED) as client:
        session = {"mcp-session-id": hello(client).headers["mcp-session-id"]}
        listed = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=session).json()
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["search", "fetch"]


def test_a_slash_at_the_end_is_no_redirect_which_would_take_the_key_elsewhere(service):
    with TestClient(app_of(service, anonymous=principal())) as client:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answers = [client.post(f"/mcp{end}", json=ping, headers=ACCEPTED, follow_redirects=False) for end in ("", "/")]
    assert answers[0].status_code == answers[1].status_code < 500
    assert answers[1].headers.get("location") is None
    assert answers[1].json() == answers[0].json()
