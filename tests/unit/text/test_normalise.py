"""Which contents count as the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.text import normalise_content


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Likes tea.", "likes  tea"),
        ("“Likes tea!”", "LIKES\ttea"),
        ("Ｌｉｋｅｓ tea", "likes tea"),
        ("喜欢喝茶。", "喜欢喝茶"),
        ("  Straße ", "STRASSE"),
    ],
)
def test_case_blanks_width_and_outer_punctuation_do_not_matter(first: str, second: str) -> None:
    assert normalise_content(first) == normalise_content(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("likes tea", "like tea"),
        ("paid 1.5", "paid 15"),
        ("C", "C++"),
        ("not, sure", "not sure"),
        ("5%", "5"),
        ("?", "!"),
        ("🙂", "🙁"),
    ],
)
def test_everything_else_does(first: str, second: str) -> None:
    assert normalise_content(first) != normalise_content(second)


@given(st.text(st.characters(codec=None), max_size=100))
def test_the_form_of_a_form_is_itself(text: str) -> None:
    form = normalise_content(text)
    assert normalise_content(form) == form


@given(st.text(st.characters(codec=None), max_size=100))
def test_only_blank_texts_have_an_empty_form(text: str) -> None:
    assert (normalise_content(text) == "") == (text.strip() == "")
