"""Types that a graph declares are rebuilt without being told; others are refused, when written and when read."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

from reme_core.errors import ConfigurationError
from reme_langchain import ReMeSaver

AT: Any = {"configurable": {"thread_id": "t"}}


class Weather(BaseModel):
    city: str


class Mood(Enum):
    GOOD = "good"


@dataclass
class Part:
    mood: Mood


class Question(BaseModel):
    text: str


@dataclass
class Answer:
    text: str


@dataclass
class Stranger:
    x: int


class Model(GenericFakeChatModel):
    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


def answering(name: str) -> BaseChatModel:
    call = {"name": name, "args": {"city": "Rome"}, "id": "1"}
    return Model(messages=iter([AIMessage("", tool_calls=[call])]))


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[ReMeSaver]:
    with ReMeSaver.from_path(tmp_path / "m.db", synchronous="NORMAL") as opened:
        yield opened


def weather_agent(saver: ReMeSaver) -> Any:
    return create_agent(answering("Weather"), response_format=ToolStrategy(Weather), checkpointer=saver)


IN_ANOTHER_PROCESS = """
import sys
from reme_langchain import ReMeSaver
from tests.adapters.langchain.saver.test_declared_types import AT, weather_agent
with ReMeSaver.from_path(sys.argv[1]) as saver:
    print(repr(weather_agent(saver).get_state(AT).values["structured_response"]))
"""


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_structured_answer_is_rebuilt_in_another_process_too(
    saver: ReMeSaver, tmp_path: Path, *, is_async: bool
) -> None:
    agent, said = weather_agent(saver), {"messages": [("user", "Weather?")]}
    result = await agent.ainvoke(said, AT) if is_async else agent.invoke(said, AT)
    assert result["structured_response"] == Weather(city="Rome")
    assert agent.get_state(AT).values["structured_response"] == Weather(city="Rome")
    run = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path / "m.db")]
    found = subprocess.run(run, capture_output=True, text=True, check=False)  # noqa: ASYNC221
    assert found.stdout.strip() == "Weather(city='Rome')", found.stderr


def test_an_answer_that_can_not_be_rebuilt_is_refused_before_the_model_is_asked(saver: ReMeSaver) -> None:
    class Local(BaseModel):
        city: str

    model = Model(messages=iter([]))  # asked, it raises StopIteration
    agent = create_agent(model, response_format=Local, checkpointer=saver)
    for _ in range(2):
        with pytest.raises(TypeError, match="top of its module"):
            agent.invoke({"messages": [("user", "Weather?")]}, AT)


class State(TypedDict, total=False):
    parts: Annotated[list[Part], operator.add]
    answer: Any


def test_what_state_sends_and_interrupts_declare_is_rebuilt(saver: ReMeSaver) -> None:
    def plan(_: State) -> Any:
        return Command(goto=[Send("work", Part(Mood.GOOD)), Send("ask", {"parts": []})])

    def work(part: Part) -> State:
        return {"parts": [part]}

    def ask(_: State) -> State:
        return {"answer": interrupt(Question(text="Which?"))}

    graph = StateGraph(State).add_node("plan", plan).add_node("work", work).add_node("ask", ask)
    app = graph.add_edge(START, "plan").compile(checkpointer=saver)
    app.invoke({"parts": []}, AT)
    state = app.get_state(AT)
    assert [each.value for each in state.interrupts] == [Question(text="Which?")]
    done = app.invoke(Command(resume="that one"), AT)
    assert done == {"parts": [Part(Mood.GOOD)], "answer": "that one"}
    assert app.get_state(AT).values == done


def test_what_functions_annotate_is_rebuilt(saver: ReMeSaver) -> None:
    @task
    def think(text: str) -> Answer:
        return Answer(text)

    @entrypoint(checkpointer=saver)
    def flow(text: str, *, previous: Answer | None = None) -> Answer:
        return think(text).result() if previous is None else previous

    assert flow.invoke("a", AT) == Answer("a")
    assert flow.invoke("b", AT) == Answer("a")


def test_what_a_graph_does_not_declare_is_refused(saver: ReMeSaver) -> None:
    made = [Stranger(1)]

    def reply(_: State) -> State:
        return {"answer": made[0]}

    app = StateGraph(State).add_node("reply", reply).add_edge(START, "reply").compile(checkpointer=saver)
    with pytest.raises(TypeError, match="allow="):
        app.invoke({"parts": []}, AT)


def checkpoint(value: object) -> Checkpoint:
    made = empty_checkpoint()
    made["channel_values"], made["channel_versions"] = {"x": value}, {"x": "1"}
    return made


def keep(saver: ReMeSaver, value: object) -> Any:
    made = checkpoint(value)
    return saver.put({"configurable": {"thread_id": "p", "checkpoint_ns": ""}}, made, {}, made["channel_versions"])


def test_reading_a_type_that_is_not_allowed_is_an_error(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "m.db", allow=[Stranger]) as saver:
        at = keep(saver, [Stranger(1)])
    with ReMeSaver.from_path(tmp_path / "m.db") as saver:
        with pytest.raises(ConfigurationError, match=r"Stranger.*allow="):
            saver.get_tuple(at)
        with pytest.raises(ConfigurationError, match=r"Stranger.*allow="):
            list(saver.list(at))


def test_a_module_is_allowed_with_all_that_it_defines(tmp_path: Path) -> None:
    with ReMeSaver.from_path(tmp_path / "m.db", allow=[sys.modules[__name__]]) as saver:
        at = keep(saver, [Stranger(1), Mood.GOOD, Weather(city="Rome")])
        found = saver.get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"]["x"] == [Stranger(1), Mood.GOOD, Weather(city="Rome")]


def test_a_permissive_serialiser_is_not_restricted(tmp_path: Path) -> None:
    @dataclass
    class Local:
        x: int

    serde = JsonPlusSerializer(allowed_msgpack_modules=True)
    with ReMeSaver.from_path(tmp_path / "m.db", serde=serde) as saver:
        at = keep(saver, [Stranger(1), Local(2)])
        found = saver.get_tuple(at)
        assert found is not None
        assert found.checkpoint["channel_values"]["x"] == [Stranger(1), {"x": 2}]  # as InMemorySaver has it


def test_a_schema_made_inside_a_function_runs_as_with_other_checkpointers(saver: ReMeSaver) -> None:
    class Local(BaseModel):
        inner: Question

    def reply(state: Any) -> Any:
        return {"inner": Question(text=state.inner.text + "!")}

    app = StateGraph(Local).add_node("reply", reply).add_edge(START, "reply").compile(checkpointer=saver)
    assert app.invoke(Local(inner=Question(text="a")), AT) == {"inner": Question(text="a!")}
    assert app.invoke({"inner": {"text": "b"}}, AT) == {"inner": Question(text="b!")}
