"""Contract of every token counter."""

from __future__ import annotations

import pytest

from reme_core.ports import TokenCounter

TEXTS = (
    "a",
    "The deploy failed at 10:42, again.",
    "请帮我预订周五晚上七点的位子",
    "来週の会議は何時からですか",
    "다음 주 회의는 몇 시예요",
    "naïve café – Привет",
    "👩‍👩‍👧 🎉",
    "  \n\t ",
    '{"a": [1, 2, {"b": null}]}',
)


class TokenCounterContract:
    """Subclass it, and give the fixture `counter`."""

    @pytest.fixture
    def counter(self) -> TokenCounter:
        """Give the counter to be tested."""
        raise NotImplementedError

    def test_an_empty_text_has_no_tokens(self, counter: TokenCounter) -> None:
        """Zero for the empty text."""
        assert counter.count("") == 0

    @pytest.mark.parametrize("text", TEXTS)
    def test_a_text_has_at_least_one_token_and_at_most_one_a_byte(self, counter: TokenCounter, text: str) -> None:
        """A whole number between bounds that hold for every vocabulary of byte pairs, specials apart."""
        count = counter.count(text)
        assert type(count) is int
        assert 1 <= count <= len(text.encode())

    @pytest.mark.parametrize("text", TEXTS)
    def test_the_same_text_has_the_same_count(self, counter: TokenCounter, text: str) -> None:
        """No state."""
        assert counter.count(text) == counter.count(text)

    @pytest.mark.parametrize("first", TEXTS)
    def test_adding_text_never_lowers_the_count(self, counter: TokenCounter, first: str) -> None:
        """A longer text never fits where a shorter one did not."""
        for second in TEXTS:
            assert counter.count(first + second) >= max(counter.count(first), counter.count(second)), second

    def test_a_long_text_has_many_tokens(self, counter: TokenCounter) -> None:
        """The count grows with the text."""
        assert counter.count("word " * 10_000) >= 5_000
