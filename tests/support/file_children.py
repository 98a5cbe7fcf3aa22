"""Processes that write and sync pages until they are killed, and a person who edits one."""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from reme_core import FileMemory, Folders, ReMe
from reme_core.errors import ConflictError
from reme_core.files.writer import write_page

_BETWEEN_S = 0.005  # so that a minute's page is one that a person could have written


def version(number: int) -> bytes:
    """Return a page of some 200 kB that says its number on each line."""
    return f"version {number}\n".encode() * 15_000


def write_versions(path: Path, lines: Connection) -> None:
    """Write one version after the other; tell each that was begun."""
    number, sha = 0, hashlib.sha256(path.read_bytes()).hexdigest()
    while True:
        number += 1
        lines.send_bytes(str(number).encode())
        write_page(path, version(number), expected=sha)
        sha = hashlib.sha256(version(number)).hexdigest()


def sync_folder_of(store: Path, root: Path, lines: Connection) -> None:
    """Sync a folder, and say before that it begins."""

    async def work() -> None:
        async with ReMe("space", store, llm=None, embedding=None) as memory:
            files = FileMemory(root, user_id="ann", memory=memory)
            await files.status()
            lines.send_bytes(b"begins")
            await files.sync()
            lines.send_bytes(b"done")

    asyncio.run(work())


def edit_as_a_person(path: Path, seconds: float, lines: Connection) -> None:
    """Add lines by hand, as an editor does that reads a page anew when it was changed; tell how many, at last."""
    added, end = 0, time.monotonic() + seconds
    while time.monotonic() < end or not added:
        before = path.read_bytes()
        with suppress(ConflictError):
            write_page(path, before + f"- by hand {added}\n".encode(), expected=hashlib.sha256(before).hexdigest())
            added += 1
        time.sleep(_BETWEEN_S)
    lines.send_bytes(str(added).encode())


def remember_with_files(store: Path, root: Path, lines: Connection) -> None:
    """Keep messages, memories and texts in a memory with files beside it; tell each that was acknowledged."""

    async def work() -> None:
        async with ReMe("space", store, llm=None, embedding=None, files=Folders(users={"ann": root})) as memory:
            before = (await memory.stats(user_id="ann")).messages
            for number in range(before, before + 10_000):
                await memory.summary([("user", f"said {number}")], user_id="ann", session_id=f"s{number}")
                await memory.add_memory(f"fact {number}", user_id="ann")
                await memory.offload_text(f"text {number}", user_id="ann", session_id="s", name="log")
                lines.send_bytes(str(number).encode())

    asyncio.run(work())
