"""Memory blocks in ReMy's prompts: as they are at each call, edited by ReMy, nothing of them where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core import Message, ReMe
from reme_core.agents import AgentOptions, ReMyAgentV1Op
from reme_core.ports import ChatRequest, ChatResult, SummaryRequest
from reme_core.schema import Scope, SummaryResult, ToolCallBlock
from reme_core.testing import ScriptedChatModel

EDITORS = ["memory_insert", "memory_replace", "memory_rethink"]


class Whole:
    """A chat model that can't stream."""

    def __init__(self, model: ScriptedChatModel) -> None:
        self.model = model

    async def chat(self, request: ChatRequest) -> ChatResult:
        return await self.model.chat(request)


class Streaming(Whole):
    """One that can, and says all in one piece."""

    async def stream(self, request: ChatRequest):
        result = await self.chat(request)
        yield result.message.text
        yield result


class KeepsNothing:
    """A `Summarizer` that keeps nothing and asks no model."""

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        self.said = [message.text for message in request.messages]
        return SummaryResult(session_id=request.session_id)


def calling(name: str, **arguments: str) -> Message:
    return Message(role="assistant", content=(ToolCallBlock(call_id="1", name=name, arguments=arguments),))


def tools_of(request: ChatRequest) -> list[str]:
    return [tool.name for tool in request.tools]


@pytest.mark.parametrize("kind", [Whole, Streaming])
async def test_an_edit_is_in_the_next_prompt_and_in_no_other_user_s(tmp_path: Path, kind: type[Whole]) -> None:
    model = ScriptedChatModel(
        [calling("memory_insert", label="human", new_str="Likes oolong."), "Noted.", "Oolong.", "Hello, Bob."]
    )
    pieces: list[str] = []
    async with ReMe("space", tmp_path, llm=kind(model), embedding=None) as memory:
        await memory.set_memory_block("human", "Is called Ann.", user_id="ann")
        memory.set_summarizer(kept := KeepsNothing())
        first = await memory.chat("I like oolong", user_id="ann", on_text=pieces.append)
        await memory.chat("What do I like?", user_id="ann", session_id=first.session_id)
        said = kept.said
        await memory.chat("Hello", user_id="bob")
        [block] = await memory.memory_blocks(user_id="ann")
    begun, edited, later, bobs = model.requests
    for request in (begun, edited, later):  # behind the system prompt, once, fenced
        shown = [message.text.count("<memory_block>") for message in request.messages]
        assert shown[:2] == [0, 1]
        assert tools_of(request)[-3:] == EDITORS
    assert "Likes oolong." not in begun.messages[1].text
    assert "Likes oolong." in edited.messages[1].text
    assert edited.messages[1].text == later.messages[1].text
    assert later.messages[0].text == begun.messages[0].text
    assert "memory_block" not in "".join(message.text for message in bobs.messages)
    assert not set(EDITORS) & set(tools_of(bobs))
    assert "".join(pieces) == first.text == "Noted."
    assert said == ["What do I like?", "Oolong."]
    assert (block.text, block.author) == ("Is called Ann.\nLikes oolong.", "remy")


async def test_a_text_that_somebody_changed_since_it_was_shown_is_not_rewritten(tmp_path: Path) -> None:
    async def meanwhile(request: ChatRequest) -> Message:
        await memory.set_memory_block("human", "Has moved to Oslo.", user_id="ann")
        return calling("memory_rethink", label="human", new_memory="Likes tea.")

    model = ScriptedChatModel([meanwhile, calling("memory_rethink", label="human", new_memory="Oslo, tea."), "Noted."])
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        await memory.set_memory_block("human", "Is called Ann.", user_id="ann")
        memory.set_summarizer(KeepsNothing())
        await memory.chat("I like tea", user_id="ann")
        block = await memory.get_memory_block("human", user_id="ann")
    assert "has changed meanwhile" in model.requests[1].messages[-1].full_text
    assert block.text == "Oslo, tea."


def test_the_prompt_tells_of_blocks_only_where_there_are_tools_for_them() -> None:
    for language in ("en", "zh"):
        plain = ReMyAgentV1Op(AgentOptions(language=language))._system(language)[0]
        editing = ReMyAgentV1Op(AgentOptions(language=language), enable_memory_blocks=True)._system(language)[0]
        lines = editing.splitlines()
        [told] = [line for line in lines if line not in plain.splitlines()]
        assert all(name in told for name in EDITORS)
        assert [line for line in lines if line != told] == plain.splitlines()
