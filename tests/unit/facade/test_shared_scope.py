"""The shared scope is asked for by name: an empty user is an error, and what lies there is read with `shared=True`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.ports import PutMemory, WriteBatch
from reme_core.schema import MemoryType
from reme_core.stores import LocalStore
from reme_core.testing import ScriptedChatModel
from reme_core.testing.store_values import NOW, SHARED, memory
from reme_core.tools import AddMemoryOp
from tests.support.snapshots import snapshot

# Values for the arguments that a method needs besides the user; the scope is refused whatever they are.
GIVEN: dict[str, Any] = {
    "messages": [("user", "hello")],
    "memories": [{"content": "a fact"}],
    "trajectories": [{"messages": [("user", "hello")], "score": 1}],
    "message_ids": ["an-id"],
    "feedback": {"kind": "used", "memory_id": "an-id"},
    "task_name": "cooking",
    "tool_names": "search",
    "tool_call_results": [{"tool_name": "search", "output": "ok"}],
}
METHODS = sorted(
    name
    for name, method in inspect.getmembers(ReMe, inspect.isfunction)
    if not name.startswith("_") and "user_id" in inspect.signature(method).parameters
)


@pytest.fixture
async def reme(tmp_path: Path) -> AsyncIterator[Any]:
    """Methods are called by name, with what their annotations forbid."""
    async with ReMe("space", tmp_path, llm=ScriptedChatModel([]), embedding=None) as memory:
        yield memory


def needed(name: str, folder: Path) -> dict[str, Any]:
    parameters = inspect.signature(getattr(ReMe, name)).parameters.values()
    wanted = [item.name for item in parameters if item.default is item.empty or item.name == "query"]
    values = {**GIVEN, "path": folder / "file.jsonl"}
    return {item: values.get(item, "an-id") for item in wanted if item != "self"}


async def called(reme: Any, method: str, /, **given: Any) -> object:
    answer = getattr(reme, method)(**given)
    return await answer if inspect.isawaitable(answer) else answer


@pytest.mark.parametrize("name", METHODS)
async def test_every_call_names_one_scope(name: str, reme: Any, tmp_path: Path) -> None:
    await reme.add_memory("The office closes at six.", shared=True)
    before = await snapshot(reme.store, SHARED)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "no user is named: give the id of the user, or shared=True"),
        ({"user_id": ""}, "user_id: is empty, .* shared=True"),
        ({"user_id": " \t"}, "user_id: is blank, .* shared=True"),
        ({"user_id": "ana", "shared": True}, "name two scopes"),
        ({"user_id": None, "shared": 1}, "shared: wanted True or False, found 1"),
    ]
    for whose, told in wrong:
        with pytest.raises(InvalidInputError, match=told):
            await called(reme, name, **needed(name, tmp_path), **whose)
    assert await snapshot(reme.store, SHARED) == before


async def test_memories_that_an_earlier_version_kept_for_the_empty_user_are_read_as_shared(tmp_path: Path) -> None:
    kept, store = memory("The office closes at six.", scope=SHARED), LocalStore(tmp_path / "memory.db")
    await store.put(SHARED, WriteBatch(puts=[PutMemory(memory=kept)], at=NOW))
    await store.close()
    async with ReMe("space", tmp_path, llm=None, embedding=None) as reme:
        assert await reme.get_memory(kept.memory_id, shared=True) == kept
        [hit] = (await reme.retrieve("office", user_id="ana", include_shared=True)).results
        assert (hit.memory, hit.user_id) == ("The office closes at six.", "")
        changed = await reme.update_memory(kept.memory_id, content="The office closes at seven.", shared=True)
        assert [item.memory_id for item in (await reme.list_memories(shared=True)).memories] == [changed.memory_id]
        assert (await reme.list_memories(user_id="ana")).memories == ()


async def test_a_tool_works_on_the_shared_scope_that_its_context_names(reme: ReMe) -> None:
    bounds: dict[str, Any] = {"memory_type": MemoryType.PERSONAL, "memory_target": "office"}
    context = replace(reme.tool_context(shared=True), **bounds)
    assert context.scope == SHARED
    await AddMemoryOp()({"memories": [{"memory_content": "The office closes at six."}]}, context)
    assert [item.content for item in (await reme.list_memories(shared=True)).memories] == ["The office closes at six."]


def test_the_blocking_face_asks_for_it_in_the_same_way(tmp_path: Path) -> None:
    with ReMe.sync("space", tmp_path, llm=None, embedding=None) as reme:
        reme.add_memory("The office closes at six.", shared=True)
        assert len(reme.list_memories(shared=True).memories) == 1
        with pytest.raises(InvalidInputError, match="is empty"):
            reme.list_memories(user_id="")
