"""A folder that is watched takes changes over by itself, and is given free again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from reme_core import FileMemory, ReMe
from reme_core.files.folder import held

pytest.importorskip("watchfiles", reason="the extra `files` is not installed")

from reme_core.files.watch import is_remote  # after the line above


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():
            pass


async def test_changes_of_files_and_of_the_memory_are_taken_over_while_it_is_open(tmp_path: Path) -> None:
    root = tmp_path / "files"
    async with ReMe(working_dir=tmp_path / "store", llm=None, embedding=None) as memory:
        async with FileMemory(root, user_id="ann", memory=memory, watch=True) as files:
            assert files.is_watching
            await asyncio.to_thread((root / "MEMORY.md").write_text, "- drinks tea\n")

            async def is_found() -> bool:
                return bool(await files.memory_search("tea"))

            await until(is_found)
            await memory.add_memory("has a cat", user_id="ann")

            async def is_written() -> bool:
                return "has a cat" in await asyncio.to_thread((root / "MEMORY.md").read_text)

            await until(is_written)
            async with FileMemory(root, user_id="ann", memory=memory, watch=True) as other:
                assert not other.is_watching
                assert len(await other.memory_search("tea")) == 1
        with held(root):
            pass


@pytest.mark.parametrize(
    ("mounts", "remote"),
    [
        ("dev / ext4 rw 0 0\n", False),
        ("dev / ext4 rw\nhost:/x /mnt/my\\040files nfs4 rw\n", True),
        ("dev / ext4 rw\nhost:/x /mnt fuse.sshfs rw\n", True),
        ("host / nfs4 rw\ndev /mnt/my\\040files ext4 rw\n", False),
    ],
)
def test_folders_of_other_machines_are_looked_at_and_not_listened_to(tmp_path: Path, mounts: str, remote: bool) -> None:
    table = tmp_path / "mounts"
    table.write_text(mounts)
    assert is_remote(Path("/mnt/my files/notes"), table) == remote
    assert not is_remote(Path("/mnt"), tmp_path / "none")
