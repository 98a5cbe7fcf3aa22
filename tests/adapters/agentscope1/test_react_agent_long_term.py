"""Long-term memory in a real `ReActAgent`, in each mode."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentscope.agent import ReActAgent
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg
from agentscope.session import JSONSession
from agentscope.token import CharTokenCounter
from agentscope.tool import Toolkit
from pydantic import BaseModel

from reme_agentscope.v1.long_term import _memory_base as _long_term
from reme_agentscope.v1.long_term.long_term_memory import (
    ReMePersonalLongTermMemory,
    ReMeTaskLongTermMemory,
    ReMeToolLongTermMemory,
)
from reme_agentscope.v1.working_memory.memory import ReMeMemory
from reme_core import ReMe
from reme_core.errors import ModelUnavailableError
from reme_core.testing import FixedClock, HashedEmbedder, ScriptedChatModel
from tests.adapters.agentscope1.scripted import (
    ScriptedFormatter,
    ScriptedModel,
    call,
    echo,
    failing,
    make_agent,
    user,
)

MODES: list[dict[str, Any]] = [
    {"long_term_memory_mode": "static_control"},
    {"long_term_memory_mode": "both"},
    {},
]
ALL_MODES = [*MODES, {"long_term_memory_mode": "agent_control"}]
CLASSES = [ReMePersonalLongTermMemory, ReMeTaskLongTermMemory, ReMeToolLongTermMemory]
TOOLS = {"record_to_memory", "retrieve_from_memory"}


def memory_of(path: Path, **kwargs: Any) -> ReMe:
    return ReMe("space", path, **{"llm": None, "embedding": None, **kwargs})


async def texts_in(reme: ReMe, user_id: str = "default") -> list[str]:
    """Return what is kept word for word, in order."""
    return [item.message.full_text for item in (await reme.find_messages(user_id=user_id, limit=1000)).messages]


def tool_names(model: ScriptedModel, at: int = 0) -> set[str]:
    return {tool["function"]["name"] for tool in model.asked[at].tools or []}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a write may take longer than a reply waits for it."""
    monkeypatch.setattr(_long_term, "_PATIENCE_S", 10)


@pytest.fixture
async def reme(tmp_path: Path):
    async with memory_of(tmp_path) as made:
        yield made


@pytest.fixture
def asyncio_errors() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep(level=logging.ERROR)
    logging.getLogger("asyncio").addHandler(handler)
    yield records
    logging.getLogger("asyncio").removeHandler(handler)


SESSION_ONE = """
import asyncio
from reme_agentscope import ReMePersonalLongTermMemory
from reme_agentscope.v1.long_term import _memory_base as _long_term
from tests.adapters.agentscope1.scripted import ScriptedModel, make_agent, user

_long_term._PATIENCE_S = 10

async def main():
    for name in ("static_control", "both", "default", "agent_control"):
        mode = {} if name == "default" else {"long_term_memory_mode": name}
        memory = ReMePersonalLongTermMemory(user_name=name)
        agent = make_agent(ScriptedModel(["A fine name."]), long_term_memory=memory, **mode)
        await agent(user("My rabbit is called Flopsy"))
    # and no close: the process ends as it likes

asyncio.run(main())
"""


@pytest.mark.requirement("AS1-LTM-22")
@pytest.mark.requirement("AS1-LTM-23")
async def test_what_was_said_in_one_process_is_in_the_first_prompt_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[3]
    run = [sys.executable, "-c", SESSION_ONE]
    await asyncio.to_thread(subprocess.run, run, cwd=tmp_path, env={"PYTHONPATH": str(root)}, check=True)
    monkeypatch.chdir(tmp_path)
    for name in ("static_control", "both", "default", "agent_control"):
        mode = {} if name == "default" else {"long_term_memory_mode": name}
        async with ReMePersonalLongTermMemory(user_name=name) as memory:
            model = ScriptedModel()
            agent = make_agent(model, long_term_memory=memory, **mode)
            await agent(user("What is my rabbit called?"))
        if name == "agent_control":
            assert "Flopsy" not in model.asked[0].text
            continue
        injected = model.asked[0].messages[-1]
        assert (injected["name"], injected["role"]) == ("long_term_memory", "user")
        assert injected["content"].startswith("<long_term_memory>")
        assert injected["content"].endswith("</long_term_memory>")
        assert "Flopsy" in injected["content"]
        assert model.asked[0].names.count("long_term_memory") == 1


