"""What is remembered: each reply once, off the reply path, under its own session, whatever fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agentscope.agent import ContextConfig
from agentscope.event import ConfirmResult, ReplyEndEvent, UserConfirmResultEvent
from agentscope.message import (
    DataBlock,
    HintBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState

from reme_agentscope import ReMeMiddleware
from reme_core import ReMe
from reme_core.errors import StoreError
from tests.adapters.agentscope2.memories import WatchedMemory, everything, notes_of, turns, until
from tests.adapters.agentscope2.scripted import EchoTool, ScriptedModel, call, make_agent, user

MODES = ("static_control", "agent_control", "both")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[WatchedMemory]:
    async with WatchedMemory(tmp_path) as opened:
        yield opened


def watching(memory: ReMe, **parameters: Any) -> ReMeMiddleware:
    return ReMeMiddleware(reme=memory, parameters=ReMeMiddleware.Parameters(**parameters))


class AskingTool(EchoTool):
    """Runs only once a person has agreed."""

    is_read_only = False

    async def check_permissions(self, *args: Any, **kwargs: Any) -> PermissionDecision:
        return PermissionDecision(behavior=PermissionBehavior.ASK, message="sure?")


@pytest.mark.requirement("AS2-MW-08")
@pytest.mark.parametrize("mode", MODES)
async def test_each_reply_is_written_once_in_all_modes(memory: WatchedMemory, mode: str) -> None:
    await memory.add_memory("Alice has a rabbit", user_id="default")
    async with watching(memory, mode=mode) as mw:
        agent = make_agent(ScriptedModel([f"answer {n}" for n in range(10)]), middlewares=[mw])
        for number in range(10):
            await agent.reply(user(f"rabbit question {number}"))

    said = [text for number in range(10) for text in (f"rabbit question {number}", f"answer {number}")]
    assert memory.texts == said
    assert [text for _, _, text in await everything(memory)] == said
    assert {session for session, _, _ in await everything(memory)} == {agent.state.session_id}


@pytest.mark.requirement("AS2-MW-08")
async def test_notes_and_hints_and_our_own_tools_are_left_out(memory: WatchedMemory) -> None:
    await memory.add_memory("Alice has a rabbit called Flopsy", user_id="default")
    steps = [
        [ThinkingBlock(thinking="hm"), call("memory_search", "c-0", query="rabbit")],
        [call("echo", "c-1", text="hi"), HintBlock(hint="a hint of the model's")],
        "She is well",
    ]
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(steps), tools=[EchoTool(), *await mw.list_tools()], middlewares=[mw])
        await agent.reply(user("How is my rabbit?"))

    assert len(notes_of(agent.state)) == 1
    written = "\n".join(memory.texts)
    assert "Flopsy" not in written
    assert "memory_search" not in written
    assert "hint" not in written
    assert "<" not in written  # no runtime state of the agent's
    assert written.count("echo: hi") == 1
    assert written.endswith("She is well")


@pytest.mark.requirement("AS2-MW-08")
async def test_a_resumed_reply_is_written_in_two_parts_and_each_once(memory: WatchedMemory) -> None:
    model = ScriptedModel([[TextBlock(text="May I?"), call("echo", "c-1", text="hi")], "Done"])
    state = AgentState()
    async with watching(memory) as mw:
        agent = make_agent(model, tools=[AskingTool()], middlewares=[mw], state=state)
        await agent.reply(user("Say hi"))
    assert memory.texts[:1] == ["Say hi"]
    assert "May I?" in memory.texts[1]
    count = len(memory.texts)

    state = AgentState.model_validate_json(agent.state.model_dump_json())
    async with watching(memory) as mw:
        agent = make_agent(model, tools=[AskingTool()], middlewares=[mw], state=state)
        [asked] = [block for block in state.context[-1].content if isinstance(block, ToolCallBlock)]
        results = [ConfirmResult(confirmed=True, tool_call=asked)]
        await agent.reply(UserConfirmResultEvent(reply_id=state.reply_id, confirm_results=results))

    assert memory.texts[count:] == ["echo: hi", "Done"]
    assert [text for _, _, text in await everything(memory)] == memory.texts


@pytest.mark.requirement("AS2-MW-08")
@pytest.mark.parametrize("inputs", [None, []])
async def test_a_reply_to_nothing_is_neither_searched_nor_written(memory: WatchedMemory, inputs: Any) -> None:
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(), middlewares=[mw], state=AgentState(context=[user("Hello rabbit")]))
        await agent.reply(inputs)

    assert memory.searched == []
    assert memory.written == []


@pytest.mark.requirement("AS2-MW-08")
async def test_what_the_context_held_before_is_not_written(memory: WatchedMemory) -> None:
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(["yes"]), middlewares=[mw], state=AgentState(context=[user("of old")]))
        await agent.observe(user("overheard"))
        await agent.reply(user("new"))

    assert memory.texts == ["new", "yes"]


@pytest.mark.requirement("AS2-MW-08")
async def test_calls_with_the_same_id_in_each_turn_are_all_written(memory: WatchedMemory) -> None:
    steps = [step for number in range(3) for step in ([call("echo", "same", text=f"n{number}")], "ok")]
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(steps), tools=[EchoTool()], middlewares=[mw])
        for number in range(3):
            await agent.reply(user(f"turn {number}"))

    assert [text for text in memory.texts if text.startswith("echo:")] == ["echo: n0", "echo: n1", "echo: n2"]


@pytest.mark.requirement("AS2-MW-08")
async def test_what_is_compressed_within_the_reply_is_written_whole_and_once(memory: WatchedMemory) -> None:
    summary = dict.fromkeys(ContextConfig().summary_schema["properties"], "a talk")
    long = "word " * 1_400
    steps: list[Any] = [
        [call("echo", "c-1", text=long)],
        [call("generate_structured_output", "c-2", **summary)],
        "Done",
    ]
    async with watching(memory) as mw:
        agent = make_agent(
            ScriptedModel(steps, context_size=4_000),
            tools=[EchoTool()],
            middlewares=[mw],
            context_config=ContextConfig(reserve_ratio=0.05, tool_result_limit=100_000),
        )
        await agent.reply(user("Say much"))

    assert agent.state.summary
    assert memory.texts[0] == "Say much"
    assert memory.texts.count(f"echo: {long}") == 1
    assert memory.texts[-1] == "Done"
    assert [text for _, _, text in await everything(memory)] == memory.texts


class _SlowOffloader:
    """Is held up until a test lets it go on."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()

    async def offload_context(self, session_id: str, msgs: list[Msg]) -> str:
        self.begun.set()
        await self.gate.wait()
        return "a place"

    async def offload_tool_result(self, session_id: str, tool_result: ToolResultBlock) -> str:
        return "a place"

    async def offload_data_block(self, block: DataBlock) -> DataBlock:
        return block


