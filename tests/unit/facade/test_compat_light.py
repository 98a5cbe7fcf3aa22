"""The file-based working style of ReMe 0.3: the program of its README runs, and its files are where it had them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from reme_core.compat import ReMeLight
from reme_core.errors import ConfigurationError, ModelUnavailableError, PartialFailureError
from reme_core.ports import ChatRequest
from reme_core.schema import Message, ToolCallBlock
from reme_core.testing import FixedClock, ScriptedChatModel

TALK = [
    {"role": "user", "content": "We use Python 3.12 for the parser.", "created_at": "2026-11-22T10:40:00Z"},
    {"role": "assistant", "content": "Noted: Python 3.12.", "created_at": "2026-11-22T10:42:00Z"},
]
ENTRY = "## 10:42 · session s1\n\nThe parser is written for Python 3.12.\n"
LONG = {
    "role": "tool",
    "tool_call_id": "c1",
    "content": "".join(f"line {number}\n" for number in range(20_000)),
    "created_at": "2026-11-22T10:41:00Z",
}


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock("2026-11-22T12:00:00Z")


def light(folder: Path, clock: FixedClock, *steps: object) -> ReMeLight:
    return ReMeLight(
        working_dir=folder / "work",
        default_as_llm_config=ScriptedChatModel(list(steps)) if steps else None,  # type: ignore[arg-type]
        default_file_store_config={"fts_enabled": True, "vector_enabled": False},
        enable_load_env=False,
        session_id="s1",
        clock=clock,
    )


def calls(name: str, **arguments: str) -> Message:
    return Message(role="assistant", content=(ToolCallBlock(call_id="1", name=name, arguments=dict(arguments)),))


def written(path: str = "memory/2026-11-22.md") -> Message:
    return calls("write_file", path=path, content=ENTRY, mode="append")


async def test_the_program_of_the_older_readme_runs_and_its_files_are_where_it_had_them(
    tmp_path: Path, clock: FixedClock
) -> None:
    reme = light(tmp_path, clock)
    await reme.start()
    to_compact, to_keep, is_valid = await reme.check_context(
        messages=TALK, memory_compact_threshold=90_000, memory_compact_reserve=10_000
    )
    assert (to_compact, len(to_keep), is_valid) == ((), 2, True)  # type: ignore[arg-type]
    summary = await reme.compact_memory(
        messages=TALK,
        previous_summary="## Goal\n- a parser",
        max_input_length=128_000,
        compact_ratio=0.7,
        language="zh",
    )
    assert "Python 3.12" in summary
    [cut] = await reme.compact_tool_result([LONG])
    processed, kept = await reme.pre_reasoning_hook(
        messages=TALK,
        system_prompt="You are a helpful AI assistant.",
        compressed_summary="",
        max_input_length=128_000,
        compact_ratio=0.7,
        memory_compact_reserve=10_000,
        enable_tool_result_compact=True,
        tool_result_compact_keep_n=3,
    )
    assert (len(processed), kept) == (2, "")
    await reme.summary_memory(messages=[{**TALK[0], "content": "I like terse code."}], language="zh")
    [hit, *_] = await reme.memory_search(query="terse code", max_results=5)
    assert hit.path == "memory/2026-11-22.md"
    assert "I like terse code." in (await reme.memory_get(hit.path, hit.start_line, 3)).text
    memory = reme.get_in_memory_memory()
    for message in TALK:
        await memory.add({**message, "content": f"{message['content']} Again."})
    stats = await memory.estimate_tokens(max_input_length=128_000)
    assert 0 < stats["messages_tokens"] <= stats["estimated_tokens"]
    assert stats["context_usage_ratio"] == 100 * stats["estimated_tokens"] / 128_000
    assert await memory.mark_messages_compressed((await memory.get_memory())[:1]) == 1
    assert len(await memory.get_memory()) == 1
    await reme.await_summary_tasks()
    await reme.close()
    folder = tmp_path / "work"
    assert sorted(path.name for path in folder.iterdir()) == [".reme", "dialog", "memory", "tool_result"]
    dialog = (folder / "dialog" / "2026-11-22.jsonl").read_text()
    assert "We use Python 3.12 for the parser. Again." in dialog
    texts = {path.stem: path.read_text() for path in (folder / "tool_result").iterdir()}
    assert set(texts.values()) == {LONG["content"], "## Goal\n- a parser"}
    [reference] = [name for name, text in texts.items() if text == LONG["content"]]
    assert f"reload {reference}" in cut.full_text


async def test_an_agent_writes_the_journal_with_the_file_tools_and_the_search_finds_it(
    tmp_path: Path, clock: FixedClock
) -> None:
    async with light(tmp_path, clock, written()) as reme:
        await reme.summary_memory(TALK)
        assert (tmp_path / "work" / "memory" / "2026-11-22.md").read_text() == ENTRY
        hit, *_ = await reme.memory_search("which Python")
        assert (hit.path, hit.start_line, hit.end_line) == ("memory/2026-11-22.md", 1, 3)


async def test_the_agent_sees_the_page_of_the_day_and_reaches_nothing_but_the_journal(
    tmp_path: Path, clock: FixedClock
) -> None:
    refused = [written("MEMORY.md"), written("../MEMORY.md"), written("memory/../MEMORY.md")]
    overwriting = calls("write_file", path="memory/2026-11-22.md", content="x", mode="overwrite")
    model = ScriptedChatModel([*refused, overwriting, "done"])
    reme = ReMeLight(
        working_dir=tmp_path, default_as_llm_config=model, enable_load_env=False, session_id="s1", clock=clock
    )
    async with reme:
        await reme.write("memory/2026-11-22.md", "# Mine\n\nI painted the door.\n")
        await reme.write("MEMORY.md", "- likes tea\n")
        await reme.summary_memory(TALK)
        told = model.requests[0].messages[1].text
        assert "I painted the door." in told
        assert "## 10:42 · session s1" in told
        assert (await reme.read("memory/2026-11-22.md")) == "# Mine\n\nI painted the door.\n"
        assert (await reme.read("MEMORY.md")).startswith("- likes tea ^mem-")


async def test_the_journal_is_a_job_on_disk_that_the_next_start_finishes(tmp_path: Path, clock: FixedClock) -> None:
    failing = light(tmp_path, clock, ModelUnavailableError("out"))
    failing.add_async_summary_task(TALK)  # not awaited, as readers of the seeds write it
    with pytest.raises(PartialFailureError):
        await failing.await_summary_tasks()
    assert "Python 3.12" in (tmp_path / "work" / "dialog" / "2026-11-22.jsonl").read_text()
    assert not (tmp_path / "work" / "memory").exists()  # nothing is invented, and nothing is quoted that is yet to come
    await failing.memory.close(finish_jobs=False)
    async with light(tmp_path, clock, written()) as again:
        await again.await_summary_tasks()
        assert (tmp_path / "work" / "memory" / "2026-11-22.md").read_text() == ENTRY


async def test_what_leaves_a_context_gets_into_the_journal_in_the_background(tmp_path: Path, clock: FixedClock) -> None:
    summary = "## Goal\n- a parser\n## Constraints\n- none\n## Progress\n- begun\n## Key Decisions\n- Python 3.12\n"
    summary += "## Next Steps\n- none\n## Critical Context\n- none\n"

    def answer(request: ChatRequest) -> Message | str:
        return written() if "journal" in request.messages[0].text else summary

    reme = light(tmp_path, clock, *[answer] * 20)
    messages = [
        {"role": "user", "content": f"{number} " + "Python 3.12 it is. " * 100, "created_at": TALK[1]["created_at"]}
        for number in range(12)
    ]
    left, told = await reme.pre_reasoning_hook(messages, max_input_length=4000, memory_compact_reserve=500)
    assert len(left) < 12
    assert "Python 3.12" in told
    await reme.await_summary_tasks()
    assert (tmp_path / "work" / "memory" / "2026-11-22.md").read_text().startswith(ENTRY)
    await reme.close()


async def test_old_files_of_tool_results_go_at_the_start(tmp_path: Path, clock: FixedClock) -> None:
    async with light(tmp_path, clock) as reme:
        await reme.compact_tool_result([LONG])
    assert len(list((tmp_path / "work" / "tool_result").iterdir())) == 1
    clock.advance(timedelta(days=3, seconds=1))
    again = light(tmp_path, clock)
    await again.start()
    assert list((tmp_path / "work" / "tool_result").iterdir()) == []
    await again.close()


async def test_files_are_read_written_and_edited_and_found_at_once(tmp_path: Path, clock: FixedClock) -> None:
    async with light(tmp_path, clock) as reme:
        await reme.write("notes/plan.md", "Paint the door.\n")
        await reme.append("notes/plan.md", "Buy a brush.")
        await reme.edit("notes/plan.md", "door", "fence")
        assert await reme.read("notes/plan.md") == "Paint the fence.\nBuy a brush.\n"
        assert [hit.path for hit in await reme.memory_search("paint fence")] == ["notes/plan.md"]
        assert {tool.name for tool in reme.file_tools()} >= {"read_file", "write_file", "edit_file"}


def test_settings_of_the_older_file_store_are_read_and_others_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'vector_enabled'"):
        ReMeLight(working_dir=tmp_path, default_file_store_config={"vectors_enabled": False})
    settings = {"backend": "openai", "model_name": "m", "api_key": "k"}
    made = ReMeLight(working_dir=tmp_path, default_as_llm_config=settings, enable_load_env=False)
    assert made.memory.llm is not None
    assert made.memory.embedder is None
