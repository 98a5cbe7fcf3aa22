"""Any conversation in any window: it fits, nothing is torn apart, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core import Message, ReMe
from reme_core.errors import ContextTooLongError
from reme_core.ports import TokenCounter
from reme_core.schema import FileBlock, ImageBlock, OffloadKind, PreparedContext
from reme_core.schema.content_blocks import media_references
from reme_core.stores import LocalStore
from tests.support.conversations import conversations

USER, SESSION = "alice", "talk"
WINDOWS = st.one_of(st.sampled_from([2_000, 4_000, 16_000, 32_000, 128_000, 1_000_000]), st.integers(2_000, 1_000_000))


def texts(messages: Sequence[Message]) -> Iterator[str]:
    """Give every text that stands in messages, by message and place: what must not be lost. Bytes go by digest."""
    for message in messages:
        for whole in message.content:
            block = whole.apart()[0] if isinstance(whole, (ImageBlock, FileBlock)) else whole
            yield json.dumps([message.message_id, block.model_dump(mode="json")], sort_keys=True, ensure_ascii=False)


def calls(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    asked = [name for message in messages for name in message.call_ids]
    answered = [name for message in messages for name in message.result_ids]
    return asked, answered


async def everything(memory: ReMe, context: Sequence[Message]) -> set[str]:
    """Return what context and store hold together, each cut text in full."""
    page = await memory.find_messages(user_id=USER, session_id=SESSION, limit=10_000)
    said = {stored.message.message_id: stored.message for stored in page.messages}
    for ref in media_references(block for message in said.values() for block in message.content):
        assert (await memory.read_blob(ref, user_id=USER)).ref == ref
    whole = set(texts(list(said.values()))) | set(texts(context))
    by_id = {message.message_id: message for message in [*context, *said.values()]}
    infos, _ = await memory.list_offloads(user_id=USER, session_id=SESSION, limit=10_000)
    for info in infos:
        if info.kind is not OffloadKind.TOOL_RESULT or info.message_id is None or info.place is None:
            continue
        pieces, offset = [], 0
        while offset is not None:
            found = await memory.reload_context(
                user_id=USER, reference=info.reference, offset=offset, limit_chars=1_000_000
            )
            [piece] = found.results
            pieces.append(piece.memory)
            offset = piece.next_offset  # type: ignore[assignment]
        message = by_id[info.message_id]
        block = message.content[info.place].model_copy(update={"output": "".join(pieces)})
        whole |= set(texts([message.model_copy(update={"content": (block,)})]))
    return whole


def check(before: Sequence[Message], prepared: PreparedContext) -> None:
    """Check everything that doesn't need the store."""
    assert prepared.tokens <= prepared.threshold
    order = {message.message_id: place for place, message in enumerate(before)}
    places = [order[message.message_id] for message in prepared.messages]
    assert places == sorted(set(places))
    kept = {message.message_id for message in prepared.messages}
    assert kept.isdisjoint(prepared.removed_message_ids)
    assert kept | set(prepared.removed_message_ids) == set(order)
    leading = 0
    while leading < len(before) and before[leading].role == "system":
        leading += 1
    assert list(range(leading)) == places[:leading]
    users = [message.message_id for message in before if message.role == "user"]
    assert not users or users[-1] in kept
    for message in prepared.messages:
        assert message.role == before[order[message.message_id]].role
    asked, answered = calls(prepared.messages)
    asked_before, answered_before = calls(before)
    # No result is sent without its call: one that came after its call had left is told in words.
    assert set(answered) <= set(asked)
    assert {name for name in asked if name in answered_before} == set(answered)
    assert [name for name in asked_before if name in asked] == asked


async def prepare(
    memory: ReMe, messages: Sequence[Message], system_prompt: str, summary: str, window: int
) -> PreparedContext:
    return await memory.pre_reasoning_hook(
        messages,
        user_id=USER,
        session_id=SESSION,
        system_prompt=system_prompt,
        compressed_summary=summary,
        max_input_length=window,
    )


async def prepare_all(
    messages: list[Message], system_prompt: str, window: int, folder: Path, cuts: Sequence[float]
) -> None:
    """Let a conversation grow in a few steps, as an agent's does, and check each.

    Some end right before a late result, so that its call may have left when it comes.
    """
    late = [place for place in range(1, len(messages)) if messages[place].result_ids and _is_user(messages[place - 1])]
    ends = sorted({*late[:1], *late[-1:], *(round(cut * len(messages)) for cut in cuts), len(messages)})
    store = LocalStore(folder / "memory.db", synchronous="NORMAL")
    async with ReMe("space", folder, llm=None, embedding=None, vector_store=store) as memory:
        context: list[Message] = []
        summary, done = "", 0
        for end in ends:
            before = [*context, *messages[done:end]]
            done = end
            try:
                prepared = await prepare(memory, before, system_prompt, summary, window)
            except ContextTooLongError:
                assert _cant_fit(before, window)
                return
            check(before, prepared)
            again = await prepare(memory, prepared.messages, system_prompt, prepared.compressed_summary, window)
            assert list(again.messages) == list(prepared.messages)
            assert not again.has_changed
            context, summary = list(prepared.messages), prepared.compressed_summary
        assert set(texts(messages)) <= await everything(memory, context)
    await store.close()


def _is_user(message: Message) -> bool:
    return message.role == "user"


def _cant_fit(messages: Sequence[Message], window: int) -> bool:
    """Tell whether what must stay is too many pieces for a window: each costs some tokens, however short it is."""
    asked, answered = calls(messages)
    pending = [name for name in asked if name not in answered]
    return len(pending) * 60 + 200 > window * 0.6


@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    messages=conversations(max_messages=300),
    window=WINDOWS,
    system=st.integers(0, 400),
    cuts=st.lists(st.floats(0.1, 0.9), max_size=2),
)
def test_any_conversation_fits_any_window_and_loses_nothing(
    messages: list[Message], window: int, system: int, cuts: list[float]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(prepare_all(messages, "be kind " * (system // 2), window, Path(folder), cuts))


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages=conversations(min_messages=2_000, max_messages=2_500), window=WINDOWS)
def test_so_does_a_conversation_of_thousands_of_messages(messages: list[Message], window: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(prepare_all(messages, "", window, Path(folder), []))


class Words:
    """A counter of a user's own, which counts quite differently."""

    def count(self, text: str) -> int:
        return len(text.split()) * 2 + len(text) // 50


@pytest.mark.parametrize("counter", [Words()])
@pytest.mark.parametrize("window", [2_000, 16_000, 128_000])
async def test_a_counter_of_ones_own_is_what_counts(counter: TokenCounter, window: int, tmp_path: Path) -> None:
    messages = [
        Message.model_validate(
            {
                "role": "user" if number % 2 == 0 else "assistant",
                "content": f"{number} " + "word " * 400,
                "id": f"m{number}",
            }
        )
        for number in range(300)
    ]
    async with ReMe("space", tmp_path, llm=None, embedding=None, token_counter=counter) as memory:
        prepared = await prepare(memory, messages, "", "", window)
        check(messages, prepared)
        shown = sum(counter.count(message.text) for message in prepared.messages)
        assert shown + counter.count(prepared.compressed_summary) <= prepared.threshold


async def test_a_system_prompt_that_leaves_no_room_is_an_error_and_nothing_changes(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with pytest.raises(ContextTooLongError, match="max_input_length"):
            await prepare(
                memory, [Message.model_validate({"role": "user", "content": "hi"})], "be kind " * 2_000, "", 2_000
            )