@pytest.mark.requirement("AS2-MW-08")
@pytest.mark.requirement("AS2-MW-12")
async def test_what_is_compressed_while_the_reply_is_cancelled_is_written_all_the_same(memory: WatchedMemory) -> None:
    """AgentScope finishes a compression that is cancelled, and raises afterwards."""
    summary = dict.fromkeys(ContextConfig().summary_schema["properties"], "a talk")
    offloader = _SlowOffloader()
    question = "Do you know? " * 700
    async with watching(memory, mode="static_control") as mw:
        model = ScriptedModel([[call("generate_structured_output", **summary)]], context_size=2_000)
        config = ContextConfig(reserve_ratio=0.05)
        agent = make_agent(model, middlewares=[mw], offloader=offloader, context_config=config)
        reply = asyncio.create_task(agent.reply(user(question)))
        await offloader.begun.wait()
        reply.cancel()
        await turns()
        offloader.gate.set()
        await asyncio.wait({reply})
        assert question not in agent.state.model_dump_json()

        state = AgentState.model_validate_json(agent.state.model_dump_json())
        await make_agent(ScriptedModel(), middlewares=[mw], state=state).reply(user("Well?"))

    assert memory.texts.count(question) == 1
    assert memory.texts[-2:] == ["Well?", "ok"]


