"""Pieces of a page that each say something: items of lists, and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reme_core.files.markdown import FENCE, HEADING, MarkdownPage, below, line_parts

_ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(?P<text>\S.*)")
_RULE = re.compile(r"[ \t]*([-*_])[ \t]*(?:\1[ \t]*){2,}")


@dataclass(frozen=True, slots=True)
class Piece:
    """An item or a paragraph: its first line, from 1, its text, the headings above it, and which of both it is."""

    line: int
    text: str
    above: tuple[str, ...]
    is_item: bool


def pieces(page: MarkdownPage, *, nested: bool = False) -> Iterator[Piece]:
    """Yield what a page says below its frontmatter, in order; headings, rules and comments are no pieces.

    Args:
        page: The page.
        nested: Items within items are pieces of their own; otherwise they belong to the outer one.
    """
    titles: list[tuple[int, str]] = []
    begun: list[str] = []
    first, is_item, fence = 0, False, ""

    def made() -> Iterator[Piece]:
        text = "\n".join(begun).strip("\n")
        if text.strip() and not (text.startswith("<!--") and text.endswith("-->")):
            yield Piece(first, text, tuple(title for _, title in titles), is_item)

    for number, line in enumerate(page.lines[page.head :], page.head + 1):
        body = line_parts(line)[0]
        mark = FENCE.match(body.lstrip())
        heading, item = HEADING.match(body), _ITEM.match(body)
        if fence or (mark is not None and begun):
            begun.append(body)
            if mark is not None:
                fence = mark[1] if not fence else "" if mark[1].startswith(fence) else fence
            continue
        begins = item is not None and (nested or not item["indent"] or not begun)
        if heading is not None or begins or not body.strip() or _RULE.fullmatch(body):
            yield from made()
            begun = []
        if heading is not None:
            titles = below(titles, heading)
        elif not body.strip() or _RULE.fullmatch(body):
            continue
        elif begins and item is not None:
            begun, first, is_item = [item["text"].rstrip()], number, True
        elif begun:
            begun.append(body.strip() if is_item and item is None else body.rstrip())
        else:
            begun, first, is_item = [body.rstrip()], number, False
            fence = "" if mark is None else mark[1]
    yield from made()
