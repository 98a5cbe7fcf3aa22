"""What prompts show of attempts: bounded, numbered, without the agent's instructions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.tasks.attempts import head_and_tail, language_of, show, steps_shown, task_line
from reme_core.text import Language
from tests.unit.tasks.attempting import attempt, context, result, say


def test_short_messages_stay_whole_beside_a_huge_one() -> None:
    one = attempt("short question", "y" * 5_000_000, "short answer")
    lines = show(one, one.trajectory.messages, max_chars=1000).lines.splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    assert texts[0] == "short question"
    assert texts[2] == "short answer"
    assert "left out" in texts[1]
    assert len(texts[1]) < 1100


def test_of_too_many_messages_the_middle_is_left_out_and_numbers_are_kept() -> None:
    one = attempt(*(f"m{number}" for number in range(5000)))
    shown = show(one, one.trajectory.messages, first=11, max_messages=6)
    lines = [json.loads(line) for line in shown.lines.splitlines()]
    assert [line.get("n", line) for line in lines] == [11, 12, 13, {"left_out": 4994}, 5008, 5009, 5010]
    assert [line["text"] for line in lines if "n" in line] == ["m0", "m1", "m2", "m4997", "m4998", "m4999"]
    assert {number: message.text for number, message in shown.messages.items()}[5008] == "m4997"
    assert list(shown.messages) == [11, 12, 13, 5008, 5009, 5010]


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=30), st.integers(3000, 9000))
def test_what_is_shown_keeps_to_the_budget(sizes: list[int], budget: int) -> None:
    one = attempt(*("z" * size for size in sizes))
    shown = show(one, one.trajectory.messages, max_chars=budget)
    kept = sum(json.loads(line)["text"].count("z") for line in shown.lines.splitlines())
    assert kept <= budget
    assert kept == sum(sizes) or kept > budget - len(sizes)


@given(st.integers(0, 30), st.integers(1, 12))
def test_head_and_tail_are_ascending_places(count: int, most: int) -> None:
    places = head_and_tail(count, most)
    assert places == sorted(set(places))
    assert len(places) == min(count, most)
    if places:
        assert places[-1] == count - 1


def test_instructions_of_the_agent_are_not_shown_but_later_ones_are() -> None:
    one = attempt(say("secret setup", "system"), say("more setup", "system"), say("ask"), say("be quick", "system"))
    assert [[message.text for message in step] for step in steps_shown(one)] == [["ask", "be quick"]]


def test_an_attempt_of_instructions_alone_is_shown_as_it_is() -> None:
    one = attempt(say("all there is", "system"))
    assert steps_shown(one) == one.steps


def test_a_later_step_is_told_what_was_asked() -> None:
    one = attempt("Write fizz buzz " * 500, "done", score=0.25)
    first, later = (json.loads(task_line(one, context(), step=step, steps=2)) for step in (1, 2))
    assert first == {"domain": "coding", "score": 0.25, "step": 1, "steps": 2}
    assert later["asked"].startswith("Write fizz buzz")
    assert len(later["asked"]) < 1600


@pytest.mark.parametrize(
    ("said", "given", "wanted"),
    [
        (("请把日志按时间排序", "好的，已经排序"), None, "zh"),
        (("Please sort the log", "Done"), None, "en"),
        (("ログを時間順に並べてください", "並べました"), None, "en"),
        (("请把日志按时间排序", "好的"), "en", "en"),
    ],
)
def test_the_language_is_that_of_the_run_or_of_the_talk(said: tuple[str, ...], given: Language, wanted: str) -> None:
    output = result("c", "Traceback (most recent call last): ValueError " * 50)
    one = attempt(say("You are a helpful coding agent. " * 50, "system"), say(said[0]), say(said[1]), output)
    assert language_of((one,), context(language=given)) == wanted
