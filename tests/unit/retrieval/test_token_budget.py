"""Filling a budget from the top of a ranking."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.retrieval import Candidate, fill_budget

candidates = st.lists(
    st.builds(Candidate, item=st.integers(0, 9), text=st.text("ab c", max_size=12), tokens=st.integers(0, 9)),
    max_size=12,
)


def _items(texts: list[str], budget: int, tokens: int = 1) -> list[int]:
    made = [Candidate(item=i, text=text, tokens=tokens) for i, text in enumerate(texts)]
    return [taken.item for taken in fill_budget(made, budget_tokens=budget)]


def test_the_top_of_the_ranking_is_taken_first() -> None:
    assert _items(["tea", "milk", "bread"], 2) == [0, 1]


def test_the_same_text_up_to_case_and_blanks_is_taken_once() -> None:
    assert _items(["Likes tea.", "likes  TEA", "milk"], 9) == [0, 2]


def test_a_text_inside_another_that_was_taken_is_repetition() -> None:
    assert _items(["Ann: the red boat sank in May", "The red boat sank"], 9) == [0]


def test_a_short_word_inside_another_text_is_not_repetition() -> None:
    assert _items(["the boat sank", "boat"], 9) == [0, 1]


def test_a_text_that_does_not_fit_makes_room_for_a_shorter_one() -> None:
    made = [Candidate(item=0, text="long", tokens=5), Candidate(item=1, text="short", tokens=2)]
    assert [taken.item for taken in fill_budget(made, budget_tokens=3)] == [1]


def test_without_a_budget_only_the_limit_counts() -> None:
    made = [Candidate(item=i, text=f"text number {i}", tokens=1000) for i in range(5)]
    assert len(fill_budget(made, budget_tokens=None, limit=3)) == 3


def test_what_repeats_a_text_taken_elsewhere_is_passed_over_and_costs_nothing() -> None:
    made = [Candidate(item=0, text="likes tea", tokens=1), Candidate(item=1, text="milk", tokens=1)]
    beside = [Candidate(item=9, text="Likes tea.", tokens=50)]
    assert [taken.item for taken in fill_budget(made, budget_tokens=1, beside=beside)] == [1]


@given(candidates, st.integers(0, 30), st.one_of(st.none(), st.integers(0, 5)))
def test_the_budget_and_the_limit_are_never_exceeded(made: list[Candidate], budget: int, limit: int | None) -> None:
    taken = fill_budget(made, budget_tokens=budget, limit=limit)
    assert sum(candidate.tokens for candidate in taken) <= budget
    assert limit is None or len(taken) <= limit
    assert [c for c in made if any(c is t for t in taken)] == taken


@pytest.mark.parametrize(("budget", "limit", "tokens"), [(-1, None, 1), (5, -1, 1), (5, None, -1)])
def test_negative_numbers_are_refused(budget: int, limit: int | None, tokens: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        fill_budget([Candidate(item=0, text="x", tokens=tokens)], budget_tokens=budget, limit=limit)
