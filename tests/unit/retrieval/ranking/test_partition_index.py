"""The ranking index against itself: built in pieces, with rows removed, filtered, lifted."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.retrieval import Query, RankingIndex, Rows, ScoredRow, plain_rows
from reme_core.retrieval.ranking.score_weights import MEMORY_WEIGHTS, MESSAGE_WEIGHTS
from reme_core.text import is_question, pack_terms, terms

WORDS = ("apple", "river", "guitar", "lisbon", "school", "violin", "2023", "昨天", "北京", "the", "dog?")
DIMENSION = 8

Message = tuple[str, int, str, float | None]


def rows_of(messages: Sequence[Message], keys: Sequence[int]) -> Rows:
    return Rows(
        keys=np.array(keys, np.int64),
        terms=[pack_terms(terms(text)) for text, _, _, _ in messages],
        sessions=np.array([session for _, session, _, _ in messages], np.int64),
        positions=np.array(keys, np.int64),
        speakers=[name for _, _, name, _ in messages],
        times=np.array([np.nan if time is None else time for _, _, _, time in messages]),
        questions=np.array([is_question(text) for text, _, _, _ in messages], np.bool_),
        by_user=np.array([name == "Ann" for _, _, name, _ in messages], np.bool_),
        passages=[passages_of(len(terms(text))) for text, _, _, _ in messages],
    )


def passages_of(count: int) -> bytes:
    """Passages of two terms each, of texts with more than three."""
    sizes = [min(2, count - start) for start in range(0, count, 2)] if count > 3 else []
    return np.array([(place, size) for place, size in enumerate(sizes, 1)], "<u4").tobytes()


def vectors_of(keys: Sequence[int], salt: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    made = [np.random.default_rng((key, salt)).normal(size=DIMENSION) for key in keys]
    return np.array([v / np.linalg.norm(v) for v in made], np.float32).reshape(len(keys), DIMENSION)


def built(messages: Sequence[Message], keys: Sequence[int], cuts: Sequence[int] = ()) -> RankingIndex:
    index = RankingIndex()
    bounds = [0, *sorted(cut for cut in cuts if cut < len(keys)), len(keys)]
    for start, end in pairwise(bounds):
        index.extend(rows_of(messages[start:end], keys[start:end]))
    index.set_vectors(np.array(keys[::2], np.int64), vectors_of(keys[::2], 1))
    return index


def assert_same_ranking(first: Sequence[ScoredRow], second: Sequence[ScoredRow]) -> None:
    assert {hit.key: hit.score for hit in first} == pytest.approx({hit.key: hit.score for hit in second})
    assert [hit.score for hit in first] == pytest.approx([hit.score for hit in second])


message = st.tuples(
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    st.integers(-1, 3),
    st.sampled_from(["Ann", "Bob", ""]),
    st.one_of(st.none(), st.floats(1.6e9, 1.7e9)),
)
conversations = st.lists(message, min_size=1, max_size=30)
queries = st.builds(
    lambda words, vector: Query(
        text=" ".join(words),
        vector=vectors_of([7], 3)[0] if vector else None,
        now=datetime(2023, 6, 1, tzinfo=UTC),
    ),
    st.lists(st.sampled_from([*WORDS, "Ann", "my", "yesterday", "in May 2023"]), max_size=5),
    st.booleans(),
)


@given(conversations, queries, st.lists(st.integers(1, 29)))
def test_rows_appended_in_pieces_rank_as_rows_appended_at_once(
    messages: list[Message], query: Query, cuts: list[int]
) -> None:
    keys = list(range(10, 10 + len(messages)))
    whole = built(messages, keys).rank(query, limit=99)
    assert built(messages, keys, cuts).rank(query, limit=99) == whole


@given(conversations, queries, st.sets(st.integers(10, 39)))
def test_an_index_with_rows_removed_ranks_as_one_built_without_them(
    messages: list[Message], query: Query, gone: set[int]
) -> None:
    keys = list(range(10, 10 + len(messages)))
    index = built(messages, keys)
    index.remove(np.array(sorted(gone), np.int64))
    kept = [i for i, key in enumerate(keys) if key not in gone]
    other = RankingIndex()
    other.extend(rows_of([messages[i] for i in kept], [keys[i] for i in kept]))
    have = [key for key in keys[::2] if key not in gone]
    other.set_vectors(np.array(have, np.int64), vectors_of(have, 1))
    assert len(index) == len(other) == len(kept)
    assert_same_ranking(index.rank(query, limit=99), other.rank(query, limit=99))


@given(conversations, queries, st.data())
def test_a_mask_gives_the_ranking_of_all_rows_filtered(
    messages: list[Message], query: Query, data: st.DataObject
) -> None:
    index = built(messages, list(range(len(messages))))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(messages), max_size=len(messages))))
    everything = index.rank(query, limit=99)
    assert index.rank(query, limit=99, allowed=mask) == [hit for hit in everything if mask[hit.key]]


@given(conversations, queries, st.integers(1, 40))
def test_a_limit_gives_the_beginning_of_the_whole_ranking(messages: list[Message], query: Query, limit: int) -> None:
    index = built(messages, list(range(len(messages))))
    assert index.rank(query, limit=limit) == index.rank(query, limit=99)[:limit]


@given(conversations, queries, st.dictionaries(st.integers(0, 29), st.floats(0, 2), max_size=3))
def test_the_parts_of_a_score_add_up_to_it_and_change_nothing(
    messages: list[Message], query: Query, lifts: dict[int, float]
) -> None:
    index = built(messages, list(range(len(messages))))
    plain = index.rank(query, limit=99, lifts=lifts)
    explained = index.rank(query, limit=99, lifts=lifts, explain=True)
    assert [replace(hit, parts=None) for hit in explained] == plain
    for hit in explained:
        assert hit.parts is not None
        assert sum(hit.parts.values()) == pytest.approx(hit.score)


@given(conversations, queries, st.integers(0, 29))
def test_one_row_alone_is_told_with_its_place_among_all(messages: list[Message], query: Query, key: int) -> None:
    index = built(messages, list(range(len(messages))))
    everything = index.rank(query, limit=99)
    found = index.rank(query, limit=1, only=np.array([key], np.int64))
    assert [replace(hit, place=None) for hit in found] == [hit for hit in everything if hit.key == key]
    for hit in found:
        assert hit.place == 1 + sum(other.score > hit.score for other in everything)


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_many_single_appends_and_removals_rank_as_one_build(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 700
    messages: list[Message] = [
        (" ".join(rng.choice(WORDS, 5)), int(rng.integers(4)), str(rng.choice(["Ann", "Bob"])), 1.65e9 + i)
        for i in range(n)
    ]
    index = RankingIndex()
    for key in range(n):
        index.extend(rows_of([messages[key]], [key]))
    gone = rng.choice(n, 300, replace=False)
    for key in gone:
        index.remove(np.array([key]))
    kept = sorted(set(range(n)) - set(gone.tolist()))
    other = RankingIndex()
    other.extend(rows_of([messages[i] for i in kept], kept))
    query = Query(text="apple in Lisbon, Ann?")
    assert_same_ranking(index.rank(query, limit=n), other.rank(query, limit=n))
    assert len(index) == len(kept)


def test_a_removed_key_may_come_back_with_another_text() -> None:
    index = RankingIndex(MEMORY_WEIGHTS)
    index.extend(plain_rows(np.array([1, 2]), [pack_terms(terms("green tea")), pack_terms(terms("black coffee"))]))
    index.remove(np.array([1]))
    index.extend(plain_rows(np.array([1]), [pack_terms(terms("the violin lesson"))]))
    assert [hit.key for hit in index.rank(Query(text="violin"), limit=5)] == [1]
    assert [hit.key for hit in index.rank(Query(text="coffee"), limit=1)] == [2]


def test_a_message_between_two_that_match_is_found_before_a_stranger() -> None:
    texts = ["We flew to Lisbon", "It was lovely there", "Lisbon has trams", "unrelated words here", "more of them too"]
    messages: list[Message] = [(text, 1 if i < 3 else 2, "Ann", None) for i, text in enumerate(texts)]
    hits = RankingIndex()
    hits.extend(rows_of(messages, range(5)))
    assert {hit.key for hit in hits.rank(Query(text="Lisbon trip"), limit=3)} == {0, 1, 2}


def test_interleaved_sessions_are_neighbours_inside_each_session_only() -> None:
    texts = ["the red kite", "numbers and sums", "it broke yesterday", "a bill to pay"]
    messages: list[Message] = [(text, i % 2, "", None) for i, text in enumerate(texts)]
    index = RankingIndex()
    index.extend(rows_of(messages, range(4)))
    assert {hit.key for hit in index.rank(Query(text="kite"), limit=4)} == {0, 2}


def test_a_row_that_arrives_late_takes_its_place_in_the_session() -> None:
    late = [("a", 0), ("kite", 1), ("c", 2), ("d", 3), ("e", 4)]
    in_order, out_of_order = RankingIndex(), RankingIndex()
    for index, places in ((in_order, [0, 1, 2, 3, 4]), (out_of_order, [0, 2, 3, 4, 1])):
        for place in places:
            row = rows_of([(late[place][0], 1, "", None)], [place])
            index.extend(row)
    assert_same_ranking(in_order.rank(Query(text="kite"), limit=5), out_of_order.rank(Query(text="kite"), limit=5))


def test_equal_scores_stand_newest_first_and_unknown_times_last() -> None:
    index = RankingIndex()
    times = np.array([5.0, np.nan, 9.0, 5.0])
    index.extend(plain_rows(np.array([4, 2, 3, 1]), [pack_terms(["x"])] * 4, times))
    assert [hit.key for hit in index.rank(Query(text="x"), limit=4)] == [3, 1, 4, 2]


def test_a_lift_moves_its_row_up_and_unknown_keys_are_passed_over() -> None:
    index = RankingIndex(MEMORY_WEIGHTS)
    index.extend(plain_rows(np.array([1, 2]), [pack_terms(terms("tea")), pack_terms(terms("coffee"))]))
    assert [hit.key for hit in index.rank(Query(text="tea"), limit=2)] == [1]
    assert [hit.key for hit in index.rank(Query(text="tea"), limit=2, lifts={2: 3.0, 99: 1.0})] == [2, 1]


def test_an_empty_index_has_no_hits() -> None:
    assert RankingIndex().rank(Query(text="anything", vector=np.ones(3, np.float32)), limit=3) == []


def test_removing_everything_leaves_an_empty_index() -> None:
    index = built([("apple", 1, "Ann", None)] * 3, [1, 2, 3])
    index.remove(np.array([1, 2, 3]))
    assert len(index) == 0
    assert index.rank(Query(text="apple"), limit=3) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        RankingIndex().rank(Query(text="x"), limit=limit)


def test_a_mask_of_another_length_is_refused() -> None:
    index = built([("apple", 1, "Ann", None)], [1])
    with pytest.raises(ValueError, match="allowed"):
        index.rank(Query(text="x"), limit=1, allowed=np.ones(2, np.bool_))


def test_a_key_given_twice_is_refused_and_nothing_is_added() -> None:
    index = built([("apple", 1, "Ann", None)], [1])
    for keys in ([1], [5, 5]):
        with pytest.raises(ValueError, match="distinct"):
            index.extend(plain_rows(np.array(keys), [b""] * len(keys)))
    assert len(index) == 1


def test_a_query_vector_of_another_dimension_is_refused() -> None:
    index = built([("apple", 1, "Ann", None)], [1])
    with pytest.raises(ValueError, match="shape"):
        index.rank(Query(text="x", vector=np.ones(3, np.float32)), limit=1)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        plain_rows(np.array([1, 2]), [b""])


def _with_vectors(cosines: dict[int, float], n: int, session: int) -> RankingIndex:
    """Build rows without words, whose cosines with the first axis are given."""
    index = RankingIndex()
    index.extend(rows_of([("", session, "", None)] * n, range(n)))
    matrix = np.array([[c, np.sqrt(1 - c * c)] for c in cosines.values()], np.float32)
    index.set_vectors(np.array(list(cosines)), matrix)
    return index


AXIS = Query(text="", vector=np.array([1.0, 0.0], np.float32))


def test_a_row_without_a_vector_stands_between_the_near_and_the_far() -> None:
    index = _with_vectors({0: 0.9, 2: 0.1}, n=3, session=-1)
    assert [hit.key for hit in index.rank(AXIS, limit=3)] == [0, 1, 2]


def test_the_neighbour_of_a_near_row_is_nearer_than_a_stranger() -> None:
    index = _with_vectors({0: 0.1, 1: 0.9, 2: 0.1, 3: 0.1, 4: 0.1, 5: 0.1}, n=6, session=1)
    assert {hit.key for hit in index.rank(AXIS, limit=3)} == {0, 1, 2}


def test_the_one_the_question_is_about_is_preferred_to_the_one_who_says_the_same() -> None:
    said = "I play the violin on Sundays"
    index = RankingIndex()
    index.extend(rows_of([(said, -1, "Ann", None), (said, -1, "Bob", None)], [0, 1]))
    assert index.rank(Query(text="When does Bob play the violin?"), limit=1)[0].key == 1
    assert index.rank(Query(text="When does Ann play the violin with Bob?"), limit=1)[0].key == 0


def test_the_message_of_the_named_month_is_preferred() -> None:
    said = "I play the violin on Sundays"
    may, july = (datetime(2023, month, 3, tzinfo=UTC).timestamp() for month in (5, 7))
    index = RankingIndex()
    index.extend(rows_of([(said, -1, "Ann", may), (said, -1, "Ann", july)], [0, 1]))
    assert index.rank(Query(text="Who played in May?"), limit=1)[0].key == 0
    assert index.rank(Query(text="Who played in July?"), limit=1)[0].key == 1


def test_yesterday_is_read_against_the_time_of_the_question() -> None:
    said = "I play the violin"
    days = [datetime(2023, 5, day, 12, tzinfo=UTC) for day in (3, 4)]
    index = RankingIndex()
    index.extend(rows_of([(said, -1, "Ann", day.timestamp()) for day in days], [0, 1]))
    asked = Query(text="Who played yesterday?", now=datetime(2023, 5, 4, 20, tzinfo=UTC))
    assert index.rank(asked, limit=1)[0].key == 0


def test_the_answer_to_a_matching_question_is_found_before_another_neighbour() -> None:
    texts = ["so it goes", "Which violin do you own?", "A red one", "fine by me"]
    index = RankingIndex()
    index.extend(rows_of([(text, 1, "Ann", None) for text in texts], range(4)))
    assert [hit.key for hit in index.rank(Query(text="violin"), limit=2)] == [1, 2]


def test_the_memory_held_covers_the_vectors_and_no_more_than_a_quarter_beyond() -> None:
    index = _with_vectors(dict.fromkeys(range(5_000), 0.5), n=5_000, session=1)
    assert 5_000 * 2 * 4 <= index.nbytes <= 5_000 * 2 * 4 * 1.25 + 5_000 * 250


def test_a_row_for_which_nothing_speaks_is_not_found() -> None:
    index = RankingIndex()
    index.extend(rows_of([("a long text about many other things", -1, "Ann", None)], [0]))
    assert index.rank(Query(text="violin"), limit=5) == []


def test_no_score_exceeds_the_ceiling_of_its_weights() -> None:
    index = _with_vectors({0: 1.0, 1: 1.0, 2: 1.0}, n=3, session=1)
    assert index.rank(AXIS, limit=1)[0].score <= MESSAGE_WEIGHTS.ceiling(with_vector=True)