@pytest.mark.requirement("AS1-LTM-22")
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("mode", MODES)
async def test_an_unknown_topic_injects_nothing(kind: type, mode: dict[str, Any], reme: ReMe) -> None:
    await make_agent(ScriptedModel(), long_term_memory=kind(reme=reme), **mode)(user("My rabbit is called Flopsy"))
    model = ScriptedModel()
    await make_agent(model, long_term_memory=kind(reme=reme), **mode)(user("Explain quantum chromodynamics"))
    assert model.asked[0].roles == ["system", "user"]


@pytest.mark.requirement("AS1-LTM-23")
@pytest.mark.parametrize("kind", CLASSES)
async def test_tools_are_offered_where_the_agent_controls(kind: type, reme: ReMe) -> None:
    for mode in ALL_MODES:
        model = ScriptedModel()
        await make_agent(model, long_term_memory=kind(reme=reme), **mode)(user("hello"))
        offered = mode.get("long_term_memory_mode") != "static_control"
        assert tool_names(model) == (TOOLS if offered else set())


@pytest.mark.requirement("AS1-LTM-23")
async def test_an_agent_in_control_records_by_tools_alone(reme: ReMe) -> None:
    mode = {"long_term_memory_mode": "agent_control"}
    model = ScriptedModel(
        [[call("record_to_memory", thinking="a pet", content=["The rabbit is called Flopsy"])], "Noted.", "Fine."]
    )
    agent = make_agent(model, long_term_memory=ReMePersonalLongTermMemory(reme=reme), **mode)
    await agent(user("Remember my rabbit Flopsy"))
    await agent(user("I also have a zebra"))
    assert "Successfully recorded 1 memory/memories" in model.asked[1].text
    assert await texts_in(reme) == []

    model = ScriptedModel([[call("retrieve_from_memory", keywords=["rabbit"])], "Flopsy!"])
    await make_agent(model, long_term_memory=ReMePersonalLongTermMemory(reme=reme), **mode)(user("My rabbit's name?"))
    assert model.asked[0].roles == ["system", "user"]
    assert "The rabbit is called Flopsy" in model.asked[1].text


class Pet(BaseModel):
    pet: str


@pytest.mark.requirement("AS1-LTM-24")
async def test_structured_and_cut_off_replies_are_recorded(reme: ReMe) -> None:
    model = ScriptedModel([[call("generate_response", pet="Flopsy")], "It is Flopsy, I gather."])
    memory = ReMePersonalLongTermMemory(reme=reme)
    reply = await make_agent(model, long_term_memory=memory)(user("Flopsy is my rabbit"), structured_model=Pet)
    assert reply.metadata == {"pet": "Flopsy"}
    kept = await texts_in(reme)
    assert kept[0] == "Flopsy is my rabbit"
    assert "It is Flopsy, I gather." in kept
    assert not any("<system-hint>" in text for text in kept)

    model = ScriptedModel([[call("echo", text="a")], "I ran out of steps."])
    agent = make_agent(model, tools=[echo], long_term_memory=memory, max_iters=1)
    await agent(user("Go on for ever"))
    assert (await texts_in(reme))[-1] == "I ran out of steps."


@pytest.mark.requirement("AS1-LTM-25")
@pytest.mark.requirement("AS1-LTM-19")
@pytest.mark.parametrize("mode", MODES)
async def test_ten_turns_on_one_fact_store_it_once_and_injections_never(mode: dict[str, Any], reme: ReMe) -> None:
    agent = make_agent(ScriptedModel(), long_term_memory=ReMePersonalLongTermMemory(reme=reme), **mode)
    for turn in range(10):
        await agent(user(f"My rabbit is called Flopsy, {turn}"))
    said = [text for turn in range(10) for text in (f"My rabbit is called Flopsy, {turn}", "ok")]
    assert await texts_in(reme) == said


@pytest.mark.requirement("AS1-LTM-25")
async def test_a_summary_of_agentscopes_compression_is_not_stored(reme: ReMe) -> None:
    fields = ReActAgent.CompressionConfig.model_fields["summary_schema"].default.model_fields
    summary = dict.fromkeys(fields, "the compressed story")
    agent = make_agent(
        ScriptedModel(),
        long_term_memory=ReMePersonalLongTermMemory(reme=reme),
        compression_config=ReActAgent.CompressionConfig(
            enable=True,
            agent_token_counter=CharTokenCounter(),
            trigger_threshold=300,
            keep_recent=2,
            compression_model=ScriptedModel([summary] * 20),
        ),
    )
    for turn in range(6):
        await agent(user(f"Turn {turn} " + "about rabbits " * 10))
    assert "the compressed story" in agent.model.asked[-1].text
    kept = await texts_in(reme)
    assert not any("the compressed story" in text for text in kept)
    turns = [text for text in kept if text.startswith("Turn ")]
    assert len(set(turns)) == len(turns)
    assert turns[-1].startswith("Turn 5")


