"""Ranking where a person talks with an assistant who answers at length."""

from collections.abc import Sequence

import numpy as np
import pytest

from reme_core.retrieval import Query, RankingIndex, Rows
from reme_core.retrieval.ranking.score_parts import first_person
from reme_core.text import is_question, pack_terms, passage_spans, segment_passages, states_wish

Turn = tuple[str, str]

FILLER = (
    "Start with a list of what matters to you and why. Give each item a number and a day on which you look at it. "
    "Small steps are easier to keep than large ones, and a note in the evening helps you to see how far you have come. "
)


def in_session(turns: Sequence[Turn], *, session: int = 0, first: int = 0, name: str = "") -> Rows:
    """Rows of one session of (role, text) turns; the key of a turn is its place, from `first`."""
    n = len(turns)
    cut = [segment_passages(text) for _, text in turns]
    return Rows(
        keys=np.arange(first, first + n),
        terms=[pack_terms(words) for words, _ in cut],
        sessions=np.full(n, session),
        positions=np.arange(first, first + n),
        speakers=[name or role for role, _ in turns],
        times=np.arange(first, first + n) * 60.0,
        questions=np.array([is_question(text) for _, text in turns]),
        by_user=np.array([role == "user" for role, _ in turns]),
        wishes=np.array([role == "user" and states_wish(text) for role, text in turns]),
        passages=[passages for _, passages in cut],
    )


def index_of(turns: Sequence[Turn]) -> RankingIndex:
    """One session of turns."""
    index = RankingIndex()
    index.extend(in_session(turns))
    return index


def found(index: RankingIndex, text: str, vector: np.ndarray | None = None, limit: int = 10) -> list[int]:
    return [hit.key for hit in index.rank(Query(text=text, vector=vector), limit=limit)]


@pytest.mark.parametrize(
    "question",
    [
        "When does my lease end?",
        "What did I say of the lease?",
        "我的 lease 什么时候到期？",
        "私の lease はいつまで？",
        "내 lease 는?",
    ],
)
def test_a_question_in_the_first_person_is_answered_by_the_user(question: str) -> None:
    turns = [
        ("assistant", f"A lease usually ends after twelve months, and a lease can be prolonged. {FILLER * 6}"),
        ("user", "The lease ends on 31 August."),
        ("assistant", f"Then give notice of the end of the lease in time. {FILLER * 6}"),
    ]
    assert found(index_of(turns), question)[0] == 1


@pytest.mark.parametrize(
    "text", ["What is it?", "Is the museum open?", "谁打网球？", "誰が来た？", "누가 왔어?", "Where is the US base?"]
)
def test_a_question_about_others_is_in_no_first_person(text: str) -> None:
    assert first_person(text) is None


def test_a_person_named_before_the_first_person_is_whom_a_question_is_about() -> None:
    index, turns = RankingIndex(), ["a violin, from Ann", "a violin, from the user"]
    index.extend(
        Rows(
            keys=np.arange(2),
            terms=[pack_terms(["violin"]) for _ in turns],
            sessions=np.array([0, 1]),
            positions=np.arange(2),
            speakers=["Ann", "user"],
            times=np.zeros(2),
            questions=np.zeros(2, np.bool_),
            by_user=np.array([False, True]),
        )
    )
    assert found(index, "Did Ann tell me of a violin?")[0] == 0
    assert found(index, "Did I tell Ann of a violin?")[0] == 1


def test_the_first_person_alone_finds_nothing() -> None:
    assert found(index_of([("user", "The lease ends in August.")]), "What is my submarine?") == []


def test_a_fact_inside_a_long_reply_is_found_with_its_passage() -> None:
    text = f"{FILLER * 7}The locksmith in Rua Augusta opens at seven. {FILLER * 7}"
    turns = [("user", "Tell me more."), ("assistant", text), ("assistant", FILLER * 14), ("assistant", FILLER * 13)]
    [best, *_] = index_of(turns).rank(Query(text="When does the locksmith open?"), limit=3)
    assert best.key == 1
    spans = passage_spans(segment_passages(text)[1])
    assert best.passage is not None
    assert "locksmith" in text[spans[best.passage].start : spans[best.passage].end]


def test_a_short_text_is_found_without_passage() -> None:
    assert index_of([("user", "The lease ends in August.")]).rank(Query(text="lease"), limit=1)[0].passage is None


def test_the_vector_of_a_passage_finds_the_message() -> None:
    index = index_of([("user", "Good morning to you"), ("assistant", FILLER * 14), ("assistant", FILLER * 13)])
    basis = np.eye(8, dtype=np.float32)
    index.set_vectors(np.array([0, 1, 1, 1, 2]), basis[[0, 1, 2, 3, 4]], np.array([0, 0, 1, 2, 0]))
    [best, *_] = index.rank(Query(text="zebra", vector=basis[2]), limit=2)
    assert (best.key, best.passage) == (1, 1)


def test_vectors_of_passages_that_are_not_there_are_passed_over() -> None:
    index = index_of([("user", "Good morning to you")])
    index.set_vectors(np.array([0, 0, 9]), np.eye(3, dtype=np.float32), np.array([0, 1, 0]))
    assert found(index, "zebra", np.eye(3, dtype=np.float32)[0]) == [0]
    with pytest.raises(ValueError, match="1 keys and 3 vectors"):
        index.set_vectors(np.array([0]), np.eye(3, dtype=np.float32))


