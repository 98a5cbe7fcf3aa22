"""Characters that turn the order of what is read stand as escapes in every fence of a prompt."""

from __future__ import annotations

import json

import pytest

from reme_core.text.prompts import fence, json_line

HIDDEN = ["\u202e", "\u2066", "\u2069", "\ufeff", "\x80", "\U000e0041"]


@pytest.mark.parametrize("char", HIDDEN, ids=ascii)
def test_hidden_characters_are_shown_in_lines_and_fences(char: str) -> None:
    line = json_line({"text": f"pay {char}nobody"})
    assert char not in line
    assert json.loads(line) == {"text": f"pay {char}nobody"}
    assert char not in fence("notes", f"pay {char}nobody")


def test_joiners_within_words_and_emoji_stay() -> None:
    text = "می\u200cخواهم 👩\u200d🚀"
    assert text in fence("notes", text)
