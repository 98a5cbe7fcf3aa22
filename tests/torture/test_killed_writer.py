"""A writing process is killed at any moment: what it had acknowledged is there, and nothing is half there."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.support import writing_child
from tests.support.acknowledged import Acknowledged, held
from tests.support.file_checks import problems_of_file
from tests.support.new_processes import NEW_PROCESSES

FILES = 10
KILLS_A_FILE = 10


def run_and_kill(folder: Path, seed: int, chance: random.Random, synchronous: str) -> list[bytes]:
    """Let a child write until it has said a random number of lines, kill it, and return all that it said."""
    receiver, sender = NEW_PROCESSES.Pipe(duplex=False)
    child = NEW_PROCESSES.Process(
        target=writing_child.run, args=(folder, seed, sender), kwargs={"synchronous": synchronous}
    )
    child.start()
    sender.close()
    lines = [receiver.recv_bytes() for _ in range(chance.randint(1, 60))]
    for _ in range(chance.randint(0, 100_000)):  # so that it dies between two lines as well
        pass
    child.kill()
    lines += remaining(receiver)
    child.join()
    child.close()
    return lines


def remaining(receiver: Connection) -> Iterator[bytes]:
    while True:
        try:
            yield receiver.recv_bytes()
        except (EOFError, OSError):  # the end, or a line that was cut
            receiver.close()
            return


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "file_number", [0, *(pytest.param(number, marks=pytest.mark.torture) for number in range(1, FILES))]
)
def test_a_killed_writer_loses_nothing_acknowledged_and_leaves_nothing_half_done(
    tmp_path: Path, file_number: int
) -> None:
    chance = random.Random(1000 + file_number)
    path = tmp_path / "memory.db"
    said = Acknowledged()
    synchronous = "NORMAL" if file_number % 2 else "FULL"
    for kill in range(KILLS_A_FILE):
        said.take(run_and_kill(tmp_path, file_number * 100 + kill, chance, synchronous))
        assert problems_of_file(path) == []
    assert said.broken(asyncio.run(held(path)), path) == []
    assert problems_of_file(path) == []
    assert min(said.kinds[kind] for kind in ("memories", "messages", "deleted", "closed", "erased", "offloads")) > 0
