"""Targets as files: MEMORY.md is about the user, `targets/<type>/<name>.md` about a target."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from reme_core.files.file_index import IndexedFile
from reme_core.files.folder import is_page_path
from reme_core.files.markdown import MarkdownPage
from reme_core.ports import Target
from reme_core.schema import STATEMENTS, MemoryType

MEMORY_PAGE: Final = "MEMORY.md"
"""Lasting facts: of type personal, about `self`."""

KEPT_TYPES = frozenset(STATEMENTS) - {MemoryType.HISTORY, MemoryType.RECORD}
"""Types whose memories are lines of files; a record is none, since no line could be checked by its class."""

_FOLDER = "targets"
OWN_TARGET: Final = Target(MemoryType.PERSONAL, "self")
"""What MEMORY.md is about."""

_UNFIT = re.compile(r'[\x00-\x1f\x7f\\/:*?"<>|#^\[\]]+')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names that Windows gives to devices, with any ending."""

_NAME_BYTES = 120
_TARGET_CHARS = 512


def page_target(path: str, page: MarkdownPage) -> Target | None:
    """Return what the statements of a page are about; None where its lines are text and no statements.

    The frontmatter may name a target that no file can be called after.
    """
    if path == MEMORY_PAGE:
        return OWN_TARGET
    parts = PurePosixPath(path).parts
    if len(parts) != 3 or parts[0] != _FOLDER or parts[1] not in KEPT_TYPES:  # targets/<type>/<name>.md
        return None
    name = (page.field("target") or parts[2][: -len(".md")]).strip()
    return Target(MemoryType(parts[1]), name) if name and len(name) <= _TARGET_CHARS else None


@dataclass(slots=True)
class TargetPaths:
    """The files of targets: of those that have one already, and paths for others that no other file has, in any case.

    Attributes:
        named: The first file of each target.
        taken: All paths, without their case.
    """

    named: dict[Target, str]
    taken: set[str]

    @classmethod
    def of(cls, files: Mapping[str, IndexedFile]) -> TargetPaths:
        """Read them off an index."""
        named: dict[Target, str] = {}
        for path, file in files.items():
            if file.target is not None:
                named.setdefault(file.target, path)
        return cls({**named, OWN_TARGET: MEMORY_PAGE}, {path.casefold() for path in files})

    def find(self, target: Target) -> str:
        """Return the file of a target; one that is new keeps its path."""
        path = self.named.get(target)
        number = 1
        while path is None:
            tried = _path(target, number)
            path = tried if is_page_path(tried) and tried.casefold() not in self.taken else None
            number += 1
        self.named[target] = path
        self.taken.add(path.casefold())
        return path


def new_page(path: str, target: Target) -> MarkdownPage:
    """Return the page that a target's file begins as: with frontmatter where its name does not say it all."""
    if page_target(path, MarkdownPage(())) == target:
        return MarkdownPage(())
    lines = ("---", f"type: {target.memory_type}", f"target: {json.dumps(target.memory_target)}", "---", "")
    return MarkdownPage(tuple(f"{line}\n" for line in lines))


def _path(target: Target, number: int) -> str:
    name = _UNFIT.sub("-", target.memory_target).strip(" .~") or "-"
    name = f"_{name}" if _RESERVED.fullmatch(name) else name
    while len(name.encode()) > _NAME_BYTES:
        name = name[:-1]
    return f"{_FOLDER}/{target.memory_type}/{name}{'' if number == 1 else f' {number}'}.md"
