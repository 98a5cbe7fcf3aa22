"""The facade of ReMe 0.3 over today's: the program of its README runs, and nothing crosses users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import compat
from reme_core.errors import ConfigurationError, InvalidInputError, MemoryNotFoundError
from reme_core.tasks import preprocess

MESSAGES = [
    {"role": "user", "content": "Help me write a Python script", "time_created": "2026-02-28 10:00:00"},
    {"role": "assistant", "content": "Sure, I'll help you with that.", "time_created": "2026-02-28 10:00:05"},
]


@pytest.fixture
async def reme(tmp_path: Path) -> AsyncIterator[compat.ReMe]:
    memory = compat.ReMe(working_dir=tmp_path, default_llm_config=None, default_embedding_model_config=None)
    await memory.start()
    yield memory
    await memory.close()


async def test_the_program_of_the_older_readme_runs(reme: compat.ReMe) -> None:
    kept = await reme.summarize_memory(messages=MESSAGES, user_name="alice")
    assert len(kept.message_ids) == 2
    found = await reme.retrieve_memory(query="Python programming", user_name="alice")
    assert "Help me write a Python script" in found.text
    node = await reme.add_memory(memory_content="The user prefers concise code style.", user_name="alice")
    assert (await reme.get_memory(memory_id=node.memory_id)).memory_target == "alice"
    changed = await reme.update_memory(
        memory_id=node.memory_id, user_name="alice", memory_content="Prefers concise code with comments."
    )
    assert changed.content == "Prefers concise code with comments."
    listed = await reme.list_memory(user_name="alice", limit=10, sort_key="time_created", reverse=True)
    assert [memory.memory_id for memory in listed] == [node.memory_id]
    await reme.delete_memory(memory_id=node.memory_id)
    assert await reme.list_memory(user_name="alice") == []


async def test_memories_of_a_task_are_procedural_and_of_a_tool_about_that_tool(reme: compat.ReMe) -> None:
    lesson = await reme.add_memory("Run the tests first", user_name="alice", task_name="code_writing")
    await reme.add_memory("pip needs a virtual environment", user_name="alice", tool_name="pip")
    assert (lesson.memory_type, lesson.memory_target) == ("procedural", "code_writing")
    found = await reme.retrieve_memory("what needs tests or an environment?", user_name="alice", tool_name="pip")
    assert [hit.memory for hit in found.results] == ["pip needs a virtual environment"]
    with pytest.raises(InvalidInputError, match="give one"):
        await reme.add_memory("x", user_name="alice", task_name="a", tool_name="b")


async def test_lists_are_sorted_by_the_key_that_is_asked_for(reme: compat.ReMe) -> None:
    for day in ("2026-02-02", "2026-02-01", "2026-02-03"):
        await reme.add_memory(f"Said on {day}", user_name="alice", message_time=day)
    early = await reme.list_memory(user_name="alice", sort_key="message_time", reverse=False, limit=2)
    assert [memory.content for memory in early] == ["Said on 2026-02-01", "Said on 2026-02-02"]
    with pytest.raises(InvalidInputError, match="did you mean 'time_created'"):
        await reme.list_memory(user_name="alice", sort_key="time_create")


async def test_one_user_neither_finds_nor_changes_what_is_anothers(reme: compat.ReMe, tmp_path: Path) -> None:
    node = await reme.add_memory("Alice keeps bees", user_name="alice")
    assert (await reme.retrieve_memory("bees", user_name="bob")).results == ()
    with pytest.raises(MemoryNotFoundError):
        await reme.delete_memory(node.memory_id, user_name="bob")
    other = compat.ReMe(working_dir=tmp_path, default_llm_config=None, default_embedding_model_config=None)
    with pytest.raises(MemoryNotFoundError, match="user_name="):
        await other.get_memory(node.memory_id)
    await reme.delete_all(user_name="bob")
    assert await reme.get_memory(node.memory_id) == node
    await other.close()


async def test_a_user_name_that_is_none_is_refused_and_not_kept(reme: compat.ReMe) -> None:
    name: Any = ["z"]
    with pytest.raises(InvalidInputError):
        await reme.list_memory(user_name=name)
    with pytest.raises(InvalidInputError):
        await reme.add_memory("x", user_name=name)
    with pytest.raises(InvalidInputError):
        await reme.list_memory(user_name="z" * 10_000)
    node = await reme.add_memory("Alice keeps bees", user_name="alice")
    assert await reme.get_memory(node.memory_id) == node
    with pytest.raises(MemoryNotFoundError):
        await reme.get_memory("unknown")


def test_older_settings_are_read_and_what_is_not_there_is_told() -> None:
    chat = {"backend": "openai", "model_name": "m", "api_key": "k"}
    vectors = {"backend": "openai", "model_name": "e", "dimensions": 8, "api_key": "k"}
    memory = compat.ReMe(default_llm_config=chat, default_embedding_model_config=vectors).memory
    assert memory.embedder is not None
    assert memory.embedder.dimension == 8
    with pytest.raises(ConfigurationError, match=r"'local_file'.*'qdrant'"):
        compat.ReMe(default_vector_store_config={"backend": "chroma"})


def test_the_capitalised_names_of_flows_make_the_same_flows() -> None:
    learning = compat.SuccessExtraction() | compat.FailureExtraction() | compat.ComparativeExtraction()
    flow = compat.TrajectoryPreprocess() >> learning >> compat.MemoryValidation() >> compat.MemoryDeduplication()
    assert str(flow) == (
        "preprocess >> (success_extraction | failure_extraction | comparison) >> validation >> deduplication"
    )
    finding = compat.BuildQuery() >> compat.MemoryRetrieval() >> compat.RerankMemory() >> compat.RewriteMemory()
    assert str(finding) == "build_query >> search >> rerank >> rewrite"
    assert compat.TrajectoryPreprocess is preprocess
