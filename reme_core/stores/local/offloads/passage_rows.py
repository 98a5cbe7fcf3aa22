"""Passages of offloaded texts: how a text is cut, and their rows and words. Pure functions, and some over a connection.

Only positions are stored: a passage is read out of the text of its offload.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reme_core.stores.local.file.word_tables import add_words
from reme_core.text import terms

# About 400 tokens: what a reader takes in at a glance, and enough words to tell passages of one text apart.
_PASSAGE_CHARS = 1_500
# No passage is cut shorter than this to end it with a line, or texts of short and long lines would make many.
_LEAST_CHARS = 750
# What stands across a border, up to so many characters, stands whole in the passage behind it.
_OVERLAP_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageRow:
    """A stretch of a text.

    Attributes:
        offset: Where it begins, in characters.
        chars: How long it is.
        first_line: The number of its first line, from 1.
        words: Its index terms.
    """

    offset: int
    chars: int
    first_line: int
    words: tuple[str, ...]


def cut_passages(text: str) -> Iterator[PassageRow]:
    """Cut a text into overlapping passages, at the ends of lines where there are any; none of an empty text."""
    offset, line = 0, 1
    while offset < len(text):
        end = _end(text, offset)
        yield PassageRow(offset=offset, chars=end - offset, first_line=line, words=tuple(terms(text[offset:end])))
        if end == len(text):
            return
        start = _start_before(text, end)
        line += text.count("\n", offset, start)
        offset = start


def _end(text: str, offset: int) -> int:
    most = offset + _PASSAGE_CHARS
    if most >= len(text):
        return len(text)
    line_end = text.rfind("\n", offset + _LEAST_CHARS, most)
    return most if line_end < 0 else line_end + 1


def _start_before(text: str, end: int) -> int:
    """Return where the passage behind `end` begins: with a line, if one begins in the characters before the overlap."""
    overlap = end - _OVERLAP_CHARS
    line_end = text.rfind("\n", overlap - _OVERLAP_CHARS, overlap)
    return overlap if line_end < 0 else line_end + 1


def add_passages(
    connection: sqlite3.Connection, scope: int, offload: int, passages: Sequence[PassageRow], *, fts5: bool
) -> None:
    """Add the passages of an offload, the last one first.

    So in falling order of their numbers come the newest texts, and each of them from its beginning: the order in which
    a search breaks ties.
    """
    for passage in reversed(passages):
        cursor = connection.execute(
            "INSERT INTO offload_passages (scope, offload, start, chars, line) VALUES (?, ?, ?, ?, ?)",
            (scope, offload, passage.offset, passage.chars, passage.first_line),
        )
        if fts5:
            add_words(connection, "offload_words", scope, int(cursor.lastrowid or 0), passage.words)
