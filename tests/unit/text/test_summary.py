"""Extractive summaries: verbatim, in order, within the limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.text import extractive_summary, split_sentences

TALK = [
    ("Ann", "Hi! How are you?"),
    ("Bob", "Good, thanks."),
    ("Ann", "My daughter Lucy won the regional violin competition in Leeds. I cried! The violin was my mother's."),
    ("Bob", "Wow! Which piece did she play?"),
    ("Ann", "The Bruch concerto. Her violin teacher cried too."),
]

turns = st.lists(
    st.tuples(
        st.sampled_from(["Ann", "李雷", ""]),
        st.text(st.sampled_from(list("ab .!?\n。？茶去北京\ud800\u201d")), max_size=60),
    ),
    max_size=8,
)


def test_the_telling_sentence_is_quoted_and_the_greeting_is_not() -> None:
    summary = extractive_summary(TALK, limit_chars=120)
    assert "Ann: My daughter Lucy won the regional violin competition in Leeds." in summary
    assert "How are you" not in summary


def test_sentences_of_one_turn_share_its_label() -> None:
    assert (
        extractive_summary([("Ann", "Lucy plays violin. Tom keeps bees.")]) == "Ann: Lucy plays violin. Tom keeps bees."
    )


def test_chinese_is_cut_at_its_own_marks() -> None:
    summary = extractive_summary([("小雅", "我上周搬到了浦东。房租一个月五千二！你呢？")], limit_chars=20)
    assert summary in {"小雅: 我上周搬到了浦东。", "小雅: 房租一个月五千二！"}


def test_a_sentence_longer_than_the_limit_is_begun_and_marked() -> None:
    summary = extractive_summary([("Ann", "word " * 100)], limit_chars=30)
    assert summary.startswith("Ann: word word")
    assert summary.endswith("…")
    assert len(summary) <= 30


def test_what_is_said_twice_is_quoted_once() -> None:
    said = "The train to Leeds leaves at nine."
    assert extractive_summary([("Ann", said), ("Bob", said)]).count(said) == 1


def test_a_block_without_words_has_an_empty_summary() -> None:
    assert extractive_summary([("Ann", " \n "), ("Bob", "")]) == ""


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="limit_chars"):
        extractive_summary(TALK, limit_chars=0)


@given(turns, st.integers(1, 120))
def test_every_line_quotes_the_block_in_order_within_the_limit(block: list[tuple[str, str]], limit: int) -> None:
    summary = extractive_summary(block, limit_chars=limit)
    assert len(summary) <= limit
    assert extractive_summary(block, limit_chars=limit) == summary
    sentences = [" ".join(s.split()) for _, text in block for s in split_sentences(text)]
    for line in summary.splitlines():
        if not line.endswith("…"):
            bare = line.removeprefix("Ann: ").removeprefix("李雷: ")
            assert any(bare.startswith(sentence) for sentence in sentences)


@given(st.text(st.characters(codec=None), max_size=200))
def test_splitting_loses_nothing_but_blanks(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


def test_a_long_text_without_any_mark_is_one_sentence() -> None:
    assert split_sentences("word " * 50_000) == [("word " * 50_000).strip()]


def test_a_text_of_marks_takes_no_longer_than_one_of_words() -> None:
    # Looking at a run of marks from each of them took hours, and so ends this test by its time-out.
    assert split_sentences("." * 200_000 + "x") == ["." * 200_000 + "x"]
