"""Passages of a long text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.text import passage_spans, segment_passages, terms
from reme_core.text.segment import LONG_TERMS, PASSAGE_CHARS, PASSAGE_GRAMS, cut_passages, passage_sizes

texts = st.lists(
    st.sampled_from(["word", " ", ". ", "\n\n", "。", "很长", "x" * 700, "3.5", "?", "\u0301"]), max_size=60
).map("".join)


@given(texts, st.integers(1, 600))
def test_passages_follow_each_other_and_are_the_whole_text(text: str, most: int) -> None:
    passages = cut_passages(text, most_chars=most)
    assert "".join(text[passage.start : passage.end] for passage in passages) == text
    assert all(0 < passage.end - passage.start <= most for passage in passages)


def test_a_passage_ends_with_a_sentence() -> None:
    sentences = [f"This is sentence number {n}, which says a little more than its number." for n in range(40)]
    text = " ".join(sentences)
    shown = [text[passage.start : passage.end].strip() for passage in cut_passages(text)]
    assert " ".join(shown) == text
    assert all(passage.endswith(".") for passage in shown)
    assert all(len(passage) > PASSAGE_CHARS / 2 for passage in shown[:-1])


@pytest.mark.parametrize("text", ["。".join(["春天来了我们去看花"] * 100), "東京へ行きました。" * 90])
def test_a_text_without_blanks_is_cut_behind_its_sentences(text: str) -> None:
    assert all(text[passage.end - 1] == "。" for passage in cut_passages(text)[:-1])


def test_a_short_text_has_no_passages() -> None:
    text = "surf " * LONG_TERMS
    assert segment_passages(text) == (terms(text), b"")


def parted(text: str, cut: int) -> list[str]:
    """The pair of characters that a cut has parted, in a script without blanks."""
    return [text[cut - 1 : cut + 1]] if cut and all("一" <= char <= "鿿" for char in text[cut - 1 : cut + 1]) else []


def test_a_word_across_a_cut_is_found() -> None:
    text = "的" * (PASSAGE_GRAMS * 3 - 1) + "咖啡" + "的" * 300
    words, packed = segment_passages(text)
    assert any(span.start == text.index("啡") for span in passage_spans(packed))
    assert "咖啡" in words


def test_passages_of_a_script_without_blanks_are_as_long_in_tokens() -> None:
    assert all(span.end - span.start <= PASSAGE_GRAMS for span in cut_passages("今天我们去看花，天气很好。" * 100))


def test_no_passage_is_without_terms() -> None:
    _, packed = segment_passages("\n \n" * 3_000 + "cat sat. " * 300 + "\n--\n" * 3_000)
    assert all(passage_sizes(packed))


@given(texts)
def test_the_terms_of_a_long_text_are_those_of_its_passages(text: str) -> None:
    words, packed = segment_passages(text + " surf. " * (LONG_TERMS + 1))
    whole = text + " surf. " * (LONG_TERMS + 1)
    spans, sizes = passage_spans(packed), passage_sizes(packed)
    assert len(spans) == len(sizes) > 1
    assert (spans[0].start, spans[-1].end) == (0, len(whole))
    bounds = np.cumsum([0, *sizes]).tolist()
    for place, span in enumerate(spans):
        part, own = words[bounds[place] : bounds[place + 1]], terms(whole[span.start : span.end])
        assert part[len(part) - len(own) :] == own
        assert part[: len(part) - len(own)] == parted(whole, span.start)
    assert len(words) == bounds[-1]
