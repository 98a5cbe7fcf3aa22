"""Exports that were killed: nothing of them can be read by others, and the next one removes it."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core.private_drafts import private_draft
from reme_core.transfer.json_lines import write_lines

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights and locks of POSIX")

CHILD = """
import asyncio, sys
from pathlib import Path
from reme_core.transfer.json_lines import write_lines

async def lines():
    yield "the code is 7919" * 10_000
    print("written", flush=True)
    sys.stdin.read()
    yield ""

asyncio.run(write_lines(Path(sys.argv[1]), lines()))
"""


async def some() -> AsyncIterator[str]:
    yield "a line"


def drafts(folder: Path) -> list[Path]:
    return sorted(folder.glob(".*.part"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_a_killed_export_leaves_is_its_owners_alone_and_goes_with_the_next(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path / "export")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        assert [mode(path) for path in drafts(tmp_path)] == [0o600]
        # While it runs, its draft is left alone.
        asyncio.run(write_lines(tmp_path / "other", some()))
        assert len(drafts(tmp_path)) == 1
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert len(drafts(tmp_path)) == 1
        asyncio.run(write_lines(tmp_path / "other", some()))
    finally:
        os.umask(old)
    assert drafts(tmp_path) == []
    assert mode(tmp_path / "other") == 0o600
    assert not (tmp_path / "export").exists()


async def test_a_file_that_was_there_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "export").touch()
    (tmp_path / "export").chmod(0o640)
    await write_lines(tmp_path / "export", some())
    assert mode(tmp_path / "export") == 0o640


def test_a_draft_goes_with_an_error_and_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / ".mine.part").touch()
    with pytest.raises(KeyError), private_draft(tmp_path / "export") as draft:
        {}[draft]
    assert drafts(tmp_path) == [tmp_path / ".mine.part"]


async def test_the_name_of_a_written_file_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[list[str]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced.append(os.listdir(descriptor))

    monkeypatch.setattr(os, "fsync", fsync)
    await write_lines(tmp_path / "export", some())
    assert synced == [["export"]]
