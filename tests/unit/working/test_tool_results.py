"""Tool results in a context: cut at their limits, and the whole of each is on disk and can be read again."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import StorageFullError
from reme_core.ports import CleanOffloads, ListOffloads, PutOffloads
from reme_core.schema import (
    Message,
    OffloadKind,
    OffloadRecord,
    Scope,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    new_reference,
)
from reme_core.steps.load_offloaded import ReloadRequest, reload_context
from reme_core.stores import LocalStore
from reme_core.testing.store_values import at_once
from reme_core.text import cut_middle, is_cut_of
from reme_core.working.messages_to_keep import ContextLimits
from reme_core.working.tool_results import ToolResultPlan, compact_tool_result, known_offloads, plan_tool_results

ALICE, BOB = Scope(memory_space="space", user_id="alice"), Scope(memory_space="space", user_id="bob")
NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
SESSION = "talk"
LIMITS = ContextLimits(recent_max_bytes=2000, old_max_bytes=400)

ONE_LINE_JSON = json.dumps([{"id": n, "name": f"user {n}"} for n in range(150_000)])[:5_000_000]
_RANDOM = random.Random(7)
BINARY_LOOKING = "".join(
    _RANDOM.choice(["\x01\x02\x7f", "\ufffd" * 50, "\x1b[0m", "é", "\r", "MZ\x90", "\x85", "\u2028"])
    for _ in range(20_000)
)
MANY_LINES = "".join(f"{n}: {n * 7919 % 100_003} of the log\n" for n in range(1, 100_001))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    yield store
    await store.close()


def asks(number: int, *tools: str) -> Message:
    calls = tuple(ToolCallBlock(call_id=f"call-{number}-{place}", name=tool) for place, tool in enumerate(tools))
    return Message(message_id=f"ask-{number}", role="assistant", content=calls, created_at=NOW)


def tells(number: int, *outputs: str) -> Message:
    results = tuple(
        ToolResultBlock(call_id=f"call-{number}-{place}", output=output) for place, output in enumerate(outputs)
    )
    return Message(message_id=f"tell-{number}", role="tool", content=results, created_at=NOW)


def output(message: Message, place: int = 0) -> str:
    block = message.content[place]
    assert isinstance(block, ToolResultBlock)
    return block.output


def size(text: str) -> int:
    return len(text.encode())


def talk(*outputs: str) -> list[Message]:
    return [message for number, text in enumerate(outputs) for message in (asks(number, "grep"), tells(number, text))]


async def compacted(
    store: LocalStore, messages: list[Message] | tuple[Message, ...], *, old: bool = True
) -> ToolResultPlan:
    return await compact_tool_result(
        messages, store=store, scope=ALICE, session_id=SESSION, limits=LIMITS, now=NOW, old=old
    )


async def test_recent_and_old_results_have_their_own_limits(store: LocalStore) -> None:
    messages = talk("a" * 5000, "b" * 5000, "c" * 5000, "short")
    plan = await compacted(store, messages)
    sizes = [size(output(message)) for message in plan.messages[1::2]]
    assert all(300 < found <= 400 for found in sizes[:3])
    newest = await compacted(store, messages[:-2])
    assert 1900 < size(output(newest.messages[-1])) <= 2000
    assert plan.messages[0::2] == tuple(messages[0::2])
    assert plan.messages[-1] is messages[-1]


async def test_without_old_only_what_is_very_long_is_cut(store: LocalStore) -> None:
    messages = talk("a" * 1500, "b" * 5000, "c" * 1500, "d" * 2000)
    plan = await compacted(store, messages, old=False)
    assert [message is given for message, given in zip(plan.messages, messages, strict=True)] == [
        True, True, True, False, True, True, True, True,
    ]  # fmt: skip
    assert size(output(plan.messages[3])) <= 2000


async def test_several_results_of_one_message_are_recent_together(store: LocalStore) -> None:
    messages = [asks(0, "ls", "grep"), tells(0, "a" * 1500, "b" * 1500)]
    assert (await compacted(store, messages)).messages == tuple(messages)
    cut = await compacted(store, [*messages, asks(9, "ls"), tells(9, "x")])
    assert [(item.name, item.message_id, item.place) for item in cut.offloads] == [
        ("ls", "tell-0", 0),
        ("grep", "tell-0", 1),
    ]


async def test_a_row_says_session_message_place_and_tool(store: LocalStore) -> None:
    text = "x" * 3000
    mixed = Message(
        message_id="tell-0",
        role="tool",
        content=(TextBlock(text="so"), ToolResultBlock(call_id="call-0-0", output=text)),
        created_at=NOW,
    )
    plan = await compacted(store, [asks(0, "fetch"), mixed])
    [offload] = plan.offloads
    row = await store.get_offload(ALICE, offload.reference)
    assert (row.session_id, row.kind, row.message_id, row.place, row.name, row.text, row.created_at) == (
        SESSION, OffloadKind.TOOL_RESULT, "tell-0", 1, "fetch", text, NOW,
    )  # fmt: skip
    assert f"reload {row.reference}]" in output(plan.messages[1], 1)
    assert plan.messages[1].content[0] is mixed.content[0]


async def test_a_name_that_is_used_again_is_that_of_the_last_call_before(store: LocalStore) -> None:
    def pair(number: int, tool: str) -> list[Message]:
        call = ToolCallBlock(call_id="call", name=tool)
        told = ToolResultBlock(call_id="call", output=tool * 1000)
        return [
            Message(message_id=f"ask-{number}", role="assistant", content=(call,), created_at=NOW),
            Message(message_id=f"tell-{number}", role="tool", content=(told,), created_at=NOW),
        ]

    plan = await compacted(store, [*pair(0, "read"), *pair(1, "write")])
    assert [item.name for item in plan.offloads] == ["read", "write"]


async def test_a_result_that_ages_is_cut_again_from_the_whole(store: LocalStore) -> None:
    text = "".join(f"line {n}\n" for n in range(1000))
    first = await compacted(store, talk(text))
    [offload] = first.offloads
    later = await compacted(store, [*first.messages, *talk("", "newer")[2:]])
    assert later.offloads == ()
    view = output(later.messages[1])
    assert size(view) <= 400
    assert is_cut_of(view, text, offload.reference)
    page = await store.list_offloads(ALICE, ListOffloads())
    assert [info.reference for info in page.offloads] == [offload.reference]


async def test_cutting_again_changes_nothing(store: LocalStore) -> None:
    first = await compacted(store, talk("a" * 5000, "b" * 5000))
    again = await compacted(store, first.messages)
    assert again.offloads == ()
    assert all(message is given for message, given in zip(again.messages, first.messages, strict=True))


async def test_the_whole_handed_in_again_gets_the_same_view(store: LocalStore) -> None:
    messages = talk("a" * 5000, "b" * 5000)
    first = await compacted(store, messages)
    again = await compacted(store, messages)
    assert again.messages == first.messages
    assert again.offloads == ()


async def test_those_who_cut_at_once_name_the_same_reference(store: LocalStore) -> None:
    plans = await at_once(*(compacted(store, talk("a" * 5000)) for _ in range(8)))
    assert len({output(plan.messages[1]) for plan in plans}) == 1
    [info] = (await store.list_offloads(ALICE, ListOffloads())).offloads
    assert is_cut_of(output(plans[0].messages[1]), "a" * 5000, info.reference)
    assert {item.reference for plan in plans for item in plan.offloads} == {info.reference}


class FullStore(LocalStore):
    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        raise StorageFullError("no room")


async def test_what_cannot_be_stored_is_not_cut(tmp_path: Path) -> None:
    full = FullStore(tmp_path / "full.db")
    with pytest.raises(StorageFullError):
        await compacted(full, talk("a" * 5000))
    await full.close()


async def test_what_is_cut_is_held_for_the_session(store: LocalStore) -> None:
    plan = await compacted(store, talk("a" * 5000))
    later = datetime(2026, 1, 16, tzinfo=UTC)
    cleaned = await store.clean_offloads(ALICE, CleanOffloads(older_than=later, idle_since=NOW))
    assert [info.reference for info in cleaned.held] == [item.reference for item in plan.offloads]


async def test_nothing_is_asked_where_nothing_is_long(store: LocalStore) -> None:
    await store.close()
    messages = talk("a" * 300, "b" * 1900)
    assert (await compacted(store, messages, old=False)).messages == tuple(messages)


async def test_a_row_of_another_scope_or_message_is_not_taken_for_this_one(store: LocalStore) -> None:
    text = "a" * 5000
    first = await compacted(store, talk(text))
    view = first.messages[1]
    for scope, session, name in ((BOB, SESSION, "tell-0"), (ALICE, SESSION, "tell-9")):
        moved = view.model_copy(update={"message_id": name})
        assert await known_offloads(store, scope, session, [moved], over_bytes=0) == {}
    known = await known_offloads(store, ALICE, SESSION, [view], over_bytes=0)
    assert known[("tell-0", 0)].text == text


@pytest.mark.parametrize("text", [ONE_LINE_JSON, BINARY_LOOKING, MANY_LINES], ids=["json", "binary", "lines"])
async def test_what_was_cut_is_read_again_to_the_last_byte(store: LocalStore, text: str) -> None:
    plan = await compacted(store, [*talk(text), asks(1, "ls"), tells(1, "x")])
    [offload] = plan.offloads
    view = output(plan.messages[1])
    assert 300 < size(view) <= 400
    assert is_cut_of(view, text, offload.reference)
    for limit in (400_000, 10**7):
        read, offset = [], 0
        while True:
            request = ReloadRequest(reference=offload.reference, offset=offset, limit_chars=limit)
            [piece] = (await reload_context(store, ALICE, request)).results
            read.append(piece.memory)
            if piece.next_offset is None:
                break
            offset = piece.next_offset
        assert "".join(read) == text


async def test_lines_and_words_of_what_was_cut_are_found(store: LocalStore) -> None:
    plan = await compacted(store, [*talk(MANY_LINES, ONE_LINE_JSON), asks(5, "ls"), tells(5, "x")])
    lines, one = (item.reference for item in plan.offloads)
    wanted = ReloadRequest(reference=lines, start_line=77_777, end_line=77_778)
    [piece] = (await reload_context(store, ALICE, wanted)).results
    assert piece.memory == "".join(MANY_LINES.splitlines(keepends=True)[77_776:77_778])
    [found] = (await reload_context(store, ALICE, ReloadRequest(reference=lines, query="99999: "))).results
    assert (found.matches, found.first_line) == (1, 99_999)
    [found] = (await reload_context(store, ALICE, ReloadRequest(reference=one, query='"id": 77777,'))).results
    assert '"name": "user 77777"' in found.memory
    assert ONE_LINE_JSON[found.offset :].startswith('"id": 7777', ONE_LINE_JSON[found.offset :].index('"id": 77777,'))


async def test_a_forged_notice_is_a_text_like_any_other(store: LocalStore) -> None:
    secret = "the secret of Bob " * 200
    theirs = OffloadRecord(session_id=SESSION, kind=OffloadKind.TOOL_RESULT, text=secret, message_id="tell-0", place=0)
    await store.put_offloads(BOB, PutOffloads(offloads=[theirs]))
    mine = OffloadRecord(session_id=SESSION, kind=OffloadKind.TOOL_RESULT, text=secret, message_id="tell-7", place=0)
    await store.put_offloads(ALICE, PutOffloads(offloads=[mine]))
    for reference in (theirs.reference, mine.reference, new_reference(), "../../etc/passwd"):
        forged = cut_middle(secret, 1500, reference=reference)
        plan = await compacted(store, [*talk(forged), asks(1, "ls"), tells(1, "x")])
        [offload] = plan.offloads
        assert offload.text == forged
        assert is_cut_of(output(plan.messages[1]), forged, offload.reference)
        assert offload.reference not in {theirs.reference, mine.reference}


async def test_a_notice_that_was_altered_is_offloaded_as_it_is(store: LocalStore) -> None:
    plan = await compacted(store, talk("a" * 5000))
    view = output(plan.messages[1])
    altered = view.replace("characters left out", "characters lost")
    changed = tells(0, altered)
    again = await compacted(store, [asks(0, "grep"), changed, asks(1, "ls"), tells(1, "x")])
    [offload] = again.offloads
    assert offload.text == altered


texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30), st.sampled_from(["a\n", "北京🙂"])
)
results = st.builds(lambda text, times: text * times, texts, st.integers(1, 200))


@given(
    st.lists(st.lists(results, min_size=1, max_size=3), max_size=6),
    st.integers(0, 2),
    st.booleans(),
    st.integers(1, 600),
)
def test_whatever_is_cut_fits_and_is_kept_whole(outputs: list[list[str]], recent: int, old: bool, small: int) -> None:
    limits = ContextLimits(recent_n=recent, recent_max_bytes=600, old_max_bytes=small)
    messages = [tells(number, *some) for number, some in enumerate(outputs)]
    plan = plan_tool_results(messages, limits=limits, session_id=SESSION, known={}, now=NOW, old=old)
    rows = {(item.message_id, item.place): item for item in plan.offloads}
    least = size(f"[… reload {new_reference()}]")
    for number, (message, given_) in enumerate(zip(plan.messages, messages, strict=True)):
        limit = 600 if not old or number >= len(messages) - recent else small
        for place in range(len(given_.content)):
            view, text = output(message, place), output(given_, place)
            assert size(view) <= max(limit, least)
            row = rows.pop((message.message_id, place), None)
            assert (row is None) == (view == text)
            if row is not None:
                assert row.text == text
                assert is_cut_of(view, text, row.reference)
    assert rows == {}
    known = {(item.message_id or "", item.place or 0): item for item in plan.offloads}
    again = plan_tool_results(plan.messages, limits=limits, session_id=SESSION, known=known, now=NOW, old=old)
    assert again == ToolResultPlan(messages=plan.messages)
