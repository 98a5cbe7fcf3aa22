"""Memory blocks in agents of LangChain: in each prompt as they are then, edited by tools, one user's alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from reme_core import ReMe
from reme_core.errors import ConfigurationError, StoreUnavailableError
from reme_core.schema import MemoryBlock
from reme_langchain import Compact, ReMeMiddleware, create_memory_tools
from tests.adapters.langchain.agents import THREAD, both_ways, invoke
from tests.adapters.langchain.scripted import ScriptedChat, calling

TOOLS = ["memory_insert", "memory_replace", "memory_rethink"]
LIKES_TEA = calling("memory_insert", {"label": "human", "new_str": "Likes oolong."})


def opened(path: Path) -> ReMe:
    return ReMe("space", path, llm=None, embedding=None)


async def set_blocks(memory: ReMe, user_id: str = "ann") -> None:
    await memory.set_memory_block("persona", "I am Friday.", user_id=user_id, read_only=True)
    await memory.set_memory_block("human", f"Is called {user_id}.", user_id=user_id)


def agent_of(model: ScriptedChat, middleware: ReMeMiddleware, **options: Any) -> Any:
    return create_agent(model, middleware=[middleware], system_prompt="You help.", **options)


def systems(model: ScriptedChat) -> list[str]:
    """Return the system prompt of each request; the blocks are nowhere else."""
    for asked in model.asked:
        assert all("<memory_block" not in message.text for message in asked.messages[1:])
    return [asked.messages[0].text for asked in model.asked]


@both_ways
async def test_an_edit_is_in_the_next_prompt_once_and_in_no_other_user_s(tmp_path: Path, way: str) -> None:
    model, later = ScriptedChat([LIKES_TEA, "Noted.", "Hello, Bob."]), ScriptedChat(["Oolong?"])
    async with opened(tmp_path) as memory:
        await set_blocks(memory)
        await set_blocks(memory, "bob")
        with ReMeMiddleware(memory, memory_blocks=True, compact=Compact(), recall=None) as middleware:
            agent = agent_of(model, middleware, checkpointer=InMemorySaver())
            of_ann = {"configurable": {"thread_id": "t1", "user_id": "ann"}}
            of_bob = {"configurable": {"thread_id": "t2", "user_id": "bob"}}
            result = await invoke(agent, way, "I like oolong", config=of_ann)
            await invoke(agent, way, "hello", config=of_bob)
        said = await memory.find_messages(user_id="ann")
    first, second, bobs = systems(model)
    assert [tool.name for tool in model.asked[0].bound["tools"][-3:]] == TOOLS
    assert first.startswith("You help.")
    assert "Is called ann." in first
    assert "oolong" not in first
    assert second.count("Likes oolong.") == second.count("I am Friday.") == 1
    assert "Is called bob." in bobs
    assert "oolong" not in bobs
    assert all("I am Friday" not in message.text for message in result["messages"])
    assert all("I am Friday" not in item.message.full_text for item in said.messages)

    async with opened(tmp_path) as memory:  # what another process has set would be read just so
        with ReMeMiddleware(memory, owner="ann", memory_blocks=("human",)) as middleware:
            await invoke(agent_of(later, middleware), way, "What do I like?")
    [prompt] = systems(later)
    assert "Likes oolong." in prompt
    assert "I am Friday." not in prompt


async def test_the_system_prompt_stays_the_same_until_a_block_is_edited(tmp_path: Path) -> None:
    model = ScriptedChat()
    async with opened(tmp_path) as memory:
        await set_blocks(memory)
        with ReMeMiddleware(memory, owner="ann", memory_blocks=True) as middleware:
            agent = agent_of(model, middleware, checkpointer=InMemorySaver())
            await invoke(agent, "async", "one", config=THREAD)
            await invoke(agent, "async", "two", config=THREAD)
            await memory.set_memory_block("human", "Is called Annika.", user_id="ann")
            await invoke(agent, "async", "three", config=THREAD)
    first, second, third = systems(model)
    assert first == second
    assert "Annika" in third
    assert "Is called ann." not in third


async def test_a_block_that_may_not_be_edited_answers_in_words(tmp_path: Path) -> None:
    calls = AIMessage(
        "",
        tool_calls=[
            {"name": "memory_rethink", "args": {"label": "persona", "new_memory": "I obey."}, "id": "1"},
            {"name": "memory_insert", "args": {"label": "secret", "new_str": "Something."}, "id": "2"},
            {"name": "memory_insert", "args": {"label": "notes", "new_str": "Something."}, "id": "3"},
        ],
    )
    async with opened(tmp_path) as memory:
        await set_blocks(memory)
        await memory.set_memory_block("notes", "", user_id="ann")
        with ReMeMiddleware(memory, owner="ann", memory_blocks=("persona", "human")) as middleware:
            result = await invoke(agent_of(ScriptedChat([calls, "I see."]), middleware), "async", "obey")
        blocks = {block.label: block.text for block in await memory.memory_blocks(user_id="ann")}
    read_only, unknown, not_shown = result["messages"][-4:-1]
    assert "read-only" in read_only.text
    assert "'secret'" in unknown.text
    assert "'notes'" in not_shown.text
    assert result["messages"][-1].text == "I see."
    assert blocks == {"persona": "I am Friday.", "human": "Is called ann.", "notes": ""}


async def test_a_text_that_somebody_changed_since_it_was_shown_is_not_rewritten(tmp_path: Path) -> None:
    rewriting = calling("memory_rethink", {"label": "human", "new_memory": "Likes tea."})
    adding = calling("memory_insert", {"label": "human", "new_str": "Likes tea."}, call_id="2")
    async with opened(tmp_path) as memory:
        await set_blocks(memory)

        async def meanwhile(request: Any, handler: Any) -> Any:
            if request.tool_call["id"] == "call-1":
                await memory.set_memory_block("human", "Has moved to Oslo.", user_id="ann")
            return await handler(request)

        with ReMeMiddleware(memory, owner="ann", memory_blocks=True) as middleware:
            agent = create_agent(
                ScriptedChat([rewriting, adding, "ok"]), middleware=[middleware, wrap_tool_call(meanwhile)]
            )
            result = await invoke(agent, "async", "I like tea")
        block = await memory.get_memory_block("human", user_id="ann")
    [refused] = [message for message in result["messages"] if getattr(message, "tool_call_id", "") == "call-1"]
    assert "has changed meanwhile" in refused.text
    assert block.text == "Has moved to Oslo.\nLikes tea."


class BrokenBlocks(ReMe):
    """A memory whose blocks can't be read."""

    async def memory_blocks(self, **kwargs: Any) -> list[MemoryBlock]:
        msg = "the disk is gone"
        raise StoreUnavailableError(msg)


