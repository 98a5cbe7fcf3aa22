"""AGENTS.md and CLAUDE.md: what people tell agents, but for the block that we write there ourselves.

Source: https://agents.md and https://code.claude.com/docs/en/memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from reme_core.files.agent_page import find_block
from reme_core.files.markdown import MarkdownPage
from reme_core.schema import MemoryType
from reme_core.transfer.trees.pieces import pieces
from reme_core.transfer.trees.statement import TreePage, TreeStatement, target


def read(page: TreePage, tree: str) -> Iterator[TreeStatement]:
    """Yield each item and paragraph outside our block; they are about the folder that the page lies in."""
    folder = page.path.rpartition("/")[0]
    for piece in pieces(_without_blocks(page.page)):
        if piece.text.startswith("@") and len(piece.text.split()) == 1:
            continue  # leads to another page
        yield TreeStatement(
            path=page.path,
            line=piece.line,
            content=piece.text,
            target=target(MemoryType.PROCEDURAL, f"{tree}/{folder}" if folder else tree),
            about=piece.above,
        )


def _without_blocks(page: MarkdownPage) -> MarkdownPage:
    """Return a page with blank lines in place of our blocks, so that all other lines keep their numbers."""
    while (place := find_block(page)) is not None:
        first, last = place
        page = MarkdownPage((*page.lines[:first], *["\n"] * (last - first + 1), *page.lines[last + 1 :]))
    return page
