"""Bringing layers together by adding scores."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reme_core.retrieval import add_scores, lift_sources, share_of_best

scores = st.dictionaries(st.integers(0, 5), st.floats(-10, 10), max_size=6)
lists = st.lists(st.tuples(st.floats(0, 2), scores), max_size=5)


@given(lists, st.randoms())
def test_fusion_ignores_the_order_of_lists_and_of_their_entries(
    given_lists: list[tuple[float, dict[int, float]]], random: Random
) -> None:
    shuffled = [(w, dict(random.sample(sorted(s.items()), len(s)))) for w, s in given_lists]
    random.shuffle(shuffled)
    assert list(add_scores(shuffled).items()) == list(add_scores(given_lists).items())


def test_a_key_in_two_lists_gets_the_sum_of_its_weighted_scores() -> None:
    assert add_scores([(2.0, {1: 0.5, 2: 0.1}), (1.0, {1: 0.25})]) == {1: 1.25, 2: 0.2}


def test_keys_stand_highest_first_and_ties_by_key() -> None:
    assert list(add_scores([(1.0, {7: 0.5, 3: 0.5, 1: 0.9})])) == [1, 3, 7]


@given(scores)
def test_the_best_has_the_share_of_one_if_it_is_above_zero(given_scores: dict[int, float]) -> None:
    shares = share_of_best(given_scores)
    assert shares.keys() == given_scores.keys()
    assert max(shares.values(), default=0.0) in {0.0, 1.0}


def test_the_sources_of_the_best_hit_are_lifted_most_and_only_once() -> None:
    lifts = lift_sources({1: 2.0, 2: 1.0}, {1: [10, 11], 2: [11, 12], 3: [13]}, weight=0.6)
    assert lifts == {10: 0.6, 11: 0.6, 12: 0.3}
