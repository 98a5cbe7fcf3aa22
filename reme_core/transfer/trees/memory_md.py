"""Trees around a MEMORY.md: facts in it, or links to pages of topics; daily notes `YYYY-MM-DD.md`.

Of the automatic memory of Claude Code: MEMORY.md is an index of lines `- [Title](file.md) - hook`, and each page has
`name`, `description` and `type` (user, feedback, project or reference) as its frontmatter.
Source: https://code.claude.com/docs/en/memory.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

from reme_core.files.targets import MEMORY_PAGE
from reme_core.ports import Target
from reme_core.schema import MemoryType
from reme_core.transfer.trees.pieces import Piece, pieces
from reme_core.transfer.trees.statement import TreePage, TreeStatement, target

_LINK = re.compile(r"\[(?P<title>[^\[\]]*)\]\((?P<to>[^()\s]+)\)(?P<hook>.*)", re.DOTALL)
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?!\d)")
_ABOUT_THE_USER = frozenset({"user", "feedback"})


def looks_so(page: TreePage) -> bool:
    """Tell whether a page is the one that such a tree is named after."""
    return page.path == MEMORY_PAGE


def hooks(pages: Mapping[str, TreePage]) -> dict[str, str]:
    """Return what MEMORY.md says of each page that it links to."""
    index = pages.get(MEMORY_PAGE)
    if index is None:
        return {}
    links = [(_linked(piece), piece) for piece in pieces(index.page)]
    found = {to: _LINK.match(piece.text) for to, piece in links if to is not None and to in pages}
    return {to: f"{link['title']} {link['hook'].strip(' -–—:')}".strip() for to, link in found.items() if link}


def read(page: TreePage, known: Mapping[str, str]) -> Iterator[TreeStatement]:
    """Yield each item and paragraph; lines of MEMORY.md that lead to another page of the tree are no statements."""
    is_index = page.path == MEMORY_PAGE
    description, kind = page.page.field("description"), page.page.field("type")
    hook = known.get(page.path, "")
    day = _day(page.stem)
    for piece in pieces(page.page):
        if is_index and _linked(piece) in known:
            continue
        yield TreeStatement(
            path=page.path,
            line=piece.line,
            content=piece.text,
            target=_about(page, kind, has_day=day is not None),
            about=[description or hook, *piece.above],
            at=day,
            details={"name": page.page.field("name"), "type": kind, "description": description},
        )


def _about(page: TreePage, kind: str | None, *, has_day: bool) -> Target:
    is_own = page.path == MEMORY_PAGE or kind in _ABOUT_THE_USER or has_day
    return target(MemoryType.PERSONAL, "self" if is_own else page.page.field("name") or page.path[: -len(".md")])


def _linked(piece: Piece) -> str | None:
    """Return the path of the page that an item of MEMORY.md links to, None where it links to none."""
    link = _LINK.match(piece.text) if piece.is_item else None
    return None if link is None else posixpath.normpath(unquote(link["to"].partition("#")[0]))


def _day(stem: str) -> datetime | None:
    found = _DAY.match(stem)
    try:
        return None if found is None else datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
    except ValueError:
        return None
