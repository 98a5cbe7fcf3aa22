"""Long messages where a user has no memories: tools and the retriever show the passage that answers."""

from __future__ import annotations

from pathlib import Path

from reme_core import ReMe
from reme_langchain import ReMeRetriever, create_memory_tools
from reme_langchain._searching import in_words

FILLER = "Start with a list of what matters to you and why, and give each item a number of its own. "
LONG = f"{FILLER * 60}The safe code is 4711-Q. {FILLER * 60}"


async def test_the_search_tool_shows_the_passage_of_a_long_message(tmp_path: Path) -> None:
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([{"role": "user", "content": LONG}], user_id="alice")
        answer = await create_memory_tools(memory, owner="alice")[0].ainvoke({"query": "safe code"})
    assert "4711-Q" in answer
    assert len(answer) < 2_500


async def test_the_retriever_tells_where_in_a_long_message_the_answer_stands(tmp_path: Path) -> None:
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary([{"role": "user", "content": LONG}], user_id="alice")
        [document] = await ReMeRetriever(memory=memory, owner="alice", k=1).ainvoke("safe code?")
    start, end = document.metadata["passage"]
    assert "4711-Q" in document.page_content[start:end]


async def test_a_passage_of_an_answer_with_tool_calls_stays_a_passage(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    async with ReMe("remy", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary(
            [
                {"role": "user", "content": "Which one?"},
                {"role": "assistant", "content": LONG, "tool_calls": [call]},
                {"role": "tool", "content": "done", "tool_call_id": "c1"},
            ],
            user_id="alice",
        )
        found = await memory.retrieve("safe code", user_id="alice", token_budget=300)
        worded = await in_words(memory, "alice", found.results)
    assert any(hit.is_passage and "4711-Q" in hit.memory for hit in worded)
    assert sum(len(hit.memory) for hit in worded) < 1_500
