"""Memory as files: Markdown that a person owns and edits; the store is its index and its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.files.file_memory import FileMemory
    from reme_core.files.keeper import Folders
    from reme_core.files.watch import watch_folder

__all__ = ["FileMemory", "Folders", "watch_folder"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"file_memory": "FileMemory", "keeper": "Folders", "watch": "watch_folder"},
        extras={"watchfiles": "files"},
    )
