"""Pasted conversations: who says what."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError
from reme_core.serve.mcp.transcript import read_transcript


def said(text):
    return [(item["role"], item.get("name"), item["content"]) for item in read_transcript(text)]


def test_roles_begin_messages_however_they_are_marked():
    pasted = "User: Hi.\n\n**Assistant:** Hello!\n## Human: And?\nAI: Well.\n用户：你好\n助手：您好"
    assert said(pasted) == [
        ("user", None, "Hi."),
        ("assistant", None, "Hello!"),
        ("user", None, "And?"),
        ("assistant", None, "Well."),
        ("user", None, "你好"),
        ("assistant", None, "您好"),
    ]


def test_names_begin_messages_where_they_come_again_or_first():
    pasted = "Ana: I moved.\nNote: to Lisbon.\nRui Costa: Nice!\nSee https://example.org\r\nAna: Yes\nRui Costa: Bye"
    assert said(pasted) == [
        ("user", "Ana", "I moved.\nNote: to Lisbon."),
        ("user", "Rui Costa", "Nice!\nSee https://example.org"),
        ("user", "Ana", "Yes"),
        ("user", "Rui Costa", "Bye"),
    ]


def test_a_text_without_speakers_is_one_message():
    assert said("We met at 10:30.\nIt rained.") == [("user", None, "We met at 10:30.\nIt rained.")]


@pytest.mark.parametrize("empty", [" ", "\n\n", "User:", "User: \nAssistant:\n"])
def test_a_text_in_which_nobody_says_anything_is_refused(empty):
    with pytest.raises(InvalidInputError, match="nobody says anything"):
        read_transcript(empty)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["User: x", "assistant: x x", "**AI:** x", "x", "", "  x", "- x: x", "x\r"]), min_size=1)
)
def test_no_word_is_lost(lines):
    text = "\n".join(lines)
    if "x" in text:
        kept = " ".join(f"{item.get('name', '')} {item['content']}" for item in read_transcript(text))
        assert kept.count("x") == text.count("x")


@pytest.mark.timeout(10)
def test_hostile_lines_cost_no_more_than_their_length():
    for hostile in ("*" * 1_000_000, "a" + " " * 1_000_000, "# " * 500_000, "a:" * 500_000, "\n" * 300_000 + "x"):
        read_transcript(hostile + "x")
