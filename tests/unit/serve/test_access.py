"""Keys and the guard: who is let in, as whom, and what is refused before anything is touched."""

from __future__ import annotations

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.schema import make_scope
from reme_core.serve.access import ForbiddenError, KeyNotFoundError, Principal, Right, UnauthorizedError
from reme_core.serve.guard import GuardRules
from reme_core.serve.service import make_app, make_service, principal_of

LOCAL = {"Host": "localhost:2334"}


@pytest.fixture
def service(tmp_path):
    return make_service(ReMe("space", tmp_path, llm=None, embedding=None))


async def whoami(request):
    principal = principal_of(request)
    return JSONResponse([principal.scope.memory_space, principal.scope.user_id])


async def takes(request):
    return JSONResponse(len(await request.body()))


def client_of(service, **rules):
    routes = [Route("/whoami", whoami), Route("/takes", takes, methods=["POST"])]
    return TestClient(make_app(service, GuardRules(**rules), routes), headers=LOCAL)


async def test_a_key_is_found_by_its_token_alone_and_revoked_by_its_id(service):
    async with service.memories:
        token, key = await service.keys.add(make_scope("space", "alice"), ["read"], note="laptop")
        assert (await service.keys.find(token)).scope == make_scope("space", "alice")
        assert await service.keys.list() == [key]
        stored = await service.memories.store.get_items("space", _all_of("space"))
        assert token not in str(stored)
        for wrong in ("", token[:-1], key.key_id, "reme_\udce9"):
            with pytest.raises(UnauthorizedError):
                await service.keys.find(wrong)
        await service.keys.revoke(key.key_id)
        with pytest.raises(UnauthorizedError):
            await service.keys.find(token)
        with pytest.raises(KeyNotFoundError, match="reme keys list"):
            await service.keys.revoke(key.key_id)


def _all_of(space):
    from datetime import UTC, datetime

    from reme_core.ports import GetItems, ItemAddress

    return GetItems(addresses=[ItemAddress(namespace=(space,), key="x")], at=datetime.now(UTC))


async def test_the_shared_scope_has_no_key(service):
    async with service.memories:
        with pytest.raises(InvalidInputError, match="name the user"):
            await service.keys.add(make_scope("space", shared=True), ["read"])
        with pytest.raises(InvalidInputError, match="rights"):
            await service.keys.add(make_scope("space", "alice"), ["all"])


async def test_erasing_a_user_revokes_the_users_keys(service):
    async with service.memories:
        token, _ = await service.keys.add(make_scope("space", "alice"), ["read"])
        other, _ = await service.keys.add(make_scope("space", "bob"), ["read"])
        memory = await service.memories.of("space")
        await memory.delete_all_memories(user_id="alice")
        with pytest.raises(UnauthorizedError):
            await service.keys.find(token)
        assert (await service.keys.find(other)).scope.user_id == "bob"


def test_only_a_key_with_act_as_names_another_user():
    plain = Principal(scope=make_scope("space", "alice"))
    with pytest.raises(ForbiddenError):
        plain.act_as("bob")
    proxy = Principal(scope=make_scope("space", "proxy"), rights=frozenset({Right.ACT_AS}))
    assert proxy.act_as("bob").scope == make_scope("space", "bob")
    with pytest.raises(ForbiddenError):
        proxy.require(Right.WRITE)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer reme_wrong"}, 401),
        ({"Authorization": "Bearer sk-upstream"}, 401),
        ({"Authorization": "Basic YTpi"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost:2334", "Origin": "https://evil.example"}, 403),
        ({"Host": "localhost:2334", "Origin": "http://[::1"}, 403),
        ({"Host": "localhost:2334", "Origin": "null"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "evil.example@localhost"}, 403),
    ],
)
def test_a_stranger_is_refused_in_the_form_of_the_path(service, headers, status):
    with client_of(service) as client:
        answer = client.get("/whoami", headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
        answer = client.get("/v1/models", headers=headers)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "name",
    ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP"],
)
def test_what_a_proxy_passes_on_needs_a_key(service, name):
    with client_of(service, anonymous=Principal(scope=make_scope("space", "me"))) as client:
        assert client.get("/whoami").status_code == 200
        assert client.get("/whoami", headers={name: "x"}).status_code == 401


@pytest.mark.parametrize("name", ["Authorization", "X-Reme-Key", "X-Reme-User", "Origin"])
def test_a_header_that_says_who_calls_stands_once(service, name):
    value = "http://localhost:2334" if name == "Origin" else "me"
    with client_of(service, anonymous=Principal(scope=make_scope("space", "me"))) as client:
        twice = client.get("/whoami", headers=[(name, value), (name, "bob")])
        assert twice.status_code == 422
        assert "more than once" in twice.json()["detail"]


@pytest.mark.parametrize("value", ["reme_wrong", "Token reme_wrong", "Bearer\treme_wrong", "bearer   reme_wrong "])
def test_a_wrong_key_is_refused_however_it_is_laid_out(service, value):
    with client_of(service, anonymous=Principal(scope=make_scope("space", "me"))) as client:
        assert client.get("/whoami", headers={"Authorization": value}).status_code == 401


def test_a_caller_of_this_machine_needs_no_key_where_the_service_says_so(service):
    with client_of(service, anonymous=Principal(scope=make_scope("space", "me"))) as client:
        assert client.get("/whoami").json() == ["space", "me"]
        assert client.get("/whoami", headers={"Authorization": "Bearer sk-upstream"}).json() == ["space", "me"]
        assert client.get("/whoami", headers={"X-Reme-User": "bob"}).status_code == 403
        assert client.get("/whoami", headers={"X-Reme-Key": "reme_wrong"}).status_code == 401


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_body_above_the_bound_is_refused(service, is_streamed):
    with client_of(service, anonymous=Principal(scope=make_scope("space", "me")), max_body_bytes=10) as client:
        body = iter([b"12345", b"67890", b"1"]) if is_streamed else b"12345678901"
        refused = client.post("/takes", content=body)
        assert refused.status_code == 413
        assert "larger --max-body, of up to 64 MiB" in refused.json()["detail"]
        assert client.post("/takes", content=b"1234567890").json() == 10


def test_a_larger_bound_is_not_advised_where_it_is_the_largest(service):
    with client_of(service, anonymous=Principal(scope=make_scope("space", "me")), max_body_bytes=64 << 20) as client:
        refused = client.post("/takes", headers={"Content-Length": str(1 << 30)}, content=b"1")
    assert refused.json()["detail"] == "the request body is larger than 67108864 bytes: send it in parts"


async def test_a_caller_who_leaves_within_the_body_is_no_failure_of_ours(service, caplog):
    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        pytest.fail(f"nobody is there to be told {message}")

    rules = GuardRules(anonymous=Principal(scope=make_scope("space", "me")))
    app = make_app(service, rules, [Route("/takes", takes, methods=["POST"])])
    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": "/takes", "query_string": b"", "headers": headers}
    with caplog.at_level("INFO"):
        await app(scope, receive, send)
    assert [record.levelname for record in caplog.records] == ["INFO"]
