"""Whom a query names and whom it is about."""

import pytest

from reme_core.retrieval.ranking.score_parts import named_speakers, subject

NAMES = {"": 0, "Ann": 1, "Bob Stone": 2, "小雅": 3, "user": 4, "Will": 5}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("What does Ann like?", "Ann"),
        ("what does ann like", "Ann"),
        ("Where is Bob's car?", "Bob Stone"),
        ("What did Ann tell Bob about it?", "Ann"),
        ("What did Bob borrow from Ann?", "Bob Stone"),
        ("小雅的宠物叫什么？", "小雅"),
        ("Is Will in?", "Will"),
    ],
)
def test_the_one_asked_about_is_found(query: str, name: str) -> None:
    assert subject(query, named_speakers(query, NAMES)) == name


@pytest.mark.parametrize(
    "query",
    [
        "What do Ann and Bob share?",
        "Ann or Bob?",
        "Annual report",
        "Who Will She be? no: will she",
        "the user said",
        "",
    ],
)
def test_two_joined_or_nobody_is_no_subject(query: str) -> None:
    named = named_speakers(query, {k: v for k, v in NAMES.items() if k != "Will"})
    assert subject(query, named) is None


def test_a_name_that_is_a_common_word_needs_its_capital() -> None:
    assert named_speakers("Who will come?", NAMES) == []
