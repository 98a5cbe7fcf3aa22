"""A disk that fails or is full at any system call of a write: nothing acknowledged is lost, half there, or doubled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.failing_child import WRITES
from tests.support.recorded_child import run_behind

MOST = 600
NAMES = [write.__name__ for write in WRITES]


def tortured(shim: Path, folder: Path, name: str, stride: int) -> tuple[int, int]:
    """Return at how many points the disk failed, and how many calls did; what was wrong is a failure."""
    printed = run_behind(shim, "tests.support.failing_child", folder, name, MOST, stride, file=folder / "memory.db")
    told = json.loads(printed)
    assert told["problems"] == []
    return told["points"], told["failed"]


@pytest.mark.torture
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", NAMES)
def test_a_write_that_fails_at_any_system_call_is_whole_or_nothing_and_can_be_done_again(
    tmp_path: Path, shim: Path, name: str
) -> None:
    points, failed = tortured(shim, tmp_path, name, 1)
    assert points >= 20
    assert failed >= 10


@pytest.mark.parametrize("name", ["add_one", "summary"])
def test_a_write_that_fails_at_some_system_calls_is_whole_or_nothing_and_can_be_done_again(
    tmp_path: Path, shim: Path, name: str
) -> None:
    points, failed = tortured(shim, tmp_path, name, 5)
    assert points >= 4
    assert failed >= 2
