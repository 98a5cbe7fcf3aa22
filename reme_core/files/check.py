"""Comparing a folder with its index and the store, line by line, without changing either."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from reme_core.files.changes import says
from reme_core.files.file_index import Entry, FileIndex, IndexedFile
from reme_core.files.folder import FileProblem, UnreadableFileError, read_page, scan
from reme_core.files.markdown import digest
from reme_core.files.store_changes import find_memories, is_statement, list_all
from reme_core.files.targets import KEPT_TYPES, TargetPaths
from reme_core.ports import MemoryFilter, Store, Target

_SYNC = "sync the folder"


async def check_folder(root: Path, store: Store, index: FileIndex) -> list[FileProblem]:
    """Return what does not agree, with what to do: files, their index, and what the store holds."""
    scanned = await asyncio.to_thread(scan, root, index.files)
    problems = list(scanned.problems)
    for path in sorted(scanned.stamps.keys() - index.files.keys()):
        problem = await asyncio.to_thread(_of_file, root, path, None)
        problems.append(FileProblem(path, problem or f"is not indexed yet: {_SYNC}"))
    for path, file in index.files.items():
        problem = await asyncio.to_thread(_of_file, root, path, file)
        if problem is not None:
            problems.append(FileProblem(path, problem))
        else:
            problems += await _of_lines(path, file.entries, store, index)
    return problems + await _without_line(store, index)


async def _without_line(store: Store, index: FileIndex) -> list[FileProblem]:
    """Return the memories that stand in no file, as where it could not be written, by the file that they belong to."""
    paths = TargetPaths.of(index.files)
    missing = Counter(
        paths.find(Target(memory.memory_type, memory.memory_target))
        for memory in await list_all(store, index.scope, MemoryFilter(types=tuple(KEPT_TYPES)))
        if memory.memory_id not in index.places and is_statement(memory)
    )
    return [
        FileProblem(path, f"{count} of its memories stand in no file yet: {_SYNC}")
        for path, count in sorted(missing.items())
    ]


def _of_file(root: Path, path: str, file: IndexedFile | None) -> str | None:
    try:
        read = read_page(root, path)
    except UnreadableFileError as exc:
        return exc.message
    return None if file is None or read.sha256 == file.sha256 else f"was changed since it was synced last: {_SYNC}"


async def _of_lines(path: str, entries: Sequence[Entry], store: Store, index: FileIndex) -> list[FileProblem]:
    found = await find_memories(store, index.scope, list({entry.memory_id for entry in entries}))
    problems = []
    for entry in entries:
        memory = found.get(entry.memory_id)
        place = f"{path}:{entry.first + 1}"
        if memory is None or not memory.is_current:
            what = f"its memory {entry.memory_id!r} is gone, as by an erasure: remove the line, or {_SYNC}"
            problems.append(FileProblem(place, what))
        elif digest(says(memory)) != entry.mark:
            problems.append(FileProblem(place, f"its memory {entry.memory_id!r} says something else by now: {_SYNC}"))
    return problems
