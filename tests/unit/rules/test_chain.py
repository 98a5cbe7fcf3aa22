"""How memories that took each other's place share time: whatever the order they come in, the outcome is one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reme_core.rules import chain_of, place, replaced, settle_equal
from reme_core.schema import Memory, TimePrecision

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


def test_a_joined_memory_gets_no_end_where_what_it_was_joined_into_is_replaced() -> None:
    tea = memory("tea", 2)
    joined = memory("tea too", 1).model_copy(update={"superseded_by": tea.memory_id})
    coffee, juice = memory("coffee", 3), memory("juice", 0)
    chain = chain_of([tea, joined, coffee], [tea.memory_id])
    [ended] = place(chain, coffee, at=NOW).changed
    assert (ended.memory_id, ended.superseded_by, ended.valid_to) == (tea.memory_id, coffee.memory_id, day(3))
    before = place(chain, juice, at=NOW).memory
    assert before is not None
    assert before.superseded_by == tea.memory_id


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


def test_what_is_named_is_replaced_though_it_has_an_end_of_its_own() -> None:
    plan = memory("opening", 5, since=20, until=21)
    later, called_off = memory("opening moved", 9, since=27, until=28), memory("no opening", 9)
    for new, end in ((later, day(21)), (called_off, day(20))):
        [changed] = place([plan], new, at=day(30), named=["opening-id"]).changed
        assert (changed.superseded_by, changed.valid_from, changed.valid_to) == (new.memory_id, day(20), end)
        assert place([plan], new, at=day(30)).changed == ()


def test_what_was_over_when_another_one_was_said_and_began_is_history_though_it_is_named() -> None:
    trip = memory("trip", 5, since=2, until=4)
    assert place([trip], memory("back home", 6), at=NOW, named=["trip-id"]).changed == ()
    [corrected] = place([trip], memory("another trip", 6, since=3, until=5), at=NOW, named=["trip-id"]).changed
    assert (corrected.superseded_by, corrected.valid_to) == ("another trip-id", day(3))


def test_what_is_told_of_the_past_is_left_out_for_what_is_current_and_not_for_what_was_replaced() -> None:
    held = arrive([memory("Berlin", 0), memory("Lisbon", 9)])
    past = memory("BERLIN.", 12, since=1, until=5)
    assert place(list(held.values()), past, at=NOW).memory == past
    assert place([memory("Berlin", 0, until=8)], past, at=NOW).memory is None


def test_an_end_that_follows_from_a_replacement_is_exact() -> None:
    old = memory("Berlin", 0)
    by = memory("Lisbon", 9).model_copy(update={"valid_from_precision": TimePrecision.MONTH})
    assert replaced(old, by).valid_to_precision is TimePrecision.EXACT
    kept = old.model_copy(update={"valid_to": day(4), "valid_to_precision": TimePrecision.YEAR})
    assert (replaced(kept, by).valid_to, replaced(kept, by).valid_to_precision) == (day(4), TimePrecision.YEAR)


EQUAL = st.lists(
    st.tuples(st.sampled_from(["tea", "Tea!", "jazz"]), st.none() | DAYS, st.booleans()), max_size=8
).map(lambda rows: [
    memory(text, 0, until=until).model_copy(update={"memory_id": f"m{n}", "superseded_by": "x" if is_gone else None})
    for n, (text, until, is_gone) in enumerate(rows)
])  # fmt: skip


@given(EQUAL.flatmap(lambda memories: st.tuples(st.just(memories), st.permutations(memories))))
def test_of_equal_memories_the_one_that_lasts_longest_stays_current(case: tuple[list[Memory], list[Memory]]) -> None:
    one, other = case
    settled = {item.memory_id: item for item in settle_equal(one)}
    assert settled == {item.memory_id: item for item in settle_equal(other)}
    after = [settled.get(item.memory_id, item) for item in one]
    assert settle_equal(after) == []
    for item in one:
        now = next(other for other in after if other.memory_id == item.memory_id)
        assert now.model_copy(update={"superseded_by": item.superseded_by}) == item
        if now.superseded_by != item.superseded_by:
            winner = next(other for other in after if other.memory_id == now.superseded_by)
            assert winner.is_current
            assert winner.valid_to is None or (item.valid_to is not None and item.valid_to <= winner.valid_to)
    assert {item.content.strip("!").lower() for item in one if item.is_current} == {
        item.content.strip("!").lower() for item in after if item.is_current
    }
