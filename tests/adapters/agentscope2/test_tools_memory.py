"""The tools as a toolkit and a model see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agentscope.message import ToolResultBlock, ToolResultState
from agentscope.permission import PermissionBehavior, PermissionContext
from agentscope.state import AgentState
from agentscope.tool import ToolBase, ToolChunk, Toolkit, ToolMiddlewareBase

from reme_agentscope import ReMeMiddleware, create_memory_tools
from reme_core.errors import ConfigurationError, InvalidInputError
from tests.adapters.agentscope2.memories import WatchedMemory
from tests.adapters.agentscope2.scripted import ScriptedModel, call, make_agent, user


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[WatchedMemory]:
    async with WatchedMemory(tmp_path) as opened:
        for number in range(5):
            await opened.add_memory(f"The parrot said sentence number {number}", user_id="default")
        yield opened


async def search_tool(memory: WatchedMemory, **parameters: Any) -> ToolBase:
    mw = ReMeMiddleware(reme=memory, parameters=ReMeMiddleware.Parameters(**parameters))
    search, _ = await mw.list_tools()
    return search


async def answer(tool: ToolBase, **arguments: Any) -> str:
    chunk = await tool(**arguments)
    assert isinstance(chunk, ToolChunk)
    return chunk.content[0].text


@pytest.mark.requirement("AS2-MW-06")
async def test_the_schema_says_what_the_model_needs(memory: WatchedMemory) -> None:
    tool = await search_tool(memory, top_k=3)
    [schema] = await Toolkit(tools=[tool]).get_tool_schemas([])
    function = schema["function"]

    assert function["name"] == "memory_search"
    assert len(function["description"]) > 20
    assert function["parameters"]["required"][0] == "query"
    properties = function["parameters"]["properties"]
    assert {name: one["type"] for name, one in properties.items()} == {"query": "string", "limit": "integer"}
    assert properties["limit"]["default"] == 3
    assert all(len(one["description"]) > 10 for one in properties.values())


@pytest.mark.requirement("AS2-MW-06")
async def test_it_is_allowed_read_only_and_safe_side_by_side(memory: WatchedMemory) -> None:
    tool = await search_tool(memory)
    decision = await tool.check_permissions({"query": "x"}, PermissionContext())

    assert decision.behavior == PermissionBehavior.ALLOW
    assert decision.message
    assert await tool.check_permissions() == decision  # as AgentScope's own memory tools take it
    assert await tool.check_read_only({})
    assert tool.is_concurrency_safe


@pytest.mark.requirement("AS2-MW-06")
async def test_tool_middlewares_are_passed_through(memory: WatchedMemory) -> None:
    seen: list[dict[str, Any]] = []

    class Watch(ToolMiddlewareBase):
        async def on_tool_call(self, tool: Any, input_kwargs: Any, next_handler: Any) -> Any:
            seen.append(input_kwargs)
            async for chunk in next_handler(**input_kwargs):
                yield chunk

    tool = await search_tool(memory)
    tool._middlewares = [Watch()]
    chunks = [chunk async for chunk in await tool(query="parrot", limit=1)]

    assert seen == [{"query": "parrot", "limit": 1}]
    assert chunks[0].content[0].text.startswith("- (2026")


@pytest.mark.requirement("AS2-MW-06")
async def test_results_are_lines_and_limited(memory: WatchedMemory) -> None:
    tool = await search_tool(memory, top_k=3)

    lines = (await answer(tool, query="what did the parrot say?")).splitlines()
    assert len(lines) == 3
    assert all(" The parrot said sentence number" in line for line in lines)
    assert len((await answer(tool, query="parrot", limit=2)).splitlines()) == 2
    assert await answer(tool, query="quantum chromodynamics") == "(no relevant memories found)"


@pytest.mark.requirement("AS2-MW-06")
@pytest.mark.requirement("AS-PKG-05")
@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"query": ""}, 0),
        ({"query": None}, 0),
        ({"query": "\0 \ud83d"}, 0),
        ({"query": "parrot", "limit": "2"}, 2),
        ({"query": "parrot", "limit": 0}, 1),
        ({"query": "parrot", "limit": -5}, 1),
        ({"query": "parrot", "limit": None}, 5),
        ({"query": "parrot", "limit": [3]}, 5),
        ({"query": "parrot", "user_id": "bob", "invented": 1}, 5),
        ({"query": ["parrot"]}, 5),
        ({}, 0),
    ],
)
async def test_odd_arguments_give_an_answer(memory: WatchedMemory, arguments: dict[str, Any], count: int) -> None:
    text = await answer(await search_tool(memory), **arguments)

    assert text.count(" The parrot") == count
    assert count or text == "(no relevant memories found)"


@pytest.mark.requirement("AS2-MW-06")
async def test_a_failure_is_an_error_of_the_tool_and_the_reply_goes_on(memory: WatchedMemory) -> None:
    memory.broken = True
    tool = await search_tool(memory, mode="agent_control")
    chunk = await tool(query="parrot")
    assert isinstance(chunk, ToolChunk)
    assert chunk.state == ToolResultState.ERROR
    assert chunk.content[0].text == "Error retrieving memory: the disk is gone"

    agent = make_agent(ScriptedModel([[call("memory_search", query="parrot")], "I can't tell"]), tools=[tool])
    assert (await agent.reply(user("What did the parrot say?"))).get_text_content() == "I can't tell"
    [result] = [b for m in agent.state.context for b in m.content if isinstance(b, ToolResultBlock)]
    assert result.state == "error"


@pytest.mark.requirement("AS2-MW-06")
async def test_a_user_searches_only_their_own_memory(memory: WatchedMemory) -> None:
    assert await answer(await search_tool(memory, user_name="bob"), query="parrot") == "(no relevant memories found)"


async def test_the_tools_work_without_the_middleware(memory: WatchedMemory) -> None:
    search, reload = create_memory_tools(memory, top_k=2)
    assert (search.name, reload.name) == ("memory_search", "reload_context")
    assert len((await answer(search, query="parrot")).splitlines()) == 2
    assert [tool.name for tool in create_memory_tools(memory, names=["reload_context"])] == ["reload_context"]

    model = ScriptedModel([[call("memory_search", query="parrot")], "done"])
    agent = make_agent(model, tools=create_memory_tools(memory))
    await agent.reply(user("What did the parrot say?"))
    assert "sentence number" in model.asked[1].text


@pytest.mark.parametrize("names", [["forget"], "memory_search"])
async def test_a_name_of_no_tool_is_refused(memory: WatchedMemory, names: Any) -> None:
    with pytest.raises(ConfigurationError, match="names"):
        create_memory_tools(memory, names=names)
    with pytest.raises(InvalidInputError):
        create_memory_tools(memory, user_name="../x")


async def test_the_reload_tool_reads_pieces_and_finds_words(memory: WatchedMemory) -> None:
    text = "\n".join(f"line {number}" for number in range(1, 1001))
    info = await memory.offload_text(text, user_id="default", session_id="s1")
    [tool] = create_memory_tools(memory, names=["reload_context"])
    state = AgentState(session_id="s1")

    first = await answer(tool, handle=info.reference, limit=20, _agent_state=state)
    assert first.startswith("line 1\nline 2\n")
    assert "offset=20" in first
    assert "line 1000" in await answer(tool, handle=info.reference, offset=len(text) - 9, _agent_state=state)
    assert "line 77" in await answer(tool, handle=info.reference, pattern="line 77", _agent_state=state)
    assert "is not in" in await answer(tool, handle=info.reference, pattern="absent", _agent_state=state)
    assert info.reference in await answer(tool, handle="nonsense", _agent_state=state)


async def test_the_reload_tool_reads_only_the_session_of_its_agent(memory: WatchedMemory) -> None:
    info = await memory.offload_text("secret of s1", user_id="default", session_id="s1")
    [tool] = create_memory_tools(memory, names=["reload_context"])
    [other] = create_memory_tools(memory, names=["reload_context"], user_name="bob")

    for reader, session in ((tool, "s2"), (other, "s1")):
        text = await answer(reader, handle=info.reference, _agent_state=AgentState(session_id=session))
        assert "secret" not in text
        assert "There is no handle" in text
    assert "secret" not in await answer(tool, handle=info.reference)  # no agent, no session


@pytest.mark.parametrize(
    "arguments", [{}, {"handle": "\0\ud83d"}, {"handle": 3}, {"handle": "../../x", "offset": "a", "limit": {}}]
)
async def test_the_reload_tool_answers_odd_arguments(memory: WatchedMemory, arguments: dict[str, Any]) -> None:
    [tool] = create_memory_tools(memory, names=["reload_context"])

    assert "There is no handle" in await answer(tool, **arguments, invented=1, _agent_state=AgentState())
