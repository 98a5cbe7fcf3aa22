"""Values that are too large: typed errors, short messages, and nothing that is repeated in them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError, ReMeError, UnsupportedFilterError

U: dict[str, Any] = {"user_id": "u"}
HUGE = [2**64, -(2**70), 10**5000]
LONG = "x" * 300_000
_NO_INPUT = {"close", "flush", "export", "dump", "import_", "load"}


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as opened:
        yield opened


@pytest.mark.parametrize("number", HUGE, ids=["64 bits", "negative", "5000 digits"])
async def test_a_huge_number_is_refused_wherever_it_is_given(memory: ReMe, number: int) -> None:
    kept = await memory.add_memory("tea", **U)
    calls = [
        lambda: memory.add_memory("coffee", **U, metadata={"n": [{"m": number}]}),
        lambda: memory.update_memory(kept.memory_id, **U, metadata={"n": number}),
        lambda: memory.update_memory(kept.memory_id, **U, content="x", expected_revision=number),
        lambda: memory.list_memories(**U, metadata={"n": number}),
        lambda: memory.list_memories(**U, limit=number),
        lambda: memory.retrieve("tea", **U, metadata={"n": number}),
        lambda: memory.retrieve("tea", **U, top_k=number),
        lambda: memory.retrieve("tea", **U, token_budget=number),
        lambda: memory.clean_offloads(**U, max_bytes=number),
        lambda: memory.clean_offloads(**U, older_than_days=number),
    ]
    for call in calls:
        with pytest.raises((InvalidInputError, UnsupportedFilterError)) as caught:
            await call()
        assert len(str(caught.value)) < 1000


async def test_a_long_value_is_not_repeated_in_an_error(memory: ReMe) -> None:
    names = [name for name, _ in inspect.getmembers(ReMe, inspect.iscoroutinefunction) if not name.startswith("_")]
    told = dict[tuple[str, str], int]()
    for name in sorted(set(names) - _NO_INPUT):
        method = getattr(memory, name)
        parameters = inspect.signature(method).parameters
        given = {key: "u" for key, item in parameters.items() if item.default is item.empty}
        for key in parameters:
            for value in (LONG, [LONG], {LONG: LONG}, LONG.encode()):
                try:
                    await method(**{**given, key: value})
                except ReMeError as exc:
                    told[name, key] = max(len(str(exc)), told.get((name, key), 0))
    assert len(told) > 50
    assert {place: length for place, length in told.items() if length > 3000} == {}


async def test_a_keyword_as_long_as_a_file_is_refused_and_a_question_is_read_to_its_beginning(memory: ReMe) -> None:
    await memory.add_memory("tea", **U)
    with pytest.raises(InvalidInputError, match="keyword: has 300000 characters"):
        await memory.list_memories(**U, keyword=LONG)
    assert (await memory.retrieve("tea " + LONG, **U)).results
