"""Two users of one service over MCP: whatever one of them calls with, nothing of the other is told or changed."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.guard import GuardRules
from reme_core.serve.mcp import mcp_routes
from reme_core.serve.service import make_app, make_service

MARK = "zqxsecret"
"""Stands in every text of Bob's, and in nothing that Eve is given."""

ACCEPTED = {"Accept": "application/json, text/event-stream", "Host": "localhost:2334"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "eve", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class House:
    """The service with both users' keys, and everything of Bob's that Eve may have got hold of."""

    client: TestClient
    eve: str
    bob: str
    ids: list[str]
    sessions: dict[str, str]
    before: object

    def ask(self, token: str, method: str, params: dict[str, object], headers: dict[str, str], *, is_modern: bool):
        sent = {"Authorization": f"Bearer {token}"}
        if not is_modern and token in self.sessions:
            sent["mcp-session-id"] = self.sessions[token]
        sent |= headers
        if is_modern:
            name = params.get("name") or params.get("uri")
            sent |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
            sent |= {"mcp-name": str(name)} if name else {}
            params = {**params, "_meta": META}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.client.post("/mcp", json=body, headers=sent)

    def seen(self) -> object:
        """Return all that Bob sees."""
        answers = [
            self.ask(self.bob, "tools/call", {"name": name, "arguments": given}, {}, is_modern=False).json()
            for name, given in (("recent", {"limit": 200}), ("status", {}), ("recall", {"query": MARK}))
        ]
        return json.loads(json.dumps(answers))


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    service = make_service(ReMe("space", tmp_path_factory.mktemp("house"), llm=None, embedding=None))
    routes, running = mcp_routes(service)
    with TestClient(make_app(service, GuardRules(), routes, [running]), headers=ACCEPTED) as client:
        assert client.portal is not None

        async def move_in() -> tuple[str, str, list[str]]:
            memory = await service.memories.of("space")
            kept = await memory.summary([("user", f"{MARK} said")], user_id="bob", session_id="session-of-bob")
            first = await memory.add_memory(f"{MARK} fact", user_id="bob", memory_target="target-of-bob")
            second = await memory.supersede_memory(first.memory_id, f"{MARK} newer fact", user_id="bob")
            await memory.add_memory(f"{MARK} lesson", user_id="bob", memory_type="procedural", memory_target="deploy")
            await memory.add_memory("Eve's own", user_id="eve")
            page = await memory.list_memories(user_id="bob", limit=1)
            keys = [await service.keys.add(make_scope("space", name), ["read", "write"]) for name in ("eve", "bob")]
            ids = [*kept.message_ids, *kept.block_ids, first.memory_id, second.memory_id, "session-of-bob", "bob"]
            return keys[0][0], keys[1][0], [*ids, "target-of-bob", str(page.next_cursor), keys[1][1].key_id]

        eve, bob, ids = client.portal.call(move_in)
        made = House(client, eve, bob, ids, {}, None)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        for token in (eve, bob):
            answer = made.ask(token, "initialize", hello, {}, is_modern=False)
            made.sessions[token] = answer.headers["mcp-session-id"]
        ids.append(made.sessions[bob])
        made.before = made.seen()
        assert MARK in json.dumps(made.before)
        yield made
        assert made.seen() == made.before, "Bob's memory is not as it was"


TOOLS = {
    "recall": ("query", "types", "since", "as_of"),
    "remember": ("content", "about"),
    "record": ("session", "transcript", "messages"),
    "get_memory": ("id",),
    "revise": ("id", "content"),
    "forget": ("ids", "dry_run"),
    "recent": ("since", "limit"),
    "task_lessons": ("task",),
    "status": (),
}
SCOPES = ("user_id", "user", "space", "memory_space", "workspace_id", "scope", "cursor", "session_id")


def arguments(draw, house: House, tool: str) -> dict[str, object]:
    """Return arguments with ids of Bob's wherever one may stand, and scopes where none may."""
    words = st.sampled_from([*house.ids, "fact", "said", "lesson", "*", "%", "' OR 1=1 --", "2020-01-01"])
    own = {
        "ids": st.lists(words, min_size=1, max_size=3),
        "dry_run": st.booleans(),
        "limit": st.integers(1, 200),
        "types": st.lists(st.sampled_from(["personal", "history", "procedural"]), min_size=1),
        "messages": st.lists(
            st.fixed_dictionaries({"role": st.just("user"), "content": words}, optional={"id": words, "name": words}),
            min_size=1,
            max_size=2,
        ),
    }
    given = {name: draw(own.get(name, words)) for name in TOOLS[tool] if draw(st.integers(0, 3))}
    if not draw(st.integers(0, 3)):
        given[draw(st.sampled_from(SCOPES))] = draw(words)
    return given


def cross(house: House, data: st.DataObject) -> None:
    """Send one call of Eve's, and check that nothing of Bob's is told."""
    draw = data.draw
    headers = draw(
        st.dictionaries(
            st.sampled_from(["X-Reme-User", "X-Reme-Space", "X-Reme-Session", "mcp-session-id", "X-Forwarded-User"]),
            st.sampled_from(["bob", *house.ids]),
            max_size=2,
        )
    )
    is_modern = draw(st.booleans())
    tool = draw(st.sampled_from(sorted(TOOLS)))
    uri = f"reme://{draw(st.sampled_from(['memory', 'session', 'profile', 'user']))}/{draw(st.sampled_from(house.ids))}"
    method, params = draw(
        st.sampled_from(
            [
                ("tools/call", {"name": tool, "arguments": arguments(draw, house, tool)}),
                ("resources/read", {"uri": uri}),
                ("prompts/get", {"name": "recall", "arguments": {"query": draw(st.sampled_from(house.ids))}}),
                ("prompts/get", {"name": "handover", "arguments": {}}),
                ("resources/list", {"cursor": draw(st.sampled_from(house.ids))}),
            ]
        )
    )
    answer = house.ask(house.eve, method, params, headers, is_modern=is_modern)
    assert answer.status_code < 500
    assert MARK not in answer.text
    assert not (answer.status_code == 200 and "X-Reme-User" in headers), "Eve's key names no other user"


SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@settings(SLOW, max_examples=150)
@given(st.data())
def test_no_call_of_one_user_tells_or_changes_anything_of_another(house, data):
    """The fixture compares at its end what Bob sees."""
    cross(house, data)


@pytest.mark.torture
@pytest.mark.timeout(600)
@settings(SLOW, max_examples=2500)
@given(st.data())
def test_no_call_of_one_user_tells_or_changes_anything_of_another_however_many(house, data):
    cross(house, data)
