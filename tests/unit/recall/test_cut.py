"""Memories and messages beside each other in a budget of tokens."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from reme_core.recall.cut import cut_hits
from reme_core.schema import Hit, MemoryType

SAID = datetime(2026, 1, 5, tzinfo=UTC)


class WordCounter:
    """Counts words."""

    def count(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())


def fact(number: int, text: str, *, score: float, source: str = "") -> Hit:
    return Hit(
        memory=text,
        layer="memory",
        score=score,
        memory_id=f"m{number}",
        memory_type=MemoryType.PERSONAL,
        memory_target="Ann",
        message_ids=(source,) if source else (),
        observed_at=SAID,
    )


def message(name: str, text: str, *, score: float) -> Hit:
    return Hit(memory=text, layer="message", score=score, message_ids=(name,), name="Ann", created_at=SAID)


def texts(hits: list[Hit], budget: int, limit: int | None = None) -> list[str]:
    ranked = sorted(hits, key=lambda hit: -hit.score)
    return [hit.memory for hit in cut_hits(ranked, WordCounter(), limit=limit, token_budget=budget)]


FACTS = [fact(i, f"Ann keeps pet number {i}", score=0.9 - i / 100) for i in range(8)]
DETAIL = message("1", "the iguana eats dandelions each Sunday", score=0.3)


def test_memories_do_not_push_out_the_only_message_with_the_detail() -> None:
    assert DETAIL.memory in texts([*FACTS, DETAIL], 20)


def test_a_message_that_tells_something_new_goes_before_one_of_which_a_memory_is_there() -> None:
    taken = fact(0, "Ann keeps an iguana", score=0.9, source="1")
    source = message("1", "my iguana is so green and wild", score=0.5)
    other = message("2", "the vet comes each second Monday", score=0.45)
    assert texts([taken, source, other], 11) == [taken.memory, other.memory]
    assert texts([taken, source.model_copy(update={"score": 0.7}), other], 11) == [taken.memory, source.memory]


def test_what_messages_leave_over_is_filled_with_memories() -> None:
    assert len(texts([*FACTS, DETAIL], 45)) == 8  # 7 facts of 5 words, one message of 6
    assert len(texts(FACTS, 40)) == 8


def test_what_memories_leave_over_is_filled_with_messages() -> None:
    said = [message(str(i), f"on day {i} it rained again", score=0.5 - i / 100) for i in range(6)]
    assert len(texts([FACTS[0], *said], 41)) == 7


def test_results_of_a_budget_stay_in_the_order_of_their_scores() -> None:
    assert texts([*FACTS[:2], message("1", "the iguana is green today", score=0.895)], 15) == [
        "Ann keeps pet number 0",
        "the iguana is green today",
        "Ann keeps pet number 1",
    ]


def test_a_message_stays_where_the_memory_that_tells_it_did_not_fit() -> None:
    first = fact(0, "Ann keeps a parrot and a rabbit and a very old grey donkey", score=0.9, source="1")
    said = message("1", "a parrot and a rabbit", score=0.5)
    assert texts([first, said], 10) == ["a parrot and a rabbit"]
    assert texts([first, said], 40) == ["Ann keeps a parrot and a rabbit and a very old grey donkey"]


def test_a_limit_beside_a_budget_takes_the_best() -> None:
    assert texts([*FACTS, DETAIL], 45, limit=2) == ["Ann keeps pet number 0", "Ann keeps pet number 1"]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=20), st.integers(1, 60))
def test_a_budget_is_never_exceeded(made: list[tuple[bool, int]], budget: int) -> None:
    hits = [
        fact(i, f"w{i} " * size, score=1 - i / 100) if is_fact else message(str(i), f"w{i} " * size, score=1 - i / 100)
        for i, (is_fact, size) in enumerate(made)
    ]
    assert sum(len(text.split()) for text in texts(hits, budget)) <= budget


def replaced(hit: Hit, by: str) -> Hit:
    return hit.model_copy(update={"superseded_by": by})


def test_a_replaced_twin_never_takes_the_place_of_what_replaced_it() -> None:
    old = replaced(fact(1, "Ann owns a red bicycle", score=0.9), "m2")
    same = replaced(fact(2, "ann owns a red bicycle.", score=0.8), "m3")
    new = fact(3, "Ann owns a red bicycle", score=0.7)
    for budget in (40, None):
        found = cut_hits([old, same, new], WordCounter(), limit=10, token_budget=budget)
        assert [hit.memory_id for hit in found] == ["m3"]
    longer = replaced(fact(4, "Ann owns a red bicycle and a kayak", score=0.9), "m3")
    assert cut_hits([longer, new], WordCounter(), limit=10, token_budget=40) == (longer, new)


def test_a_replaced_memory_takes_no_message_away() -> None:
    old = replaced(fact(1, "Ann now lives in Rome", score=0.9, source="1"), "m2")
    said, new = message("1", "Ann lives in Rome", score=0.8), fact(2, "Ann lives in Oslo now", score=0.7)
    for budget in (40, None):
        assert said not in cut_hits(
            [fact(1, "Ann now lives in Rome", score=0.9, source="1"), said],
            WordCounter(),
            limit=10,
            token_budget=budget,
        )
        found = cut_hits([old, said, new], WordCounter(), limit=10, token_budget=budget)
        assert found == (old, said, new)
