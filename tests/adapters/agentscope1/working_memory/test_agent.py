"""`ReMeMemory` in a real `ReActAgent`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agentscope.agent import ReActAgent
from agentscope.message import Msg
from agentscope.plan import PlanNotebook, SubTask
from agentscope.session import JSONSession
from agentscope.token import CharTokenCounter
from pydantic import BaseModel

from reme_agentscope.v1.working_memory.memory import ReMeMemory
from tests.adapters.agentscope1.scripted import Asked, ScriptedModel, call, echo, failing, make_agent, user
from tests.adapters.agentscope1.working_memory.memory_rules import ids


@pytest.fixture(params=["in the process", "on disk", "with a budget"])
async def memory(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ReMeMemory]:
    kwargs: dict[str, Any] = {"in the process": {}, "on disk": {"location": tmp_path}}.get(
        request.param, {"location": tmp_path, "max_tokens": 100_000}
    )
    made = ReMeMemory(**kwargs)
    yield made
    await made.close()


def sent_calls(asked: Asked, kind: str) -> list[str]:
    blocks = [
        block for message in asked.messages if isinstance(message["content"], list) for block in message["content"]
    ]
    return [block["id"] for block in blocks if block["type"] == kind]


@pytest.mark.requirement("AS1-MEM-28")
@pytest.mark.parametrize("stream", [False, True])
async def test_two_turns_are_stored_and_sent(memory: ReMeMemory, stream: bool) -> None:
    model = ScriptedModel(["first", "second"], stream=stream)
    agent = make_agent(model, memory=memory)
    assert agent.memory is memory
    await agent(user("hello"))
    await agent(user("again"))
    stored = await memory.get_memory()
    assert [msg.role for msg in stored] == ["user", "assistant", "user", "assistant"]
    assert [msg.get_text_content() for msg in stored] == ["hello", "first", "again", "second"]
    assert model.asked[1].texts == ["You help.", "hello", "first", "again"]
    await agent(None)
    await agent.observe(None)
    assert await memory.size() == 5


@pytest.mark.requirement("AS1-MEM-29")
@pytest.mark.parametrize("parallel", [False, True])
async def test_five_calls_in_one_step_are_eight_messages(memory: ReMeMemory, parallel: bool) -> None:
    names = [f"c{n}" for n in range(5)]
    model = ScriptedModel([[call("failing" if name == "c3" else "echo", name, text=name) for name in names], "done"])
    agent = make_agent(model, tools=[echo, failing], memory=memory, parallel_tool_calls=parallel)
    await agent(user("go"))
    stored = await memory.get_memory()
    assert len(stored) == 8
    assert [block["id"] for block in stored[1].get_content_blocks("tool_use")] == names
    results = [block["id"] for msg in stored[2:7] for block in msg.get_content_blocks("tool_result")]
    assert sorted(results) == names
    assert "echo: c4" in model.asked[1].text
    assert sorted(sent_calls(model.asked[1], "tool_result")) == sent_calls(model.asked[1], "tool_use") == names


class Answer(BaseModel):
    number: int


@pytest.mark.requirement("AS1-MEM-30")
async def test_hints_of_structured_output_are_in_the_next_prompt_alone(memory: ReMeMemory) -> None:
    model = ScriptedModel(["no call", [call("generate_response", "g", number=3)], "three"])
    agent = make_agent(model, memory=memory)
    answer = await agent(user("how many"), structured_model=Answer)
    assert answer.metadata == {"number": 3}
    hinted = [[n for n, text in enumerate(asked.texts) if text.startswith("<system-hint>")] for asked in model.asked]
    assert hinted == [[], [len(model.asked[1].texts) - 1], [len(model.asked[2].texts) - 1]]
    assert "system-hint" not in json.dumps(memory.state_dict())
    assert await memory.get_memory(mark="hint") == []


@pytest.mark.requirement("AS1-MEM-30")
async def test_plan_hints_are_in_one_prompt_each_and_nothing_is_left(memory: ReMeMemory) -> None:
    notebook = PlanNotebook()
    await notebook.create_plan(
        "paint",
        "paint the house",
        "green",
        [SubTask(name="door", description="paint it", expected_outcome="green")],
    )
    model = ScriptedModel([[call("echo", "c", text="x")], "done"])
    agent = make_agent(model, tools=[echo], memory=memory, plan_notebook=notebook)
    await agent(user("go"))
    for asked in model.asked:
        assert sum(text.startswith("<system-hint>") for text in asked.texts) == 1
        assert asked.texts[-1].startswith("<system-hint>")
    assert "system-hint" not in json.dumps(memory.state_dict())


@pytest.mark.requirement("AS1-MEM-30")
async def test_a_reply_without_further_steps_stores_its_summary(memory: ReMeMemory) -> None:
    model = ScriptedModel([[call("echo", "c1", text="x")], [call("echo", "c2", text="y")], "out of steps"])
    agent = make_agent(model, tools=[echo], memory=memory, max_iters=2)
    await agent(user("go"))
    assert (await memory.get_memory())[-1].get_text_content() == "out of steps"


FIELDS = ("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve")


@pytest.mark.requirement("AS1-MEM-31")
async def test_agentscopes_own_compression_works_on_it(memory: ReMeMemory) -> None:
    def step(messages: list[dict[str, Any]]) -> Any:
        is_asked = "continuation summary" in str(messages[-1]["content"])
        return {field: f"{field} {len(compressions)}" for field in FIELDS} if is_asked else next(turns)

    compressions: list[Asked] = []
    turns = iter([[call("echo", "c1", text="a")], "one", [call("echo", "c2", text="b")], *[f"{n}" for n in range(9)]])
    model = ScriptedModel([step] * 20)
    config = ReActAgent.CompressionConfig(
        enable=True, agent_token_counter=CharTokenCounter(), trigger_threshold=1200, keep_recent=2
    )
    agent = make_agent(model, tools=[echo], memory=memory, compression_config=config)
    for number in range(5):
        await agent(user(f"turn {number} " + "words " * 60))
        compressions = [asked for asked in model.asked if asked.structured_model is not None]
    assert len(compressions) >= 2
    assert await memory.size() == 14
    hidden = await ids(memory, mark="compressed", prepend_summary=False)
    assert hidden
    assert any("task_overview 0" in asked.text for asked in compressions[1:])
    shown = await memory.get_memory(exclude_mark="compressed")
    assert shown[0].content == memory.get_compressed_summary()
    assert len(shown) == 1 + 14 - len(hidden)
    last = model.asked[-1]
    assert last.texts[0] == "You help."
    assert last.texts[1] == shown[0].content
    for asked in model.asked:
        assert set(sent_calls(asked, "tool_use")) == set(sent_calls(asked, "tool_result"))


@pytest.mark.requirement("AS1-MEM-32")
@pytest.mark.requirement("AS1-MEM-26")
async def test_a_session_is_saved_and_loaded(memory: ReMeMemory, tmp_path: Path) -> None:
    agent = make_agent(ScriptedModel(["first"]), memory=memory)
    await agent(user("hello"))
    await memory.update_compressed_summary("what was before")
    json.dumps(agent.state_dict())
    session = JSONSession(save_dir=str(tmp_path / "sessions"))
    await session.save_session_state("s", agent=agent)
    model = ScriptedModel(["second"])
    fresh = ReMeMemory(location=tmp_path / "fresh")
    again = make_agent(model, memory=fresh)
    await fresh.add(Msg("user", "to be replaced", "user"))
    await session.load_session_state("s", agent=again)
    await again(user("new"))
    assert model.asked[0].texts == ["You help.", "what was before", "hello", "first", "new"]
    await fresh.close()
    reopened = ReMeMemory(location=tmp_path / "fresh")
    assert await reopened.size() == 4
    await reopened.close()


@pytest.mark.requirement("AS1-MEM-33")
@pytest.mark.requirement("AS1-MEM-34")
async def test_a_huge_result_in_the_going_turn_is_sent_shortened(tmp_path: Path) -> None:
    async def huge() -> Any:
        """Return a very long text, as logs are."""
        return await echo("x" * 200_000)

    model = ScriptedModel([[call("huge", "c1")], "done"])
    memory = ReMeMemory(location=tmp_path, max_tokens=4000)
    agent = make_agent(model, tools=[huge], memory=memory)
    await agent(user("what does it say"))
    assert len(model.asked[1].text) < 4 * 4000
    assert model.asked[1].texts[1] == "what does it say"
    assert "reload " in model.asked[1].text
    assert len(json.dumps(memory.state_dict())) > 200_000
    await memory.close()
