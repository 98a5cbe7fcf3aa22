"""What is searched for where a task is told by its conversation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError
from reme_core.schema import FileBlock, ImageBlock, Message, OtherBlock
from reme_core.tasks.find_experiences import MAX_QUERY_CHARS, build_query, query_of
from reme_core.tasks.task_values import TaskQuestion
from tests.support.temporary_store import TemporaryStore
from tests.unit.tasks.find.retrieving import calling, context_of, result, spoken

CONTEXT = context_of(TemporaryStore())


async def test_a_given_query_is_searched_for_as_it_is_whatever_was_said() -> None:
    question = TaskQuestion(query="  sort a list ", messages=[spoken("user", "parse a date")], limit=3)
    assert await build_query(question, CONTEXT) is question


async def test_the_first_user_message_is_the_task_and_the_last_messages_follow_in_their_order() -> None:
    messages = [
        spoken("system", "You are a careful agent"),
        spoken("assistant", "Hello"),
        spoken("user", "Parse\n  a date"),
        spoken("assistant", "I try strptime"),
        spoken("user", "It fails for leap years"),
    ]
    built = await build_query(TaskQuestion(query=" \n", messages=messages, limit=3), CONTEXT)
    assert built.query == "Parse a date\nI try strptime\nIt fails for leap years"
    assert (built.limit, built.messages) == (3, messages)


async def test_without_a_user_message_the_last_messages_are_the_task() -> None:
    messages = [spoken("assistant", "I parse a date"), result("ValueError: day is out of range")]
    assert query_of(messages) == "I parse a date\nValueError: day is out of range"


async def test_tool_calls_are_named_and_their_results_shortened_to_head_and_tail() -> None:
    log = "begin " + "x" * 10_000 + " ValueError: bad day"
    query = query_of([spoken("user", "Run the tests"), calling("run_tests", {"path": "dates.py"}), result(log)])
    task, call, told = query.splitlines()
    assert (task, call) == ("Run the tests", 'run_tests({"path": "dates.py"})')
    assert told.startswith("begin xxx")
    assert told.endswith("ValueError: bad day")
    assert len(told) <= 200


async def test_captions_and_file_names_are_words_of_the_task_and_addresses_are_not() -> None:
    content = (
        ImageBlock(url="https://example.com/1.png", caption="a broken chart"),
        ImageBlock(url="https://example.com/2.png"),
        FileBlock(url="file:///tmp/x", name="report.csv"),
        OtherBlock(kind="thinking", data="secret"),
    )
    assert query_of([Message(role="user", content=content)]) == "a broken chart report.csv"


async def test_where_room_is_short_the_task_and_the_latest_messages_are_kept() -> None:
    messages = [spoken("user", "TASK " + "t" * 5000), *(spoken("user", f"turn {n} " + "w" * 300) for n in range(100))]
    query = query_of(messages)
    assert query.startswith("TASK ttt")
    assert "turn 99" in query
    assert "turn 0 " not in query
    assert 1700 < len(query) <= MAX_QUERY_CHARS


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [spoken("system", "You are a careful agent")],
        [Message(role="user", content=(OtherBlock(kind="thinking", data="secret"),))],
    ],
    ids=["no messages", "instructions alone", "nothing that can be read"],
)
async def test_nothing_to_search_for_is_refused_naming_what_to_give(messages: list[Message]) -> None:
    with pytest.raises(InvalidInputError, match=r"query= .* or messages="):
        await build_query(TaskQuestion(query=" ", messages=messages), CONTEXT)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.integers(1, 3000)), max_size=12))
def test_a_built_query_is_bounded_whatever_was_said(said: list[tuple[str, int]]) -> None:
    messages = [spoken(role, "ab "[: 1 + length % 3] * length) for role, length in said]
    query = query_of(messages)
    assert len(query) <= MAX_QUERY_CHARS
    assert bool(query) == any(message.role != "system" for message in messages)
