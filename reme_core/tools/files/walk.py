"""Walks through the folders below a root: links and what begins with a dot are passed over."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from reme_core.tools.files.paths import (
    MAX_SEGMENTS,
    is_offered,
    split_path,
    told,
)
from reme_core.tools.files.root import FileRoot

MAX_WALKED = 20_000
"""Names of one walk: twice the tree of 10,000 files that a folder of memories is built for."""


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """A file or a folder below the root.

    Attributes:
        names: Its path.
        is_folder: What it is.
        size: In bytes, as the system tells it.
        modified: When it was changed.
    """

    names: tuple[str, ...]
    is_folder: bool
    size: int
    modified: datetime

    @property
    def path(self) -> str:
        """The path, relative to the root."""
        return "/".join(self.names)


@dataclass(frozen=True, slots=True)
class Walk:
    """What was found, in the order of paths; `is_whole` is False where the walk ended at `MAX_WALKED` names."""

    entries: Sequence[WalkEntry]
    is_whole: bool


def walk(root: FileRoot, path: str = ".", *, depth: int = MAX_SEGMENTS) -> Walk:
    """List what is below a folder, so many levels deep: each folder, then what is in it.

    Raises:
        FileRefusedError: It is no folder, or the path is refused.
    """
    names = split_path(path)
    entries: list[WalkEntry] = []
    with told(path), root.opened(names, path) as folder:
        for entry in _below(folder, names, depth):
            entries.append(entry)
            if len(entries) == MAX_WALKED:
                return Walk(entries, is_whole=False)
    return Walk(entries, is_whole=True)


def _below(folder: int, names: tuple[str, ...], depth: int) -> Iterator[WalkEntry]:
    if depth == 0 or len(names) >= MAX_SEGMENTS:
        return
    for name in _offered_names(folder):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue  # gone meanwhile
        if stat.S_ISREG(found.st_mode):
            yield _entry((*names, name), found)
        elif stat.S_ISDIR(found.st_mode):
            yield _entry((*names, name), found)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                below = os.open(name, flags, dir_fd=folder)
            except OSError:
                continue  # gone or a link meanwhile, or not ours to read: it is listed, and what is in it is not
            try:
                yield from _below(below, (*names, name), depth - 1)
            finally:
                os.close(below)


def _offered_names(folder: int) -> list[str]:
    names: list[str] = []
    with os.scandir(folder) as found:
        for entry in found:
            if is_offered(entry.name):
                names.append(entry.name)
            if len(names) == MAX_WALKED:
                break
    return sorted(names)


def _entry(names: tuple[str, ...], found: os.stat_result) -> WalkEntry:
    return WalkEntry(
        names=names,
        is_folder=stat.S_ISDIR(found.st_mode),
        size=found.st_size,
        modified=datetime.fromtimestamp(found.st_mtime, UTC),
    )


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Tell whether a path fits a pattern, name by name: `*`, `?`, `[…]` within a name, `**` for any number of names."""
    fits = [True, *(False for _ in names)]  # of the names before each place, by the pattern so far
    for part in pattern:
        if part == "**":
            first = fits.index(True) if True in fits else len(fits)
            fits = [place >= first for place in range(len(fits))]
        else:
            fits = [False, *(fits[place] and fnmatchcase(name, part) for place, name in enumerate(names))]
    return fits[-1]
