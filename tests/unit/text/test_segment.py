"""Index terms: what is found as the same, what is dropped, and that any string will do."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snowballstemmer.english_stemmer import EnglishStemmer

from reme_core.text import pack_terms, query_terms, terms, unpack_terms

any_text = st.text(st.characters(codec=None), max_size=300)


@pytest.mark.parametrize(
    ("looked_for", "text"),
    [
        ("running", "He runs in a shoe"),
        ("we went home", "going home"),
        ("women", "a woman, two"),
        ("James's house", "the house of James"),
        ("Caroline's", "caroline"),
        ("café", "Cafe"),
        ("\uff21\uff22\uff23", "abc"),
        ("don\u2019t worry", "worries"),
        ("config", "parse_config(x)"),
        ("http server", "class HttpServer"),
        ("北京", "我昨天去了北京"),
        ("東京", "東京に行きました"),
        ("\uff76\uff9e\uff97\uff7d", "ガラス"),
        ("학교", "학교에 갔어요"),
        ("Москва", "город МОСКВА"),
        ("हिन्दी", "मैं हिन्दी बोलता हूँ"),
        ("ไทย", "ภาษาไทย"),
    ],
)
def test_a_text_holds_the_terms_of_what_it_mentions(looked_for: str, text: str) -> None:
    assert terms(looked_for)
    assert set(terms(looked_for)) <= set(terms(text))


def test_stop_words_give_no_terms() -> None:
    assert terms("What did you do with it, and isn't that what I'd have done? We'll do it.") == []


def test_words_that_look_like_contractions_are_terms() -> None:
    assert terms("an ill shed id") == ["ill", "shed", "id"]


def test_terms_keep_their_order_and_repetition() -> None:
    assert terms("tea, coffee, tea") == ["tea", "coffe", "tea"]


def test_a_run_of_han_becomes_overlapping_pairs() -> None:
    assert query_terms("学习中文") == ["学习", "习中", "中文"]
    assert terms("学习中文") == ["学习", "习中", "中文", "学", "习", "中", "文"]


def test_a_single_han_character_is_a_term() -> None:
    assert terms("a 茶") == ["茶"]


@pytest.mark.parametrize("name", ["reme_core.text", "ERR-1234", "2023-05-08", "/usr/lib/x.py", "a::b", "v1.2.3"])
def test_identifiers_are_terms_as_a_whole_and_in_parts(name: str) -> None:
    found = terms(f"saw {name} here")
    assert name.strip("/").lower() in found
    assert len(found) > 2


def test_words_joined_by_a_hyphen_are_terms_by_themselves_only() -> None:
    assert terms("well-known brother-in-law") == ["well", "know", "brother", "law"]


def test_numbers_are_terms() -> None:
    assert terms("in 2023 it cost 45") == ["2023", "cost", "45"]


@given(any_text)
def test_any_string_has_terms_that_pack_and_unpack(text: str) -> None:
    found = terms(text)
    packed = pack_terms(found)
    assert all(0 < len(term) <= 64 * 18 for term in found)
    assert len(unpack_terms(packed)) == len(found)
    assert packed == b"".join(pack_terms([term]) for term in found)


@given(any_text, any_text)
def test_a_line_between_two_texts_adds_no_terms(first: str, second: str) -> None:
    assert terms(f"{first}\n{second}") == terms(first) + terms(second)


@pytest.mark.parametrize("unit", ["x", "a-", "汉", "it's ", "\x00", "aB", "-", "\ud800", "é", "a_", "ไ"])
def test_a_text_of_a_million_characters_is_cut_into_terms_of_bounded_length(unit: str) -> None:
    assert max(map(len, terms(unit * (1_000_000 // len(unit)))), default=0) <= 64


def test_packed_terms_are_the_same_in_another_process() -> None:
    code = "from reme_core.text import *; print(pack_terms(terms('green tea 北京')).hex())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert there == pack_terms(terms("green tea 北京")).hex()


def test_packed_terms_stay_what_earlier_versions_stored() -> None:
    assert unpack_terms(pack_terms(["tea"])).tolist() == [int.from_bytes(pack_terms(["tea"]), "little")]
    assert pack_terms(["tea", "北京"]).hex() == "ba6587c1bb84c49094b75e301ebde866"


def test_unpacked_terms_are_64_bit_numbers() -> None:
    assert unpack_terms(pack_terms(["a", "b"])).dtype == np.uint64


def test_bytes_that_are_no_packed_terms_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        unpack_terms(b"seven b")


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=14))
def test_words_that_are_not_stemmed_are_those_that_stemming_leaves_alone(word: str) -> None:
    if word[-1] in "abfhjkopquvwxz":
        assert EnglishStemmer().stemWord(word) == word
