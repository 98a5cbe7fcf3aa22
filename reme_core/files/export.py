"""A user's memories as a folder of pages, for a store that had none: a copy, which nothing keeps in step."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reme_core.errors import InvalidInputError
from reme_core.files.changes import lines_of
from reme_core.files.folder import mapped_errors
from reme_core.files.store_changes import PageEdit, apply_edit, list_all
from reme_core.files.targets import KEPT_TYPES, TargetPaths, new_page
from reme_core.files.writer import write_page
from reme_core.ports import MemoryFilter, Store, Target
from reme_core.schema import Scope


async def export_pages(store: Store, scope: Scope, folder: Path) -> dict[str, int]:
    """Write all current statements of a user into an empty folder; return how many each file has.

    Raises:
        InvalidInputError: There is something in the folder already.
        StoreError: A file can't be written.
    """
    await asyncio.to_thread(make_empty, folder)
    paths, edits = TargetPaths.of({}), dict[str, PageEdit]()
    for memory in reversed(await list_all(store, scope, MemoryFilter(types=tuple(KEPT_TYPES)))):
        target = Target(memory.memory_type, memory.memory_target)
        path = paths.find(target)
        edits.setdefault(path, PageEdit(new_page(path, target))).added += lines_of(memory)
    await asyncio.to_thread(write_all, folder, edits)
    return {path: len(edit.added) for path, edit in sorted(edits.items())}


def make_empty(folder: Path) -> None:
    """Make a folder, or take one in which there is nothing (InvalidInputError, StoreAccessError)."""
    with mapped_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            msg = f"{str(folder)!r} is not empty: export into a new folder, or sync this one"
            raise InvalidInputError(msg)


def write_all(folder: Path, edits: dict[str, PageEdit]) -> None:
    """Write pages that are not there yet (StoreError)."""
    for path, edit in edits.items():
        write_page(folder / path, apply_edit(edit.page, edit).print(), expected=None)
