"""Differences of two texts by words, and words of one text that another one shares, as pieces for a page."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from reme_core.schema import Memory, shown_validity
from reme_core.text import json_line, query_terms, terms

_PIECES = re.compile(r"\w+|\W", re.ASCII)
# SequenceMatcher takes time that grows with the square: of longer texts the beginnings are compared.
_MOST_PIECES = 2000


class TextPiece(NamedTuple):
    """A piece of a text: how it differs, or whether it is shared, and the text."""

    kind: Literal["same", "gone", "new", "mark"]
    text: str


Change: TypeAlias = tuple[str, list[TextPiece]]
"""A field of a memory and how it differs."""


def difference(before: str, after: str) -> list[TextPiece]:
    """Return the pieces that lead from one text to another."""
    old, new = _PIECES.findall(before)[:_MOST_PIECES], _PIECES.findall(after)[:_MOST_PIECES]
    pieces: list[TextPiece] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(TextPiece("same", "".join(old[i:j])))
            continue
        pieces += [TextPiece("gone", "".join(old[i:j]))] if j > i else []
        pieces += [TextPiece("new", "".join(new[k:m]))] if m > k else []
    return pieces


def changes(before: Memory | None, after: Memory | None) -> list[Change]:
    """Return the fields in which two states of a memory differ, in words; None is a memory that is not there."""
    old, new = _fields(before), _fields(after)
    return [
        (name, difference(old.get(name, ""), new.get(name, "")))
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
        "replaced by": memory.superseded_by or "",
        "metadata": json_line(memory.metadata) if memory.metadata else "",
    }


def marked(text: str, like: str) -> list[TextPiece]:
    """Return the pieces of a text, those words marked that another text has in some form."""
    wanted = frozenset(query_terms(like))
    return [TextPiece(_kind(piece, wanted), piece) for piece in _PIECES.findall(text)]


def _kind(piece: str, wanted: frozenset[str]) -> Literal["mark", "same"]:
    return "mark" if piece[0].isalnum() and not wanted.isdisjoint(terms(piece)) else "same"
