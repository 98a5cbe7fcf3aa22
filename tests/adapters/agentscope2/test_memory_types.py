"""Memories that a model adds, of tasks and of tools; what bounds them; the factory for the agent service."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agentscope.message import ToolResultState
from agentscope.permission import PermissionBehavior
from agentscope.tool import ToolChunk

from reme_agentscope import ReMeMiddleware, create_memory_tools
from reme_core import ReMe, adapting
from reme_core.testing import ScriptedChatModel
from tests.adapters.agentscope2.memories import WatchedMemory, everything, note_texts
from tests.adapters.agentscope2.scripted import EchoTool, ScriptedModel, call, make_agent, user


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a write may take longer than a reply waits for it."""
    monkeypatch.setattr(adapting, "PATIENCE_S", 10)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[WatchedMemory]:
    async with WatchedMemory(tmp_path) as opened:
        yield opened


def of(memory: WatchedMemory, **parameters: Any) -> ReMeMiddleware:
    given = ReMeMiddleware.Parameters(user_name="ann", search_timeout=60, **parameters)
    return ReMeMiddleware(reme=memory, parameters=given)


async def test_a_model_adds_memories_that_the_next_agent_is_shown(memory: WatchedMemory) -> None:
    async with of(memory) as mw:
        steps = [[call("add_memory", memories=["Ann is allergic to nuts", "Ann sings"])], "Noted."]
        model = ScriptedModel(steps)
        await make_agent(model, tools=await mw.list_tools(), middlewares=[mw]).reply(user("Do remember that"))
        assert "2 kept." in model.asked[1].text
        agent = make_agent(ScriptedModel(), middlewares=[mw])
        await agent.reply(user("Is Ann allergic?"))
    assert "Ann is allergic to nuts" in note_texts(agent.state)[0]
    found = (await memory.list_memories(user_id="ann")).memories
    assert {(item.content, str(item.author)) for item in found} == {
        ("Ann is allergic to nuts", "agent"),
        ("Ann sings", "agent"),
    }


@pytest.mark.parametrize("arguments", [{}, {"memories": []}, {"memories": [""]}, {"memories": {"a": 1}}])
async def test_odd_memories_are_answered_in_words(memory: WatchedMemory, arguments: dict[str, Any]) -> None:
    [tool] = create_memory_tools(memory, names=["add_memory"], user_name="ann")
    chunk = await tool(**arguments, user_id="bob")
    assert isinstance(chunk, ToolChunk)
    assert chunk.state == ToolResultState.ERROR
    assert chunk.content[0].text.startswith("Error adding memories: ")
    assert (await tool.check_permissions()).behavior == PermissionBehavior.ALLOW
    assert not tool.is_read_only
    await tool(memories="one text", user_id="bob")
    assert [item.content for item in (await memory.list_memories(user_id="ann")).memories] == ["one text"]


