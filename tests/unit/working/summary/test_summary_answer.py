"""Answers that are no summary of what was given are told apart from those that are, and read line by line."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.working.summary.sections import Section, Summary, parse_summary, summary_of
from reme_core.working.summary.summary_answer import Given, ReadAnswer, given_from, numbered_lines, read_answer
from reme_core.working.tool_results import drop_references, drop_unknown_references, split_line
from tests.unit.working.summary.summarising import COUNTER, FORGED, KNOWN, answer_of, answer_with

TEXTS = [
    "Please move the billing service of Acme to PostgreSQL 16, and never touch ledger_archive.",
    "I used pgloader; the copy failed with Error: relation ledger_archive is locked (55P03). "
    "The staging host db-staging-2 has 14 tables left, the dump lies in /srv/dump/billing.sql.",
] * 12
GIVEN = given_from(Summary(), TEXTS, COUNTER, citable=frozenset({KNOWN}))
GOOD = summary_of(
    {
        Section.GOAL: ["Move the billing service of Acme to PostgreSQL 16"],
        Section.CONSTRAINTS: ["never touch ledger_archive"],
        Section.PROGRESS: ["pgloader copied all but 14 tables; dump in /srv/dump/billing.sql"],
        Section.CONTEXT: ["Error: relation ledger_archive is locked (55P03)", "host db-staging-2"],
    }
)


def read(answer: str, given: Given = GIVEN, limit: int = 400) -> ReadAnswer:
    """Read an answer as a client hands it over: parsed where it is JSON."""
    try:
        value = json.loads(answer)
    except ValueError:
        value = None
    return read_answer(value, answer, given, limit_tokens=limit, asked_tokens=limit, counter=COUNTER)


def test_a_good_answer_is_read_with_the_errors_that_it_quotes() -> None:
    assert read(answer_with(GOOD)) == ReadAnswer(summary=GOOD)
    assert read(GOOD.text) == ReadAnswer(summary=GOOD)
    assert read(f"```markdown\n{GOOD.text}\n```") == ReadAnswer(summary=GOOD)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "is missing"),
        ("Error: rate limit exceeded (429)", "first line"),
        ("The staging host db-staging-2 is unavailable, please retry the billing service later.", "first line"),
        ('{"error": "rate limit exceeded"}', "goal"),
        ('{"goal": ["Move the billing service"]}', "constraints"),
        (answer_of({}).replace("[]", "{}"), "goal"),
        (answer_of({}), "next to nothing"),
        (answer_of({Section.GOAL: ["Hello! I am an assistant. How can I help you today?"]}), "next to nothing"),
        (answer_of({section: ["HTTP 503 Service Unavailable"] for section in Section}), "next to nothing"),
        (answer_of({Section.GOAL: ["抱歉，我无法完成这个请求。"]}), "next to nothing"),
        (answer_of({Section.GOAL: ["ok"]}), "next to nothing"),
        (
            answer_of(
                {
                    Section.GOAL: ["Move billing service PostgreSQL dump host tables copy relation"],
                    Section.PROGRESS: [f"lavender{n} roses{n} grass{n} bees{n} honey{n}" for n in range(20)],
                }
            ),
            "hardly has a word in common",
        ),
    ],
)
def test_what_is_no_summary_of_what_was_given_is_refused(answer: str, reason: str) -> None:
    found = read(answer)
    assert found.summary is None
    assert reason in found.problem


def test_new_lines_that_are_twice_as_long_as_a_summary_are_refused() -> None:
    found = read(answer_with(GOOD), limit=30)
    assert found.summary is None
    assert "too many" in found.problem


def test_new_lines_that_are_longer_than_what_was_given_are_refused() -> None:
    found = read(answer_of({Section.PROGRESS: [*TEXTS, *TEXTS]}), limit=100_000)
    assert found.summary is None
    assert "more than what they summarise" in found.problem


def test_a_summary_that_gets_too_long_is_told_by_how_much_and_can_be_used() -> None:
    before = summary_of({Section.PROGRESS: [f"Row {n} of the billing service was copied" for n in range(35)]})
    found = read(answer_with(GOOD), given_from(before, TEXTS, COUNTER), limit=440)
    assert found.summary is not None
    assert found.summary.of(Section.GOAL) == GOOD.of(Section.GOAL)
    assert "too many: name more lines in gone" in found.problem


def test_an_answer_by_which_nearly_all_is_gone_is_refused() -> None:
    facts = ["Ada Lovelace signed the order in Geneva", "The printer of the second floor needs violet toner"]
    before = given_from(summary_of({Section.CONTEXT: facts}), TEXTS, COUNTER)
    assert "nearly all" in read(answer_with(GOOD, gone=[1, 2]), before).problem
    kept = read(answer_with(GOOD, gone=[1]), before)
    assert kept.summary is not None
    assert kept.summary.of(Section.CONTEXT) == (facts[1], *GOOD.of(Section.CONTEXT))


def test_lines_are_gone_by_the_numbers_they_are_shown_with() -> None:
    before = summary_of({Section.GOAL: ["one"], Section.CONSTRAINTS: ["two"], Section.CONTEXT: ["three", "four"]})
    shown = dict(item for line in numbered_lines(before).split("\n") for item in json.loads(line).items())
    assert shown == {
        "goal": {"1": "one"},
        "constraints": {"2": "two"},
        "critical_context": {"3": "three", "4": "four"},
    }
    after = read(answer_with(GOOD, gone=[2, 3, 99, -1]), given_from(before, TEXTS, COUNTER)).summary
    assert after is not None
    assert {"one", "four"} <= set(after.all_lines)
    assert not {"two", "three"} & set(after.all_lines)


def test_where_nothing_new_was_said_nothing_new_is_asked_for() -> None:
    again = given_from(GOOD, ["Move billing of Acme to PostgreSQL 16, never touch ledger_archive."], COUNTER)
    assert read(answer_of({}), again) == ReadAnswer(summary=GOOD)
    new = "Ada Lovelace signed an order in Geneva; printers upstairs want violet toner and paper by Monday morning."
    assert read(answer_of({}), given_from(GOOD, [new], COUNTER)).summary is None


@pytest.mark.parametrize("gone", ["null", '"2"', '["2"]', "2", "[]"])
def test_numbers_in_other_forms_are_read(gone: str) -> None:
    answer = answer_with(GOOD).replace('"gone": []', f'"gone": {gone}')
    before = summary_of({Section.GOAL: ["Ada asked for it"], Section.PROGRESS: ["Row 7 was copied"]})
    found = read(answer, given_from(before, TEXTS, COUNTER)).summary
    assert found is not None
    assert ("Row 7 was copied" in found.all_lines) == ("2" not in gone)


@pytest.mark.parametrize(
    "line",
    [
        "Error: 429 Too many requests, rate limit exceeded, retry later",
        "I'm sorry, but I can't help you with that request.",
        "Let me know if you want me to shorten this further!",
        "好的，以下是摘要。",
        "服务器错误，请稍后再试",
        "Gardens in bloom smell of lavender and roses",
    ],
)
def test_a_line_that_shares_no_word_with_what_was_given_is_dropped_from_among_good_ones(line: str) -> None:
    mixed = GOOD.with_lines(Section.CONTEXT, (*GOOD.of(Section.CONTEXT), line))
    found = read(answer_with(mixed)).summary
    assert found is not None
    # A line in another script than the talk's can't be looked for in it.
    assert found == (GOOD if line.isascii() else mixed)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Don't touch the files in /srv/legacy please.", "Forbidden: any change below /srv/legacy"),
        ("Rounding of VAT for CH goes to 0.01, not 0.05.", "Error cause: VAT rounded to 0.01 rather than 0.05 for CH"),
        ("We have 450 guests, so we need venues that are big.", "450 guests are expected, so big venues only"),
        ("含税价格算错了，四舍五入的规则不对", "错误原因：含税价格的四舍五入规则不对"),
        ("The pool waits 30 s for a connection now.", "Timeout of a connection is 30 s"),
        ("The upload fails in put_object with 503.", "503 service unavailable comes from put_object"),
    ],
)
def test_a_line_that_tells_of_errors_in_the_words_of_the_talk_is_kept(said: str, line: str) -> None:
    summary = summary_of({Section.CONTEXT: [line]})
    assert read(answer_with(summary), given_from(Summary(), [said], COUNTER)).summary == summary


def test_a_summary_in_another_script_than_the_tools_output_is_taken() -> None:
    output = "FAILED tests/test_pool.py::test_reuse - TimeoutError: connection pool exhausted after 30s (size 5). " * 5
    output += "\n".join(f"worker {name} is waiting for a connection" for name in "abcdefgh")
    given = given_from(Summary(), ["帮我看看为什么测试挂了", output, "好的，我看一下。"], COUNTER)
    summary = summary_of(
        {
            Section.GOAL: ["找出测试失败的原因"],
            Section.PROGRESS: ["已运行测试：tests/test_pool.py 中 test_reuse 失败，连接池耗尽，等待三十秒后超时"],
            Section.CONTEXT: ["连接池大小为 5，多个工作线程都在等待连接"],
        }
    )
    assert read(answer_with(summary), given) == ReadAnswer(summary=summary)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (f"more: reload(reference='{FORGED}')", "more: reload(reference='…')"),
        (f"see reload {FORGED} for port 5433", "see for port 5433"),
        (f"14 tables (details: reload {FORGED})", "14 tables"),
        (f"14 tables, RELOAD {FORGED.upper()}.", "14 tables,."),
        (f"14 tables in {FORGED}", "14 tables in …"),
        ("14 tables details: reload latest-summary", "14 tables"),
        (f"14 tables (details: reload `{KNOWN}`)", f"14 tables (details: reload `{KNOWN}`)"),
        ("trace 1111222233334444 failed", "trace 1111222233334444 failed"),
        ("reload the page, then reload it", "reload the page, then reload it"),
    ],
)
def test_references_that_a_model_invents_are_dropped(line: str, left: str) -> None:
    assert drop_unknown_references(line, frozenset({KNOWN}), ["trace 1111222233334444 failed"]) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"14 tables (details: reload {KNOWN})", f"14 tables (details: reload {KNOWN})"),
        (f"14 tables (details: reload {FORGED})", "14 tables"),
        (f"14 tables details: reload {FORGED} and more", "14 tables and more"),
        ("reload the page, then reload it", "reload the page, then reload it"),
        ("Never reload 20240301 into production", "Never reload 20240301 into production"),
        ("Next I will reload deadbeef01 on nginx", "Next I will reload deadbeef01 on nginx"),
        (f"14 个表（details: reload {FORGED}）", "14 个表"),
        ("details: reload nginx at night", "details: reload nginx at night"),
        (f"never reload {FORGED} again", "never reload … again"),
        (f"reload {KNOWN}, reload {FORGED}", f"reload {KNOWN}, reload …"),
    ],
)
def test_hints_at_references_that_are_not_ours_are_dropped(text: str, left: str) -> None:
    assert drop_references(text, frozenset({KNOWN})) == left


_HINT = f"(details: reload {KNOWN})"


@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(st.sampled_from([_HINT, f"reload {KNOWN}", "a b. c", "色" * 30, "x" * 95]) | st.text(), max_size=12),
    most=st.integers(60, 120),
)
def test_a_long_line_is_cut_without_loss_and_never_within_a_hint(parts: list[str], most: int) -> None:
    line = " ".join(" ".join(parts).split())
    pieces = split_line(line, most)
    assert "".join("".join(pieces).split()) == "".join(line.split())
    assert all(0 < len(piece) <= most for piece in pieces)
    assert sum(piece.count(f"reload {KNOWN}") for piece in pieces) == line.count(f"reload {KNOWN}")


_BITS = ["## Goal", "- none", "<think>", "色" * 90, f"details: reload {FORGED}", "word " * 300, "billing service"]
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(_BITS) | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["goal", "Gone", "progress"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(fields=st.lists(_VALUES, min_size=7, max_size=7))
def test_whatever_a_model_says_is_a_summary_or_a_problem(fields: list[object]) -> None:
    names = ["gone", "goal", "constraints", "progress", "key_decisions", "next_steps", "critical_context"]
    answer = json.dumps(dict(zip(names, fields, strict=True)))
    found = read(answer)
    assert (found.summary is None) <= bool(found.problem)
    if found.summary is not None:
        assert FORGED not in found.summary.text
        assert parse_summary(found.summary.text) == found.summary
