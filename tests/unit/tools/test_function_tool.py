"""A function with type hints and a docstring is a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core import AgenticRetriever, Message, ReMe, RerankingRetriever
from reme_core.errors import ConfigurationError
from reme_core.ports import ToolContext
from reme_core.schema import ToolCallBlock
from reme_core.testing import ScriptedChatModel
from reme_core.tools import FunctionTool, tool
from reme_core.tools.base import parameters_of


@tool
def weather(city: str, days: int = 1) -> str:
    """Tell the weather
    of a city.

    Not for the moon.

    Args:
        city: Where.
        days (int): How many.
    """
    return f"{city}: sun for {days} days"


@tool
async def whose(context: ToolContext) -> str:
    """Tell whose memory it is."""
    return context.scope.user_id


def calling(name: str, **arguments: object) -> Message:
    block = ToolCallBlock.model_validate({"call_id": "c", "name": name, "arguments": arguments})
    return Message(role="assistant", content=(block,))


def test_hints_and_docstring_are_what_the_model_is_shown() -> None:
    assert (weather.name, weather.description) == ("weather", "Tell the weather of a city.")
    assert parameters_of(weather.arguments) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "default": 1, "description": "How many."},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert parameters_of(whose.arguments)["properties"] == {}


def test_a_decorated_function_is_still_called_like_one() -> None:
    assert isinstance(weather, FunctionTool)
    assert weather("Lisbon", days=2) == "Lisbon: sun for 2 days"


async def test_an_agent_calls_functions_and_is_told_what_it_writes_wrongly(tmp_path: Path) -> None:
    model = ScriptedChatModel(
        [calling("weather", city="Lisbon", until="May"), calling("whose"), "It is sunny, and you are alice."]
    )
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        memory.set_retriever(AgenticRetriever(tools=[weather, whose]), system_prompt="You know the sky.")
        found = await memory.retrieve("Is it sunny?", user_id="alice")
    assert found.answer == "It is sunny, and you are alice."
    told = [str(request.messages[-1].full_text) for request in model.requests[1:]]
    assert "until" in told[0]
    assert told[1] == "alice"
    assert model.requests[0].messages[0].text == "You know the sky."


async def test_a_system_prompt_beside_a_retriever_that_has_none_is_refused(tmp_path: Path) -> None:
    model = ScriptedChatModel([])
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        with pytest.raises(ConfigurationError, match="goes with an AgenticRetriever"):
            memory.set_retriever(RerankingRetriever(), system_prompt="x")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def f(x: str): return x", "needs a docstring"),
        ("def f(x):\n    'Do.'", "the parameter 'x' needs a type hint"),
        ("def f(*x: str):\n    'Do.'", "list the arguments one by one"),
        ("def f(x: object()):\n    'Do.'", "tool 'f'"),
        ("f = 5", "wanted a function"),
    ],
)
def test_a_function_that_no_tool_can_be_made_of_is_refused(source: str, told: str) -> None:
    names: dict[str, object] = {}
    exec(source, names)  # noqa: S102
    with pytest.raises(ConfigurationError, match=told):
        tool(names["f"])  # type: ignore[arg-type]
