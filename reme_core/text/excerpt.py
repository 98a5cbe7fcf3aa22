r"""Parts of long texts: cut in the middle with a notice, read piece by piece, searched.

Lines end at "\n" alone and are numbered from 1; offsets count characters from 0. Sizes are bytes of UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from reme_core.errors import InvalidInputError
from reme_core.text.segment import query_terms, terms

# What a text says first tells more of it than its end, which still shows how it came out.
_HEAD_SHARE = 2 / 3
_NOTICES = re.compile(r"\[… [^\]\n]{0,200}\breload [0-9a-f]{16}\]\n?")
# A cut moves to a line end if that gives up at most this share of the piece.
_GIVEN_UP = 0.25
# Line ends are counted, which is quicker than finding them, in steps of this many characters.
_STEP = 1 << 16
# Places that a search counts, and characters that it takes apart into words: both some tenths of a second.
_MOST_MATCHES = 100_000
_MOST_TAKEN_APART = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """A piece of a text.

    Attributes:
        text: The piece, line ends included.
        first_line: The line in which it begins.
        last_line: The line in which it ends; a line end belongs to the line before it.
        lines: Lines of the whole text.
        offset: Where it begins.
        chars: Characters of the whole text.
        next_offset: Where what was asked for goes on; None where it is complete.
    """

    text: str
    first_line: int
    last_line: int
    lines: int
    offset: int
    chars: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch:
    """A place that a search has found: the line it lies in, and an excerpt, which begins at `offset` of the text."""

    line: int
    offset: int
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatches:
    """The first places that a search has found, in order, and how many there are, counted up to 100,000."""

    matches: tuple[TextMatch, ...]
    total: int


def cut_middle(text: str, max_bytes: int, *, reference: str) -> str:
    """Return a text, or its head and tail round a notice of what is left out there and what loads it again.

    The notice is a line of its own: `[… 4,997,120 of 5,000,000 characters left out here (lines 12 to 99,988 of
    100,000); all of it: reload 3f9a0c5be1d24786]`. Head (two thirds) and tail end and begin at line ends where one is
    near. Where there is no room for anything beside the notice it stands alone, and where there is none for that, its
    shortest form: `[… reload 3f9a0c5be1d24786]`.

    Returns:
        At most `max_bytes` bytes, or, where that is less, as many as the shortest notice has.
    """
    shortest = _shortest_notice(reference)
    max_bytes = max(max_bytes, len(_encoded(shortest)))
    if len(text) * 4 <= max_bytes:  # no need to look
        return text
    data = _encoded(text)
    if len(data) <= max_bytes:
        return text
    room = max(0, max_bytes - _notice_bytes(text, reference))
    head = _head(data, int(room * _HEAD_SHARE))
    tail = _tail(data, room - int(room * _HEAD_SHARE))
    view = _joined(head, _notice(text, len(head), len(tail), reference), tail)
    return view if len(_encoded(view)) <= max_bytes else shortest


def without_notices(text: str) -> str:
    """Return a text without notices of what was left out of it, ours or forged: for reading, never for keeping."""
    return _NOTICES.sub("", text)


def is_cut_of(view: str, text: str, reference: str) -> bool:
    """Tell whether a view is a text with its middle cut out and a notice with this reference there, word for word.

    That is: what stands before the notice begins the text, what stands after it ends the text, and the notice says
    exactly what is between them. The whole text is no cut of itself.
    """
    if view == _shortest_notice(reference):
        return True
    end = f"reload {reference}]"
    at = view.find(end)
    while at >= 0:
        if _is_cut_at(view, at + len(end), text, reference):
            return True
        at = view.find(end, at + 1)
    return False


def is_shorter_cut(view: str, cut: str, reference: str) -> bool:
    """Tell whether a view is what `cut` is, a text with its middle cut out and this reference there, and shows less.

    That is: what stands around the notice of the view begins and ends `cut`, and both tell the same length.
    """
    notices = [found for found in _NOTICES.finditer(view) if found[0].rstrip().endswith(f"reload {reference}]")]
    lengths = {_length(found[0]) for found in _NOTICES.finditer(cut) if f"reload {reference}]" in found[0]}
    return len(view) < len(cut) and any(
        _length(found[0]) in lengths
        and cut.startswith(view[: found.start()].removesuffix("\n"))
        and cut.endswith(view[found.end() :])
        for found in notices
    )


def read_piece(
    text: str,
    *,
    start_line: int | None = None,
    end_line: int | None = None,
    offset: int | None = None,
    limit_chars: int,
) -> TextPiece:
    """Return a piece of a text: from its beginning, from a character on, or of a range of lines, both included.

    A piece has at most `limit_chars` characters and, where it can't have all, ends at a line end if one is near. An
    `end_line` behind the last one means the last.

    Raises:
        InvalidInputError: Lines and an offset at once, a number that is none, or a beginning behind the end.
    """
    _check_place(start_line, end_line, offset, limit_chars)
    lines = text.count("\n") + 1
    begin, end = offset or 0, len(text)
    if begin and begin >= len(text):
        msg = f"offset: {begin:,} is behind the end: the text has {len(text):,} characters, the first one at 0"
        raise InvalidInputError(msg)
    if start_line is not None:
        if start_line > lines:
            msg = f"start_line: {start_line:,} is behind the end: the text has {lines:,} lines"
            raise InvalidInputError(msg)
        begin = _line_start(text, start_line)
    if end_line is not None and end_line < lines:
        end = _line_start(text, end_line + 1)
    stop = min(end, begin + limit_chars)
    if stop < end:
        stop = begin + _whole_lines(text[begin:stop])
    first = text.count("\n", 0, begin) + 1
    return TextPiece(
        text=text[begin:stop],
        first_line=first,
        last_line=first + text.count("\n", begin, max(begin, stop - 1)),
        lines=lines,
        offset=begin,
        chars=len(text),
        next_offset=stop if stop < end else None,
    )


def search_text(text: str, query: str, *, limit: int, around: int) -> TextMatches:
    """Find the lines that hold a phrase, case ignored; if none does, those that hold all its words.

    The excerpt of a match is its line. Of a line longer than the phrase and `around` characters on both sides, it is
    that much of it, and places further apart are matches of their own. Words are compared as `terms` makes them, of
    lines in which their beginnings stand as they are written. The query is plain text, never a pattern.

    Raises:
        InvalidInputError: The query is blank, `limit` is below 1, or `around` below 0.
    """
    if not query.strip() or limit < 1 or around < 0:
        msg = (
            f"query: wanted words, limit of at least 1 and around of at least 0, found {query!r:.60}, {limit}, {around}"
        )
        raise InvalidInputError(msg)
    folded = _folded(text)
    found = _collected(text, _spans(folded, _folded(query.strip()), around), limit)
    wanted = frozenset(query_terms(query))
    if found.total or not wanted:
        return found
    return _collected(text, _word_spans(text, folded, wanted, around), limit)


def _notice(text: str, head: int, tail: int, reference: str) -> str:
    """Write the notice that stands between the first `head` and the last `tail` characters of a text."""
    first = text.count("\n", 0, head) + 1
    lines = first + text.count("\n", head)
    last = lines - text.count("\n", len(text) - tail - 1)  # a line end that is left out belongs to its line
    which = f"lines {first:,} to {last:,}" if first < last else f"line {first:,}"
    return f"{_left_out(text, head, tail)} left out here ({which} of {lines:,}); all of it: reload {reference}]"


def _left_out(text: str, head: int, tail: int) -> str:
    return f"[… {len(text) - head - tail:,} of {len(text):,} characters"


def _length(notice: str) -> str:
    """Return the length that a notice tells the whole text has."""
    return notice.partition(" of ")[2].partition(" ")[0]


def _shortest_notice(reference: str) -> str:
    return f"[… reload {reference}]"


def _notice_bytes(text: str, reference: str) -> int:
    """Return the bytes of the longest notice that a text can have, with the line breaks around it."""
    lines = f"{text.count(chr(10)) + 1:,}"
    longest = (
        f"{_left_out(text, 0, 0)} left out here (lines {lines} to {lines} of {lines}); all of it: reload {reference}]"
    )
    return len(_encoded(longest)) + 2


def _joined(head: str, notice: str, tail: str) -> str:
    before = "" if not head or head.endswith("\n") else "\n"
    after = "\n" if tail else ""
    return f"{head}{before}{notice}{after}{tail}"


def _is_cut_at(view: str, end: int, text: str, reference: str) -> bool:
    """Tell whether a notice that ends at a place of the view is right, and so is what stands around it."""
    begin = view.rfind("\n", 0, end) + 1
    tail = view[end + 1 :]
    if not text.endswith(tail) or not text.startswith(view[: max(0, begin - 1)]):
        return False
    # The line break before the notice is the head's own, or was put there.
    for head in {view[:begin], view[: max(0, begin - 1)]}:
        if not text.startswith(head) or len(head) + len(tail) >= len(text):
            continue
        if not view.startswith(_left_out(text, len(head), len(tail)), begin):
            continue
        if view == _joined(head, _notice(text, len(head), len(tail), reference), tail):
            return True
    return False


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _head(data: bytes, size: int) -> str:
    while size > 0 and _inside(data, size):
        size -= 1
    head = _decoded(data[:size])
    return head[: _whole_lines(head)]


def _tail(data: bytes, size: int) -> str:
    begin = len(data) - size
    while begin < len(data) and _inside(data, begin):
        begin += 1
    tail = _decoded(data[begin:])
    line = tail.find("\n") + 1
    if 0 < line <= len(tail) * _GIVEN_UP and data[begin - 1 : begin] != b"\n":
        return tail[line:]
    return tail


def _inside(data: bytes, place: int) -> bool:
    """Tell whether a place is inside of a character: its byte goes on with one."""
    return data[place] & 0xC0 == 0x80


def _whole_lines(text: str) -> int:
    """Return how much of a text to take: up to its last line end if that gives up little, else all of it."""
    line = text.rfind("\n") + 1
    return line if line >= len(text) * (1 - _GIVEN_UP) else len(text)


def _check_place(start_line: int | None, end_line: int | None, offset: int | None, limit_chars: int) -> None:
    if offset is not None and (start_line is not None or end_line is not None):
        msg = "offset: a piece begins at a character or at a line: give offset, or start_line and end_line"
        raise InvalidInputError(msg)
    for name, value, least in (
        ("start_line", start_line, 1),
        ("end_line", end_line, start_line or 1),
        ("offset", offset, 0),
        ("limit_chars", limit_chars, 1),
    ):
        if value is not None and (type(value) is not int or value < least):
            msg = f"{name}: wanted a whole number of at least {least:,}, found {value!r}"
            raise InvalidInputError(msg)


def _line_start(text: str, line: int) -> int:
    """Return where a line begins that the text has."""
    place, missing = 0, line - 1
    while (there := text.count("\n", place, place + _STEP)) < missing:
        place, missing = place + _STEP, missing - there
    for _ in range(missing):
        place = text.index("\n", place) + 1
    return place


def _folded(text: str) -> str:
    """Bring a text to lower case, character for character, so that places in it are places in the text.

    The capital dotted I is the only character whose lower case is two; the lower case of Sigma depends on its place.
    """
    return text.replace("\u0130", "i").lower().replace("ς", "σ")


def _spans(folded: str, needle: str, around: int) -> Iterator[tuple[int, int]]:
    """Yield where the lines, or the places in long lines, begin and end that hold a needle."""
    line_begin, line_end = 0, -1
    at = folded.find(needle)
    while at >= 0:
        if at > line_end:
            line_begin = folded.rfind("\n", max(line_end, 0), at) + 1
            line_end = _line_end(folded, at + len(needle))
        begin, end = line_begin, line_end
        if end - begin > len(needle) + 2 * around:
            begin, end = max(begin, at - around), min(end, at + len(needle) + around)
        yield begin, end
        at = folded.find(needle, end)


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _word_spans(text: str, folded: str, wanted: frozenset[str], around: int) -> Iterator[tuple[int, int]]:
    keys = sorted({_key(word) for word in wanted}, key=lambda key: (-len(key), key))
    room = _MOST_TAKEN_APART
    for begin, end in _spans(folded, keys[0], around):
        if any(folded.find(key, begin, end) < 0 for key in keys):
            continue
        room -= end - begin
        if room < 0:
            return
        if wanted.issubset(terms(text[begin:end])):
            yield begin, end


def _key(word: str) -> str:
    """Return what a text holds where it holds the word, whatever its ending: "parties" and "party" have "part"."""
    return word[:-1] if len(word) > 3 and word[-1] in "iey" else word


def _collected(text: str, spans: Iterator[tuple[int, int]], limit: int) -> TextMatches:
    matches: list[TextMatch] = []
    total = line = counted = 0
    for begin, end in islice(spans, _MOST_MATCHES):
        total += 1
        if len(matches) < limit:
            line += text.count("\n", counted, begin)
            counted = begin
            matches.append(TextMatch(line=line + 1, offset=begin, excerpt=text[begin:end]))
    return TextMatches(matches=tuple(matches), total=total)