@pytest.mark.requirement("AS2-MW-09")
async def test_a_slow_write_does_not_hold_the_reply_up_and_is_there_after_flush(memory: WatchedMemory) -> None:
    memory.write_gate = asyncio.Event()
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(["noted"]), middlewares=[mw])
        await agent.reply(user("My rabbit is called Flopsy"))
        assert memory.written == []  # it goes on in the background

        memory.write_gate.set()
        await mw.flush()
        assert [text for _, _, text in await everything(memory)] == ["My rabbit is called Flopsy", "noted"]


@pytest.mark.requirement("AS2-MW-09")
@pytest.mark.requirement("AS-PKG-06")
async def test_close_finishes_everything_and_leaves_no_task(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    mw = ReMeMiddleware(workspace_dir=str(tmp_path))
    agents = [make_agent(ScriptedModel(), middlewares=[mw]) for _ in range(3)]
    await asyncio.gather(*(agent.reply(user(f"said by {place}")) for place, agent in enumerate(agents)))
    await mw.close()
    assert asyncio.all_tasks() == before

    async with ReMe("default", tmp_path, llm=None, embedding=None) as memory:
        texts = [text for _, _, text in await everything(memory)]
    assert sorted(text for text in texts if text != "ok") == ["said by 0", "said by 1", "said by 2"]


@pytest.mark.requirement("AS2-MW-09")
async def test_writes_keep_their_order_within_a_session_and_others_pass(memory: WatchedMemory) -> None:
    memory.write_gate = asyncio.Event()
    async with watching(memory) as mw:
        held = make_agent(ScriptedModel(), middlewares=[mw])
        for number in range(3):
            await held.reply(user(f"held {number}"))
        memory.write_gate, gate = None, memory.write_gate
        other = make_agent(ScriptedModel(), middlewares=[mw])
        await other.reply(user("passing"))
        await until(lambda: memory.written)
        assert memory.texts[0] == "passing"
        gate.set()

    assert [text for text in memory.texts if text.startswith("held")] == ["held 0", "held 1", "held 2"]


async def test_a_reply_can_wait_for_its_write(memory: WatchedMemory) -> None:
    async with watching(memory, await_write=True) as mw:
        agent = make_agent(ScriptedModel(["noted"]), middlewares=[mw])
        await agent.reply(user("My rabbit is called Flopsy"))
        assert memory.texts == ["My rabbit is called Flopsy", "noted"]


@pytest.mark.requirement("AS2-MW-10")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("await_write", [False, True])
async def test_a_broken_memory_costs_no_reply_and_is_logged_without_the_talk(
    memory: WatchedMemory, caplog: pytest.LogCaptureFixture, mode: str, *, await_write: bool
) -> None:
    memory.broken = True
    with caplog.at_level(logging.INFO):
        mw = watching(memory, mode=mode, await_write=await_write)
        steps = [[call("memory_search", query="rabbit")], "the answer"] if mode == "both" else ["the answer"]
        agent = make_agent(ScriptedModel(steps), tools=await mw.list_tools(), middlewares=[mw])
        answer = await agent.reply(user("My rabbit is called Flopsy"))
        tools = await mw.list_tools()
        memory.broken = False
        told = [await tool(query="rabbit") for tool in tools if tool.name == "memory_search"]
        memory.broken = True
        with pytest.raises(StoreError, match=r"not on disk.*the disk is gone"):  # the program is told what it loses
            await mw.close()

    assert answer.get_text_content() == "the answer"
    assert all("could not be stored: StoreUnavailableError: the disk is gone" in one.content[0].text for one in told)
    errors = [record for record in caplog.records if record.name == "reme_agentscope"]
    assert sum("an append" in record.getMessage() and record.levelname == "ERROR" for record in errors) == 1
    assert "the disk is gone" in caplog.text
    assert "Flopsy" not in "".join(record.getMessage() for record in errors)


@pytest.mark.requirement("AS2-MW-10")
async def test_what_could_not_be_written_is_written_later_in_its_order(memory: WatchedMemory) -> None:
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(), middlewares=[mw])
        memory.broken = True
        await agent.reply(user("first"))
        await mw.flush()
        memory.broken = False
        await agent.reply(user("second"))

    assert memory.texts == ["first", "ok", "second", "ok"]


