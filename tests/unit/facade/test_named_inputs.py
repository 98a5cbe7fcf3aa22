"""Values that name nothing, and values that are none: each is refused in words that fit what was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reme_core import MemoryType, ReMe
from reme_core.agents import AgentOptions
from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.testing import ScriptedChatModel

U: dict[str, Any] = {"user_id": "alice"}
ABOUT: dict[str, Any] = {**U, "memory_type": "personal", "memory_target": "alice"}


@pytest.mark.parametrize("empty", [[], (), set()], ids=["list", "tuple", "set"])
@pytest.mark.parametrize("name", ["memory_type", "memory_target"])
async def test_a_filter_that_names_nothing_is_refused_and_never_means_any(
    tmp_path: Path, name: str, empty: Any
) -> None:
    given: dict[str, Any] = {name: empty}
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.add_memory("Ana sails", **ABOUT)
        with pytest.raises(InvalidInputError, match=f"{name}: is an empty list"):
            await memory.retrieve("Ana", **U, **given)
        with pytest.raises(InvalidInputError, match=f"{name}: is an empty list"):
            await memory.list_memories(**U, **given)


@pytest.mark.parametrize("language", [["x"], {}, "de", 7])
def test_a_language_that_there_is_not_is_named(tmp_path: Path, language: Any) -> None:
    with pytest.raises(ConfigurationError, match="language: wanted 'en', 'zh' or None"):
        ReMe("space", tmp_path, llm=None, embedding=None, language=language)
    with pytest.raises(ConfigurationError, match="language: wanted 'en', 'zh' or None"):
        AgentOptions(language=language)


async def test_a_bad_time_is_told_of_the_field_that_has_it_and_of_no_other(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with pytest.raises(InvalidInputError) as caught:
            await memory.add_memory("Ana sails", **ABOUT, observed_at="lately")
        assert "observed_at" in str(caught.value)
        assert "valid_from" not in str(caught.value)


async def test_a_bad_time_of_a_statement_is_told_with_the_forms_it_may_have(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        for name in ("valid_from", "valid_to"):
            with pytest.raises(
                InvalidInputError, match=f"{name}: not a time: 'lately'; write 2026, 2026-01, 2026-01-31"
            ):
                await memory.add_memory("Ana sails", **ABOUT, **{name: "lately"})


async def test_an_end_before_the_beginning_is_told_as_both_were_given(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with pytest.raises(InvalidInputError, match="valid_to, 2022, lies before valid_from, 2023"):
            await memory.add_memory("Ana sails", **ABOUT, valid_from="2023", valid_to="2022")


async def test_older_names_of_types_are_read_as_those_of_today(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        lesson = await memory.add_memory("Restart the pod", **U, memory_type="task", memory_target="deploying")
        myself = await memory.add_memory("I am Remy", **U, memory_type="self")
        assert (lesson.memory_type, myself.memory_type) == (MemoryType.PROCEDURAL, MemoryType.IDENTITY)
        found = await memory.list_memories(**U, memory_type=["task", "self"])
        assert {item.memory_id for item in found.memories} == {lesson.memory_id, myself.memory_id}


async def test_a_summary_of_the_identity_alone_asks_the_model_for_that_alone(tmp_path: Path) -> None:
    fact = {"type": "identity", "target": "self", "content": "I am called Remy", "messages": [1]}
    model = ScriptedChatModel([json.dumps({"facts": [fact]})])
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        result = await memory.summary([("user", "You are called Remy.")], **U, memory_type="identity")
    assert [(item.memory_type, item.content) for item in result.memories] == [("identity", "I am called Remy")]


async def test_a_check_of_a_context_unpacks_into_what_goes_what_stays_and_that_it_is_valid(tmp_path: Path) -> None:
    messages = [("user", f"{number} " + "word " * 400) for number in range(20)]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        to_compact, to_keep, is_valid = await memory.check_context(messages, max_input_length=4000)
    assert len(to_compact) + len(to_keep) == len(messages)
    assert to_compact
    assert is_valid is True


async def test_calls_of_tools_are_read_from_texts_of_json(tmp_path: Path) -> None:
    call = {"tool_name": "web_search", "input": {"q": "tea"}, "output": "ok", "create_time": "2026-01-31 09:30:00"}
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        recorded = await memory.add_tool_call_results([json.dumps(call)], **U)
        assert recorded.tool_names == ("web_search",)
        with pytest.raises(InvalidInputError, match=r"results\[0\]: a text has to be a JSON object"):
            await memory.add_tool_call_results(["web_search"], **U)
