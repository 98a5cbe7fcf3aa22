"""What is worth recording, and what odd arguments mean."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_agentscope._shared.recorded_text import (
    INJECTED_TAGS,
    MAX_LIMIT,
    IdLedger,
    OpenCall,
    as_limit,
    as_texts,
    is_injection,
    pair_tool_calls,
    query_text,
)
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock


def used(message_id: str, *call_ids: str) -> Message:
    calls = tuple(ToolCallBlock(call_id=call_id, name="f") for call_id in call_ids)
    return Message(message_id=message_id, role="assistant", content=calls)


def answered(message_id: str, *call_ids: str) -> Message:
    results = tuple(ToolResultBlock(call_id=call_id, output=f"{message_id} {call_id}") for call_id in call_ids)
    return Message(message_id=message_id, role="tool", content=results)


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
def test_a_ledger_gives_an_id_once_until_it_is_released() -> None:
    ledger = IdLedger()
    assert ledger.claim(["a", "b", "a"]) == ["a", "b"]
    assert ledger.claim(["b", "c"]) == ["c"]
    ledger.release(["a", "unknown"])
    assert ledger.claim(["a"]) == ["a"]


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


@pytest.mark.requirement("AS1-LTM-21")
def test_parallel_calls_are_paired_by_id_across_messages() -> None:
    paired = pair_tool_calls([used("u", "1", "2"), answered("r2", "2"), answered("r1", "1")])
    assert [(pair.opened.call.call_id, pair.result.output) for pair in paired.pairs] == [("2", "r2 2"), ("1", "r1 1")]
    assert paired.open_calls == ()


@pytest.mark.requirement("AS1-LTM-21")
def test_a_call_without_a_result_waits_for_a_later_hand_over() -> None:
    first = pair_tool_calls([used("u", "1")])
    assert first.pairs == ()
    kept = [OpenCall.model_validate_json(json.dumps(one.model_dump(mode="json"))) for one in first.open_calls]
    alone = pair_tool_calls([answered("r", "1")], kept)
    whole = pair_tool_calls([used("u", "1"), answered("r", "1")], kept)
    assert [pair.pair_id for pair in alone.pairs] == [pair.pair_id for pair in whole.pairs] == ["u/1"]
    assert alone.open_calls == whole.open_calls == ()


@pytest.mark.requirement("AS1-LTM-21")
def test_an_id_that_a_model_gives_in_each_turn_makes_a_pair_in_each_turn() -> None:
    talk = [used("u1", "call_0"), answered("r1", "call_0"), used("u2", "call_0"), answered("r2", "call_0")]
    pairs = pair_tool_calls(talk).pairs
    assert [(pair.pair_id, pair.result.output) for pair in pairs] == [
        ("u1/call_0", "r1 call_0"),
        ("u2/call_0", "r2 call_0"),
    ]
    assert IdLedger([pairs[0].pair_id]).claim(pair.pair_id for pair in pairs) == ["u2/call_0"]


@pytest.mark.requirement("AS1-LTM-21")
def test_a_result_without_a_call_is_left_out() -> None:
    said = Message(role="user", content=(TextBlock(text="hi"),))
    assert pair_tool_calls([said, answered("r", "1")]).pairs == ()


@pytest.mark.requirement("AS1-LTM-21")
@given(st.lists(st.sampled_from(["use", "result"]), max_size=20), st.integers(0, 20))
def test_pairs_are_the_same_however_the_talk_is_handed_over(kinds: list[str], cut: int) -> None:
    talk = [(used if kind == "use" else answered)(f"{kind}{n}", f"c{n // 3}") for n, kind in enumerate(kinds)]
    at_once = pair_tool_calls(talk)
    first = pair_tool_calls(talk[:cut])
    second = pair_tool_calls(talk[cut:], first.open_calls)
    assert first.pairs + second.pairs == at_once.pairs
    assert second.open_calls == at_once.open_calls
