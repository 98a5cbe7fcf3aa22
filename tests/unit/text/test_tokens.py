"""Token estimates: bounds, growth, and the languages they tell apart."""

from hypothesis import given
from hypothesis import strategies as st

from reme_core.text import estimate_tokens

any_text = st.text(st.characters(codec=None), max_size=200)


def test_nothing_is_no_token() -> None:
    assert estimate_tokens("") == 0


def test_english_is_four_characters_a_token() -> None:
    assert estimate_tokens("a" * 400) == 100


def test_chinese_japanese_and_korean_are_near_one_token_a_character() -> None:
    for text in ("今天天气很好" * 20, "おはようございます" * 20, "안녕하세요" * 20):
        assert 0.6 * len(text) <= estimate_tokens(text) <= len(text)


def test_cyrillic_lies_between_english_and_chinese() -> None:
    assert 0.25 * 90 < estimate_tokens("привет мир" * 9) < 0.8 * 90


@given(any_text)
def test_an_estimate_is_between_a_quarter_and_the_whole_of_the_characters(text: str) -> None:
    assert len(text) / 4 <= estimate_tokens(text) <= len(text)


@given(any_text, any_text)
def test_more_text_is_never_fewer_tokens(first: str, second: str) -> None:
    both = estimate_tokens(first + second)
    assert max(estimate_tokens(first), estimate_tokens(second)) <= both
    assert both <= estimate_tokens(first) + estimate_tokens(second)
