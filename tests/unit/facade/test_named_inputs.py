"""Values that name nothing, and values that are none: each is refused in words that fit what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.agents import AgentOptions
from reme_core.errors import ConfigurationError, InvalidInputError

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