@pytest.mark.requirement("AS2-MW-10")
async def test_a_folder_that_can_not_be_opened_costs_no_reply(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("not a folder")
    mw = ReMeMiddleware(workspace_dir=str(taken))
    agent = make_agent(ScriptedModel(["the answer"]), middlewares=[mw])

    assert (await agent.reply(user("hello"))).get_text_content() == "the answer"
    with pytest.raises(StoreError, match="not on disk"):
        await mw.close()


@pytest.mark.requirement("AS2-MW-11")
async def test_four_sessions_at_once_have_each_their_own_note_and_texts(memory: WatchedMemory) -> None:
    animals = ("rabbit", "parrot", "hamster", "tortoise")
    for animal in animals:
        await memory.add_memory(f"Her {animal} is old", user_id="default")
    memory.search_gate, memory.write_gate = asyncio.Event(), asyncio.Event()  # no session finds what another just said
    async with watching(memory, search_timeout=60) as mw:
        agents = [make_agent(ScriptedModel([f"about {animal}"]), middlewares=[mw]) for animal in animals]
        replies = [
            asyncio.create_task(agent.reply(user(f"Tell of the {animal}")))
            for agent, animal in zip(agents, animals, strict=True)
        ]
        await until(lambda: len(memory.searched) == len(animals))
        memory.search_gate.set()
        await asyncio.gather(*replies)
        memory.write_gate.set()

    stored = await everything(memory)
    for agent, animal in zip(agents, animals, strict=True):
        [note] = notes_of(agent.state)
        assert animal in note.model_dump_json()
        assert not any(other in note.model_dump_json() for other in animals if other != animal)
        own = [text for session, _, text in stored if session == agent.state.session_id]
        assert own == [f"Tell of the {animal}", f"about {animal}"]


@pytest.mark.requirement("AS2-MW-11")
async def test_one_message_for_two_agents_is_written_in_both_sessions(memory: WatchedMemory) -> None:
    told = user("Both of you: my rabbit is called Flopsy")
    async with watching(memory) as mw:
        for name in ("one", "two"):
            await make_agent(ScriptedModel([name]), middlewares=[mw], state=AgentState(session_id=name)).reply(told)

    stored = await everything(memory)
    assert sorted((session, text) for session, _, text in stored) == sorted(
        (name, text) for name in ("one", "two") for text in (told.get_text_content(), name)
    )


@pytest.mark.requirement("AS2-MW-12")
async def test_a_cancelled_reply_leaves_nothing_behind_and_is_recorded_with_the_next(memory: WatchedMemory) -> None:
    memory.search_gate = asyncio.Event()
    mw = watching(memory, search_timeout=60)
    agent = make_agent(ScriptedModel(["yes"]), middlewares=[mw])
    before = asyncio.all_tasks()
    reply = asyncio.create_task(agent.reply(user("first")))
    await memory.searching.wait()
    reply.cancel()
    await asyncio.gather(reply, return_exceptions=True)
    await turns()
    assert asyncio.all_tasks() == before
    assert reply.cancelled()

    memory.search_gate = None
    await agent.reply(user("second"))
    await mw.close()
    assert memory.texts == ["first", "second", "yes"]


@pytest.mark.requirement("AS2-MW-12")
async def test_a_reply_that_is_cancelled_in_the_model_leaves_no_search(memory: WatchedMemory) -> None:
    memory.search_gate = asyncio.Event()
    model = ScriptedModel()
    model.hold = asyncio.Event()
    async with watching(memory, search_timeout=0) as mw:
        agent = make_agent(model, middlewares=[mw])
        reply = asyncio.create_task(agent.reply(user("first")))
        await until(lambda: model.asked)
        reply.cancel()
        await asyncio.gather(reply, return_exceptions=True)
        await turns()
        assert [task for task in asyncio.all_tasks() if "search" in task.get_name()] == []

    assert memory.texts[0] == "first"


@pytest.mark.requirement("AS2-MW-08")
async def test_what_is_said_to_a_model_that_fails_is_recorded_at_once_and_once(memory: WatchedMemory) -> None:
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel([RuntimeError("no model")] * 20), middlewares=[mw])
        await asyncio.gather(agent.reply(user("first")), return_exceptions=True)
        await mw.flush()
        assert memory.texts == ["first"]

        agent.model.steps = ["yes"]
        await agent.reply(user("second"))

    assert memory.texts == ["first", "second", "yes"]


