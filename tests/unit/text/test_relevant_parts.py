"""Excerpts of long texts for a question."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.text import query_terms, rank_parts

FILLER = [f"Sentence {n} speaks of clouds and little else of any weight here." for n in range(40)]


def excerpt(text: str, question: str, max_chars: int, *others: str) -> str:
    return rank_parts([text, *others], frozenset(query_terms(question)))[0].excerpt(max_chars)


def with_inside(sentence: str, place: int = 25) -> str:
    return " ".join([*FILLER[:place], sentence, *FILLER[place:]])


def test_a_text_that_fits_stands_whole_with_its_blanks_squeezed() -> None:
    assert excerpt("One line.\n\n  Another   one.", "line", 100) == "One line. Another one."
    assert excerpt("", "line", 100) == ""
    assert excerpt(" \n ", "line", 100) == ""


def test_of_a_long_text_the_part_that_the_question_asks_for_stands_there_and_its_beginning() -> None:
    text = with_inside("My passport expires in May.")
    shown = excerpt(text, "When does the passport expire?", 120)
    assert shown.startswith(FILLER[0])
    assert "… My passport expires in May. …" in shown
    assert len(shown) <= 120


def test_where_room_is_for_one_part_it_is_the_one_asked_for() -> None:
    assert excerpt(with_inside("My passport expires in May."), "When does the passport expire?", 36) == (
        "… My passport expires in May. …"
    )


def test_words_that_few_of_the_texts_hold_count_more() -> None:
    text = with_inside("The app crashed.", 10).replace(FILLER[30], "Alembic failed.")
    others = ["The app is slow.", "Our app runs.", "An app for cats."]
    assert "Alembic failed." in excerpt(text, "Why did the app fail with Alembic?", 40, *others)


def test_each_word_asks_for_one_part() -> None:
    text = " ".join(["We sail.", *FILLER[:20], "We sail again.", *FILLER[20:], "We ski."])
    shown = excerpt(text, "Do we sail or ski?", 60)
    assert "We sail." in shown
    assert "We ski." in shown
    assert "again" not in shown


def test_a_text_without_any_word_of_the_question_shows_its_beginning() -> None:
    shown = excerpt(" ".join(FILLER), "passport", 100)
    assert shown.startswith(FILLER[0])
    assert shown.endswith("…")


def test_chinese_is_cut_into_parts_as_well() -> None:
    text = "今天天气很好，我们去公园散步。" * 60 + "护照五月到期。" + "晚上一起吃饭看电影。" * 60
    assert "护照五月到期。" in excerpt(text, "护照什么时候到期？", 60)


def test_a_text_without_blanks_is_shown_where_it_speaks_of_the_question() -> None:
    assert "needle" in excerpt("x" * 5000 + " needle " + "y" * 5000, "needle", 140)
    assert excerpt("x" * 5000, "needle", 60) == "x" * 54 + " …"


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=400) | st.text("ab 。.!\n", max_size=400), st.text("ab 。", max_size=9), st.integers(10, 420))
def test_an_excerpt_is_never_longer_than_asked_for_and_with_room_it_is_the_text(
    text: str, words: str, room: int
) -> None:
    [parts] = rank_parts([text], frozenset(query_terms(words)))
    assert len(parts.excerpt(room)) <= room
    assert parts.excerpt(parts.chars) == " ".join(text.split())
