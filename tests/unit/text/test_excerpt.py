"""Parts of long texts: bounded, exact, and nothing that can't be read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError
from reme_core.text import cut_middle, is_cut_of, is_shorter_cut, read_piece, search_text
from reme_core.text.excerpt import TextMatch, _folded

REFERENCE = "3f9a0c5be1d24786"
SHORTEST = f"[… reload {REFERENCE}]"
PARTS = (
    "a",
    "word ",
    "\n",
    "\r\n",
    "\u2028",
    "é",
    "e\u0301",
    "北京",
    "🙂",
    "👩\u200d👧",
    "\x01",
    "\ufffd",
    SHORTEST,
    "[… ",
)
pieces = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=8)), max_size=60).map("".join)
texts = st.builds(lambda text, times: text * times, pieces, st.integers(1, 12))
HUNDRED_THOUSAND_LINES = "".join(f"line {n} of the log\n" for n in range(1, 100_001))


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@given(texts, st.integers(0, 900))
def test_a_cut_fits_and_shows_the_beginning_and_the_end(text: str, limit: int) -> None:
    view = cut_middle(text, limit, reference=REFERENCE)
    assert size(view) <= max(limit, size(SHORTEST))
    if size(text) <= limit:
        assert view == text
    assert (view == text) != is_cut_of(view, text, REFERENCE) or text == SHORTEST


@given(texts, st.integers(0, 900), st.data())
def test_a_view_that_was_altered_anywhere_is_no_cut(text: str, limit: int, data: st.DataObject) -> None:
    view = cut_middle(text, limit, reference=REFERENCE)
    place = data.draw(st.integers(0, len(view)))
    instead = data.draw(st.sampled_from(("", "x", "\n", SHORTEST, "🙂")))
    taken = data.draw(st.integers(0, 2))
    altered = view[:place] + instead + view[place + taken :]
    if altered not in {view, SHORTEST}:
        assert not is_cut_of(altered, text, REFERENCE)


@given(texts, st.integers(0, 900))
def test_a_cut_is_one_of_its_own_text_and_reference_alone(text: str, limit: int) -> None:
    view = cut_middle(text, limit, reference=REFERENCE)
    if view not in {text, SHORTEST}:
        assert not is_cut_of(view, text, "0000000000000000")
        assert not is_cut_of(view, f"{text}x", REFERENCE)
        assert not is_cut_of(view, f"x{text}", REFERENCE)


def test_the_notice_says_what_is_left_out_and_what_loads_it() -> None:
    view = cut_middle(HUNDRED_THOUSAND_LINES, 400, reference=REFERENCE)
    head, notice, tail = view.partition(f"{view[view.index('[…') : view.index(']') + 1]}\n")
    assert head == "".join(f"line {n} of the log\n" for n in range(1, 10))
    assert tail == "".join(f"line {n} of the log\n" for n in range(99_997, 100_001))
    left = len(HUNDRED_THOUSAND_LINES) - len(head) - len(tail)
    assert notice.rstrip("\n") == (
        f"[… {left:,} of {len(HUNDRED_THOUSAND_LINES):,} characters left out here (lines 10 to 99,996 of 100,001); "
        f"all of it: reload {REFERENCE}]"
    )


def test_a_text_of_one_line_is_cut_between_characters() -> None:
    text = "北京" * 2_500_000
    view = cut_middle(text, 3000, reference=REFERENCE)
    head, notice, tail = view.split("\n")
    assert size(view) > 2900
    assert notice.startswith(
        f"[… {len(text) - len(head) - len(tail):,} of 5,000,000 characters left out here (line 1 of 1)"
    )
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) == pytest.approx(2 * len(tail), rel=0.01)


@pytest.mark.parametrize("limit", [-1, 0, 1, 28, 29, 60])
def test_the_smallest_cut_is_the_reference(limit: int) -> None:
    assert cut_middle("x" * 1000, limit, reference=REFERENCE) == SHORTEST


@pytest.mark.parametrize(
    "view",
    [
        f"[… 1,000 of 1,000 characters left out here (line 1 of 1); all of it: reload {REFERENCE}] ",
        f"aaaa\n[… 1 of 1,000 characters left out here (line 1 of 1); all of it: reload {REFERENCE}]\naaaa",
        f"aaaa\n[… reload {REFERENCE}]\naaaa",
        f"see [… reload {REFERENCE}]",
        f"aaaa\n[… 992 of 1,000 characters left out here (line 1 of 1); all of it: reload {REFERENCE}]\naaab",
    ],
)
def test_a_forged_notice_is_no_cut(view: str) -> None:
    assert not is_cut_of(view, "a" * 1000, REFERENCE)


def test_a_notice_inside_of_a_text_is_text() -> None:
    inner = cut_middle("a" * 1000, 300, reference=REFERENCE)
    text = f"{inner}\n" * 20
    view = cut_middle(text, 900, reference=REFERENCE)
    assert size(view) <= 900
    assert is_cut_of(view, text, REFERENCE)
    assert not is_cut_of(inner, text, REFERENCE)


@given(texts, st.integers(1, 50))
def test_pieces_one_after_the_other_are_the_text(text: str, limit: int) -> None:
    read = []
    piece = read_piece(text, limit_chars=limit)
    while True:
        assert len(piece.text) <= limit
        assert piece.chars == len(text)
        assert piece.lines == text.count("\n") + 1
        assert 1 <= piece.first_line <= piece.last_line <= piece.lines
        read.append(piece.text)
        if piece.next_offset is None:
            break
        piece = read_piece(text, offset=piece.next_offset, limit_chars=limit)
    assert "".join(read) == text


@given(texts)
def test_lines_one_after_the_other_are_the_text(text: str) -> None:
    lines = read_piece(text, limit_chars=10**6).lines
    read = [read_piece(text, start_line=n, end_line=n, limit_chars=10**6) for n in range(1, lines + 1)]
    assert "".join(piece.text for piece in read) == text
    assert [(piece.first_line, piece.last_line) for piece in read] == [(n, n) for n in range(1, lines + 1)]


def test_a_range_of_lines_ends_where_it_was_asked_to() -> None:
    piece = read_piece(HUNDRED_THOUSAND_LINES, start_line=50_000, end_line=50_002, limit_chars=1000)
    assert piece.text == "line 50000 of the log\nline 50001 of the log\nline 50002 of the log\n"
    assert (piece.first_line, piece.last_line, piece.lines, piece.next_offset) == (50_000, 50_002, 100_001, None)
    assert HUNDRED_THOUSAND_LINES[piece.offset :].startswith(piece.text)


def test_a_range_that_is_longer_than_a_piece_goes_on_behind_a_line() -> None:
    piece = read_piece(HUNDRED_THOUSAND_LINES, start_line=2, end_line=90_000, limit_chars=40)
    assert piece.text == "line 2 of the log\nline 3 of the log\n"
    assert piece.next_offset == piece.offset + len(piece.text)


def test_an_end_line_behind_the_last_one_means_the_last() -> None:
    assert read_piece("a\nb\nc", start_line=2, end_line=99, limit_chars=10).text == "b\nc"
    assert read_piece("a\nb\nc", end_line=1, limit_chars=10).text == "a\n"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"start_line": 1, "offset": 0}, "give offset, or start_line"),
        ({"end_line": 1, "offset": 0}, "give offset, or start_line"),
        ({"start_line": 0}, "start_line: wanted a whole number of at least 1"),
        ({"start_line": 3, "end_line": 2}, "end_line: wanted a whole number of at least 3"),
        ({"start_line": 4}, "the text has 3 lines"),
        ({"offset": -1}, "offset: wanted a whole number of at least 0"),
        ({"offset": 5}, "the text has 5 characters"),
        ({"offset": True}, "offset: wanted a whole number"),
    ],
)
def test_a_place_that_is_none_is_refused(place: dict[str, int], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_piece("a\nb\nc", limit_chars=10, **place)


def test_a_piece_of_no_characters_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="limit_chars"):
        read_piece("abc", limit_chars=0)


def test_a_phrase_is_found_whatever_its_case() -> None:
    found = search_text("one\nTwo Words\nthree two\nTWO WORDS too\n", "two words", limit=10, around=20)
    assert found.matches == (
        TextMatch(line=2, offset=4, excerpt="Two Words"),
        TextMatch(line=4, offset=24, excerpt="TWO WORDS too"),
    )
    assert found.total == 2


def test_all_words_of_a_query_find_a_line_where_the_phrase_stands_nowhere() -> None:
    text = "the parties decided\nwe kept a decision for the party\nnothing of it\n"
    found = search_text(text, "deciding party", limit=10, around=50)
    assert [match.line for match in found.matches] == [1]
    assert search_text(text, "party nothing", limit=10, around=50).total == 0
    assert search_text("她上个月去了北京开会\n", "北京 上个月", limit=1, around=50).total == 1


def test_in_a_long_line_the_surroundings_are_shown() -> None:
    text = "".join(f'{{"id":{n},"name":"user {n}"}},' for n in range(150_000))
    found = search_text(text, '"id":77777,', limit=5, around=30)
    [match] = found.matches
    assert found.total == 1
    assert len(match.excerpt) == len('"id":77777,') + 60
    assert text[match.offset :].startswith(match.excerpt)
    assert '"name":"user 77777"' in match.excerpt
    words = search_text(text, "77777 name", limit=5, around=30)
    assert '"id":77777,"name"' in words.matches[0].excerpt


def test_places_far_apart_in_one_line_are_matches_of_their_own() -> None:
    text = ("needle" + "x" * 1000) * 3
    found = search_text(text, "NEEDLE", limit=2, around=10)
    assert [match.offset for match in found.matches] == [0, 996]
    assert found.total == 3


@pytest.mark.parametrize("text", ["a\n" * 2_500_000, "a" * 5_000_000, "ab" * 2_500_000 + "\n" + "b" * 10])
def test_a_search_for_what_is_everywhere_ends(text: str) -> None:
    assert search_text(text, "a", limit=3, around=20).total <= 150_000
    assert search_text(text, "a zebra", limit=3, around=20).total == 0
    assert search_text(text, "a" * 2000 + "c b", limit=3, around=20).total <= 150_000


@pytest.mark.parametrize(("query", "limit", "around"), [(" ", 1, 1), ("a", 0, 1), ("a", 1, -1)])
def test_a_search_for_nothing_is_refused(query: str, limit: int, around: int) -> None:
    with pytest.raises(InvalidInputError, match="query"):
        search_text("abc", query, limit=limit, around=around)


def test_a_query_is_never_a_pattern() -> None:
    assert search_text("aaa\n(a+)+$\n", "(a+)+$", limit=5, around=20).matches[0].line == 2
    assert search_text("aaa", ".*", limit=5, around=20).total == 0


@given(texts, texts)
def test_what_is_found_stands_where_it_is_said_to(text: str, query: str) -> None:
    if not query.strip():
        return
    found = search_text(text, query[:3].strip() or "a", limit=5, around=3)
    for match in found.matches:
        assert text[match.offset : match.offset + len(match.excerpt)] == match.excerpt
        assert text.count("\n", 0, match.offset) + 1 == match.line


def test_every_character_folds_to_one() -> None:
    for code in range(0x110000):
        assert len(_folded(chr(code))) == 1
    assert _folded("ΟΔΟΣ Σ") == _folded("οδος σ")


def test_a_cut_is_a_shorter_one_of_another_only_if_it_shows_nothing_else() -> None:
    text = "".join(f"{number}: GET /item/{number} 200\n" for number in range(200))
    long, short = (cut_middle(text, size, reference=REFERENCE) for size in (1_000, 300))
    assert is_shorter_cut(short, long, REFERENCE)
    assert not is_shorter_cut(long, short, REFERENCE)
    assert not is_shorter_cut(short, long, "0000000000000000")
    assert not is_shorter_cut(f"{short}and more", long, REFERENCE)
    assert not is_shorter_cut(f"x{short}", long, REFERENCE)
    assert not is_shorter_cut(cut_middle(f"{text}199\n", 300, reference=REFERENCE), long, REFERENCE)
