"""Letta's MemFS: `system/` and the rest, each page with a `description`; `skills/<name>/SKILL.md`.

Source: https://docs.letta.com/concepts/memfs.
"""

from __future__ import annotations

from collections.abc import Iterator

from reme_core.files.markdown import line_parts
from reme_core.ports import Target
from reme_core.schema import MemoryType
from reme_core.transfer.trees.pieces import pieces
from reme_core.transfer.trees.statement import TreePage, TreeStatement, target

_SYSTEM, _SKILLS, _SKILL = "system", "skills", "SKILL.md"
MADE_PAGES = frozenset({"memory_filesystem.md"})
"""What MemFS writes itself: a list of the others."""

_SELVES = {"human": MemoryType.PERSONAL, "persona": MemoryType.IDENTITY}


def looks_so(page: TreePage) -> bool:
    """Tell whether a page is one of a MemFS: it has a place in `system/` or is a skill, and a description."""
    parts = page.path.split("/")
    is_skill = parts[0] == _SKILLS and parts[-1] == _SKILL
    return (parts[0] == _SYSTEM or is_skill) and page.page.field("description") is not None


def read(page: TreePage) -> Iterator[TreeStatement]:
    """Yield a skill whole, and of other pages each item and paragraph."""
    parts = page.path.split("/")
    description = page.page.field("description")
    if parts[0] == _SKILLS and parts[-1] == _SKILL:
        body = "\n".join(line_parts(line)[0] for line in page.page.lines[page.page.head :]).strip()
        if body:
            yield TreeStatement(
                path=page.path,
                line=page.page.head + 1,
                content=body,
                target=target(MemoryType.PROCEDURAL, page.page.field("name") or "/".join(parts[1:-1])),
                about=[description or ""],
                details={"description": description},
            )
        return
    for piece in pieces(page.page):
        yield TreeStatement(
            path=page.path,
            line=piece.line,
            content=piece.text,
            target=_about(parts),
            about=[description or "", *piece.above],
            details={"description": description},
        )


def _about(parts: list[str]) -> Target:
    """Return what a page is about: the user, the agent, a skill, or what the page is called after."""
    if parts[0] == _SKILLS and len(parts) > 2:  # skills/<name>/...
        return target(MemoryType.PROCEDURAL, parts[1])
    label = list(parts[1:] if parts[0] == _SYSTEM else parts)
    label[-1] = label[-1][: -len(".md")]
    if parts[0] == _SYSTEM and label[0] in _SELVES:
        return target(_SELVES[label[0]], "self")
    return target(MemoryType.PERSONAL, "/".join(label))
