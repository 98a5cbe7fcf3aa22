"""Notes of basic-memory: observations `- [category] text #tag (context)`, relations `- relation [[Target]]`, prose.

Source: https://docs.basicmemory.com/concepts/knowledge-format, and the parser of basic-memory for what looks alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from reme_core.schema import MemoryType
from reme_core.transfer.trees.pieces import Piece, pieces
from reme_core.transfer.trees.statement import TreePage, TreeStatement, target

_CATEGORY = re.compile(r"\[(?P<category>[^\[\]()]+)\][ \t]+(?P<text>\S.*)", re.DOTALL)
_RELATION = re.compile(
    r"""(?P<relation>"[^"\[\]]+"|'[^'\[\]]+'|[^\s"'\[\]]+)[ \t]*"""
    r"""\[\[(?P<target>[^\[\]]+)\]\][ \t]*(?:\((?P<context>.*)\))?"""
)
_TAG = re.compile(r"(?<!\S)#([^\s#]+)")
_CONTEXT = re.compile(r"\(([^()]*)\)$")
# `[00:12]` of a transcript and `[x]` of a task are no categories.
_NO_CATEGORY = re.compile(r"\d{1,3}:\d{2}.*|[xX]|\W")
_HEADINGS = frozenset({"observations", "relations"})


def looks_so(page: TreePage) -> bool:
    """Tell whether a page is a note: it has a permalink, or an observation."""
    return page.page.field("permalink") is not None or any(_category(piece) for piece in pieces(page.page, nested=True))


def read(page: TreePage) -> Iterator[TreeStatement]:
    """Yield the observations, relations and paragraphs of a note; all are about its title."""
    title = page.page.field("title") or page.stem
    note: dict[str, JsonValue] = {
        "title": title,
        "type": page.page.field("type"),
        "tags": list(page.page.list_field("tags")),
        "permalink": page.page.field("permalink"),
    }
    for piece in pieces(page.page, nested=True):
        content, details, words = _told(piece)
        yield TreeStatement(
            path=page.path,
            line=piece.line,
            content=content,
            target=target(MemoryType.PERSONAL, title),
            about=[title, *(name for name in piece.above if name.lower() not in _HEADINGS), *words],
            details={**details, "note": {name: value for name, value in note.items() if value}},
        )


def _told(piece: Piece) -> tuple[str, dict[str, JsonValue], list[str]]:
    """Return what a piece says, its parts, and words to find it by."""
    relation = _RELATION.fullmatch(piece.text) if piece.is_item else None
    if relation is not None:
        name = relation["relation"].strip("\"'")
        return piece.text, {"relation": name, "to": relation["target"], "context": relation["context"]}, []
    found = _category(piece)
    text = piece.text if found is None else found["text"]
    tags = list(dict.fromkeys(_TAG.findall(text)))
    if found is None:
        return text, {"tags": [*tags]}, tags
    context = _CONTEXT.search(text)
    parts: dict[str, JsonValue] = {"category": found["category"], "tags": [*tags]}
    return text, {**parts, "context": None if context is None else context[1]}, [found["category"], *tags]


def _category(piece: Piece) -> re.Match[str] | None:
    found = _CATEGORY.fullmatch(piece.text) if piece.is_item else None
    return None if found is None or _NO_CATEGORY.fullmatch(found["category"]) else found
