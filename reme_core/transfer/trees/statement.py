"""Statements of a tree: what is said, about what, and where it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath

from pydantic import JsonValue

from reme_core.files.markdown import MarkdownPage
from reme_core.ports import Target
from reme_core.schema import Memory, MemoryType, Scope
from reme_core.text import normalise_content

_TARGET_CHARS = 512


class TreeKind(StrEnum):
    """Kinds of trees, by the names that `--from` takes."""

    BASIC_MEMORY = "basic-memory"
    MEMFS = "memfs"
    MEMORY_MD = "memory-md"
    AGENTS_MD = "agents-md"
    REME = "reme-0.4"


@dataclass(frozen=True, slots=True)
class TreePage:
    """A page of a tree: its path, with `/`, and its lines."""

    path: str
    page: MarkdownPage

    @property
    def stem(self) -> str:
        """The name of the file without its ending."""
        return PurePosixPath(self.path).stem


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStatement:
    """One statement.

    Attributes:
        path: The page that says it.
        line: Its first line there, from 1.
        content: What it says.
        target: What it is about.
        about: What a search may find it by, beside the content.
        at: When it was said; None where no page tells.
        details: What the page tells beside it, kept as `metadata.origin`.
    """

    path: str
    line: int
    content: str
    target: Target
    about: Sequence[str] = ()
    at: datetime | None = None
    details: Mapping[str, JsonValue] = field(default_factory=dict)

    def memory(self, scope: Scope, kind: TreeKind, at: datetime) -> Memory:
        """Return it as a memory, whose id tells it again in a later import (ValidationError: it can't be one)."""
        origin: dict[str, JsonValue] = {"from": kind, "file": self.path, "line": self.line, **self.details}
        said = [self.path, self.target.memory_type, self.target.memory_target, normalise_content(self.content)]
        return Memory(
            memory_id=hashlib.sha256("\0".join([kind, *said]).encode()).hexdigest()[:16],
            memory_space=scope.memory_space,
            user_id=scope.user_id,
            memory_type=self.target.memory_type,
            memory_target=self.target.memory_target,
            content=self.content,
            when_to_use=" › ".join(dict.fromkeys(filter(None, self.about))),
            observed_at=self.at or at,
            valid_from=self.at or at,
            created_at=at,
            updated_at=at,
            author="import",
            metadata={"origin": {name: value for name, value in origin.items() if value not in (None, "", [])}},
        )


def target(memory_type: MemoryType, name: str) -> Target:
    """Return a target of a name from a page, cut to what a target may have."""
    return Target(memory_type, " ".join(name.split())[:_TARGET_CHARS].strip() or "self")