@pytest.mark.requirement("AS1-LTM-25")
async def test_what_our_working_memory_compresses_within_a_reply_is_stored(reme: ReMe) -> None:
    memory = ReMePersonalLongTermMemory(reme=reme)
    working = ReMeMemory(
        token_counter=CharTokenCounter(),
        max_tokens=2500,
        keep_recent=1,
        long_term_memory=memory,
    )
    steps = [[call("echo", f"c{n}", text=f"step {n} " + "rabbits " * 60)] for n in range(5)]
    model = ScriptedModel([*steps, "Done."])
    agent = make_agent(model, tools=[echo], memory=working, long_term_memory=memory)
    await agent(user("Begin the long story"))
    await memory.flush()
    left = await working.get_memory(mark="compressed", prepend_summary=False)
    assert any("echo: step 0" in str(msg.content) for msg in left)
    kept = await texts_in(reme)
    assert all(any(f"echo: step {n} " in text for text in kept) for n in range(5))
    assert kept.count("Begin the long story") == 1
    assert all(text.count("step ") <= 1 for text in kept)  # the summary quotes several


@pytest.mark.requirement("AS1-LTM-16")
@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.filterwarnings("ignore:Error re:UserWarning")  # they are what the contract asks for
async def test_a_broken_store_ends_no_reply(kind: type, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    for mode in ALL_MODES:
        memory = kind(reme=memory_of(tmp_path / "file"))
        model = ScriptedModel(["I answer."])
        if mode.get("long_term_memory_mode") != "static_control":
            model.steps = [
                [
                    call("retrieve_from_memory", "c1", keywords=["x"]),
                    call("record_to_memory", "c2", thinking="", content=["x"]),
                ],
                "I answer.",
            ]
        reply = await make_agent(model, long_term_memory=memory, **mode)(user("search my rabbit"))
        assert reply.get_text_content() == "I answer."


@pytest.mark.requirement("AS1-LTM-18")
async def test_a_reply_does_not_wait_for_the_model_that_makes_memories(tmp_path: Path) -> None:
    may_answer = asyncio.Event()
    fact = {"type": "personal", "target": "Ann", "content": "Ann keeps a rabbit named Flopsy", "messages": [1]}

    async def slowly(_: Any) -> str:
        await may_answer.wait()
        return json.dumps({"facts": [fact]})

    async with memory_of(tmp_path, llm=ScriptedChatModel([slowly])) as reme:
        memory = ReMePersonalLongTermMemory(reme=reme)
        reply = await make_agent(ScriptedModel(["Nice."]), long_term_memory=memory)(user("My rabbit is called Flopsy"))
        assert reply.get_text_content() == "Nice."
        assert await texts_in(reme) == ["My rabbit is called Flopsy", "Nice."]
        may_answer.set()
        await memory.close()
        assert len((await reme.list_memories(user_id="default")).memories) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("AS1-LTM-26")
async def test_four_agents_share_one_memory_at_the_same_time(reme: ReMe) -> None:
    memory = ReMePersonalLongTermMemory(reme=reme)

    async def talk(number: int) -> None:
        agent = make_agent(ScriptedModel(), name=f"agent{number}", long_term_memory=memory, toolkit=Toolkit())
        for turn in range(2):
            await agent(user(f"agent {number} turn {turn} speaks of rabbits"))

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(talk(number))
    kept = [text for text in await texts_in(reme) if text != "ok"]
    assert sorted(kept) == [f"agent {n} turn {turn} speaks of rabbits" for n in range(4) for turn in range(2)]


@pytest.mark.requirement("AS1-LTM-26")
async def test_streaming_parallel_tools_and_printed_hints_work(
    reme: ReMe, asyncio_errors: list[logging.LogRecord]
) -> None:
    await ReMeToolLongTermMemory(reme=reme).record_to_memory(
        thinking="", content=[json.dumps({"tool_name": "echo", "input": {"text": "hi"}, "output": "echo: hi"})]
    )
    calls = [call("echo", f"c{n}", text=f"t{n}") for n in range(3)] + [call("failing", "c3", text="boom")]
    model = ScriptedModel([calls, "Done."], stream=True)
    memory = ReMeToolLongTermMemory(reme=reme)
    agent = make_agent(
        model,
        tools=[echo, failing],
        long_term_memory=memory,
        parallel_tool_calls=True,
        print_hint_msg=True,
        formatter=ScriptedFormatter(),
    )
    await agent(user("Use echo four times"))
    assert "## echo" in model.asked[0].text
    known = await reme.retrieve_tool_memory(["echo", "failing"], user_id="default")
    assert [(tool.statistics.calls, tool.statistics.successes) for tool in known.results] == [(4, 4), (1, 0)]
    assert asyncio_errors == []


@pytest.mark.requirement("AS1-LTM-26")
@pytest.mark.requirement("AS1-LTM-19")
@pytest.mark.parametrize("kind", CLASSES)
async def test_a_session_saves_the_memory_and_a_resumed_chat_records_nothing_twice(
    kind: type, reme: ReMe, tmp_path: Path
) -> None:
    session = JSONSession(str(tmp_path / "sessions"))
    agent = make_agent(ScriptedModel(), long_term_memory=kind(reme=reme))
    await agent(user("My rabbit is called Flopsy"))
    await session.save_session_state("s", agent=agent)
    saved = json.loads(next((tmp_path / "sessions").iterdir()).read_text(encoding="utf-8"))
    assert saved["agent"]["long_term_memory"]["recorded"]

    resumed = make_agent(ScriptedModel(), long_term_memory=kind(reme=reme))
    await session.load_session_state("s", agent=resumed)
    await resumed(user("It eats figs"))
    if kind is not ReMeToolLongTermMemory:
        assert await texts_in(reme) == ["My rabbit is called Flopsy", "ok", "It eats figs", "ok"]
        assert "Flopsy" in resumed.model.asked[0].text


@pytest.mark.requirement("AS1-LTM-03")
async def test_a_chat_saved_with_agentscopes_own_class_loads(reme: ReMe) -> None:
    agent = make_agent(ScriptedModel(), long_term_memory=ReMePersonalLongTermMemory(reme=reme))
    state = {**agent.state_dict(), "long_term_memory": {}}
    agent.load_state_dict(state)
    without = {key: value for key, value in state.items() if key != "long_term_memory"}
    with pytest.raises(KeyError, match="long_term_memory"):
        agent.load_state_dict(without)


@pytest.mark.requirement("AS1-LTM-27")
async def test_two_agents_on_one_toolkit_clash_by_agentscopes_rule(reme: ReMe) -> None:
    toolkit = Toolkit()
    memory = ReMePersonalLongTermMemory(reme=reme)
    make_agent(ScriptedModel(), toolkit=toolkit, long_term_memory=memory)
    with pytest.raises(ValueError, match="record_to_memory"):
        make_agent(ScriptedModel(), toolkit=toolkit, long_term_memory=memory)


async def test_what_a_tool_of_memory_answered_is_not_found_as_talk(reme: ReMe) -> None:
    memory = ReMePersonalLongTermMemory(reme=reme)
    await memory.record_to_memory(thinking="", content=["The rabbit is called Flopsy"])
    model = ScriptedModel([[call("retrieve_from_memory", keywords=["rabbit"])], "Flopsy it is."])
    agent = make_agent(model, long_term_memory=memory, memory=InMemoryMemory())
    await agent(Msg("user", "My rabbit's name?", "user"))
    assert await texts_in(reme) == ["My rabbit's name?", "Flopsy it is."]


@pytest.mark.parametrize("kind", [ReMePersonalLongTermMemory, ReMeTaskLongTermMemory])
async def test_an_embedder_that_fails_leaves_an_agent_what_words_find_and_is_asked_once(
    kind: type, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    down = HashedEmbedder(32, failures=[None, *[ModelUnavailableError("away")] * 9])
    async with memory_of(tmp_path, embedding=down, clock=FixedClock()) as reme:
        kinds = "procedural" if kind is ReMeTaskLongTermMemory else "personal"
        await reme.add_memory("The rabbit is called Flopsy", user_id="default", memory_type=kinds)
        model = ScriptedModel(["Flopsy."] * 3)
        memory = kind(reme=reme)
        for _ in range(3):
            agent = make_agent(model, long_term_memory=memory, long_term_memory_mode="static_control")
            await agent(user("What is my rabbit called?"))
        assert all("Flopsy" in asked.text for asked in model.asked)
        assert len(down.calls) == 2
        await memory.close()
    assert len([record for record in caplog.records if record.name == "reme" and record.levelno >= 30]) == 1
