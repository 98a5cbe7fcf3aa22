"""Slices join to the whole, never part a tool call from its result, and keep to the limits where they can."""

from __future__ import annotations  # noqa: I001

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.steps.slicing import Slicing, make_block, open_tail, slice_messages
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.testing.store_values import NOW
import itertools


@st.composite
def sessions(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    time = NOW
    for place in range(draw(st.integers(0, 30))):
        time += timedelta(seconds=draw(st.sampled_from([0, 1, 60, 4000])))
        call_id = draw(st.sampled_from(["a", "b", "c"]))
        content = draw(
            st.sampled_from(
                [
                    TextBlock(text="x" * draw(st.integers(1, 60))),
                    ToolCallBlock(call_id=call_id, name="tool"),
                    ToolResultBlock(call_id=call_id, output="done"),
                ]
            )
        )
        starts = draw(st.integers(0, 9)) == 0
        messages.append(
            Message(message_id=str(place), role="user", content=(content,), created_at=time, starts_block=starts)
        )
    return messages


rules = st.builds(
    lambda gap, most, chars, overlap: Slicing(
        max_gap_s=gap, max_messages=most, max_chars=chars, overlap=min(overlap, most - 1)
    ),
    st.sampled_from([30.0, 1800.0]),
    st.integers(1, 8),
    st.integers(1, 200),
    st.integers(0, 4),
)


@given(sessions(), rules)
def test_slices_join_to_the_whole(messages: list[Message], slicing: Slicing) -> None:
    slices = slice_messages(messages, slicing)
    joined = [message for piece in slices for message in piece.messages[piece.repeats :]]
    assert joined == messages
    assert all(len(piece.messages) > piece.repeats for piece in slices)


@given(sessions(), rules)
def test_repeated_messages_are_those_just_before(messages: list[Message], slicing: Slicing) -> None:
    at = 0
    for piece in slice_messages(messages, slicing):
        assert piece.repeats <= slicing.overlap
        assert list(piece.messages[: piece.repeats]) == messages[at - piece.repeats : at]
        at += len(piece.messages) - piece.repeats


@given(sessions(), rules)
def test_a_call_and_a_later_result_are_never_in_two_slices(messages: list[Message], slicing: Slicing) -> None:
    part_of: dict[str, int] = {}
    for number, piece in enumerate(slice_messages(messages, slicing)):
        part_of.update((message.message_id, number) for message in piece.messages[piece.repeats :])
    for place, message in enumerate(messages):
        for later in messages[place:]:
            if set(message.call_ids).intersection(later.result_ids):
                assert part_of[message.message_id] == part_of[later.message_id]


@given(sessions(), rules)
def test_without_tools_the_limits_hold(messages: list[Message], slicing: Slicing) -> None:
    spoken = [message for message in messages if message.text]
    for piece in slice_messages(spoken, slicing):
        fresh = piece.messages[piece.repeats :]
        assert len(fresh) <= slicing.max_messages
        assert sum(len(message.full_text) for message in fresh[:-1]) < slicing.max_chars
        assert not any(message.starts_block for message in fresh[1:])
        gaps = [(b.created_at - a.created_at).total_seconds() for a, b in itertools.pairwise(fresh)]
        assert all(gap <= slicing.max_gap_s for gap in gaps)


@given(sessions())
def test_what_is_held_back_begins_with_a_call_that_has_no_result(messages: list[Message]) -> None:
    end = open_tail(messages)
    answered = {call_id for message in messages for call_id in message.result_ids}
    assert end == len(messages) or set(messages[end].call_ids) - answered


@given(sessions(), rules)
def test_a_block_spans_the_times_of_its_messages(messages: list[Message], slicing: Slicing) -> None:
    for piece in slice_messages(messages, slicing):
        block = make_block("s", piece)
        times = [message.created_at for message in piece.messages]
        assert (block.started_at, block.ended_at) == (min(times), max(times))
        assert block.message_ids == tuple(message.message_id for message in piece.messages)
        assert len(block.summary) <= 400


@pytest.mark.parametrize("count", [1, 20, 21, 5000])
def test_the_default_block_has_at_most_twenty_messages(count: int) -> None:
    said = [
        Message(message_id=str(place), role="user", content=(TextBlock(text="hi"),), created_at=NOW)
        for place in range(count)
    ]
    assert len(slice_messages(said, Slicing())) == -(-count // 20)
