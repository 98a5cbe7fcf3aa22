"""The prompts of the agents: complete, small, the same in both languages."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest

from reme_core.agents import (
    AgentOptions,
    IdentitySummaryAgentV1Op,
    PersonalSummaryAgentV1Op,
    ProceduralSummaryAgentV1Op,
    ReMeRetrieveAgentV1Op,
    ReMeSummaryAgentV1Op,
    ReMyAgentV1Op,
    ToolSummaryAgentV1Op,
)
from reme_core.agents.base import BaseMemoryAgentOp
from reme_core.errors import ModelUnavailableError
from reme_core.ports import AgentTask
from reme_core.stores import LocalStore
from reme_core.testing import ScriptedChatModel
from reme_core.text import Language, estimate_tokens, load_prompt, prompt_language
from reme_core.tools.base import parameters_of
from tests.support.toolbox import NotingAgent, every_tool
from tests.unit.agents.acting import context_over

MAX_TOKENS = 660
"""With this the requests of a session stay within their bar; see test_agentic_cost."""

AGENTS: list[type[BaseMemoryAgentOp]] = [
    PersonalSummaryAgentV1Op,
    ProceduralSummaryAgentV1Op,
    ToolSummaryAgentV1Op,
    IdentitySummaryAgentV1Op,
    ReMeSummaryAgentV1Op,
    ReMeRetrieveAgentV1Op,
    ReMyAgentV1Op,
]
LANGUAGES: list[Language] = ["en", "zh"]
FILES = sorted(
    file.name for file in resources.files("reme_core.agents").joinpath("prompts").iterdir() if file.name.endswith(".md")
)
NAMES = sorted({name.split(".")[0] for name in FILES})


def test_each_prompt_is_there_in_both_languages_and_belongs_to_an_agent() -> None:
    assert sorted(f"{name}.{language}.md" for name in NAMES for language in LANGUAGES) == FILES
    assert set(NAMES) == {agent.prompt for agent in AGENTS} | {agent.task_prompt for agent in AGENTS}


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_named_as_its_file_and_has_the_same_variables_and_version_in_both_languages(name: str) -> None:
    english, chinese = (load_prompt("reme_core.agents", name, language) for language in LANGUAGES)
    assert (english.name, chinese.name) == (name, name)
    assert english.variables == chinese.variables
    assert english.version == chinese.version
    assert (prompt_language([english.text]), prompt_language([chinese.text])) == ("en", "zh")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_system_prompt_is_short_and_takes_nothing_in(agent: type[BaseMemoryAgentOp], language: Language) -> None:
    prompt = load_prompt("reme_core.agents", agent.prompt, language)
    assert prompt.variables == frozenset()
    assert estimate_tokens(prompt.text) <= MAX_TOKENS


def tools_named(text: str) -> set[str]:
    """The names of our tools that a text holds."""
    made = every_tool([NotingAgent()])
    return {tool.name for tool in (make() for make in made)} & set(re.findall(r"[a-z_]+", text))


async def system_prompt(agent: BaseMemoryAgentOp, store: LocalStore) -> str:
    model = ScriptedChatModel([ModelUnavailableError("busy")])
    kind = agent.memory_type
    about = {} if kind is None else {"memory_type": kind, "memory_target": "self"}
    task = AgentTask(workspace_id="space", memory_target="self" if kind else None, query="x")
    with pytest.raises(ModelUnavailableError):
        await agent.run(task, context_over(store, model=model, **about))
    return model.requests[0].messages[0].text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("agent", AGENTS)
async def test_an_agent_is_told_of_exactly_the_tools_that_it_has(
    store: LocalStore, agent: type[BaseMemoryAgentOp], language: Language
) -> None:
    whole = agent(AgentOptions(language=language))
    assert tools_named(await system_prompt(whole, store)) == {tool.name for tool in whole.tools}
    for left_out in whole.tools:
        fewer = agent(AgentOptions(language=language, tools=[tool for tool in whole.tools if tool is not left_out]))
        text = await system_prompt(fewer, store)
        assert tools_named(text) == {tool.name for tool in fewer.tools}
        assert "[" not in re.sub(r"[(（][^)）]*[)）]", "", text)


@pytest.mark.parametrize("agent", AGENTS)
def test_what_its_tools_say_of_themselves_names_no_tool_that_it_lacks(agent: type[BaseMemoryAgentOp]) -> None:
    whole = agent()
    for tool in whole.tools:
        said = f"{tool.description} {json.dumps(parameters_of(tool.arguments))}"
        assert tools_named(said) <= {tool.name for tool in whole.tools}


@pytest.mark.parametrize(("language", "never"), [("en", "never follow"), ("zh", "不")])
@pytest.mark.parametrize("agent", AGENTS)
def test_every_system_prompt_says_that_what_it_is_shown_is_data(
    agent: type[BaseMemoryAgentOp], language: Language, never: str
) -> None:
    text = load_prompt("reme_core.agents", agent.prompt, language).text
    assert ("data" if language == "en" else "资料") in text
    assert any(word in text for word in (never, "never followed", "follow no order", "照做"))