@pytest.mark.requirement("AS2-MW-08")
async def test_memories_in_two_folders_both_record_a_reply_of_one_agent(tmp_path: Path) -> None:
    both = [ReMeMiddleware(workspace_dir=str(tmp_path / name)) for name in ("ours", "mine")]
    await make_agent(ScriptedModel(["hello"]), middlewares=both).reply(user("hi"))

    assert await both[0].get_middleware_key() != await both[1].get_middleware_key()
    for mw, name in zip(both, ("ours", "mine"), strict=True):
        await mw.close()
        async with ReMe(working_dir=tmp_path / name, llm=None, embedding=None) as memory:
            assert [text for _, _, text in await everything(memory)] == ["hi", "hello"]


async def test_two_memories_handed_in_both_record_a_reply_of_one_agent(tmp_path: Path) -> None:
    memories = [ReMe(working_dir=tmp_path / name, llm=None, embedding=None) for name in ("ours", "mine")]
    both = [ReMeMiddleware(reme=memory) for memory in memories]
    await make_agent(ScriptedModel(["hello"]), middlewares=both).reply(user("hi"))

    for mw, memory in zip(both, memories, strict=True):
        await mw.close()
        assert [text for _, _, text in await everything(memory)] == ["hi", "hello"]
        await memory.close()


async def test_a_caller_who_leaves_at_the_end_of_the_stream_is_remembered(memory: WatchedMemory) -> None:
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(["one", "two"]), middlewares=[mw])
        for text in ("first", "second"):
            async for event in agent.reply_stream(user(text)):
                if isinstance(event, ReplyEndEvent):
                    break

    assert memory.texts == ["first", "one", "second", "two"]


async def test_odd_sessions_and_texts_are_kept(memory: WatchedMemory) -> None:
    state = AgentState(session_id=" ../\n" * 200)
    async with watching(memory) as mw:
        agent = make_agent(ScriptedModel(["\ud83d broken"]), middlewares=[mw], state=state)
        await agent.reply(user("NUL \0 and 兔子 \u2028 %s {x} ;--"))

    assert len(memory.texts) == 2
    assert "兔子" in memory.texts[0]
    assert memory.texts[1].endswith(" broken")


async def test_memories_are_made_of_what_is_said(tmp_path: Path) -> None:
    """With a chat model they are there after `close`; the model's name and stream flag are untouched."""
    extractor = ScriptedModel(['{"memories": []}'] * 5)
    parameters = ReMeMiddleware.Parameters(chat_model=extractor)
    async with ReMeMiddleware(workspace_dir=str(tmp_path), parameters=parameters) as mw:
        await make_agent(ScriptedModel(), middlewares=[mw]).reply(user("My rabbit is called Flopsy"))

    assert extractor.asked
    assert "Flopsy" in extractor.asked[0].text


@pytest.mark.requirement("AS-PKG-06")
def test_one_middleware_serves_a_second_event_loop(tmp_path: Path) -> None:
    mw = ReMeMiddleware(workspace_dir=str(tmp_path))

    async def talk(text: str) -> None:
        await make_agent(ScriptedModel(), middlewares=[mw]).reply(user(text))
        await mw.close()

    asyncio.run(talk("first"))
    asyncio.run(talk("second"))

    async def texts() -> list[str]:
        async with ReMe("default", tmp_path, llm=None, embedding=None) as memory:
            return [text for _, _, text in await everything(memory)]

    assert [text for text in asyncio.run(texts()) if text != "ok"] == ["first", "second"]
