"""Orders as models write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.steps.ask_json import bare_order, read_order, with_rest

JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 60) | st.floats() | st.text(max_size=5) | st.sampled_from(["7", " 8 "]),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(["n", "order", "x"]), inner),
    max_leaves=40,
)


def deep(levels: int) -> Any:
    value: Any = [2]
    for _ in range(levels):
        value = [1, value]
    return value


@pytest.mark.parametrize(
    ("named", "places"),
    [
        ([3, 1], (2, 0)),
        (["3", " 1 ", "two", "", "3.0", "9" * 5000], (2, 0)),
        ([3.0, 1.5, float("nan"), float("inf")], (2,)),
        ([True, None, 2, "²", {}], (1,)),
        ([[3, [1]], [], [2]], (2, 0, 1)),
        ([{"n": 3, "text": "a"}, {"n": "1"}, {"text": "b"}], (2, 0)),
        ([2, 2, 0, 4, -1, 10**4000, 2], (1,)),
        (list(range(5000, 0, -1)), (2, 1, 0)),
        (deep(50_000), (0, 1)),
        ([], ()),
    ],
    ids=["plain", "texts", "fractions", "others", "nested", "lines", "unknown", "5,000", "deep", "none"],
)
def test_numbers_that_there_are_count_once_in_the_order_named(named: Any, places: tuple[int, ...]) -> None:
    assert read_order({"order": named}, 3) == places
    assert read_order(named, 3) == places


@pytest.mark.parametrize("value", [None, {}, {"order": None}, {"order": "3, 1"}, {"ranking": [1]}, "3", 3, True])
def test_an_answer_without_a_list_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="wanted a list"):
        read_order(value, 3)


@pytest.mark.parametrize("named", [[0, 4], ["none"], [None], [[]], [1.5]])
def test_a_list_without_any_number_that_there_is_is_refused(named: Any) -> None:
    with pytest.raises(ValueError, match="from 1 to 3"):
        read_order({"order": named}, 3)


@settings(max_examples=80, deadline=None)
@given(JUNK, st.integers(0, 50))
def test_whatever_is_read_holds_every_place_once(value: Any, count: int) -> None:
    try:
        places = read_order(value, count)
    except ValueError:
        places = ()
    assert sorted(with_rest(places, count)) == list(range(count))
    assert with_rest(places, count)[: len(places)] == places


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[3, 1, 2]", [3, 1, 2]),
        ("Here it is:\n```\n[ 3,\n 1 ]\n```\nfor [2] see above", [3, 1]),
        ("<think>[4]</think> [3, 1]", [3, 1]),
        (' {"order": [3, 1], ', None),
        ('{"choices": [1, 2]}', None),
        ("I can't rank the 50 texts.", None),
        ("[, 1]", None),
        ("[٣]", None),
        ("", None),
    ],
)
def test_a_bare_list_is_found_in_a_text(text: str, found: Any) -> None:
    assert bare_order(text) == found
    assert found is None or read_order(found, 3) == tuple(number - 1 for number in found)


def test_a_bare_list_is_looked_for_in_linear_time() -> None:
    assert bare_order("[1, " * 100_000) is None
    assert bare_order(json.dumps(list(range(100_000)))) == list(range(100_000))