@pytest.mark.parametrize("answer", ["In August.", "The lease ends in August, as I said."])
def test_an_earlier_identical_question_never_stands_above_its_answer(answer: str) -> None:
    turns = [("user", "When does my lease end?"), ("assistant", answer), ("user", "Thanks a lot for it!")]
    places = found(index_of(turns), "When does my lease end?")
    assert places.index(1) < places.index(0)


def test_a_question_that_says_no_more_stands_behind_statements() -> None:
    turns = [("user", "The plan is to leave early, by train."), *[("user", f"note {n}") for n in range(6)]]
    assert found(index_of([*turns, ("user", "What about the plan?")]), "What is the plan?")[0] == 0


def test_a_question_without_an_answer_is_still_found() -> None:
    assert found(index_of([("user", "Where is the key?")]), "Where is the key?") == [0]


def test_a_long_reply_is_no_answer_because_it_follows_a_question() -> None:
    turns = [
        ("user", "How do I repair the violin bridge?"),
        ("assistant", FILLER * 14),
        ("user", "The bridge of the violin was made by Amati."),
    ]
    assert found(index_of(turns), "Who made the violin bridge?")[0] == 2


def test_one_huge_tool_result_leaves_neighbours_their_say() -> None:
    talk: list[Turn] = [("user", f"note {n}") for n in range(60)]
    talk[30:33] = [("user", "We flew to Lisbon."), ("user", "The food was lovely, too."), ("user", "Lisbon has trams.")]
    huge = " ".join(f"row{n} value{n}." for n in range(5_000))
    assert {30, 31, 32} <= set(found(index_of([*talk, ("tool", huge)]), "Lisbon trip", limit=3))


WISHES = [
    ("user", "Always format dates in the month-day-year style, please."),
    ("user", "I'd prefer short answers."),
    ("user", "Never use emojis."),
]
TALK = [("user", f"On day {n} we spoke of the garden and of its fence.") for n in range(30)]


@pytest.mark.parametrize(
    "question", ["When does the fence in my garden come?", "Could you sum up what the fence costs?"]
)
def test_what_a_user_wants_always_is_found_for_what_they_ask(question: str) -> None:
    wishes = [(role, f"{text} That goes for the garden as well.") for role, text in WISHES]
    first = found(index_of([*TALK, *wishes]), question, limit=10)
    assert len([key for key in first if key >= len(TALK)]) == 2  # more of them would take the places of what is asked


def test_a_wish_is_not_lifted_for_questions_about_others() -> None:
    wish, none = "Always paint the garden fence, I prefer white.", "Usually paint the garden fence, I praised white."
    asked = Query(text="Who built the fence of the garden?")
    first, second = (index_of([*TALK, ("user", text)]).rank(asked, limit=40) for text in (wish, none))
    assert first == second


def test_a_wish_for_which_nothing_speaks_is_not_found() -> None:
    assert found(index_of(WISHES), "What is my submarine?") == []


def test_each_session_has_the_weights_of_its_own_lengths() -> None:
    chat: list[Turn] = [
        ("user", "We flew to Lisbon."),
        ("user", "The food was lovely, too."),
        ("user", "It has trams."),
    ]
    alone, beside = index_of(chat), index_of(chat)
    long_talk = [("assistant", FILLER * 14)] * 20
    beside.extend(in_session(long_talk, session=1, first=len(chat)))
    question = Query(text="Lisbon trip")
    assert [hit.key for hit in alone.rank(question, limit=3)] == [hit.key for hit in beside.rank(question, limit=3)]


def test_the_user_who_asks_is_the_one_without_a_name_where_there_is_one() -> None:
    index = index_of([("user", "The lease ends in May."), *[("assistant", FILLER)] * 3])
    index.extend(in_session([("user", "The lease of mine ends in June, the lease.")], session=1, first=4, name="Ann"))
    assert found(index, "When does my lease end?")[0] == 0


@pytest.mark.parametrize(
    ("question", "answer"),
    [("我的租约什么时候到期？", "租约到三月三十一日为止。"), ("いつ家賃を払いますか？", "家賃は月末に払います。")],
)
def test_an_identical_question_in_a_script_without_blanks_stands_behind_its_answer(question: str, answer: str) -> None:
    places = found(index_of([("user", question), ("assistant", answer), ("user", "谢谢")]), question)
    assert places.index(1) < places.index(0)


def test_a_question_asked_twice_stands_behind_its_answer_by_its_vector_too() -> None:
    index = index_of([("user", "When does my lease end?")] * 2 + [("assistant", "The lease: in August.")])
    basis = np.eye(4, dtype=np.float32)
    index.set_vectors(np.arange(3), np.stack([basis[0], basis[0], 0.8 * basis[0] + 0.6 * basis[1]]))
    assert found(index, "When does my lease end?", basis[0])[0] == 2


def test_a_question_of_what_no_piece_says_has_no_passage() -> None:
    index = index_of([("user", "note")] * 3 + [("assistant", FILLER * 14)])
    index.set_vectors(np.array([3]), np.eye(2, dtype=np.float32)[:1], np.array([0]))
    [*_, last] = index.rank(Query(text="zebra", vector=-np.eye(2, dtype=np.float32)[0]), limit=4)
    assert last.passage is None
