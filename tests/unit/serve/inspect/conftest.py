"""A browser at the inspector, without the browser: a client that is signed in by an invitation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from html import unescape
from pathlib import Path
from typing import TypeVar

import pytest
from starlette.testclient import TestClient

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.access import Principal, Right
from reme_core.serve.guard import GuardRules
from reme_core.serve.inspect.door import BrowserSessions, inspect_routes
from reme_core.serve.service import Service, make_app, make_service

BASE = "http://localhost:2334"
T = TypeVar("T")
ALL = frozenset({Right.READ, Right.WRITE, Right.ADMIN})


class Browser:
    """Opens pages and sends the forms that stand on them, as a person does."""

    def __init__(self, client: TestClient, sessions: BrowserSessions, principal: Principal, service: Service) -> None:
        self.client, self.sessions, self.principal, self.service = client, sessions, principal, service
        self.page = ""

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Have something done in the memory's own loop."""
        portal = self.client.portal
        assert portal is not None
        return portal.call(work)

    def sign_in(self) -> None:
        token = self.sessions.invite(self.principal)
        assert self.get("/inspect/open", token=token) == 200

    def get(self, path: str, **fields: str) -> int:
        """Open a page; return its status."""
        answer = self.client.get(path, params=fields or None)
        self.page = answer.text
        return answer.status_code

    def send(self, action: str, **fields: str) -> int:
        """Fill in the form with this action on the page and send it; return the status of what comes then."""
        form = next(
            found
            for found in re.findall(r"<form method=\"post\".*?</form>", self.page, re.S)
            if f'action="{action}"' in found
        )
        given = {
            name: unescape(value)
            for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form)
        }
        answer = self.client.post(action, data={**given, **fields})
        self.page = answer.text
        return answer.status_code


@pytest.fixture
def home(tmp_path: Path) -> ReMe:
    settings = {"backend": "local_file", "loading_wait_s": 0}
    return ReMe("space", tmp_path, llm=None, embedding=None, vector_store=settings)


@pytest.fixture
def browser_as(home: ReMe) -> Iterator[Callable[..., Browser]]:
    """Give what makes a browser that is signed in as a user with these rights."""
    clients: list[TestClient] = []

    def make(
        user: str = "ana",
        rights: frozenset[Right] = ALL,
        *,
        write: bool = True,
        signed_in: bool = True,
        previewing: ReMe | None = None,
        of: Browser | None = None,
    ) -> Browser:
        principal = Principal(scope=make_scope("space", user), rights=rights)
        if of is not None:  # another one at the same service
            client = TestClient(of.client.app, base_url=BASE)
            client.portal = of.client.portal
            browser = Browser(client, of.sessions, principal, of.service)
        else:
            service, sessions = make_service(home), BrowserSessions()
            routes = inspect_routes(service, sessions, write=write, previewing=previewing)
            app = make_app(service, GuardRules(), routes)
            client = TestClient(app, base_url=BASE)
            clients.append(client)
            client.__enter__()
            browser = Browser(client, sessions, principal, service)
        if signed_in:
            browser.sign_in()
        return browser

    yield make
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def browser(browser_as: Callable[..., Browser]) -> Browser:
    return browser_as()
