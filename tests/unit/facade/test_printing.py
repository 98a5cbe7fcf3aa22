"""What calls answer is printed in a few lines, however much it is."""

from __future__ import annotations

from pathlib import Path

from reme_core import ReMe
from reme_core.schema.hits import Erased

MOST_LINES, MOST_CHARS = 12, 110


async def test_answers_and_pages_print_in_a_few_short_lines(tmp_path: Path) -> None:
    said = [("user", f"Line {number} about tea: " + "very long " * 500) for number in range(40)]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        kept = await memory.summary(said, user_id="ann")
        for number in range(30):
            await memory.add_memory(f"Tea fact {number} " + "and so on " * 400, user_id="ann", metadata={"n": number})
        await memory.add_tool_call_results([{"tool_name": "kettle", "output": "x" * 9000}] * 20, user_id="ann")
        found = await memory.retrieve("tea", user_id="ann", limit=30)
        answers = [
            kept,
            found,
            found.results[0],
            await memory.list_memories(user_id="ann"),
            await memory.find_messages(user_id="ann"),
            await memory.list_blocks(user_id="ann"),
            await memory.list_tool_calls(user_id="ann"),
            await memory.stats(user_id="ann"),
        ]
    for answer in answers:
        lines = str(answer).splitlines()
        assert len(lines) <= MOST_LINES, answer
        assert all(len(line) <= MOST_CHARS for line in lines[1:]), answer
        assert len(repr(answer)) < 30_000, answer
    assert str(found).splitlines()[1].startswith("  ")
    assert "… and 20 more" in str(found)
    assert len(repr(found)) < 200
    assert len(repr(found.results[0])) < 1000


def test_a_field_that_is_cut_says_so() -> None:
    rows = {f"langgraph_thread_{name}": 12 for name in ("bytes", "checkpoints", "writes")}
    told = repr(Erased(adapter_rows=rows))
    assert told.startswith("Erased(adapter_rows={'langgraph_thread_bytes': 12, ")
    assert told.endswith("…)")
