"""Files beside a store that go with a scope: drafts of exports, and folders of adapters."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from reme_core.errors import StoreAccessError
from reme_core.schema import Scope


@runtime_checkable
class FileNotes(Protocol):
    """A store that notes files, so that they are removed when their scope is erased."""

    async def note_file(self, scope: Scope, path: Path) -> None:
        """Note a file outside that goes with a scope, if there is such a scope."""

    async def forget_file(self, scope: Scope, path: Path) -> None:
        """Take such a note back."""


def remove_files(paths: Iterable[Path]) -> int:
    """Remove files, and folders with all in them; return how many files there were.

    Raises:
        StoreAccessError: One can't be removed; the others are.
    """
    removed, failures = 0, list[str]()
    for path in paths:
        try:
            removed += _remove(path)
        except OSError as exc:
            failures.append(f"{str(path)!r} ({exc.strerror})")
    if failures:
        msg = f"files of the user can't be removed: {', '.join(failures)}: remove them yourself, then call again"
        raise StoreAccessError(msg)
    return removed


def _remove(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        files = sum(not item.is_dir() for item in path.rglob("*"))
        shutil.rmtree(path)
        return files
    if not path.exists() and not path.is_symlink():
        return 0
    path.unlink()
    return 1
