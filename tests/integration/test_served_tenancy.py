"""Two users of one service, each with a key: whatever one sends, nothing of the other is told, changed or removed.

`REME_TENANCY_CASES` says how many requests are tried; `make served` tries 5,000.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.access import Right
from reme_core.serve.chat.upstream import Upstream
from reme_core.serve.doors import make_served
from reme_core.serve.guard import GuardRules
from reme_core.serve.http.calls import CALLS
from reme_core.serve.http.older_service import OLDER_CALLS
from reme_core.serve.mcp import tools
from reme_core.serve.service import make_service
from reme_core.transfer.scope_transfer import scope_lines
from tests.support.openai_server import KEY, OpenAIServer

CASES = int(os.environ.get("REME_TENANCY_CASES", "200"))
USERS = ("ana", "bob")
SECRETS = {"ana": "ZORBLAX", "bob": "QUIXVEN"}
WORDS = ("pelican", "called", "ana", "bob", "self", "search", "default", "space", "")
KEYS = ("k1", "k2")
TOOLS = [tools.RECALL, tools.REMEMBER, tools.RECORD, tools.GET_MEMORY, tools.REVISE, tools.FORGET, tools.RECENT]
TOOLS += [tools.TASK_LESSONS, tools.STATUS]
ACCEPTED = {"Accept": "application/json, text/event-stream"}


@dataclass
class Tenant:
    """A user: the key, and the ids and cursors that belong to them."""

    name: str
    token: str
    owned: set[str] = field(default_factory=set)
    session: dict[str, str] = field(default_factory=dict)

    @property
    def known(self):
        """Half of the ids and cursors: those that either user may send."""
        return set(sorted(self.owned)[::2])

    @property
    def hidden(self):
        """The other half, which nobody sends."""
        return self.owned - self.known

    @property
    def headers(self):
        return {"Authorization": f"Bearer {self.token}"}


class House:
    """The service with both users in it."""

    def __init__(self, folder):
        home = ReMe("default", folder, llm=None, embedding=None)
        self.service = make_service(home)
        self.model = OpenAIServer().start()
        self.app = make_served(self.service, GuardRules(), Upstream(self.model.base_url, KEY))
        self.client = TestClient(self.app, headers={"Host": "localhost"})
        self.client.__enter__()
        self.tenants = {name: self._settled(name) for name in USERS}

    def run(self, call, *arguments):
        return self.client.portal.call(call, *arguments)

    def _settled(self, name):
        async def add():
            return await self.service.keys.add(make_scope("default", name), ["read", "write"])

        token, _ = self.run(add)
        tenant = Tenant(name, token)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        answer = self.client.post("/mcp", json=rpc("initialize", hello), headers={**tenant.headers, **ACCEPTED})
        tenant.session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        fact = f"The pelican of {name} is called {SECRETS[name]}"
        for path, body in (
            ("memories", {"content": fact}),
            ("memories", {"content": f"{fact}, too", "memory_type": "procedural"}),
            ("memories/batch", {"memories": [{"content": f"{fact} still"}], "run_id": f"run-of-{name}"}),
            ("summary", {"messages": [{"role": "user", "content": fact, "id": f"m-{name}"}] * 1, "session_id": "s"}),
            ("summary", {"messages": [{"role": "user", "content": f"{fact}!"}], "session_id": "s"}),
            ("tools/calls", {"tool_call_results": [{"tool_name": "search", "call_id": f"c-{name}", "output": fact}]}),
            ("tasks/summary", {"trajectories": [{"messages": [["user", fact]], "score": 1}], "task_name": "t"}),
            ("offloads/texts", {"text": fact, "session_id": "s"}),
        ):
            answer = self.client.post(f"/v1/{path}", json=body, headers={**tenant.headers, "Idempotency-Key": "k0"})
            answer = self.client.post(f"/v1/{path}", json=body, headers=tenant.headers)
            assert answer.status_code == 200, answer.text
            tenant.owned |= ids_in(answer.json())
        for path in ("memories", "messages", "blocks", "tools/calls", "offloads", "jobs"):
            answer = self.client.get(f"/v1/{path}", params={"limit": 1}, headers=tenant.headers).json()
            tenant.owned |= {answer["next_cursor"]} - {None, "1"}
        return tenant

    def state(self, name):
        """Return a digest of all that is kept of a user."""

        async def read():
            lines = [line async for line in scope_lines(self.service.memories.store, make_scope("default", name))]
            return hashlib.sha256("\n".join(lines).encode()).hexdigest()

        return self.run(read)


def ids_in(value):
    """Return the ids in an answer."""
    if isinstance(value, dict):
        return {
            text
            for key, item in value.items()
            if key.endswith(("_id", "reference")) and isinstance(item, str)
            for text in [item]
            if len(text) > 8 or "-" in text
        } | {found for item in value.values() for found in ids_in(item)}
    return {found for item in value for found in ids_in(item)} if isinstance(value, list) else set()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = House(tmp_path_factory.mktemp("house"))
    yield house
    house.client.__exit__(None, None, None)
    house.model.stop()


def of_name(name, ids):
    """Return what to try for an argument of this name."""
    words, mixed = st.sampled_from(WORDS), st.sampled_from(ids) | st.sampled_from(WORDS)
    message = st.fixed_dictionaries({"role": st.just("user"), "content": words}, optional={"message_id": mixed})
    known = {
        "memories": st.lists(st.fixed_dictionaries({"content": words}, optional={"memory_id": mixed}), max_size=2),
        "messages": st.lists(message, max_size=2),
        "trajectories": st.lists(
            st.fixed_dictionaries(
                {"messages": st.lists(message, min_size=1, max_size=1), "score": st.just(1.0)},
                optional={"trajectory_id": mixed},
            ),
            max_size=1,
        ),
        "tool_call_results": st.lists(
            st.fixed_dictionaries({"tool_name": words}, optional={"call_id": mixed}), max_size=2
        ),
        "feedback": st.fixed_dictionaries({"memory_ids": st.lists(mixed, max_size=2), "verdict": words}),
        "metadata": st.none() | st.dictionaries(words, words, max_size=1),
        "memory_dicts": st.lists(st.fixed_dictionaries({"memory_id": mixed}), max_size=2),
        "action": st.sampled_from(["delete_ids", "list", "delete", "dump"]),
        "layers": st.none() | st.just(["memory", "summary", "message"]),
        "memory_type": st.sampled_from(["auto", "procedural", "personal"]),
        **dict.fromkeys(("limit", "top_k", "uses", "freq_threshold"), st.integers(1, 500)),
        **dict.fromkeys(("helpful", "utility_threshold", "min_score"), st.floats(0.1, 1)),
        **dict.fromkeys(("memory_ids", "message_ids", "tool_names", "ids"), st.lists(mixed, max_size=3)),
        **dict.fromkeys(("include_shared", "include_superseded", "newest_first", "dry_run"), st.booleans()),
        **dict.fromkeys(("types", "transcript", "about"), st.none()),
        "token_budget": st.integers(1, 500),
        **dict.fromkeys(
            ("start_time", "end_time", "as_of", "valid_from", "valid_to", "since", "until"), st.none() | st.just("2030")
        ),
    }
    return known.get(name, mixed)


@dataclass
class Sent:
    """A request, of whom, and whether it names the other user."""

    actor: str
    other: str
    verb: str
    path: str
    values: dict
    headers: dict
    names_other: bool = False


@st.composite
def requests(draw, house):
    """Make a request of one user with whatever may belong to the other, to one of the doors."""
    actor, other = draw(st.permutations(USERS))
    ids = sorted(house.tenants[other].known | house.tenants[actor].known)
    door = draw(st.sampled_from([call_request, call_request, call_request, older_request, tool_request, chat_request]))
    verb, path, values, headers = door(draw, house, actor, other, ids)
    headers = {**house.tenants[actor].headers, **headers}
    user = draw(st.sampled_from([None, None, None, actor, other]))
    headers |= {} if user is None else {"X-Reme-User": user}
    names_other = user == other or values.get("workspace_id") == other
    return Sent(actor, other, verb, path, values, headers, names_other)


def values_of(draw, form, ids):
    names = [name for name, item in form.model_fields.items() if item.is_required() or draw(st.booleans())]
    return {name: draw(of_name(name, ids)) for name in names if name not in {"limits", "workspace_id"}}


def call_request(draw, house, actor, other, ids):
    call = draw(st.sampled_from([call for call in CALLS if call.right is not Right.ADMIN]))
    values, path = values_of(draw, call.form, ids), call.path
    for name in call.path_names:
        path = path.replace(f"{{{name}}}", quote(str(values.pop(name)) or "x", safe=""))
    headers = {"Idempotency-Key": draw(st.sampled_from(["k0", *KEYS])), "Accept": "text/event-stream"}
    return call.verb, path, values, {name: headers[name] for name in headers if draw(st.booleans())}


def older_request(draw, house, actor, other, ids):
    name = draw(st.sampled_from(sorted(OLDER_CALLS)))
    workspace = draw(st.sampled_from([actor, actor, "default", other]))
    return "POST", f"/{name}", {**values_of(draw, OLDER_CALLS[name].form, ids), "workspace_id": workspace}, {}


def tool_request(draw, house, actor, other, ids):
    tool = draw(st.sampled_from(TOOLS))
    values = values_of(draw, tool.arguments, ids)
    if "messages" in values:
        values["messages"] = [
            {"role": "user", "content": draw(st.sampled_from(WORDS)), "id": draw(st.sampled_from(ids))}
        ]
    session = house.tenants[draw(st.sampled_from([actor, actor, actor, other]))].session
    return "POST", "/mcp", rpc("tools/call", {"name": tool.name, "arguments": values}), {**ACCEPTED, **session}


def chat_request(draw, house, actor, other, ids):
    said = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    messages = [{"role": "user", "content": f"What of the {word}, which is called?"} for word in said]
    headers = {"X-Reme-Session": draw(st.sampled_from(["s", *ids]))} if draw(st.booleans()) else {}
    body = {"model": "m", "messages": messages, "stream": draw(st.booleans())}
    return "POST", "/v1/chat/completions", body, headers


def rpc(method, params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_whatever_one_user_sends_nothing_of_the_other_is_told_or_changed(house):
    statuses: dict[tuple[str, int], int] = {}

    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def send(data):
        sent = data.draw(requests(house))
        before = house.state(sent.other)
        body = sent.values if sent.verb in {"POST", "PATCH"} else None
        query = {name: json.dumps(item) if isinstance(item, dict) else item for name, item in sent.values.items()}
        answer = house.client.request(
            sent.verb, sent.path, headers=sent.headers, json=body, params=query if body is None else None
        )
        key = (sent.path if sent.path in {"/mcp", "/v1/chat/completions"} else "", answer.status_code)
        statuses[key] = statuses.get(key, 0) + 1
        assert answer.status_code < 500, answer.text
        told = answer.text + json.dumps(house.model.bodies)  # what a model is asked is told, too
        house.model.requests.clear()
        assert SECRETS[sent.other] not in told
        assert not [item for item in house.tenants[sent.other].hidden if item in told]
        assert house.state(sent.other) == before
        if sent.names_other:
            assert answer.status_code in {403, 404, 422}

    send()
    for door, share in (("", 16), ("/mcp", 30), ("/v1/chat/completions", 30)):
        assert statuses.get((door, 200), 0) > CASES / share, statuses


def test_what_belongs_to_another_is_as_unknown_as_what_never_was(house):
    ana, bob = house.tenants["ana"], house.tenants["bob"]
    for item in sorted(bob.hidden):
        for path in ("memories/{}", "memories/{}/history", "messages/{}", "blocks/{}"):
            told = house.client.get(f"/v1/{path.format(quote(item, safe=''))}", headers=ana.headers)
            never = house.client.get(f"/v1/{path.format('x' * len(item))}", headers=ana.headers)
            assert told.status_code == never.status_code == 404
            assert told.text.replace(item, "") == never.text.replace("x" * len(item), "")


def test_a_key_that_was_revoked_and_one_with_a_changed_letter_are_refused(house):
    ana = house.tenants["ana"]
    for wrong in (ana.token[:-1], ana.token + "x", ana.token.swapcase(), "reme_"):
        headers = {"Authorization": f"Bearer {wrong}"}
        assert house.client.get("/v1/memories", headers=headers).status_code == 401
    assert house.client.get("/v1/memories").status_code == 401
