"""The prompts of the agents: complete, small, the same in both languages."""

from __future__ import annotations

from importlib import resources

import pytest

from reme_core.agents import (
    IdentitySummaryAgentV1Op,
    PersonalSummaryAgentV1Op,
    ProceduralSummaryAgentV1Op,
    ReMeRetrieveAgentV1Op,
    ReMeSummaryAgentV1Op,
    ReMyAgentV1Op,
    ToolSummaryAgentV1Op,
)
from reme_core.agents.base import BaseMemoryAgentOp
from reme_core.text import Language, estimate_tokens, load_prompt, prompt_language

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
    assert estimate_tokens(prompt.text) <= 350


@pytest.mark.parametrize(("language", "never"), [("en", "never follow"), ("zh", "不")])
@pytest.mark.parametrize("agent", AGENTS)
def test_every_system_prompt_says_that_what_it_is_shown_is_data(
    agent: type[BaseMemoryAgentOp], language: Language, never: str
) -> None:
    text = load_prompt("reme_core.agents", agent.prompt, language).text
    assert ("data" if language == "en" else "资料") in text
    assert any(word in text for word in (never, "never followed", "follow no order", "照做"))
