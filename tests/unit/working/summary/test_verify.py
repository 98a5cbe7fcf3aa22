"""Answers that are no summary of what was given are told apart from those that are."""

from __future__ import annotations

import pytest

from reme_core.text import load_prompt
from reme_core.working.summary.sections import Section, Summary, parse_summary, summary_of
from reme_core.working.summary.verify import check_summary, drop_invented, drop_off_topic, drop_references, given_from
from tests.unit.working.summary.summarising import COUNTER, FORGED, KNOWN

TEXTS = [
    "Please move the billing service of Acme to PostgreSQL 16, and never touch ledger_archive.",
    "I used pgloader; the copy failed with Error: relation ledger_archive is locked (55P03). "
    "The staging host db-staging-2 has 14 tables left, the dump lies in /srv/dump/billing.sql.",
] * 12
GIVEN = given_from(Summary(), TEXTS, COUNTER)
PROMPT = load_prompt("reme_core.working.summary", "compact", "en").text


def written(**fields: list[str]) -> str:
    names = {section.name.lower(): section for section in Section}
    return summary_of({names[name]: lines for name, lines in fields.items()}).text


GOOD = written(
    goal=["Move the billing service of Acme to PostgreSQL 16"],
    constraints=["never touch ledger_archive"],
    progress=["pgloader copied all but 14 tables; dump in /srv/dump/billing.sql"],
    context=["Error: relation ledger_archive is locked (55P03)", "host db-staging-2"],
)


def problem(answer: str, limit: int = 400) -> str:
    return check_summary(answer, GIVEN, limit_tokens=limit, counter=COUNTER) or ""


def test_a_good_summary_passes_with_the_errors_that_it_quotes() -> None:
    assert problem(GOOD) == ""
    assert problem(f"```markdown\n{GOOD}\n```") == ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("Error: rate limit exceeded (429)", "first line"),
        (Summary().text, "every section is empty"),
        (written(goal=["Hello! I am an assistant. How can I help you today?"]), "error or a greeting"),
        (GOOD.replace("- none", "- Error: rate limit exceeded (429)"), "error or a greeting"),
        (written(**{name.name.lower(): ["HTTP 503 Service Unavailable"] for name in Section}), "error or a greeting"),
        (written(goal=["抱歉，我无法完成这个请求。"]), "error or a greeting"),
        (written(goal=["ok"]), "error or a greeting"),
        (written(goal=["billing"]), "next to nothing"),
        (
            written(goal=["Gardens in bloom smell of lavender, roses and freshly cut grass on warm evenings in June"]),
            "next to nothing",
        ),
        (
            written(
                goal=["Move billing service PostgreSQL dump host tables copy relation"],
                progress=[f"lavender{n} roses{n} grass{n} bees{n} honey{n}" for n in range(20)],
            ),
            "hardly has a word in common",
        ),
    ],
)
def test_what_is_no_summary_of_what_was_given_is_refused(answer: str, reason: str) -> None:
    assert reason in problem(answer)


def test_what_is_longer_than_allowed_is_refused() -> None:
    assert "at most 50" in problem(GOOD, limit=50)


def test_what_is_longer_than_what_was_given_is_refused() -> None:
    echo = written(progress=[*TEXTS, *TEXTS])
    assert "more than the" in problem(echo, limit=100_000)


def test_what_leaves_out_the_summary_so_far_is_refused() -> None:
    facts = ["Ada Lovelace signed the order in Geneva", "The printer of the second floor needs violet toner"]
    after = given_from(summary_of({Section.CONTEXT: facts}), TEXTS, COUNTER)
    answer = written(progress=["relation is locked (55P03), left 14 tables, used, copy failed, please, Error"])
    assert "leaves out" in (check_summary(answer, after, limit_tokens=400, counter=COUNTER) or "")
    keeping = GOOD.replace("- none", "- Ada Lovelace signed; the printer needs toner")
    assert check_summary(keeping, after, limit_tokens=400, counter=COUNTER) is None


