"""A service over HTTP, called inside the test."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.access import Principal, Right
from reme_core.serve.guard import GuardRules
from reme_core.serve.http.routes import http_routes
from reme_core.serve.service import make_app, make_service

LOCAL = {"Host": "localhost:2334"}
ALL_RIGHTS = frozenset({Right.READ, Right.WRITE, Right.ADMIN})


@pytest.fixture
def home(tmp_path):
    return ReMe("space", tmp_path, llm=None, embedding=None)


@pytest.fixture
def client_as(home):
    """Give what makes a client without a key of a user with these rights."""
    clients = []

    def make(user="ana", rights=ALL_RIGHTS, memory=None, **rules):
        service = make_service(memory or home)
        anonymous = Principal(scope=make_scope("space", user), rights=frozenset(rights))
        app = make_app(service, GuardRules(anonymous=anonymous, **rules), http_routes(service))
        client = TestClient(app, headers=LOCAL)
        clients.append(client)
        client.__enter__()
        return client

    yield make
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(client_as):
    return client_as()
