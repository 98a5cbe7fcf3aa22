"""Results of tools that fetch from outside are marked as they come in, whatever door they come through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.working import ContextLimits

U: dict[str, Any] = {"user_id": "u"}


def called(tool: str, call_id: str = "c") -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call], "message_id": f"call-{call_id}"}


def answered(text: str, call_id: str = "c", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call_id, "message_id": f"result-{call_id}", **fields}


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("s", tmp_path, llm=None, embedding=None, web_tools=["fetch"]) as opened:
        yield opened


@pytest.mark.parametrize(
    ("messages", "trust"),
    [
        ([called("fetch"), answered("tea")], "web"),
        ([called("grep"), answered("tea")], "tool"),
        ([answered("tea", name="fetch")], "web"),
        ([answered("tea")], "tool"),
        ([{"role": "user", "name": "fetch", "content": "tea"}], "user"),
        ([called("fetch"), called("grep", "d"), answered("tea", "d")], "tool"),
    ],
)
async def test_a_result_is_of_the_web_by_its_name_or_its_call(
    memory: ReMe, messages: list[dict[str, Any]], trust: str
) -> None:
    await memory.summary(messages, **U, session_id="s")
    assert {hit.trust for hit in (await memory.retrieve("tea", **U)).results if hit.memory == "tea"} == {trust}
    assert [item.memory for item in (await memory.retrieve("tea", **U, trust=[trust])).results] == ["tea"]
    others = [known for known in ("user", "assistant", "tool", "web") if known != trust]
    assert "tea" not in [item.memory for item in (await memory.retrieve("tea", **U, trust=others)).results]
    assert (await memory.retrieve("tea", user_id="v", trust=trust)).results == ()


async def test_a_result_that_comes_after_its_call_was_kept_is_of_its_tool(memory: ReMe) -> None:
    for session, said in (("s", called("fetch")), ("t", called("grep"))):
        await memory.summary([said | {"message_id": f"call-{session}"}], **U, session_id=session)
        await memory.summary([answered("tea", message_id=f"result-{session}")], **U, session_id=session)
    await memory.summary([answered("tea", "of no call", message_id="alone")], **U, session_id="s")
    page = await memory.find_messages(**U, keyword="tea")
    trust = {item.message.message_id: item.message.trust for item in page.messages}
    assert trust == {"result-s": "web", "result-t": "tool", "alone": "tool"}


async def test_messages_sent_again_are_known_though_the_tools_named_are_others(memory: ReMe, tmp_path: Path) -> None:
    said = [called("fetch"), answered("tea")]
    first = await memory.summary(said, **U, session_id="s")
    async with ReMe("s", tmp_path, llm=None, embedding=None) as other:
        again = await other.summary(said, **U, session_id="s")
    assert again.known_message_ids == first.message_ids


async def test_a_passage_that_left_the_context_has_the_class_of_its_message(memory: ReMe) -> None:
    page = "\n".join(f"line {number} about kettles" for number in range(3000)) + "\nthe zebra drinks tea"
    said = [
        {"role": "user", "content": "look"},
        called("fetch"),
        answered(page),
        called("grep", "d"),
        answered("x", "d"),
    ]
    await memory.compact_tool_result(said, **U, session_id="s", limits=ContextLimits(old_max_bytes=1000))
    passages = [hit for hit in (await memory.retrieve("zebra", **U)).results if hit.reference]
    assert [hit.trust for hit in passages] == ["web"]
    assert not [hit for hit in (await memory.retrieve("zebra", **U, trust=["user", "tool"])).results if hit.reference]


async def test_what_can_not_be_filtered_is_refused(memory: ReMe) -> None:
    with pytest.raises(UnsupportedFilterError, match="summary layer can't be filtered by trust"):
        await memory.retrieve("tea", **U, trust="user", layers=["summary"])
    for wrong in ("friend", [], ["user", 3]):
        with pytest.raises(InvalidInputError, match="trust"):
            await memory.retrieve("tea", **U, trust=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="web_tools"):
        ReMe("s", web_tools="")
