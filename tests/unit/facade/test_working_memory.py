"""Working memory through the facade: plain calls, bad input, scopes, and what is there without a transcript of ours."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import ContextLimits, Message, ReMe
from reme_core.errors import (
    InvalidInputError,
    ModelRejectedError,
    ModelUnavailableError,
    OffloadNotFoundError,
)
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import OffloadKind
from reme_core.testing import ScriptedChatModel

USER, SESSION = "alice", "talk"
SECTIONS = ("Goal", "Constraints", "Progress", "Key Decisions", "Next Steps", "Critical Context")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        yield memory


def said(name: str, text: str, role: str = "user") -> dict[str, Any]:
    return {"id": name, "role": role, "content": text, "created_at": "2024-05-01T10:00:00Z"}


def long_talk(count: int = 20) -> list[Message]:
    """Return a talk that fills a window of 2,000 tokens several times."""
    return [
        Message.model_validate(
            said(f"m{number}", f"I went to city number {number} by train. " * 12, ("user", "assistant")[number % 2])
        )
        for number in range(count)
    ]


def tool_talk(output: str) -> list[Message]:
    call = {"id": "c1", "type": "function", "function": {"name": "read_log", "arguments": "{}"}}
    items: list[dict[str, Any]] = [
        said("q", "Read the log."),
        {"id": "a", "role": "assistant", "tool_calls": [call], "created_at": "2024-05-01T10:00:01Z"},
        {"id": "r", "role": "tool", "tool_call_id": "c1", "content": output, "created_at": "2024-05-01T10:00:02Z"},
    ]
    return [Message.model_validate(item) for item in items]


async def test_a_check_says_what_would_leave_and_changes_nothing(memory: ReMe) -> None:
    messages = long_talk()
    found = await memory.check_context(messages, system_prompt="Be kind.", max_input_length=2_000)
    assert found.is_over
    assert found.tokens > found.threshold == int(2_000 * 0.7 * 0.95)
    assert [*found.to_compact, *found.to_keep] == messages
    wide = await memory.check_context(messages, system_prompt="Be kind.")
    assert not wide.is_over
    assert (wide.to_compact, list(wide.to_keep)) == ((), messages)
    assert (await memory.stats(user_id=USER)).messages == 0


async def test_a_check_reads_messages_in_every_form(memory: ReMe) -> None:
    forms: list[object] = [("user", "hello"), {"role": "assistant", "content": "hi"}, *long_talk(1)]
    assert (await memory.check_context(forms)).message_tokens > 0
    with pytest.raises(InvalidInputError, match=r"messages\[0\]"):
        await memory.check_context([{"role": "nobody", "content": "x"}])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_input_length": 10}, "max_input_length"),
        ({"max_input_length": "16k"}, "max_input_length"),
        ({"limits": {"max_input_length": 16_000}}, "limits"),
        ({"overhead_tokens": -1}, "overhead_tokens"),
        ({"system_prompt": 1}, "system_prompt"),
        ({"compressed_summary": "\0"}, "compressed_summary"),
        ({"language": "fr"}, "language"),
    ],
)
async def test_options_that_make_no_sense_are_named(memory: ReMe, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        await memory.pre_reasoning_hook([("user", "hi")], user_id=USER, session_id=SESSION, **options)


@pytest.mark.parametrize(
    "options",
    [{"compact_ratio": 2}, {"reserve_tokens": -1}, {"old_max_bytes": 0}, {"recent_n": 1.5}, {"max_summary_tokens": 0}],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        ContextLimits(**options)


def test_limits_scale_down_with_the_window() -> None:
    for window in (1_000, 2_000, 16_000, 32_000, 128_000, 1_000_000):
        limits = ContextLimits(max_input_length=window)
        assert limits.threshold == int(window * 0.7 * 0.95)
        assert limits.summary_limit + limits.reserve(0) <= limits.threshold
        assert limits.old_bytes <= limits.recent_bytes <= 102_400
        assert limits.old_bytes <= 3_000
    assert ContextLimits().reserve(0) == 10_000
    assert ContextLimits().reserve(100_000) == 0


async def test_the_hook_hands_a_context_back_and_forth(memory: ReMe) -> None:
    messages, summary, left = list[Message](), "", list[str]()
    for message in long_talk(40):
        messages.append(message)
        prepared = await memory.pre_reasoning_hook(
            messages, user_id=USER, session_id=SESSION, compressed_summary=summary, max_input_length=2_000
        )
        assert prepared.tokens <= prepared.threshold
        messages, summary = list(prepared.messages), prepared.compressed_summary
        left += prepared.removed_message_ids
    assert left + [message.message_id for message in messages] == [f"m{number}" for number in range(40)]
    assert [f"## {name}" for name in SECTIONS] == [line for line in summary.splitlines() if line.startswith("##")]
    page = await memory.find_messages(user_id=USER, session_id=SESSION, limit=100)
    assert [stored.message.message_id for stored in page.messages] == left
    # What left is found by its words, and by the references that the summary names.
    found = await memory.retrieve("city number 3", user_id=USER, limit=1)
    assert "city number 3 " in found.results[0].memory


async def test_what_leaves_is_a_job_for_memories(tmp_path: Path) -> None:
    """No model answers here: the messages are kept, the summary is an extract, and the job stays for later."""
    model = ScriptedChatModel([ModelUnavailableError("out")] * 50)
    memory = ReMe("space", tmp_path, llm=model, embedding=None)
    prepared = await memory.pre_reasoning_hook(long_talk(), user_id=USER, session_id=SESSION, max_input_length=2_000)
    assert prepared.method == "extract"
    assert prepared.problems
    assert prepared.tokens <= prepared.threshold
    jobs = await memory.list_jobs(user_id=USER)
    assert jobs
    blocks = {name for job in jobs for name in job.payload["block_ids"]}  # type: ignore[union-attr]
    listed, _ = await memory.list_blocks(user_id=USER)
    assert {block.block_id for block in listed} == blocks
    assert sorted(name for block in listed for name in block.message_ids) == sorted(prepared.removed_message_ids)
    await memory.close(finish_jobs=False)


class Says(ScriptedChatModel):
    """A model that always says or raises the same."""

    def __init__(self, answer: str | Exception) -> None:
        super().__init__()
        self.answer = answer

    async def chat(self, request: ChatRequest) -> ChatResult:
        if isinstance(self.answer, Exception):
            raise self.answer
        text = self.answer.replace("EVERYTHING", "\n".join(message.full_text for message in request.messages) * 2)
        return ChatResult(message=Message.model_validate({"role": "assistant", "content": text or " ."}))


@pytest.mark.parametrize(
    "answer",
    [
        "Hello, I am an assistant. How can I help?",
        "Error: rate limit exceeded (429)",
        "",
        "EVERYTHING",
        "\n".join(f"## {name}\n- Error: rate limit exceeded (429)" for name in SECTIONS),
        ModelUnavailableError("out"),
        ModelRejectedError("no such model"),
        RuntimeError("boom"),
    ],
    ids=["greeting", "error text", "empty", "echo", "error in sections", "unavailable", "rejected", "foreign"],
)
async def test_a_model_that_fails_costs_no_message_and_its_words_are_no_summary(
    answer: str | Exception, tmp_path: Path
) -> None:
    memory = ReMe("space", tmp_path, llm=Says(answer), embedding=None)
    earlier = "## Goal\n- Visit all 500 cities with pass XJ-4471\n" + "\n".join(
        f"## {name}\n- none" for name in SECTIONS[1:]
    )
    prepared = await memory.pre_reasoning_hook(
        long_talk(40), user_id=USER, session_id=SESSION, compressed_summary=earlier, max_input_length=4_000
    )
    assert prepared.method == "extract"
    assert len(prepared.problems) == 1
    assert prepared.tokens <= prepared.threshold
    assert "XJ-4471" in prepared.compressed_summary
    words = re.sub(r"reload [0-9a-f]{16}", "", prepared.compressed_summary)  # a reference may hold any digits
    assert not any(word in words for word in ("429", "assistant. How", "boom"))
    page = await memory.find_messages(user_id=USER, session_id=SESSION, limit=100)
    assert tuple(stored.message.message_id for stored in page.messages) == prepared.removed_message_ids
    await memory.close(finish_jobs=False)


async def test_a_tool_result_is_cut_and_loaded_again_by_every_way(memory: ReMe) -> None:
    output = "".join(f"line {number} of the log\n" for number in range(1, 9_001))
    [_, _, cut] = await memory.compact_tool_result(tool_talk(output), user_id=USER, session_id=SESSION)
    assert len(cut.full_text.encode()) <= 102_400
    [info], _ = await memory.list_offloads(user_id=USER, session_id=SESSION)
    assert (info.kind, info.name, info.message_id, info.lines) == (OffloadKind.TOOL_RESULT, "read_log", "r", 9_001)
    assert f"reload {info.reference}" in cut.full_text

    async def loaded(**options: Any) -> str:
        result = await memory.reload_context(user_id=USER, reference=info.reference, **options)
        return result.results[0].memory

    assert await loaded(limit_chars=1_000_000) == output
    assert await loaded(start_line=7_000, end_line=7_001) == "line 7000 of the log\nline 7001 of the log\n"
    assert "line 4321 of the log" in await loaded(query="line 4321")
    assert await loaded(offset=len(output) - 5) == output[-5:]
    by_words = await memory.reload_context(user_id=USER, query="log line 4321")
    assert by_words.results[0].reference == info.reference
    assert "line 4321 of the log" in by_words.results[0].memory
    found = await memory.retrieve("Which line 4321 has the log?", user_id=USER)
    assert any(hit.reference == info.reference for hit in found.results)


async def test_a_reference_of_another_user_is_not_found(memory: ReMe) -> None:
    info = await memory.offload_text("Alice's secret", user_id=USER, session_id=SESSION)
    others: list[dict[str, Any]] = [{"user_id": "bob"}, {"shared": True}]
    for other in others:
        with pytest.raises(OffloadNotFoundError):
            await memory.reload_context(**other, reference=info.reference)
        assert (await memory.reload_context(**other, query="secret")).results == ()
        assert await memory.list_offloads(**other) == ((), None)
        assert (await memory.clean_offloads(**other, older_than_days=0)).removed == ()
    with pytest.raises(OffloadNotFoundError):
        await memory.reload_context(user_id=USER, session_id="another", reference=info.reference)


async def test_messages_offloaded_by_hand_are_loaded_by_reference_words_and_time(memory: ReMe) -> None:
    left = await memory.offload_context(
        [said("m1", "I'm travelling to SF"), said("m2", "That's great to hear!", "assistant")], user_id=USER
    )
    assert left.message_ids == ("m1", "m2")
    for options in (
        {"reference": left.reference},
        {"query": "what is your travel plan?"},
        {"start_time": "2024-05-01T00:00:00Z", "end_time": "2024-05-02T00:00:00Z"},
    ):
        found = await memory.reload_context(user_id=USER, limit=3, **options)  # type: ignore[arg-type]
        assert "I'm travelling to SF" in found.results[0].memory
    nothing = await memory.offload_context([], user_id=USER)
    assert (nothing.reference, nothing.message_ids) == (None, ())


async def test_messages_are_summarised_by_hand(memory: ReMe) -> None:
    compacted = await memory.compact_memory(
        long_talk(), user_id=USER, session_id=SESSION, previous_summary="We set out on Monday.", max_input_length=4_000
    )
    assert compacted.method == "extract"
    assert compacted.reference is not None
    assert f"reload {compacted.reference}" in compacted.compressed_summary
    loaded = await memory.reload_context(user_id=USER, reference=compacted.reference, limit_chars=100_000)
    assert all(message.text in loaded.results[0].memory for message in long_talk())


async def test_the_same_text_is_kept_once(memory: ReMe) -> None:
    first, again = [await memory.offload_text("a text", user_id=USER, session_id=SESSION) for _ in range(2)]
    assert first.reference == again.reference
    assert (await memory.stats(user_id=USER)).offloads == 1
    with pytest.raises(InvalidInputError, match="text"):
        await memory.offload_text("", user_id=USER, session_id=SESSION)


async def test_a_clean_up_tells_beforehand_and_takes_nothing_that_is_in_use(memory: ReMe) -> None:
    kept = await memory.offload_text("in use " * 100, user_id=USER, session_id="open")
    gone = await memory.offload_text("not in use " * 100, user_id=USER, session_id="closed")
    await memory.close_context("closed", user_id=USER)
    assert (await memory.clean_offloads(user_id=USER)).removed == ()  # younger than three days
    told = await memory.clean_offloads(user_id=USER, older_than_days=0, dry_run=True)
    done = await memory.clean_offloads(user_id=USER, older_than_days=0)
    assert done == told.model_copy(update={"dry_run": False})
    assert [info.reference for info in done.removed] == [gone.reference]
    assert [info.reference for info in done.held] == [kept.reference]
    assert (done.bytes_removed, done.bytes_left) == (gone.bytes, kept.bytes)
    with pytest.raises(OffloadNotFoundError):
        await memory.reload_context(user_id=USER, reference=gone.reference)
    for wrong in ({"older_than_days": -1}, {"max_bytes": -1}, {"idle_days": "x"}, {"older_than_days": 1e9}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            await memory.clean_offloads(user_id=USER, **wrong)  # type: ignore[arg-type]
