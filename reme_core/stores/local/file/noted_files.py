"""Files beside the store that hold texts of a scope: noted in it, and removed together with the scope.

Such are drafts of exports, which a killed process leaves behind, and folders of adapters.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from reme_core.errors import StoreAccessError

_NOTE = "file:"


def note_file(connection: sqlite3.Connection, scope: int, path: Path) -> None:
    """Note that a file, or a folder with all in it, goes with the scope of this number."""
    connection.execute("INSERT OR IGNORE INTO meta VALUES (?, '')", (_key(scope, path),))


def forget_file(connection: sqlite3.Connection, scope: int, path: Path) -> None:
    """Take a note back: the file is no more, or belongs to the user."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_key(scope, path),))


def noted_files(connection: sqlite3.Connection, scope: int) -> list[Path]:
    """Return what was noted of a scope."""
    prefix = f"{_NOTE}{scope}:"
    rows = connection.execute("SELECT key FROM meta WHERE key >= ? AND key < ?", (prefix, f"{_NOTE}{scope};"))
    return [Path(key.removeprefix(prefix)) for (key,) in rows]


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


def _key(scope: int, path: Path) -> str:
    return f"{_NOTE}{scope}:{path.absolute()}"
