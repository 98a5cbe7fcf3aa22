"""Drafts of several writers in one folder stand beside each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reme_core.private_drafts import private_draft, put_in_place


def write(path: Path) -> None:
    with private_draft(path) as draft:
        draft.write_bytes(path.name.encode())
        put_in_place(draft, path)


def test_writers_of_one_folder_never_take_a_draft_of_another_one_for_a_left_one(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}" for number in range(400)]
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(write, paths))
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert all(path.read_bytes() == path.name.encode() for path in paths)
