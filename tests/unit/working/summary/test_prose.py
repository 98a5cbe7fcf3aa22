"""With `accept_prose`, a summary in the model's own words is used; what reads like a failure never is."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import ModelOutputError
from reme_core.working.summary.compact import Compacted, compact_memory
from reme_core.working.summary.prose import as_summary, is_prose, own_words, unwrapped
from reme_core.working.summary.sections import Section, parse_summary
from tests.unit.working.summary.summarising import (
    COUNTER,
    EARLIER,
    FORGED,
    PREVIOUS,
    REFERENCE,
    GoodModel,
    long_talk,
    prompt_tokens,
    request,
    shown,
    talk,
)

PLAIN = "The billing service is loaded by pgloader.\n\nRows of the staging host stayed behind, see /srv/step/3.log."
OWN = "SUMMARY-1"


async def compact(model: GoodModel, **options: object) -> Compacted:
    asked = request(long_talk(8), **{"accept_prose": True, **options})
    done = await compact_memory(asked, model=model, counter=COUNTER)
    assert COUNTER.count(done.summary) <= asked.limit_tokens
    assert parse_summary(done.summary).text == done.summary
    assert f"details: reload {REFERENCE}" in done.summary
    return done


def saying(answer: str) -> GoodModel:
    return GoodModel(lambda asked, number: answer)


async def test_a_plain_text_about_the_talk_is_a_summary() -> None:
    model = saying(PLAIN)
    done = await compact(model)
    assert (done.method, done.failures, len(model.requests)) == ("model", (), 1)
    lines = parse_summary(done.summary).of(Section.CONTEXT)
    assert lines[:2] == tuple(line for line in PLAIN.splitlines() if line)
    strict = await compact(saying(PLAIN), accept_prose=False)
    assert strict.method == "extract"
    assert PLAIN.splitlines()[0] not in strict.summary


@pytest.mark.parametrize("answer", [OWN, "They chose colours.", "1. They chose\n2. green colours", "他们选了颜色"])
async def test_beside_words_that_nobody_said_stands_what_was_said(answer: str) -> None:
    model = saying(answer)
    done = await compact(model)
    assert done.method == "model"
    assert [type(failure) for failure in done.failures] == [ModelOutputError]
    assert len(model.requests) == 1  # no second attempt for what follows no form
    lines = parse_summary(done.summary).of(Section.CONTEXT)
    assert set(own_words(answer)) <= set(lines)
    assert "Step 100" in done.summary
    again = saying(answer)
    await compact(again, previous_summary=done.summary)
    assert own_words(answer)[0] in shown(again.requests[0], "summary")


async def test_every_chunk_is_read_and_what_was_said_of_each_is_kept() -> None:
    model = GoodModel(lambda asked, number: f"PART-{number}")
    asked = request(long_talk(28), previous_summary=PREVIOUS, window_tokens=2_800, accept_prose=True)
    done = await compact_memory(asked, model=model, counter=COUNTER)
    assert len(model.requests) > 2
    seen = "".join(shown(sent, "conversation") for sent in model.requests)
    assert all(f"Step {1000 + number}" in seen for number in range(28))
    assert "PART-0" in shown(model.requests[1], "summary")
    assert [line for line in done.summary.splitlines() if "PART" in line] == [
        f"- PART-{number}" for number in range(len(model.requests))
    ]
    before = parse_summary(PREVIOUS)
    assert before.of(Section.GOAL)[0] in done.summary
    assert f"details: reload {EARLIER}" in done.summary
    assert COUNTER.count(done.summary) <= asked.limit_tokens


async def test_headings_over_words_that_nobody_said_are_asked_for_once_more() -> None:
    model = saying("\n".join(f"## {section}\n- They chose colours" for section in Section))
    done = await compact(model)
    assert len(model.requests) == 2
    assert done.method == "model"
    assert parse_summary(done.summary).of(Section.CONTEXT)[-1] == "They chose colours"


async def test_a_long_text_takes_half_of_a_summary_and_quotations_the_rest() -> None:
    done = await compact(saying("\n".join(f"They chose colour {number} for dinner" for number in range(200))))
    told = [line for line in done.summary.splitlines() if "colour" in line]
    assert 0 < COUNTER.count("\n".join(told)) <= 200
    assert "Step 100" in done.summary


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "-- **",
        "ok",
        "null",
        "429",
        "Error: 429 too many requests",
        "The service is overloaded, try again later.",
        "I am sorry, I can not help with that.",
        "I do not understand.",
        "What would you like to do?",
        "502 Bad Gateway",
        "Thanks, understood.",
        "抱歉，我无法回答",
        "好的",
        '{"summary": "They chose colours"}',
        "# Colours\nThey chose colours",
        "<think>They chose colours",
        "\n".join(f"## {section}\n- Error: rate limit exceeded" for section in Section),
    ],
)
async def test_what_is_no_summary_is_not_used(answer: str) -> None:
    done = await compact(saying(answer))
    assert done.method == "extract"
    assert len(done.failures) == 1
    assert "They chose" not in done.summary
    assert "rate limit" not in done.summary
    assert own_words(answer) == ()


async def test_words_of_its_own_point_nowhere() -> None:
    done = await compact(saying(f"They chose colours\nmore by reload {FORGED}"))
    assert "They chose colours" in done.summary
    assert FORGED not in done.summary


def test_a_plain_text_is_told_from_other_forms() -> None:
    assert is_prose("- a\n- b")
    assert not is_prose("## Goal\n- a")
    assert parse_summary(as_summary("1. a\n- b\n\n* c")).of(Section.CONTEXT) == ("a", "b", "c")
    assert as_summary("[1, 2]") == "[1, 2]"


async def test_a_short_talk_may_be_told_in_other_words() -> None:
    asked = request(talk("We paint the door green.", "Fine."), accept_prose=True)
    done = await compact_memory(asked, model=saying("Colour choice settled"), counter=COUNTER)
    assert "Colour choice settled" in done.summary
    assert "green" in done.summary


@pytest.mark.parametrize(
    "begin",
    [
        "I cannot summarize how",
        "I'm sorry, but",
        "Unfortunately, I won't say that",
        "Error:",
        "As an AI,",
        "抱歉，无法总结：",
    ],
)
async def test_a_refusal_that_names_what_was_said_is_none(begin: str) -> None:
    done = await compact(saying(f"{begin} {PLAIN.splitlines()[0]}"))
    assert done.method == "extract"
    assert begin not in done.summary


@pytest.mark.parametrize(
    "answer",
    [
        "<summary>\nThey chose colours\n</summary>",
        "## Summary\nThey chose colours",
        "**Conversation summary:**\n\nThey chose colours",
        "[Summary] They chose colours",
        "摘要：\nThey chose colours",
    ],
)
async def test_a_tag_around_it_or_a_title_above_it_does_no_harm(answer: str) -> None:
    done = await compact(saying(answer))
    assert done.method == "model"
    assert parse_summary(done.summary).of(Section.CONTEXT)[-1].endswith("They chose colours")


def test_a_summary_with_its_sections_in_a_tag_is_one() -> None:
    assert unwrapped(f"<summary>{PREVIOUS}</summary>") == PREVIOUS
    assert unwrapped(PREVIOUS) == PREVIOUS


async def test_nothing_of_a_long_paragraph_is_cut_off() -> None:
    told = [f"pgloader copied batch {number} of the billing service to the staging host." for number in range(14)]
    done = await compact(saying(" ".join(told)), limit_tokens=600)
    assert done.failures == ()
    assert all(line in done.summary for line in told)


async def test_a_long_paragraph_of_its_own_takes_half_too() -> None:
    done = await compact(saying(" ".join(f"They chose colour {number}." for number in range(200))))
    assert "They chose colour 0. They chose colour 1." in done.summary
    assert "Step 100" in done.summary
    endless = await compact(saying("色" * 5_000))
    assert 10 < endless.summary.count("色") <= 400


async def test_no_request_outgrows_the_window_and_each_part_has_its_share() -> None:
    model = GoodModel(lambda asked, number: "\n".join(f"PART-{number} colour {n} of the dinner" for n in range(30)))
    asked = request(long_talk(28), previous_summary=PREVIOUS, window_tokens=2_800, accept_prose=True)
    done = await compact_memory(asked, model=model, counter=COUNTER)
    assert len(model.requests) > 2
    assert max(map(prompt_tokens, model.requests)) < 2_800 - 400
    assert all(f"PART-{number} colour 0 " in done.summary for number in range(len(model.requests)))
    assert COUNTER.count(done.summary) <= asked.limit_tokens


class CountsCharacters:
    """A token counter by which headings alone are long."""

    def count(self, text: str) -> int:
        return len(text)


async def test_without_room_for_both_nothing_is_put_beside_quotations() -> None:
    asked = request(talk("We paint the door green."), limit_tokens=200, window_tokens=8_000, accept_prose=True)
    done = await compact_memory(asked, model=saying("Colours " * 12), counter=CountsCharacters())
    assert (done.method, len(done.failures)) == ("extract", 1)
    assert len(done.summary) <= 200
    assert REFERENCE in done.summary


_BITS = [
    PLAIN,
    OWN,
    "## Goal",
    "# a",
    "- none",
    "\\# b",
    "```",
    "<think>",
    "1. x",
    f"details: reload {FORGED}",
    "色" * 900,
]
_BITS += [
    f"2 earlier messages (a to b): details: reload {FORGED}",
    "\u2028",
    "sorry",
    "word " * 300,
    "also in what left: y",
]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    bits=st.lists(st.sampled_from(_BITS) | st.text(max_size=40), max_size=8), by=st.sampled_from(["\n", " ", "\n- "])
)
async def test_whatever_a_model_says_a_summary_is_one(bits: list[str], by: str) -> None:
    answer = by.join(bits).replace("\0", "") or "-"
    done = await compact(saying(answer), limit_tokens=200)
    assert FORGED not in done.summary
    assert done.failures == () or "Step 100" in done.summary
