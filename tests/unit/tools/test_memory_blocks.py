"""The tools of memory blocks: what they write, what they refuse, and two writers at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core import ReMe
from reme_core.errors import ToolFeedback
from reme_core.ports import ToolContext
from reme_core.schema import TrustClass
from reme_core.tools import BaseMemoryToolOp, MemoryInsertOp, MemoryReplaceOp, MemoryRethinkOp
from reme_core.tools.text_edits import insert_lines, lines_of, replace_once

TEXT = "Name: Ana\nLives in Lisbon\nLikes tea"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.set_memory_block("human", TEXT, user_id="ana", limit_tokens=40)
        yield memory


async def run(tool: BaseMemoryToolOp[Any], context: ToolContext, **arguments: object) -> str:
    return await tool.run(tool.arguments.model_validate({"label": "human", **arguments}), context)


async def text_of(memory: ReMe) -> str:
    return (await memory.get_memory_block("human", user_id="ana")).text


@pytest.mark.parametrize(
    ("tool", "given", "text"),
    [
        (MemoryInsertOp(), {"new_str": "Has a dog"}, f"{TEXT}\nHas a dog"),
        (MemoryInsertOp(), {"new_str": "Has a dog", "insert_line": 0}, f"Has a dog\n{TEXT}"),
        (MemoryInsertOp(), {"new_str": "a\nb", "insert_line": 1}, "Name: Ana\na\nb\nLives in Lisbon\nLikes tea"),
        (MemoryReplaceOp(), {"old_str": "Lisbon", "new_str": "Porto"}, TEXT.replace("Lisbon", "Porto")),
        (MemoryReplaceOp(), {"old_str": "\nLikes tea", "new_str": ""}, "Name: Ana\nLives in Lisbon"),
        (MemoryRethinkOp(), {"new_memory": "Ana, Lisbon"}, "Ana, Lisbon"),
        (MemoryRethinkOp(enable_thinking_params=True), {"new_memory": "", "thinking": "all is wrong"}, ""),
    ],
)
async def test_a_tool_changes_the_text_and_shows_it(
    memory: ReMe, tool: BaseMemoryToolOp[Any], given: dict[str, object], text: str
) -> None:
    answer = await run(tool, memory.tool_context(user_id="ana"), **given)
    assert await text_of(memory) == text
    assert answer.startswith("changed. It is now:\n<memory_block>\n")
    assert f"{text}\n</memory_block>" in answer


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        (MemoryInsertOp(), {"label": "nobody", "new_str": "x"}, "'nobody'.* labels are: 'human', 'rules', 'team'"),
        (MemoryInsertOp(), {"label": "rules", "new_str": "x"}, "'rules' is read-only"),
        (MemoryInsertOp(), {"label": "team", "new_str": "x"}, "'team' is read-only for you"),
        (MemoryInsertOp(), {"new_str": "word " * 99}, "would have 1.. tokens, and its limit is 40: write some"),
        (MemoryInsertOp(), {"new_str": "x", "insert_line": 9}, r"within the range \[0, 3\]"),
        (MemoryReplaceOp(), {"old_str": "Paris", "new_str": "x"}, "did not appear verbatim in memory block 'human'"),
        (MemoryReplaceOp(), {"old_str": "", "new_str": "x"}, "did not appear verbatim"),
        (MemoryReplaceOp(), {"old_str": "Li", "new_str": "x"}, "occurrences of old_str `Li` in lines: 2, 2, 3"),
        (MemoryRethinkOp(), {"new_memory": "word " * 99}, "its limit is 40"),
    ],
)  # fmt: skip
async def test_what_a_model_may_not_do_is_told_to_it_and_changes_nothing(
    memory: ReMe, tool: BaseMemoryToolOp[Any], given: dict[str, object], told: str
) -> None:
    await memory.set_memory_block("rules", "fixed", user_id="ana", read_only=True)
    await memory.set_memory_block("team", "shared", shared=True)
    await memory.set_memory_block("nobody", "Ben's", user_id="ben")
    await memory.grant_memory_block("team", user_id="ana")
    before = await memory.memory_blocks(user_id="ana")
    with pytest.raises(ToolFeedback, match=told):
        await run(tool, memory.tool_context(user_id="ana"), **given)
    assert await memory.memory_blocks(user_id="ana") == before


async def test_a_shared_block_is_edited_by_a_model_with_the_right_to_write(memory: ReMe) -> None:
    await memory.set_memory_block("team", "one", shared=True)
    await memory.grant_memory_block("team", user_id="ana", write=True)
    context = memory.tool_context(user_id="ana")
    await run(MemoryInsertOp(), context, label="team", new_str="two")
    assert (await memory.get_memory_block("team", shared=True)).text == "one\ntwo"
    await memory.undo(context.run_id, shared=True)
    assert (await memory.get_memory_block("team", user_id="ana")).text == "one"
    await memory.set_memory_block("team", shared=True, read_only=True)
    with pytest.raises(ToolFeedback, match="read-only"):
        await run(MemoryInsertOp(), context, label="team", new_str="two")


async def test_a_text_that_was_changed_since_it_was_shown_is_not_rewritten_unseen(memory: ReMe) -> None:
    context = memory.tool_context(user_id="ana", blocks=await memory.memory_blocks(user_id="ana"))
    await run(MemoryInsertOp(), context, new_str="my own edit")
    await run(MemoryRethinkOp(), context, new_memory="Ana")  # what the answer has shown
    await memory.set_memory_block("human", "Ana moved to Porto", user_id="ana")
    with pytest.raises(ToolFeedback, match=r"has changed meanwhile(?s:.*)Ana moved to Porto"):
        await run(MemoryRethinkOp(), context, new_memory="Ana, Lisbon")
    assert await text_of(memory) == "Ana moved to Porto"
    await run(MemoryRethinkOp(), context, new_memory="Ana, Porto")
    assert await text_of(memory) == "Ana, Porto"


async def test_a_text_that_a_model_has_edited_is_trusted_as_its_words(memory: ReMe) -> None:
    async def trusted() -> TrustClass:
        [entry] = (await memory.list_memories(user_id="ana", memory_type="block")).memories
        return entry.trust

    assert await trusted() is TrustClass.USER
    await run(MemoryInsertOp(), memory.tool_context(user_id="ana"), new_str="Has a dog")
    await memory.set_memory_block("human", user_id="ana", description="the user")
    assert await trusted() is TrustClass.ASSISTANT
    await memory.set_memory_block("human", "Ana", user_id="ana")
    assert await trusted() is TrustClass.USER


TEXTS = st.text("ab\n", max_size=12)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(TEXTS, TEXTS, TEXTS, st.integers(0, 8))
def test_edits_change_one_place_alone(text: str, old: str, new: str, line: int) -> None:
    if old and text.count(old) == 1:
        head, _, tail = text.partition(old)
        assert replace_once(text, old, new, "here") == f"{head}{new}{tail}"
    lines = text.removesuffix("\n").split("\n") if text else []
    if line <= len(lines):
        expected = [*lines[:line], new.rstrip("\n"), *lines[line:]]
        assert insert_lines(text, line, new) == "\n".join(expected)
    assert len(lines_of(text, "a", limit=99)) == text.count("a")
