"""Differences of two texts by words, and words of one text that another one shares, as pieces for a page."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from reme_core.schema import Memory, shown_validity, successor_word
from reme_core.text import json_line, query_terms, terms

_PIECES = re.compile(r"\w+|\W", re.ASCII)
_WORD_AT_END = re.compile(r"\w+\Z", re.ASCII)
# SequenceMatcher takes time that grows with the square: of longer texts the beginnings are compared.
_MOST_PIECES, MOST_CHARS = 2000, 10_000
CHARS_IN_LIST = 400
"""Of a text whose difference is one of many on a page."""
_LEFT_OUT = " […] "
# Of what is the same on both sides the middle is left out beyond this.
_SAME_CHARS = 400


class DiffPiece(NamedTuple):
    """A piece of a text: how it differs, or whether it is shared, and the text."""

    kind: Literal["same", "gone", "new", "mark"]
    text: str


Change: TypeAlias = tuple[str, list[DiffPiece]]
"""A field of a memory and how it differs."""


def difference(before: str, after: str, chars: int = MOST_CHARS) -> list[DiffPiece]:
    """Return the pieces that lead from one text to another, of each so many characters from where they part."""
    begin = _parting(before, after)
    pieces = [DiffPiece("same", _without_middle(before[:begin]))] if begin else []
    old, new = (_PIECES.findall(text[begin : begin + chars])[:_MOST_PIECES] for text in (before, after))
    # What recurs in a long text begins no match: a hostile text of one word would take half a minute.
    for tag, i, j, k, m in SequenceMatcher(None, old, new).get_opcodes():
        if tag == "equal":
            pieces.append(DiffPiece("same", _without_middle("".join(old[i:j]))))
            continue
        pieces += [DiffPiece("gone", "".join(old[i:j]))] if j > i else []
        pieces += [DiffPiece("new", "".join(new[k:m]))] if m > k else []
    is_cut = any(len(text) - begin > len("".join(shown)) for text, shown in ((before, old), (after, new)))
    return [*pieces, DiffPiece("same", _LEFT_OUT)] if is_cut else pieces


def _parting(before: str, after: str) -> int:
    """Return where two texts begin to differ, at the beginning of a word."""
    shorter = min(len(before), len(after))
    same = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    word = _WORD_AT_END.search(before, max(0, same - _SAME_CHARS), same)
    return same if word is None else word.start()


def _without_middle(text: str) -> str:
    half = _SAME_CHARS // 2
    return text if len(text) <= _SAME_CHARS else f"{text[:half]}{_LEFT_OUT}{text[-half:]}"


def changes(before: Memory | None, after: Memory | None, chars: int = MOST_CHARS) -> list[Change]:
    """Return the fields in which two states of a memory differ, in words; None is a memory that is not there."""
    old, new = _fields(before), _fields(after)
    return [
        (name, difference(old.get(name, ""), new.get(name, ""), chars))
        for name in dict.fromkeys((*old, *new))
        if old.get(name, "") != new.get(name, "")
    ]


def _fields(memory: Memory | None) -> dict[str, str]:
    if memory is None:
        return {}
    return {
        "text": memory.content,
        "when to use": memory.when_to_use,
        "type": str(memory.memory_type),
        "about": memory.memory_target,
        "holds": shown_validity(memory),
        successor_word(memory): memory.superseded_by or "",
        "metadata": json_line(memory.metadata) if memory.metadata else "",
    }


def marked(text: str, like: str) -> list[DiffPiece]:
    """Return the pieces of a text, those words marked that another text has in some form."""
    wanted = frozenset(query_terms(like))
    kinds = groupby(_PIECES.findall(text), key=lambda piece: _kind(piece, wanted))
    return [DiffPiece(kind, "".join(pieces)) for kind, pieces in kinds]


def _kind(piece: str, wanted: frozenset[str]) -> Literal["mark", "same"]:
    return "mark" if piece[0].isalnum() and not wanted.isdisjoint(terms(piece)) else "same"
