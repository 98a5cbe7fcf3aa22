"""Power is cut at any moment of a writing process: what was acknowledged is there, or with NORMAL all but a tail of it.

The disk is not cut but recorded, by a shim before the process, and then replayed up to random points (`RecordedDisk`).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.acknowledged import Acknowledged, Held, held
from tests.support.file_checks import problems_of_file
from tests.support.recorded_child import run_behind
from tests.support.recorded_disk import RecordedDisk, read_changes

STEPS = 60
CUTS = 26  # a few of which may fall together


def recorded(shim: Path, folder: Path, seed: int, synchronous: str) -> Path:
    """Let a process write, and return the record of its disk."""
    folder.mkdir()
    log = folder / "changes"
    run_behind(
        shim, "tests.support.recorded_child", folder, seed, synchronous, STEPS, file=folder / "memory.db", log=log
    )
    return log


def cuts(log: Path, folder: Path, count: int, chance: random.Random) -> Iterator[tuple[Path, list[bytes]]]:
    """Yield files as found after power cuts, with the lines that had been said."""
    changes = read_changes(log)
    # Half of them anywhere, the others right after something was acknowledged, which is when most can be missed.
    said = [place for place, change in enumerate(changes, 1) if change.file == "s"]
    anywhere = chance.sample(range(1, len(changes) + 1), count - count // 2)
    places = sorted({*anywhere, *chance.sample(said, count // 2)})
    disk, taken = RecordedDisk(), 0
    for number, place in enumerate(places):
        for change in changes[taken:place]:
            disk.take(change)
        taken = place
        path = folder / f"cut-{number}" / "memory.db"
        path.parent.mkdir(parents=True)
        disk.cut_power(path, chance)
        yield path, disk.lines()


FEW_OR_MANY = pytest.mark.parametrize(
    ("seed", "count"), [(1, 4), *(pytest.param(seed, CUTS, marks=pytest.mark.torture) for seed in (2, 3, 4, 5))]
)


@FEW_OR_MANY
def test_a_power_cut_loses_nothing_acknowledged_and_leaves_nothing_half_done(
    tmp_path: Path, shim: Path, seed: int, count: int
) -> None:
    chance = random.Random(seed)
    log = recorded(shim, tmp_path / "recorded", seed, "FULL")
    for path, lines in cuts(log, tmp_path, count, chance):
        said = Acknowledged()
        if lines:
            said.take(lines)
        found = asyncio.run(held(path))
        assert said.broken(found, path) == [], path
        assert problems_of_file(path) == [], path


@FEW_OR_MANY
def test_with_normal_a_power_cut_takes_a_tail_and_nothing_before_it(
    tmp_path: Path, shim: Path, seed: int, count: int
) -> None:
    chance = random.Random(seed)
    log = recorded(shim, tmp_path / "recorded", seed, "NORMAL")
    for path, lines in cuts(log, tmp_path, count, chance):
        found = asyncio.run(held(path))
        kept = [verdict for verdict in verdicts(lines, found) if verdict is not None]
        assert kept == sorted(kept, reverse=True), path
        assert problems_of_file(path) == [], path


def verdicts(lines: list[bytes], found: Held) -> Iterator[bool | None]:
    """Yield for each acknowledged write whether it is there; None where later ones leave nothing to tell it by."""
    entries = [json.loads(line) for line in lines]
    gone = {key for entry in entries if entry["kind"] == "deleted" for key in entry["ids"]}
    gone |= {
        key for entry in entries if entry["kind"] == "intent" and entry["what"] == "delete" for key in entry["ids"]
    }
    for place, entry in enumerate(entries):
        match entry["kind"]:
            case "memories":
                following = [each["held"] for each in entries[place:] if each["kind"] == "memories"]
                changed = {key for each in entries[place:] if each["kind"] == "intent" for key in each["ids"]}
                for key in entry["held"].keys() - gone:
                    texts = {each[key] for each in following if key in each}
                    if key not in found.memories:
                        yield False
                    elif found.memories[key].content in texts:
                        yield True
                    else:
                        yield None if key in changed else False
            case "messages" | "offloads":
                for key in entry.get("ids") or entry["held"]:
                    yield key in found
            case _:
                yield None


def test_a_disk_that_lies_about_flushes_is_found_out(tmp_path: Path, shim: Path) -> None:
    """The suite can fail: where no flush reaches the disk, acknowledged writes are missed."""
    log = recorded(shim, tmp_path / "recorded", 6, "FULL")
    disk = RecordedDisk()
    flushed_once = set[str]()
    for change in read_changes(log):
        if change.kind != "f" or change.file not in flushed_once:
            disk.take(change)
        if change.kind == "f":
            flushed_once.add(change.file)
    said = Acknowledged()
    said.take(disk.lines())
    path = tmp_path / "cut" / "memory.db"
    path.parent.mkdir()
    chance = random.Random(0)
    chance.choice = lambda options: options[0]  # type: ignore[method-assign, assignment]  # nothing unflushed is kept
    disk.cut_power(path, chance)
    try:
        broken = said.broken(asyncio.run(held(path)), path) + problems_of_file(path)
    except Exception as exc:  # noqa: BLE001  # any complaint will do
        broken = [str(exc)]
    assert broken
