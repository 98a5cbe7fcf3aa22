"""The working memory of AgentScope 1.x keeps every rule with its messages in PostgreSQL."""

from __future__ import annotations

import importlib.metadata
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest

try:
    IS_THERE = importlib.metadata.version("agentscope").startswith("1.")
except importlib.metadata.PackageNotFoundError:
    IS_THERE = False
if not IS_THERE:
    pytest.skip("AgentScope 1.x is not installed", allow_module_level=True)

from agentscope.message import Msg

from reme_agentscope.v1.session import ReMeSession
from reme_agentscope.v1.working_memory.memory import ReMeMemory
from reme_core import ReMe
from reme_core.schema import make_scope
from tests.adapters.agentscope1.working_memory.memory_rules import RULES, Make, Rule

pytestmark = pytest.mark.postgres


@pytest.fixture(params=["on the server", "with a budget"])
async def make(request: pytest.FixtureRequest, shared_url: str) -> AsyncIterator[Make]:
    made: list[ReMeMemory] = []
    budget = {"max_tokens": 10_000_000} if request.param == "with a budget" else {}

    def make_one(**kwargs: Any) -> ReMeMemory:
        made.append(ReMeMemory(location=shared_url, **{"session_id": f"s{len(made)}", **budget, **kwargs}))
        return made[-1]

    yield make_one
    for memory in made:
        await memory.close()


@pytest.mark.parametrize("rule", [pytest.param(check, id=name) for name, (_, check) in RULES.items()])
async def test_the_memory_holds_the_rule_that(rule: Rule, make: Make) -> None:
    await rule(make)


async def test_messages_are_there_for_another_machine_and_end_with_their_user(shared_url: str) -> None:
    one, other = (ReMeMemory(location=shared_url, session_id="s", user_id="ann") for _ in range(2))
    bens = ReMeMemory(location=shared_url, session_id="s", user_id="ben")
    async with one, other, bens:
        await one.add([Msg("ann", "hello", "user"), Msg("bot", "hi", "assistant")], marks="greeting")
        await bens.add(Msg("ben", "mine", "user"))
        await other.add(Msg("ann", "and more", "user"))
        assert [msg.content for msg in await one.get_memory()] == ["hello", "hi", "and more"]
        async with ReMe("default", llm=None, embedding=None, vector_store=_store(shared_url)) as memory:
            erased = await memory.delete_all_memories(user_id="ann")
        assert erased.adapter_rows == {"agentscope_messages": 3, "agentscope_sessions": 1}
        assert await one.get_memory() == []
        assert [msg.content for msg in await bens.get_memory()] == ["mine"]


async def test_what_leaves_the_prompt_can_be_loaded_again(shared_url: str) -> None:
    async with ReMeMemory(location=shared_url, session_id="s", user_id="ann", max_tokens=400) as memory:
        for number in range(30):
            await memory.add(Msg("ann", f"fact {number}: " + "word " * 40, "user"))
        shown = await memory.get_memory()
        assert len(shown) < 30
    async with ReMeMemory(location=shared_url, session_id="s", user_id="ann") as again:
        assert await again.size() == 30
        assert again.get_compressed_summary()


async def test_an_image_that_several_sessions_show_is_kept_once_and_goes_with_the_last_one(shared_url: str) -> None:
    image = b64encode(bytes(30_000)).decode()
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}
    one, other = (ReMeMemory(location=shared_url, session_id=name, user_id="ann") for name in ("one", "other"))
    async with one, other, ReMe("default", llm=None, embedding=None, vector_store=_store(shared_url)) as reme:
        await one.add([Msg("ann", [block], "user") for _ in range(2)])
        await other.add(Msg("ann", [block], "user"))
        await ReMeSession(reme).save_session_state("s", "ann", memory=one)
        held = await reme.database.read(lambda c: c.execute(_BODIES).fetchall(), within=make_scope("default", "ann"))
        assert [row for row in held if len(row[0]) > 10_000] == []
        assert len(held) == 3
        async with ReMeMemory(location=shared_url, session_id="one", user_id="ann") as again:
            assert [msg.content for msg in await again.get_memory()] == [[block]] * 2
        for session in (one, other):
            assert (await reme.stats(user_id="ann")).blobs == 1
            await session.clear()
        await ReMeSession(reme).save_session_state("s", "ann", memory=one)
        assert (await reme.stats(user_id="ann")).blobs == 0


_BODIES = "SELECT body FROM agentscope_messages"


def _store(url: str) -> dict[str, str]:
    return {"backend": "postgres", "url": url}
