"""Differences of texts: what a person reads, in a time and a length that a hostile text doesn't stretch."""

from __future__ import annotations

from reme_core.serve.inspect.differences import DiffPiece, difference


def test_a_difference_leads_from_one_text_to_the_other() -> None:
    pieces = difference("Eva lives in Lisbon.", "Eva lives in Porto now.")
    assert "".join(text for kind, text in pieces if kind != "new") == "Eva lives in Lisbon."
    assert "".join(text for kind, text in pieces if kind != "gone") == "Eva lives in Porto now."
    assert pieces[0] == DiffPiece("same", "Eva lives in ")


def test_one_word_over_and_over_is_no_riddle() -> None:
    """Matched word by word this takes half a minute, in which the service answers nobody."""
    assert len(difference("a " * 200, "a b " * 200)) <= 3


def test_a_long_text_is_compared_from_where_it_changes() -> None:
    text = " ".join(f"word{number}" for number in range(5000))
    pieces = difference(text, text.replace("word4900 ", "other "))
    assert pieces[0].text.startswith("word0 ")
    assert ("gone", "word4900") in pieces
    assert ("new", "other") in pieces
    assert sum(len(piece.text) for piece in pieces) < 1000


def test_a_difference_that_is_cut_says_so() -> None:
    pieces = difference("x " * 300, "y " * 300, chars=100)
    assert pieces[-1] == DiffPiece("same", " […] ")
    assert sum(len(piece.text) for piece in pieces) < 210