async def test_blocks_that_cannot_be_read_end_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedChat([LIKES_TEA, "Hello."])
    async with BrokenBlocks("space", tmp_path, llm=None, embedding=None) as memory:
        with ReMeMiddleware(memory, owner="ann", memory_blocks=True) as middleware, caplog.at_level(logging.ERROR):
            result = await invoke(agent_of(model, middleware), "async", "hello")
    assert result["messages"][-1].text == "Hello."
    assert systems(model) == ["You help.", "You help."]
    assert [record.message for record in caplog.records if "memory blocks" in record.message] == [
        "prompts are without their memory blocks: StoreUnavailableError: the disk is gone"
    ]


async def test_without_the_option_nothing_changes_and_what_is_none_is_refused(tmp_path: Path) -> None:
    model = ScriptedChat()
    async with opened(tmp_path) as memory:
        await set_blocks(memory)
        with ReMeMiddleware(memory, owner="ann") as middleware:
            await invoke(agent_of(model, middleware), "async", "hello")
        for wrong in ("human", [""], 1):
            with pytest.raises(ConfigurationError, match="memory_blocks"):
                ReMeMiddleware(memory, memory_blocks=wrong)  # type: ignore[arg-type]
    assert systems(model) == ["You help."]
    assert [tool.name for tool in model.asked[0].bound["tools"]] == ["search_memory", "reload_context"]


async def test_the_tools_work_without_a_middleware(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await set_blocks(memory)
        [insert] = create_memory_tools(memory, owner="ann", names=["memory_insert"])
        told = await insert.ainvoke({"label": "human", "new_str": "Likes oolong."})
        assert sorted(insert.tool_call_schema.model_json_schema()["properties"]) == ["insert_line", "label", "new_str"]
        block = await memory.get_memory_block("human", user_id="ann")
    assert "Is called ann.\nLikes oolong." in told
    assert block.text == "Is called ann.\nLikes oolong."
