"""What counting comes to: plain additions, whatever their order, and what may not be added."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError
from reme_core.ports import Uselessness, UseMemory
from reme_core.rules import check_uses, is_useless, used
from reme_core.rules.chain import MOST_USES
from reme_core.testing.store_values import changed, memory

USES = st.builds(
    UseMemory,
    memory_id=st.sampled_from(["a", "b", "c"]),
    uses=st.integers(0, 5),
    helpful=st.sampled_from([0.25, 0.5, 2.0]),
)


@settings(max_examples=30)
@given(st.lists(USES, max_size=12))
def test_each_memory_gets_what_its_uses_add_up_to(uses: list[UseMemory]) -> None:
    held = [changed(memory(name, memory_id=name), {"freq": 3, "utility": 0.5}) for name in "abc"]
    counted = used(held, check_uses(uses))
    assert set(counted) == {use.memory_id for use in uses}
    for before in held:
        own = [use for use in uses if use.memory_id == before.memory_id]
        added = {"freq": 3 + sum(use.uses for use in own), "utility": 0.5 + sum(use.helpful for use in own)}
        assert counted.get(before.memory_id, before) == changed(before, added)
        assert (before.freq, before.utility) == (3, 0.5)


def test_the_largest_uses_never_overflow_a_float() -> None:
    full = changed(memory("full", memory_id="a"), {"utility": 1.7976931348623157e308})
    most = UseMemory(memory_id="a", uses=1, helpful=float(MOST_USES))
    counted = used([full], check_uses([most] * 5))["a"]
    assert changed(counted, {}) == counted  # still a memory that can be read


def test_more_uses_than_a_memory_can_have_are_refused() -> None:
    nearly = changed(memory("nearly", memory_id="a"), {"freq": MOST_USES - 2})
    uses = [UseMemory(memory_id="a")] * 3
    assert changed(used([nearly], uses[:2])["a"], {}).freq == MOST_USES
    with pytest.raises(InvalidInputError, match="'a' would have 9007199254740993"):
        used([nearly], uses)


@pytest.mark.parametrize(
    ("uses", "helpful", "wanted"),
    [
        (True, 0.0, r"uses\[0\]\.uses: wanted a whole number"),
        (1.5, 0.0, r"uses\[0\]\.uses: wanted a whole number"),
        ("1", 0.0, r"uses\[0\]\.uses: wanted a whole number"),
        (10**400, 0.0, r"uses\[0\]\.uses: wanted a whole number"),
        (1, True, r"uses\[0\]\.helpful: wanted a number"),
        (1, "0.5", r"uses\[0\]\.helpful: wanted a number"),
        (1, 10**400, r"uses\[0\]\.helpful: wanted a number"),
        (1, None, r"uses\[0\]\.helpful: wanted a number"),
        (0, 0, "leave it out"),
    ],
)
def test_what_is_no_count_is_refused_with_its_place(uses: int, helpful: float, wanted: str) -> None:
    with pytest.raises(InvalidInputError, match=wanted):
        check_uses([UseMemory(memory_id="a", uses=uses, helpful=helpful)])


@pytest.mark.parametrize(
    ("freq", "utility", "min_freq", "max_utility", "expected"),
    [
        (5, 2.4, 5, 0.5, True),
        (5, 2.5, 5, 0.5, False),
        (4, 0.0, 5, 0.5, False),
        (0, 0.0, 0, 1.0, False),
        (1, 0.0, -3, 1e-300, True),
    ],
)
def test_what_was_used_often_and_seldom_helped_is_useless(
    freq: int, utility: float, min_freq: int, max_utility: float, expected: bool
) -> None:
    found = changed(memory("fact"), {"freq": freq, "utility": utility})
    assert is_useless(found, Uselessness(min_freq=min_freq, max_utility=max_utility)) is expected
