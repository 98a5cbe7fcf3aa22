"""Notes of ReMe 0.4: `daily/YYYY-MM-DD/<name>.md`, the day's list of them, and `digest/{personal,procedure,wiki}`.

Each has `name` and `description` as its frontmatter, and `session_id` where a conversation led to it.
Source: `reme/steps/file_io/_daily_index.py` and `reme/steps/evolve` of reme-ai 0.4.2.0, and the trees that it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from reme_core.files.markdown import line_parts
from reme_core.ports import Target
from reme_core.schema import MemoryType
from reme_core.transfer.trees.pieces import Piece, pieces
from reme_core.transfer.trees.statement import TreePage, TreeStatement, target

_DAILY, _DIGEST = "daily", "digest"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_LIST_BEGINS, _LIST_ENDS = "<!-- notes:auto -->", "<!-- /notes:auto -->"
_SOURCES = "Sources"


def is_note(path: str) -> bool:
    """Tell whether a path is one of notes; what lies elsewhere is raw material, or made of the notes."""
    return path.startswith((f"{_DAILY}/", f"{_DIGEST}/"))


def is_day_list(path: str) -> bool:
    """Tell whether a page is a day's list of notes, which ReMe writes itself; people may have written more there."""
    return re.fullmatch(rf"{_DAILY}/{_DAY.pattern}\.md", path) is not None


def looks_so(page: TreePage) -> bool:
    """Tell whether a page is a note of ReMe: it lies in `daily/` or `digest/` and has a name and a description."""
    return is_note(page.path) and all(page.page.field(name) is not None for name in ("name", "description"))


def read(page: TreePage) -> Iterator[TreeStatement]:
    """Yield each item and paragraph, and a procedure whole; lists of a day's notes and of sources are none."""
    parts = page.path.split("/")
    name, description = page.page.field("name") or page.stem, page.page.field("description")
    made = TreeStatement(
        path=page.path,
        line=0,
        content="",
        target=_about(parts, name),
        about=[name if parts[0] == _DIGEST else "", description or ""],
        at=_day(page),
        details={"name": name, "description": description, "session": page.page.field("session_id")},
    )
    said = [piece for piece in pieces(page.page) if _SOURCES not in piece.above]
    if made.target.memory_type is MemoryType.PROCEDURAL and said:
        yield replace(made, line=said[0].line, content=_body(page, said[-1]))
        return
    is_listed = False
    for piece in said:
        is_listed = (is_listed or _LIST_BEGINS in piece.text) and _LIST_ENDS not in piece.text
        if not is_listed and _LIST_ENDS not in piece.text:
            yield replace(made, line=piece.line, content=piece.text, about=[*made.about, *piece.above])


def _body(page: TreePage, last: Piece) -> str:
    """Return all lines below the frontmatter, as far as the last piece."""
    end = last.line + last.text.count("\n")
    return "\n".join(line_parts(line)[0] for line in page.page.lines[page.page.head : end]).strip()


def _about(parts: list[str], name: str) -> Target:
    if parts[0] == _DAILY or parts[1] == "personal":
        return target(MemoryType.PERSONAL, "self")
    return target(MemoryType.PROCEDURAL if parts[1] == "procedure" else MemoryType.PERSONAL, name)


def _day(page: TreePage) -> datetime | None:
    found = _DAY.search(page.path) if page.path.startswith(_DAILY) else None
    try:
        return None if found is None else datetime.fromisoformat(found[0]).replace(tzinfo=UTC)
    except ValueError:
        return None
