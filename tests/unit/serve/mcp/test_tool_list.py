"""The list of tools: what it costs every session, what it says of each tool, and who sees which."""

from __future__ import annotations

import json

import pytest

from reme_core.errors import InvalidInputError
from reme_core.serve.access import Right
from reme_core.serve.mcp.options import read_profile
from tests.unit.serve.mcp.conftest import principal

READING = ["recall", "get_memory", "recent", "task_lessons", "status"]
WRITING = ["remember", "record", "revise", "forget"]
MOST_TOKENS = 2_500


async def listed(client):
    return {tool.name: tool for tool in (await client.list_tools()).tools}


async def test_the_list_of_tools_costs_at_most_2500_tokens(connect):
    async with connect() as client:
        result = await client.list_tools()
    chars = len(json.dumps(result.model_dump(by_alias=True, mode="json", exclude_none=True), ensure_ascii=False))
    assert chars / 4 <= MOST_TOKENS


async def test_there_are_nine_tools_each_with_title_schemas_and_hints(connect):
    async with connect() as client:
        tools = await listed(client)
    assert sorted(tools) == sorted(READING + WRITING)
    for tool in tools.values():
        assert tool.title
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert "text" in tool.output_schema["required"]
        assert tool.annotations.open_world_hint is False


async def test_hints_say_which_tools_read_which_destroy_and_which_may_be_repeated(connect):
    async with connect() as client:
        tools = await listed(client)
    assert [name for name in READING if tools[name].annotations.read_only_hint] == READING
    assert not any(tools[name].annotations.read_only_hint for name in WRITING)
    assert [name for name in WRITING if tools[name].annotations.destructive_hint] == ["forget"]
    assert [name for name in WRITING if tools[name].annotations.idempotent_hint] == ["remember", "forget"]


async def test_no_tool_takes_a_scope(connect):
    async with connect() as client:
        tools = await listed(client)
    names = {name for tool in tools.values() for name in tool.input_schema["properties"]}
    assert not names & {"user", "user_id", "space", "memory_space", "scope", "workspace_id"}


async def test_a_key_that_reads_sees_only_the_tools_that_read_and_can_call_no_other(connect):
    reader = principal(rights=frozenset({Right.READ}))
    async with connect(reader) as client:
        assert sorted(await listed(client)) == sorted(READING)
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["recall"]
        for name in WRITING:
            given = {"content": "x", "id": "x", "ids": ["x"], "session": "x"}
            result = await client.call_tool(name, given)
            assert result.is_error
            assert "no right to write" in result.content[0].text
        assert (await client.call_tool("status", {})).structured_content["memories"] == 0


async def test_a_key_that_writes_alone_reads_nothing(connect):
    async with connect(principal(rights=frozenset({Right.WRITE}))) as client:
        assert sorted(await listed(client)) == sorted(WRITING)
        assert (await client.call_tool("recall", {"query": "x"})).is_error
        with pytest.raises(Exception, match="no right to read"):
            await client.read_resource("reme://profile")
        with pytest.raises(Exception, match="no right to read"):
            await client.get_prompt("recall", {"query": "x"})


async def test_a_server_that_only_reads_offers_and_does_no_more_whatever_a_key_allows(connect):
    async with connect(read_only=True) as client:
        assert sorted(await listed(client)) == sorted(READING)
        assert (await client.call_tool("remember", {"content": "x"})).is_error


def test_a_profile_that_is_not_there_says_which_are():
    with pytest.raises(InvalidInputError, match="wanted one of default, chatgpt"):
        read_profile("all")
