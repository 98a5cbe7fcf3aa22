"""What is worth recording, and what odd arguments mean."""

from __future__ import annotations

import json

import pytest

from reme_agentscope._shared.recorded_text import (
    INJECTED_TAGS,
    MAX_LIMIT,
    IdLedger,
    as_limit,
    as_texts,
    is_injection,
    query_text,
)


@pytest.mark.requirement("AS1-LTM-20")
@pytest.mark.parametrize("tag", INJECTED_TAGS)
def test_a_text_that_begins_with_a_tag_is_an_injection_and_a_quoted_tag_is_not(tag: str) -> None:
    assert is_injection(name="user", text=f"{tag}known")
    assert not is_injection(name="user", text=f"What does {tag} mean?")


@pytest.mark.requirement("AS1-LTM-20")
def test_the_name_and_our_summary_are_injections() -> None:
    assert is_injection(name="long_term_memory", text="Flopsy")
    assert is_injection(name="user", text="So far", metadata={"reme": "summary", "more": 1})
    assert not is_injection(name="user", text="So far", metadata={"reme": "other"})
    assert not is_injection(name=None, text=None)


@pytest.mark.requirement("AS1-LTM-15")
def test_the_query_is_the_text_of_all_messages() -> None:
    assert query_text(["My rabbit", None, " ", "what is its name? "]) == "My rabbit\nwhat is its name?"
    assert query_text([None, ""]) == ""


@pytest.mark.requirement("AS1-LTM-09")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("parrot", ["parrot"]),
        ([], []),
        (["", " a "], ["a"]),
        (None, []),
        ({"a": 1}, []),
        ([1, None, "b"], ["1", "b"]),
        (3, ["3"]),
        (("x",), ["x"]),
        (object(), []),
    ],
)
def test_odd_lists_of_texts_are_understood(given: object, meant: list[str]) -> None:
    assert as_texts(given) == meant


@pytest.mark.requirement("AS1-LTM-09")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("3", 3),
        (3.0, 3),
        (0, 1),
        (-4, 1),
        (10**9, MAX_LIMIT),
        ("many", 5),
        (None, 5),
        (True, 5),
        ([2], 5),
        (float("nan"), 5),
        (float("inf"), MAX_LIMIT),
        (10**400, 5),
    ],
)
def test_odd_limits_are_understood(given: object, meant: int) -> None:
    assert as_limit(given) == meant


@pytest.mark.requirement("AS1-LTM-19")
def test_a_ledger_gives_an_id_once() -> None:
    ledger = IdLedger()
    assert ledger.claim(["a", "b", "a"]) == ["a", "b"]
    assert ledger.claim(["b", "c"]) == ["c"]
    assert ledger.claim(["a"]) == []


@pytest.mark.requirement("AS1-LTM-19")
def test_a_ledger_is_bounded_and_keeps_the_newest() -> None:
    ledger = IdLedger(size=3)
    ledger.claim("abc")
    ledger.claim("ad")
    assert ledger.snapshot() == ["c", "a", "d"]


@pytest.mark.requirement("AS1-LTM-19")
def test_a_ledger_survives_its_state_and_odd_states() -> None:
    ledger = IdLedger("ab")
    again = IdLedger()
    again.restore(json.loads(json.dumps(ledger.snapshot())))
    assert again.claim(["a", "b", "c"]) == ["c"]
    again.restore(None)
    assert again.snapshot() == []
    again.restore(["a", 1, None])
    assert again.snapshot() == ["a"]
