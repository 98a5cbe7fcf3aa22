"""Notes that basic-memory 0.18.5 itself wrote (tests/data/importers/basic_memory; `basic-memory tool write-note`).

It wants Python 3.12; two of its class heads were rewritten for 3.11, nothing of what writes notes.
"""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.transfer.importers.note_trees import BasicMemoryNotes

WRITTEN = Path(__file__).parents[2] / "data" / "importers" / "basic_memory"
MAY = datetime(2026, 5, 1, 8, 30, tzinfo=UTC)


async def test_notes_come_over_with_their_times_and_where_they_stood(memory: ReMe, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    shutil.copytree(WRITTEN, notes)
    for file in notes.rglob("*.md"):
        os.utime(file, (MAY.timestamp(), MAY.timestamp()))
    (notes / "dated.md").write_text("---\ntitle: Old\ncreated: 2024-02-03\n---\n- [fact] It is old\n")
    report = await memory.import_from("basic-memory", notes, user_id="emma")
    found = {item.content: item for item in (await memory.list_memories(user_id="emma")).memories}
    assert (report.added_memories, report.unreadable_count, len(found)) == (9, 0, 9)
    fruit = found["Pour over brings out the fruit #brewing (since May)"]
    assert (fruit.memory_target, fruit.observed_at) == ("Coffee Brewing", MAY)
    assert fruit.when_to_use == "Coffee Brewing › method › brewing"
    assert fruit.metadata["origin"] == {
        "file": "drinks/Coffee Brewing.md",
        "line": 14,
        "category": "method",
        "tags": ["brewing"],
        "context": "since May",
        "note": {
            "title": "Coffee Brewing",
            "type": "note",
            "tags": ["coffee,brewing"],
            "permalink": "drinks/coffee-brewing",
        },
    }
    assert found["It is old"].observed_at == datetime(2024, 2, 3, tzinfo=UTC)


def test_a_folder_without_notes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("no Markdown")
    with pytest.raises(InvalidInputError, match="holds no notes"):
        list(BasicMemoryNotes(str(tmp_path)).items())
