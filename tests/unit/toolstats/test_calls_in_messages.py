"""Tool calls read from conversations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.schema import (
    Message,
    ToolCallBlock,
    ToolCallResult,
    ToolResultBlock,
    parse_messages,
    read_stored_message,
)
from reme_core.schema.tool_calls import MAX_CALL_BYTES
from reme_core.toolstats.record_calls import read_tool_calls, with_outcome
from tests.unit.toolstats.calling import CALLED, calls_tool, results, said

LATER = CALLED + timedelta(seconds=90)


def test_a_call_and_its_result_in_a_later_message_are_one_call() -> None:
    read = read_tool_calls(
        [said("find it"), calls_tool("m1", ("a", "search")), said("?"), results("m2", ("a", "found"), at=LATER)]
    )
    [call] = read.calls
    assert (call.tool_name, call.input, call.output, call.success) == ("search", {"of": "a"}, "found", True)
    assert call.create_time == LATER
    assert call.message_ids == ("m1", "m2")
    assert (call.time_cost, call.token_cost) == (None, None)
    assert read.open_call_ids == ()


def test_parallel_calls_have_each_its_own_result() -> None:
    read = read_tool_calls(
        [
            calls_tool("m1", ("a", "search"), ("b", "fetch"), ("c", "search")),
            results("m2", ("b", "page"), ("a", "found")),
        ]
    )
    assert [(call.tool_name, call.input, call.output) for call in read.calls] == [
        ("fetch", {"of": "b"}, "page"),
        ("search", {"of": "a"}, "found"),
    ]
    assert read.open_call_ids == ("c",)


def test_a_call_and_its_result_in_one_message_name_it_once() -> None:
    message = Message(
        message_id="m1",
        role="assistant",
        content=(
            ToolCallBlock(call_id="a", name="search"),
            ToolResultBlock(call_id="a", output="1"),
            ToolCallBlock(call_id="a", name="fetch"),
            ToolResultBlock(call_id="a", output="2"),
        ),
    )
    calls = read_tool_calls([message]).calls
    assert [(call.tool_name, call.output, call.message_ids) for call in calls] == [
        ("search", "1", ("m1",)),
        ("fetch", "2", ("m1",)),
    ]


def test_an_id_used_again_belongs_to_the_nearest_call_before_the_result() -> None:
    read = read_tool_calls(
        [
            calls_tool("m1", ("a", "lost")),
            calls_tool("m2", ("a", "search")),
            results("m3", ("a", "found")),
            calls_tool("m4", ("a", "fetch")),
            results("m5", ("a", "page")),
        ]
    )
    assert [(call.tool_name, call.output) for call in read.calls] == [("search", "found"), ("fetch", "page")]
    assert read.open_call_ids == ("a",)


def test_calls_of_one_message_with_one_id_take_results_in_their_order() -> None:
    read = read_tool_calls([calls_tool("m1", ("a", "x"), ("a", "y")), results("m2", ("a", "1"), ("a", "2"))])
    assert [(call.tool_name, call.output) for call in read.calls] == [("x", "1"), ("y", "2")]
    assert len({call.call_id for call in read.calls}) == 2


def test_a_result_without_a_call_is_taken_if_it_names_its_tool() -> None:
    read = read_tool_calls([results("m1", ("a", "found"), name="search"), results("m2", ("b", "found"))])
    assert [(call.tool_name, call.input, call.message_ids) for call in read.calls] == [("search", {}, ("m1",))]


def test_a_result_before_its_call_leaves_the_call_open() -> None:
    read = read_tool_calls([results("m1", ("a", "found")), calls_tool("m2", ("a", "search"))])
    assert (read.calls, read.open_call_ids) == ((), ("a",))


def test_a_call_has_failed_if_its_result_says_so_or_looks_like_it() -> None:
    read = read_tool_calls(
        [
            calls_tool("m1", *((call_id, "search") for call_id in "abcd")),
            results("m2", ("a", "all fine"), is_error=True),
            results("m3", ("b", "Error: no such index"), ("c", "No errors found")),
            results("m4", ("d", "Error: no such page"), is_error=False),
        ]
    )
    assert [call.success for call in read.calls] == [False, False, True, False]


def test_messages_of_any_form_and_those_read_back_tell_the_same_of_a_result() -> None:
    asked = {"id": "a", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    own = {"type": "tool_result", "call_id": "a", "output": "Error: no such index"}
    for answer in (
        {"role": "tool", "tool_call_id": "a", "content": "Error: no such index"},
        {"role": "tool", "content": [own]},
    ):
        messages = parse_messages([{"role": "assistant", "content": None, "tool_calls": [asked]}, answer])
        assert [call.success for call in read_tool_calls(messages).calls] == [False]
        back = [read_stored_message(message.model_dump_json()) for message in messages]
        assert read_tool_calls(back) == read_tool_calls(messages)


@pytest.mark.parametrize(
    ("fields", "success"),
    [
        ({"output": "Traceback (most recent call last):\nValueError: x"}, False),
        ({"output": "found"}, True),
        ({"output": "Error: x", "success": True}, True),
        ({"output": "found", "success": False}, False),
    ],
)
def test_a_success_that_was_left_out_is_told_from_the_output(fields: dict[str, Any], success: bool) -> None:
    call = with_outcome(ToolCallResult(tool_name="search", **fields))
    assert (call.success, "success" in call.model_fields_set) == (success, True)
    assert "create_time" not in call.model_fields_set


def test_a_window_that_begins_at_the_result_gives_the_same_id() -> None:
    whole = [calls_tool("m1", ("a", "search")), results("m2", ("a", "found"), name="search")]
    assert [call.call_id for call in read_tool_calls(whole[1:]).calls] == [
        call.call_id for call in read_tool_calls(whole).calls
    ]


def test_numbers_in_the_metadata_of_a_single_result_are_its_time_and_tokens() -> None:
    cost = {"time_cost": 2, "token_cost": 310}
    read = read_tool_calls(
        [
            calls_tool("m1", ("a", "search"), ("b", "search"), ("c", "search")),
            results("m2", ("a", "found"), metadata=cost),
            results("m3", ("b", "found"), ("c", "found"), metadata=cost),
        ]
    )
    assert [(call.time_cost, call.token_cost) for call in read.calls] == [(2.0, 310), (None, None), (None, None)]


@pytest.mark.parametrize("value", [-1, True, "3", None, 10**400, [2]])
def test_metadata_that_is_no_cost_is_none(value: object) -> None:
    read = read_tool_calls(
        [
            calls_tool("m1", ("a", "search")),
            results("m2", ("a", "x"), metadata={"time_cost": value, "token_cost": value}),
        ]
    )
    assert (read.calls[0].time_cost, read.calls[0].token_cost) == (None, None)


def test_the_same_messages_give_the_same_calls_and_a_longer_conversation_keeps_their_ids() -> None:
    first = [calls_tool("m1", ("a", "search")), results("m2", ("a", "found"))]
    more = [*first, calls_tool("m3", ("a", "search")), results("m4", ("a", "found"))]
    once, again = read_tool_calls(first).calls, read_tool_calls(more).calls
    assert once == read_tool_calls(first).calls
    assert again[:1] == once
    assert again[1].call_id != once[0].call_id


def test_arguments_that_are_no_json_stay_as_they_came() -> None:
    messages = parse_messages(
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "run", "arguments": "{broken"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": "Error: bad arguments"},
        ]
    )
    [call] = read_tool_calls(messages).calls
    assert (call.input, call.success) == ("{broken", False)


def test_a_time_that_the_sender_left_to_us_is_marked_as_such() -> None:
    messages = parse_messages(
        [calls_tool("m1", ("a", "search")), {"role": "tool", "tool_call_id": "a", "content": "x"}]
    )
    assert "create_time" not in read_tool_calls(messages).calls[0].model_fields_set


@pytest.mark.parametrize("name", ["x" * 257, "two\nlines", "tab\there", ""])
def test_a_call_of_what_is_no_name_is_passed_over_and_named_and_the_others_are_read(name: str) -> None:
    asked = calls_tool("m1", ("a", name), ("b", "search"), ("open", name))
    read = read_tool_calls([said("hello"), asked, results("m2", ("a", "found"), ("b", "found"))])
    assert [call.tool_name for call in read.calls] == ["search"]
    assert (read.skipped_call_ids, read.open_call_ids) == (("a",), ("open",))


def test_blanks_at_the_ends_of_a_name_do_not_count() -> None:
    read = read_tool_calls([calls_tool("m1", ("a", " search ")), results("m2", ("a", "found"))])
    assert read.calls[0].tool_name == "search"


def test_an_output_that_is_too_long_beside_its_input_is_cut_with_a_notice() -> None:
    text = "é" * (MAX_CALL_BYTES // 2 - 40)
    read = read_tool_calls([calls_tool("m1", ("a", "search"), arguments={"q": "x" * 1000}), results("m2", ("a", text))])
    [call] = read.calls
    assert call.input == {"q": "x" * 1000}
    assert len(call.output.encode()) < MAX_CALL_BYTES
    assert "characters left out …]" in call.output
    assert call.output.startswith("é")
    assert call.output.endswith("é")


def test_an_input_that_leaves_no_room_is_cut_as_well() -> None:
    arguments = "\n" * (MAX_CALL_BYTES - 100)  # twice as long as JSON
    read = read_tool_calls([calls_tool("m1", ("a", "search"), arguments=arguments), results("m2", ("a", "found"))])
    [call] = read.calls
    assert isinstance(call.input, str)
    assert "characters left out" in call.input
    assert call.output == "found"


BLOCKS = st.lists(
    st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["search", "fetch"])), min_size=1, max_size=4
)


@given(st.lists(BLOCKS, max_size=6))
def test_every_result_takes_one_call_and_no_call_has_two(turns: list[list[tuple[bool, str, str]]]) -> None:
    messages = [
        Message(
            message_id=f"m{number}",
            role="assistant",
            created_at=CALLED,
            content=tuple(
                ToolCallBlock(call_id=call_id, name=name) if is_call else ToolResultBlock(call_id=call_id, output=name)
                for is_call, call_id, name in turn
            ),
        )
        for number, turn in enumerate(turns)
    ]
    read = read_tool_calls(messages)
    asked = sum(is_call for turn in turns for is_call, _, _ in turn)
    assert len({call.call_id for call in read.calls}) == len(read.calls) <= asked
    assert read == read_tool_calls(messages)
    if len(read.calls) < asked:
        assert read.open_call_ids
