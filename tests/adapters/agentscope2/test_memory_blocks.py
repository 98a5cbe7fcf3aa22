"""Memory blocks in an agent of AgentScope 2.x: in each prompt as they are then, edited by tools, one user's alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agentscope.state import AgentState
from agentscope.tool import Toolkit

from reme_agentscope import ReMeMiddleware, create_memory_tools
from reme_core import ReMe
from reme_core.errors import ConfigurationError, StoreUnavailableError
from reme_core.schema import MemoryBlock
from tests.adapters.agentscope2.scripted import EchoTool, ScriptedModel, call, make_agent, user

TOOLS = ["memory_insert", "memory_replace", "memory_rethink"]


def opened(path: Path) -> ReMe:
    return ReMe("space", path, llm=None, embedding=None)


async def set_blocks(memory: ReMe, user_id: str = "ann") -> None:
    await memory.set_memory_block("persona", "I am Friday.", user_id=user_id, read_only=True)
    await memory.set_memory_block("human", f"Is called {user_id}.", user_id=user_id)


async def talk(model: ScriptedModel, reme: ReMe, text: str, *tools: Any, state: Any = None, **parameters: Any) -> Any:
    """Have a new middleware and a new agent answer once, as the agent service does."""
    given = {"user_name": "ann", "memory_blocks": True, **parameters}
    async with ReMeMiddleware(reme=reme, parameters=ReMeMiddleware.Parameters(**given)) as mw:
        toolkit = Toolkit(tools=[*tools, *await mw.list_tools()])
        agent = make_agent(model, toolkit=toolkit, middlewares=[mw], state=state)
        answer = await agent.reply(user(text))
        return answer, agent.state


def prompts(model: ScriptedModel) -> list[str]:
    """Return the system prompt of each call; the blocks are nowhere else."""
    for asked in model.asked:
        assert all("<memory_block>" not in message.model_dump_json() for message in asked.messages[1:])
    return [asked.texts[0] for asked in model.asked]


async def test_an_edit_is_in_the_next_prompt_once_and_in_no_other_user_s(tmp_path: Path) -> None:
    model = ScriptedModel([[call("memory_insert", label="human", new_str="Likes oolong.")], "Noted."])
    bobs, later = ScriptedModel(), ScriptedModel()
    async with opened(tmp_path) as reme:
        await set_blocks(reme)
        await set_blocks(reme, "bob")
        _, state = await talk(model, reme, "I like oolong")
        await talk(bobs, reme, "hello", user_name="bob")
        said = await reme.find_messages(user_id="ann")
    first, second = prompts(model)
    assert [tool["function"]["name"] for tool in model.asked[0].tools or []][-3:] == TOOLS
    assert "Is called ann." in first
    assert "oolong" not in first
    assert second.count("Likes oolong.") == second.count("I am Friday.") == 1
    assert "oolong" not in prompts(bobs)[0]
    assert "I am Friday." not in state.model_dump_json()
    assert {item.message.full_text for item in said.messages} == {"I like oolong", "Noted."}

    async with opened(tmp_path) as reme:  # what another process has set would be read just so
        await talk(later, reme, "What do I like?", memory_blocks=["human"], mode="static_control")
    [prompt] = prompts(later)
    assert "Likes oolong." in prompt
    assert "I am Friday." not in prompt
    assert not later.asked[0].tools


async def test_the_system_prompt_stays_the_same_until_a_block_is_edited(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with opened(tmp_path) as reme:
        await set_blocks(reme)
        _, state = await talk(model, reme, "one")
        _, state = await talk(model, reme, "two", state=AgentState.model_validate_json(state.model_dump_json()))
        await reme.set_memory_block("human", "Is called Annika.", user_id="ann")
        await talk(model, reme, "three", state=state)
    first, second, third = prompts(model)
    assert first == second
    assert "Annika" in third
    assert "Is called ann." not in third


async def test_a_block_that_may_not_be_edited_answers_in_words(tmp_path: Path) -> None:
    calls = [
        call("memory_rethink", "1", label="persona", new_memory="I obey."),
        call("memory_insert", "2", label="secret", new_str="Something."),
        call("memory_rethink", "3", label="human"),
    ]
    model = ScriptedModel([calls, "I see."])
    async with opened(tmp_path) as reme:
        await set_blocks(reme)
        answer, _ = await talk(model, reme, "obey")
        blocks = [block.text for block in await reme.memory_blocks(user_id="ann")]
    assert answer.get_text_content() == "I see."
    assert all(words in model.asked[1].text for words in ("read-only", "no memory block 'secret'", "new_memory"))
    assert blocks == ["I am Friday.", "Is called ann."]


async def test_a_text_that_somebody_changed_since_it_was_shown_is_not_rewritten(tmp_path: Path) -> None:
    rewriting = call("memory_rethink", "2", label="human", new_memory="Likes tea.")
    model = ScriptedModel([[call("echo", text="hi"), rewriting], "I see."])
    async with opened(tmp_path) as reme:
        await set_blocks(reme)

        class Meanwhile(EchoTool):
            async def call(self, text: str) -> Any:
                await reme.set_memory_block("human", "Has moved to Oslo.", user_id="ann")
                return await super().call(text)

        await talk(model, reme, "I like tea", Meanwhile())
        block = await reme.get_memory_block("human", user_id="ann")
    assert "has changed meanwhile" in model.asked[1].text
    assert block.text == "Has moved to Oslo."


class BrokenBlocks(ReMe):
    """A memory whose blocks can't be read."""

    async def memory_blocks(self, **kwargs: Any) -> list[MemoryBlock]:
        msg = "the disk is gone"
        raise StoreUnavailableError(msg)


async def test_blocks_that_cannot_be_read_end_no_reply(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel()
    async with BrokenBlocks("space", tmp_path, llm=None, embedding=None) as reme:
        answer, _ = await talk(model, reme, "hello")
    assert answer.get_text_content() == "ok"
    assert "prompts are without their memory blocks: StoreUnavailableError: the disk is gone" in caplog.text


async def test_the_tools_work_without_the_middleware(tmp_path: Path) -> None:
    model = ScriptedModel([[call("memory_insert", label="human", new_str="Likes oolong.")]])
    async with opened(tmp_path) as reme:
        await set_blocks(reme)
        [insert] = create_memory_tools(reme, user_name="ann", names=["memory_insert"])
        await make_agent(model, tools=[insert]).reply(user("I like oolong"))
        block = await reme.get_memory_block("human", user_id="ann")
    assert block.text == "Is called ann.\nLikes oolong."
    assert "Is called ann.\\nLikes oolong." in model.asked[1].text


async def test_what_is_no_list_of_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="memory_blocks"):
        ReMeMiddleware(workspace_dir=str(tmp_path), parameters=ReMeMiddleware.Parameters(memory_blocks=[""]))
