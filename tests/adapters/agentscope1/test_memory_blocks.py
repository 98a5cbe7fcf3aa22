"""Memory blocks in a real `ReActAgent`: in each prompt as they are then, edited by tools, one user's alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agentscope.memory import InMemoryMemory, MemoryBase
from agentscope.message import Msg
from agentscope.tool import ToolResponse

from reme_agentscope.v1.long_term.long_term_memory import ReMePersonalLongTermMemory
from reme_agentscope.v1.working_memory.memory import ReMeMemory
from reme_core import ReMe
from reme_core.errors import ConfigurationError, StoreUnavailableError
from reme_core.schema import MemoryBlock
from tests.adapters.agentscope1.scripted import Asked, ScriptedModel, call, echo, make_agent, user

TOOLS = {"memory_insert", "memory_replace", "memory_rethink"}


def opened(path: Path) -> ReMe:
    return ReMe("space", path, llm=None, embedding=None)


async def set_blocks(memory: ReMe, user_id: str = "ann") -> None:
    await memory.set_memory_block("persona", "I am Friday.", user_id=user_id, read_only=True)
    await memory.set_memory_block("human", f"Is called {user_id}.", user_id=user_id)


def blocks_in(asked: Asked) -> str:
    """Return the one text that shows blocks, the last of the prompt; "" for none."""
    shown = [text for text in asked.texts if "<memory_block>" in text]
    assert shown in ([], asked.texts[-1:])
    return "".join(shown)


def tool_names(asked: Asked) -> set[str]:
    return {tool["function"]["name"] for tool in asked.tools or []}


def memories(path: Path) -> list[MemoryBase]:
    return [InMemoryMemory(), ReMeMemory(location=path, session_id="s1", user_id="ann", max_tokens=20_000)]


@pytest.mark.parametrize("which", [0, 1])
async def test_an_edit_is_in_the_next_prompt_once_and_in_no_other_user_s(tmp_path: Path, which: int) -> None:
    context = memories(tmp_path)[which]
    model = ScriptedModel([[call("memory_insert", label="human", new_str="Likes oolong.")], "Noted."])
    bobs, later = ScriptedModel(), ScriptedModel()
    async with opened(tmp_path) as reme:
        await set_blocks(reme)
        await set_blocks(reme, "bob")
        for name, asked, kept in (("ann", model, context), ("bob", bobs, InMemoryMemory())):
            async with ReMePersonalLongTermMemory(user_name=name, reme=reme, memory_blocks=True) as memory:
                await make_agent(asked, long_term_memory=memory, memory=kept)(user("I like oolong"))
        said = await reme.find_messages(user_id="ann")
        shown = [msg.get_text_content() for msg in await context.get_memory()]
    first, second = map(blocks_in, model.asked)
    assert tool_names(model.asked[0]) >= TOOLS
    assert "Is called ann." in first
    assert "oolong" not in first
    assert second.count("Likes oolong.") == second.count("I am Friday.") == 1
    assert "oolong" not in blocks_in(bobs.asked[0])
    assert not any("I am Friday." in (text or "") for text in shown)
    assert {item.message.full_text for item in said.messages} == {"I like oolong", "Noted."}

    async with opened(tmp_path) as reme:  # what another process has set would be read just so
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme, memory_blocks=("human",))
        agent = make_agent(later, long_term_memory=memory, long_term_memory_mode="static_control")
        await agent(user("What do I like?"))
        await memory.close()
    prompt = blocks_in(later.asked[0])
    assert "Likes oolong." in prompt
    assert "I am Friday." not in prompt
    assert not tool_names(later.asked[0])


async def test_one_that_a_broken_call_left_behind_makes_way_for_the_next(tmp_path: Path) -> None:
    model, context = ScriptedModel(), InMemoryMemory()
    await context.add(Msg("memory_blocks", "<memory_block>\nof before\n</memory_block>", "user"), marks="hint")
    async with opened(tmp_path) as reme:
        await set_blocks(reme)
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme, memory_blocks=True)
        await make_agent(model, long_term_memory=memory, memory=context)(user("hello"))
        await memory.close()
    assert "Is called ann." in blocks_in(model.asked[0])
    assert "of before" not in model.asked[0].text


async def test_a_block_that_may_not_be_edited_answers_in_words(tmp_path: Path) -> None:
    calls = [
        call("memory_rethink", "1", label="persona", new_memory="I obey."),
        call("memory_insert", "2", label="secret", new_str="Something."),
        call("memory_rethink", "3", label="human"),
    ]
    model = ScriptedModel([calls, "I see."])
    async with opened(tmp_path) as reme:
        await set_blocks(reme)
        async with ReMePersonalLongTermMemory(user_name="ann", reme=reme, memory_blocks=True) as memory:
            answer = await make_agent(model, long_term_memory=memory)(user("obey"))
        blocks = [block.text for block in await reme.memory_blocks(user_id="ann")]
    assert answer.get_text_content() == "I see."
    assert all(words in model.asked[1].text for words in ("read-only", "no memory block 'secret'", "new_memory"))
    assert blocks == ["I am Friday.", "Is called ann."]


async def test_a_text_that_somebody_changed_since_it_was_shown_is_not_rewritten(tmp_path: Path) -> None:
    rewriting = [call("memory_rethink", label="human", new_memory="Likes tea.")]
    model = ScriptedModel([[call("meanwhile"), *rewriting], "I see."])
    async with opened(tmp_path) as reme:
        await set_blocks(reme)

        async def meanwhile() -> ToolResponse:
            """Change the block."""
            await reme.set_memory_block("human", "Has moved to Oslo.", user_id="ann")
            return await echo("done")

        async with ReMePersonalLongTermMemory(user_name="ann", reme=reme, memory_blocks=True) as memory:
            await make_agent(model, tools=[meanwhile], long_term_memory=memory)(user("I like tea"))
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
        memory = ReMePersonalLongTermMemory(user_name="ann", reme=reme, memory_blocks=True)
        answer = await make_agent(model, long_term_memory=memory)(user("hello"))
        await memory.close()
    assert answer.get_text_content() == "ok"
    assert not blocks_in(model.asked[0])
    assert "prompts are without their memory blocks: StoreUnavailableError: the disk is gone" in caplog.text


def test_what_is_no_list_of_labels_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="memory_blocks"):
        ReMePersonalLongTermMemory(user_name="ann", memory_blocks="human")
