"""Plain BM25, the words of a query, and the texts that are embedded."""

from importlib import resources
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reme_bench.bm25 import bm25_index, bm25_order

from reme_core.retrieval import message_text, plain_rows
from reme_core.retrieval.query_words import query_words, related_terms
from reme_core.retrieval.ranking.partition_index import Query, RankingIndex
from reme_core.retrieval.ranking.score_weights import MEMORY_WEIGHTS
from reme_core.text import pack_terms, query_terms, terms

texts = st.lists(
    st.lists(st.sampled_from(["tea", "milk", "bread", "北京", "river"]), max_size=5).map(" ".join), max_size=12
)


def test_bm25_prefers_rare_words_and_short_texts() -> None:
    order = bm25_order("rare tea", ["tea and more of other things", "tea", "rare thing", "tea", "nothing"])
    assert order[0] == 2
    assert order[1:3] == [1, 3]
    assert order[-1] == 4


@given(texts, st.sampled_from(["tea", "bread 北京", "river milk tea"]))
def test_the_text_part_of_the_index_is_plain_bm25(given_texts: list[str], query: str) -> None:
    """The words are chosen to have no related terms, so that nothing else adds to the score."""
    index = RankingIndex(MEMORY_WEIGHTS)
    index.extend(plain_rows(np.arange(len(given_texts)), [pack_terms(query_terms(t)) for t in given_texts]))
    if given_texts:
        hits = index.rank(Query(text=query), limit=len(given_texts))
        asked = set(query_terms(query))
        scores = {i: score for i, score in bm25_index(given_texts)(query) if asked & set(query_terms(given_texts[i]))}
        found = [scores.pop(hit.key) for hit in hits]
        assert scores == {}
        # Sums of the same parts in another order differ in their last digits: such texts may stand either way round.
        assert all(better >= worse - 1e-9 for better, worse in pairwise(found))


def test_a_speakers_name_is_no_word_of_the_query_unless_it_is_the_only_one() -> None:
    assert len(query_words("Ann's violin", ["Ann"]).hashes) == len(query_words("violin").hashes)
    assert len(query_words("Ann", ["Ann"]).hashes) == 1


def test_related_words_count_as_one_unit_behind_those_of_the_query() -> None:
    words = query_words("her job")
    assert words.plain == 1
    assert len(words.weights) == 2
    assert set(words.units[1:].tolist()) == {1}
    assert words.weights[1] < words.weights[0]


def test_of_a_pasted_text_the_first_256_distinct_terms_are_looked_up() -> None:
    assert len(query_words(" ".join(f"job{i} job{i}" for i in range(9_000))).hashes) == 256


def test_a_query_without_words_looks_up_nothing() -> None:
    assert len(query_words("what is it?").hashes) == 0


def test_a_kind_stands_for_its_members_but_not_they_for_it() -> None:
    assert "surf" in related_terms("sport")
    assert "sport" not in related_terms("surf")


def test_no_term_is_related_to_itself() -> None:
    for term in ("job", "kid", "sport", "movi"):
        assert term not in related_terms(term)
        assert list(related_terms(term)) == sorted(set(related_terms(term)))


def test_every_group_of_the_thesaurus_tells_something() -> None:
    lines = resources.files("reme_core.retrieval").joinpath("thesaurus.txt").read_text(encoding="utf-8").splitlines()
    groups = [line for line in lines if not line.startswith("#")]
    assert len(groups) > 400
    assert all(len(set(line.replace(":", " ").split())) > 1 for line in groups)


def test_a_text_that_says_it_in_other_words_is_found() -> None:
    index = RankingIndex(MEMORY_WEIGHTS)
    said = ["We bought a new sofa", "The kids love the puppy", "It rained all week"]
    index.extend(plain_rows(np.arange(3), [pack_terms(terms(text)) for text in said]))
    assert index.rank(Query(text="Which pet do the children have?"), limit=1)[0].key == 1


@pytest.mark.parametrize(("name", "text", "written"), [("Ann", "Hi", "Ann: Hi"), ("", "Hi", "Hi")])
def test_a_message_is_embedded_with_the_name_of_its_speaker(name: str, text: str, written: str) -> None:
    assert message_text(name, text) == written