async def test_a_memory_that_can_not_be_written_is_an_error_of_the_tool(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    [tool] = create_memory_tools(WatchedMemory(tmp_path / "file"), names=["add_memory"])
    chunk = await tool(memories=["a"])
    assert isinstance(chunk, ToolChunk)
    assert chunk.state == ToolResultState.ERROR


async def test_what_a_reply_has_taught_is_shown_to_the_next_agent(tmp_path: Path) -> None:
    lesson = {"when_to_use": "the build fails", "experience": "clear the cache of the build first", "tags": []}

    def learn(request: Any) -> str:
        return json.dumps([{**lesson, "confidence": 0.9}])

    async with WatchedMemory(tmp_path, llm=ScriptedChatModel([learn] * 9)) as memory:
        async with of(memory, memory_types=["task"]) as mw:
            agent = make_agent(ScriptedModel(["I cleared the cache."]), middlewares=[mw])
            await agent.reply(user("Mend the build that fails"))
        [job] = await memory.list_jobs(user_id="ann") or [None]
        assert memory.written == []  # no personal memory was asked for
        async with of(memory, memory_types=["task"]) as mw:
            later = make_agent(ScriptedModel(), middlewares=[mw])
            await later.reply(user("My build fails, what now?"))
    assert "I cleared the cache" in note_texts(later.state)[0] or "clear the cache" in note_texts(later.state)[0]
    assert job is None or job.error


async def test_what_is_known_of_a_tool_is_shown_beside_what_was_said(memory: WatchedMemory) -> None:
    given = {"memory_types": ["personal", "tool"]}
    async with of(memory, **given) as mw:
        agent = make_agent(ScriptedModel([[call("echo", text="hi")], "Done."]), tools=[EchoTool()], middlewares=[mw])
        await agent.reply(user("Use the echo tool for Flopsy"))
    known = await memory.retrieve_tool_memory(["echo"], user_id="ann")
    assert known.results[0].statistics.calls == 1
    async with of(memory, **given) as mw:
        later = make_agent(ScriptedModel(), middlewares=[mw])
        await later.reply(user("Ask echo about Flopsy"))
    [note] = note_texts(later.state)
    assert "## echo" in note
    assert "for Flopsy" in note


async def test_agents_and_sessions_of_one_user_are_kept_apart_where_asked(memory: WatchedMemory) -> None:
    for name in ("agent_name", "session_name"):
        async with of(memory, **{name: "first"}) as mw:
            await make_agent(ScriptedModel(), middlewares=[mw]).reply(user(f"Flopsy of the {name}"))
        for other, count in (("first", 1), ("second", 0)):
            async with of(memory, **{name: other}) as mw:
                agent = make_agent(ScriptedModel(), middlewares=[mw])
                await agent.reply(user("Who is Flopsy?"))
            assert len(note_texts(agent.state)) == count
    async with of(memory) as mw:
        agent = make_agent(ScriptedModel(), middlewares=[mw])
        await agent.reply(user("Who is Flopsy?"))
    assert note_texts(agent.state) == []


async def test_a_score_and_a_budget_bound_a_note(memory: WatchedMemory) -> None:
    for number in range(5):
        await ReMe.summary(memory, [("user", f"In the garden grows plant number {number}")], user_id="ann")
    await memory.add_memory("The garden is Ann's pride", user_id="ann")
    async with of(memory, min_score=0.5) as mw:
        agent = make_agent(ScriptedModel(), middlewares=[mw])
        await agent.reply(user("my garden?"))
    assert "pride" in note_texts(agent.state)[0]
    assert "plant" not in note_texts(agent.state)[0]
    for budget in (10, 70, 90):
        async with of(memory, token_budget=budget) as mw:
            agent = make_agent(ScriptedModel(), middlewares=[mw])
            await agent.reply(user("my garden?"))
        assert all(memory.token_counter.count(note) <= budget for note in note_texts(agent.state))
        assert note_texts(agent.state) or budget == 10


async def test_a_service_makes_middlewares_for_each_turn_and_ends_them_together(memory: WatchedMemory) -> None:
    from reme_agentscope import ReMeMiddlewares

    middlewares = ReMeMiddlewares(memory, parameters=ReMeMiddleware.Parameters(mode="static_control", user_name="x"))
    inspect.signature(middlewares).bind("", "", "")  # as the agent service asks
    for who, text in (("ann", "My rabbit is Flopsy"), ("bob", "My parrot is Polly"), ("ann", "What is my rabbit?")):
        [made] = await middlewares(who, "agent-1", "session-1")
        agent = make_agent(ScriptedModel(), middlewares=[made])
        await agent.reply(user(text))
    assert "Flopsy" in note_texts(agent.state)[0]
    await middlewares.flush()
    assert [text for _, role, text in await everything(memory, "bob") if role == "user"] == ["My parrot is Polly"]
    memory.broken = True
    [made] = await middlewares("ann", "agent-1", "session-2")
    await make_agent(ScriptedModel(), middlewares=[made]).reply(user("lost"))
    del made
    with pytest.raises(Exception, match="not on disk"):  # also what a middleware of a turn long over has left
        await middlewares.close()
    memory.broken = False
    await middlewares.close()
    assert "lost" in [text for _, _, text in await everything(memory, "ann")]


async def test_the_middleware_of_a_turn_makes_no_appends_of_its_own(
    memory: WatchedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reme_agentscope import ReMeMiddlewares

    middlewares = ReMeMiddlewares(memory)
    made_since: set[adapting.Appends] = set()
    monkeypatch.setattr(adapting, "_ALL", made_since)
    kept = [await middlewares("ann", "agent-1", f"session-{turn}") for turn in range(10)]
    assert not made_since
    assert {made._appends for [made] in kept if isinstance(made, ReMeMiddleware)} == {middlewares._appends}
