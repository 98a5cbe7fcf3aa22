"""The inspector, and explanations of searches, over PostgreSQL as over the local file."""

from __future__ import annotations

from functools import partial

import pytest
from starlette.testclient import TestClient

from reme_core import ReMe
from reme_core.schema import LeftOut, make_scope
from reme_core.serve.access import Principal, Right
from reme_core.serve.guard import GuardRules
from reme_core.serve.inspect.app import PAGES
from reme_core.serve.inspect.door import BrowserSessions, inspect_routes
from reme_core.serve.service import make_app, make_service

pytestmark = pytest.mark.postgres


async def fill(memory: ReMe) -> None:
    turns = [("user", f"we walked to the river, day {number}") for number in range(5)]
    await memory.summary(turns, user_id="ana", session_id="talk")
    for number in range(12):
        fields = {"user_id": "ana", "memory_target": f"t{number}"}
        await memory.add_memory(f"Ana saw {'the river and ' * number} the sea.", **fields)


async def test_what_ranks_far_behind_has_its_place(shared_url: str) -> None:
    async with ReMe(
        "space", vector_store={"backend": "postgres", "url": shared_url}, llm=None, embedding=None
    ) as memory:
        await fill(memory)
        found = await memory.retrieve("the sea", user_id="ana", limit=1000, layers=["memory"], explain=True)
        assert found.explanation is not None
        last = found.explanation.candidates[-1].hit.memory_id
        few = await memory.retrieve("the sea", user_id="ana", limit=1, layers=["memory"], why_not=last)
        assert few.explanation is not None
        assert few.explanation.why_not is not None
        assert few.explanation.why_not.left_out is LeftOut.CANDIDATES
        assert few.explanation.why_not.place == len(found.explanation.candidates) > 5


def test_each_page_opens(shared_url: str) -> None:
    home = ReMe("space", vector_store={"backend": "postgres", "url": shared_url}, llm=None, embedding=None)
    service, sessions = make_service(home), BrowserSessions()
    app = make_app(service, GuardRules(), inspect_routes(service, sessions, write=True))
    with TestClient(app, base_url="http://localhost:2334") as client:
        assert client.portal is not None
        client.portal.call(partial(fill, home))
        principal = Principal(scope=make_scope("space", "ana"), rights=frozenset(Right))
        client.get("/inspect/open", params={"token": sessions.invite(principal)})
        shown = {page: client.get(f"/inspect/{page}", params={"q": "river"}) for page in PAGES}
        assert {page for page, answer in shown.items() if answer.status_code != 200} == {
            "session",
            "message",
            "memory",
            "run",
            "blob",
        }
        assert "5 messages" in shown["sessions"].text
        assert ">ana</a>" in shown["users"].text