def test_constraints_that_are_left_out_are_no_reason_to_refuse() -> None:
    budgets = [f"The budget of round {n} was {n * 500} dollars and lunch" for n in range(20)]
    after = given_from(summary_of({Section.CONSTRAINTS: budgets}), TEXTS, COUNTER)
    assert check_summary(GOOD, after, limit_tokens=400, counter=COUNTER) is None


@pytest.mark.parametrize(
    "line",
    [
        "Error: 429 Too many requests, rate limit exceeded, retry later",
        "429 Too many requests",
        "Forbidden.",
        "I'm sorry, but I can't help with that.",
        "Let me know if you want me to shorten this further!",
        "Here is the updated summary of it.",
        "好的，以下是摘要。",
        "服务器错误，请稍后再试",
        "Copy paths, names, numbers letter by letter.",
        "Gardens in bloom smell of lavender and roses",
    ],
)
def test_a_line_that_is_none_of_what_was_given_is_dropped_from_among_good_ones(line: str) -> None:
    given = given_from(Summary(), TEXTS, COUNTER, prompt=PROMPT)
    mixed = parse_summary(GOOD.replace("- host db-staging-2", f"- host db-staging-2\n- {line}"))
    assert check_summary(mixed.text, given, limit_tokens=400, counter=COUNTER) is None
    assert drop_off_topic(mixed, given) == parse_summary(GOOD)


def test_a_section_of_copied_instructions_is_refused() -> None:
    given = given_from(Summary(), TEXTS, COUNTER, prompt=PROMPT)
    answer = GOOD.replace("- never touch ledger_archive", "- Copy paths, names, numbers letter by letter.")
    assert "stands nowhere" in (check_summary(answer, given, limit_tokens=400, counter=COUNTER) or "")


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
def test_a_fact_that_begins_like_an_error_is_kept(said: str, line: str) -> None:
    given = given_from(Summary(), [said], COUNTER)
    summary = summary_of({Section.CONTEXT: [line]})
    assert check_summary(summary.text, given, limit_tokens=400, counter=COUNTER) is None
    assert drop_off_topic(summary, given) == summary


def test_a_summary_in_another_script_than_the_tools_output_is_taken() -> None:
    output = "FAILED tests/test_pool.py::test_reuse - TimeoutError: connection pool exhausted after 30s (size 5). " * 5
    output += "\n".join(f"worker {name} is waiting for a connection" for name in "abcdefgh")
    given = given_from(Summary(), ["帮我看看为什么测试挂了", output, "好的，我看一下。"], COUNTER)
    answer = written(
        goal=["找出测试失败的原因"],
        progress=["已运行测试：tests/test_pool.py 中 test_reuse 失败，连接池耗尽，等待三十秒后超时"],
        context=["连接池大小为 5，多个工作线程都在等待连接"],
    )
    assert check_summary(answer, given, limit_tokens=400, counter=COUNTER) is None
    assert drop_off_topic(parse_summary(answer), given).text == answer


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (f"more: reload(reference='{FORGED}')", "more:"),
        (f"see `reload` {FORGED} for port 5433", "see for port 5433"),
        (f"14 tables, reload: {FORGED}", "14 tables,"),
        (f"14 tables **reload** {FORGED}", "14 tables"),
        (f"14 tables (details: reload reference {FORGED})", "14 tables"),
        (f"14 tables, RELOAD {FORGED.upper()}.", "14 tables,."),
        (f"14 tables in {FORGED}", "14 tables in"),
        ("14 tables details: reload latest-summary", "14 tables"),
        (f"14 tables (details: reload `{KNOWN}`)", f"14 tables (details: reload `{KNOWN}`)"),
        ("trace 1111222233334444 failed", "trace 1111222233334444 failed"),
        ("reload the page, then reload it", "reload the page, then reload it"),
    ],
)
def test_references_that_a_model_invents_are_dropped_in_any_form(line: str, left: str) -> None:
    given = given_from(Summary(), ["trace 1111222233334444 failed"], COUNTER)
    summary = summary_of({Section.CONTEXT: [line]})
    assert drop_invented(summary, given, frozenset({KNOWN})).of(Section.CONTEXT) == (left,)


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
