"""How memories that took each other's place share time: whatever the order they come in, the outcome is one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reme_core.rules import chain_of, place
from reme_core.schema import Memory

START = datetime(2023, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=1000)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def memory(content: str, said: int, since: int | None = None, until: int | None = None) -> Memory:
    begins = said if since is None else since
    return Memory(
        memory_id=f"{content}-id",
        memory_space="space",
        user_id="u",
        content=content,
        observed_at=day(said),
        valid_from=day(begins),
        valid_to=None if until is None else day(max(until, begins)),
        created_at=NOW,
    )


def arrive(memories: Sequence[Memory], *, at: datetime = NOW) -> dict[str, Memory]:
    """Let memories come one after the other, each into the chain of all."""
    held: dict[str, Memory] = {}
    for new in memories:
        placed = place(list(held.values()), new, at=at)
        held |= {item.memory_id: item for item in placed.changed}
        if placed.memory is not None:
            held[new.memory_id] = placed.memory
    return held


def told(held: dict[str, Memory]) -> set[tuple[object, ...]]:
    return {
        (item.content, item.valid_from, item.valid_to, held[item.superseded_by].content if item.superseded_by else None)
        for item in held.values()
    }


DAYS = st.integers(0, 6)
UNDATED = st.lists(DAYS, max_size=7).map(lambda days: [memory(f"place {n}", said) for n, said in enumerate(days)])
DATED = st.lists(st.tuples(DAYS, st.none() | DAYS, st.none() | DAYS), max_size=7).map(
    lambda rows: [memory(f"place {n}", *row) for n, row in enumerate(rows)]
)


@given(DATED.flatmap(lambda memories: st.tuples(st.just(memories), st.permutations(memories))))
def test_the_order_of_arrival_makes_no_difference(case: tuple[list[Memory], list[Memory]]) -> None:
    one, other = case
    assert told(arrive(one)) == told(arrive(other))


@given(UNDATED.flatmap(st.permutations))
def test_what_a_chain_holds_partitions_time(memories: list[Memory]) -> None:
    held = arrive(memories).values()
    lasting = sorted((item for item in held if item.valid_to != item.valid_from), key=lambda item: item.valid_from)
    assert len([item for item in held if item.is_current]) == min(1, len(memories))
    for one, next_one in pairwise(lasting):
        assert (one.valid_to, one.superseded_by) == (next_one.valid_from, next_one.memory_id)
    if memories:
        assert lasting[0].valid_from == min(item.valid_from for item in memories)


def test_what_comes_late_takes_its_place_between_two() -> None:
    held = arrive([memory("Berlin", 0), memory("Lisbon", 150), memory("Rome", 60)])
    assert told(held) == {
        ("Berlin", day(0), day(60), "Rome"),
        ("Rome", day(60), day(150), "Lisbon"),
        ("Lisbon", day(150), None, None),
    }


def test_what_was_said_last_holds_from_the_time_that_it_names() -> None:
    held = arrive([memory("Berlin", 5), memory("Rome", 9), memory("Lisbon", 20, since=7)])
    assert told(held) == {
        ("Berlin", day(5), day(7), "Lisbon"),
        ("Rome", day(9), day(9), "Lisbon"),
        ("Lisbon", day(7), None, None),
    }


def test_an_end_that_was_told_is_kept() -> None:
    over = memory("Berlin", 9, since=0, until=5)
    assert arrive([over, memory("Lisbon", 3)])["Berlin-id"] == over
    assert arrive([memory("Lisbon", 3), over])["Berlin-id"] == over


def test_what_has_not_begun_ends_nothing() -> None:
    held = arrive([memory("Lisbon", 5, since=100), memory("Berlin", 1)], at=day(50))
    assert all(item.is_current for item in held.values())


def test_what_held_then_and_says_the_same_is_not_written_again() -> None:
    held = arrive([memory("Berlin", 0), memory("Lisbon", 9)])
    again = memory("BERLIN.", 4)
    assert place(list(held.values()), again, at=NOW).memory is None
    back = memory("BERLIN.", 12)
    assert place(list(held.values()), back, at=NOW).memory == back


def test_a_chain_is_what_hangs_together_and_no_more() -> None:
    held = arrive([memory("Berlin", 0), memory("Rome", 3), memory("Lisbon", 9)])
    others = arrive([memory("tea", 0), memory("coffee", 3)])
    everything = [*others.values(), *held.values()]
    assert {item.memory_id for item in chain_of(everything, ["Rome-id"])} == set(held)


def test_two_that_one_memory_took_the_place_of_belong_together_after_it_is_gone() -> None:
    one, other = (memory(text, 0, until=5).model_copy(update={"superseded_by": "gone"}) for text in ("one", "other"))
    assert chain_of([one, other, memory("tea", 0)], ["one-id"]) == [one, other]
