"""Attempts made ready: best first, cut where they are too long, and nothing of them lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import ConfigurationError
from reme_core.schema import Message
from reme_core.tasks import Attempt, preprocess
from tests.unit.tasks.attempting import attempt, call, context, result, say


async def prepared(*attempts: Attempt, max_chars: int = 16_000, max_messages: int = 100) -> tuple[Attempt, ...]:
    return await preprocess(max_chars=max_chars, max_messages=max_messages)(attempts, context())


def joined(one: Attempt) -> tuple[Message, ...]:
    return tuple(message for step in one.steps for message in step)


async def test_the_best_attempt_comes_first_and_equal_ones_keep_their_order() -> None:
    scores = {"a": 0.0, "b": 1.0, "c": 0.5, "d": 1.0}
    found = await prepared(*(attempt(score=score, name=name) for name, score in scores.items()))
    assert [one.block_id for one in found] == ["b", "d", "c", "a"]


async def test_what_fits_into_a_prompt_is_one_step_whatever_its_marks_and_silences() -> None:
    one = attempt("a", say("b").model_copy(update={"starts_block": True}), "c")
    assert await prepared(one) == (one,)


async def test_many_messages_become_steps_of_about_the_same_length() -> None:
    one = attempt(*("word" for _ in range(101)))
    (found,) = await prepared(one, max_messages=50)
    assert [len(step) for step in found.steps] == [34, 34, 33]
    assert joined(found) == one.trajectory.messages


async def test_one_huge_message_does_not_scatter_the_others() -> None:
    one = attempt("ask", *("short" for _ in range(5)), "x" * 5_000_000, *("short" for _ in range(5)))
    (found,) = await prepared(one)
    assert len(found.steps) <= 2
    assert joined(found) == one.trajectory.messages


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(0, 3), st.integers(1, 6), st.integers(5, 200))
def test_steps_join_to_the_whole_and_part_no_call_from_its_result(
    calls: list[int], lead: int, max_messages: int, max_chars: int
) -> None:
    import asyncio

    messages: list[Message | str] = [say("be brief", "system") for _ in range(lead)]
    for turn, count in enumerate(calls):
        messages.append(say(f"turn {turn}"))
        ids = [f"{turn}-{number}" for number in range(count)]
        messages += [call(name) for name in ids]
        messages += [result(name) for name in ids]
    one = attempt(*messages)
    (found,) = asyncio.run(prepared(one, max_messages=max_messages, max_chars=max_chars))
    assert joined(found) == one.trajectory.messages
    for step in found.steps:
        assert {name for message in step for name in message.call_ids} == {
            name for message in step for name in message.result_ids
        }
        assert any(message.role != "system" for message in step)


async def test_steps_that_were_there_are_cut_further_and_never_joined() -> None:
    (once,) = await prepared(attempt(*("word" for _ in range(40))), max_messages=20)
    (twice,) = await prepared(once, max_messages=10)
    assert [len(step) for step in twice.steps] == [10] * 4
    (again,) = await prepared(twice, max_messages=100)
    assert again == twice


async def test_no_attempts_stay_none() -> None:
    assert await prepared() == ()


@pytest.mark.parametrize(("max_chars", "max_messages"), [(0, 1), (1, 0), (-5, 5)])
def test_limits_below_one_are_refused(max_chars: int, max_messages: int) -> None:
    with pytest.raises(ConfigurationError, match="above zero"):
        preprocess(max_chars=max_chars, max_messages=max_messages)
