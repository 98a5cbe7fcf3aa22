"""An erasure is killed in the middle: the next start finishes it, and no word of the user is left in any file."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.stores.local.file.purging import erased_scopes
from tests.support import erasing_child
from tests.support.erasing_child import WORD, fill
from tests.support.file_checks import problems_of_file
from tests.support.new_processes import NEW_PROCESSES

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]


def erase_in_child(folder: Path, stop_at: int | None) -> int:
    """Erase in a process, which is killed at a point; return how many it had passed."""
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(target=erasing_child.erase, args=(folder, stop_at, sender))
    child.start()
    sender.close()
    passed: int = receiver.recv()
    if stop_at is not None:
        child.kill()
    child.join()
    return passed


def files_that_tell(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]


async def start_again(folder: Path) -> None:
    async with ReMe("space", folder, llm=None, embedding=None) as memory:
        assert not (await memory.retrieve(WORD, user_id="gone")).results
        assert (await memory.stats(user_id="gone")).messages == 0
        assert (await memory.stats(user_id="stays")).messages == 150
        assert (await memory.retrieve("secretstays", user_id="stays")).results


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.torture)])
def test_an_erasure_killed_in_the_middle_is_finished_by_the_next_start(tmp_path: Path, kills: int) -> None:
    asyncio.run(fill(tmp_path / "filled", 150))
    shutil.copytree(tmp_path / "filled", tmp_path / "whole")
    points = erase_in_child(tmp_path / "whole", None)
    assert points >= 20
    told = 0
    for kill in range(kills):
        folder = tmp_path / f"killed-{kill}"
        shutil.copytree(tmp_path / "filled", folder)
        stop_at = 1 + kill * (points - 1) // (kills - 1)
        assert erase_in_child(folder, stop_at) == stop_at
        told += bool(files_that_tell(folder))
        asyncio.run(start_again(folder))
        assert files_that_tell(folder) == [], f"killed at point {stop_at} of {points}"
        assert problems_of_file(folder / "memory.db") == []
        with closing(sqlite3.connect(folder / "memory.db")) as connection:
            assert erased_scopes(connection) == []
    assert told >= kills // 2
