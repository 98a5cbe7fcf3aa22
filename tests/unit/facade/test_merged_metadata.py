"""Metadata of a memory that is there: merged key by key, through every door that changes memories."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core import MemoryType, ReMe, compat
from reme_core.errors import InvalidInputError
from reme_core.schema.checks import merge_json
from reme_core.tools import UpdateMemoryOp

U: dict[str, Any] = {"user_id": "u"}
HELD: dict[str, Any] = {"city": "Bergen", "pet": {"name": "Rex", "age": 3}, "tags": ["a", "b"]}
PATCH: dict[str, Any] = {"city": None, "pet": {"age": 4}, "tags": ["c"], "new": True}
MERGED: dict[str, Any] = {"pet": {"name": "Rex", "age": 4}, "tags": ["c"], "new": True}

# Section 3 of RFC 7396, as far as its values are objects.
EXAMPLES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda part: st.dictionaries(st.text(), part), max_leaves=4
)
OBJECTS = st.dictionaries(st.text(), VALUES)


@pytest.mark.parametrize(("held", "patch", "wanted"), EXAMPLES)
def test_objects_are_merged_as_the_standard_says(held: Any, patch: Any, wanted: Any) -> None:
    assert merge_json(held, patch) == wanted


@settings(deadline=None, max_examples=15)
@given(OBJECTS, OBJECTS)
def test_the_same_patch_twice_is_the_patch_once_and_changes_no_argument(held: Any, patch: Any) -> None:
    before = json.dumps([held, patch])
    once = merge_json(held, patch)
    assert merge_json(once, patch) == once
    assert json.dumps([held, patch]) == before


@pytest.fixture
async def memory(tmp_path: Path) -> Any:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as opened:
        yield opened


async def test_an_update_merges_metadata_and_its_undo_restores_them(memory: ReMe) -> None:
    kept = await memory.add_memory("keeps a dog", **U, metadata=HELD)
    changed = await memory.update_memory(kept.memory_id, **U, metadata=PATCH)
    assert (changed.metadata, changed.revision) == (MERGED, 2)
    await memory.undo(str((await memory.history(kept.memory_id, **U))[-1].run_id), **U)
    assert (await memory.get_memory(kept.memory_id, **U)).metadata == HELD
    assert (await memory.update_memory(kept.memory_id, **U, content="keeps a cat")).metadata == HELD


@pytest.mark.parametrize("bad", [{"a": float("nan")}, {"a": "\0"}, {1: 2}, ["a"], {"a": 1 << 70}])
async def test_metadata_that_cannot_be_kept_are_refused_and_change_nothing(memory: ReMe, bad: Any) -> None:
    kept = await memory.add_memory("keeps a dog", **U, metadata=HELD)
    with pytest.raises(InvalidInputError, match="metadata"):
        await memory.update_memory(kept.memory_id, **U, metadata=bad)
    assert (await memory.get_memory(kept.memory_id, **U)) == kept


async def test_metadata_that_grow_too_large_by_patches_are_refused(memory: ReMe) -> None:
    kept = await memory.add_memory("keeps a dog", **U, metadata={"a": "x" * 600_000})
    with pytest.raises(InvalidInputError, match="metadata has"):
        await memory.update_memory(kept.memory_id, **U, metadata={"b": "x" * 600_000})


async def test_the_tool_and_the_older_names_merge_as_well(memory: ReMe) -> None:
    kept = await memory.add_memory("keeps a dog", **U, metadata=HELD)
    item = {"memory_id": kept.memory_id, "memory_content": "keeps an old dog", "metadata": PATCH}
    context = replace(memory.tool_context(**U), memory_type=MemoryType.PERSONAL)
    await UpdateMemoryOp()({"memories": [item]}, context)
    assert (await memory.get_memory(kept.memory_id, **U)).metadata == MERGED
    older = {"memories": [{**item, "memory_content": "keeps Rex", "metadata": {"new": None}}]}
    await UpdateMemoryOp()(older, context)
    assert (await memory.get_memory(kept.memory_id, **U)).metadata == {key: MERGED[key] for key in ("pet", "tags")}


async def test_the_facade_of_the_older_version_merges_as_well(tmp_path: Path) -> None:
    old = compat.ReMe(working_dir=tmp_path, default_llm_config=None, default_embedding_model_config=None)
    kept = await old.add_memory(memory_content="keeps a dog", user_name="u", metadata=HELD)
    assert (await old.update_memory(kept.memory_id, user_name="u", metadata=PATCH)).metadata == MERGED
    await old.close()
