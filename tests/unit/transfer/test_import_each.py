"""What holds of each importer: twice is once, an interrupted import goes on, a dry run writes nothing.

The stores were written by the other systems (ReMe, mem0, basic-memory), or have the documented form (ChatGPT, Claude).
"""

from __future__ import annotations

import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import StoreUnavailableError
from reme_core.transfer.importers.items import ImportedItem, ImportSource
from reme_core.transfer.importers.named_sources import open_source

DATA = Path(__file__).parents[2] / "data" / "importers"
EACH = [
    ("basic-memory", "basic_memory"),
    ("chatgpt", "chatgpt"),
    ("claude", "claude"),
    ("mem0", "mem0.zip/qdrant"),
    ("reme-0.3", "reme.zip/reme02_library"),
    ("reme-0.3", "reme.zip/reme03_chroma"),
    ("reme-0.4", "reme.zip/reme04"),
]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    packed, _, name = request.param.rpartition("/")
    if not packed:
        return DATA / name
    with zipfile.ZipFile(DATA / packed) as archive:
        archive.extractall(tmp_path / "written")
    return tmp_path / "written" / name


@pytest.fixture
async def memory(memory: ReMe) -> ReMe:
    await memory.add_memory("Was here before", user_id="zoe")
    return memory


def tables(tmp_path: Path) -> dict[str, list[object]]:
    with closing(sqlite3.connect(tmp_path / "reme" / "memory.db")) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # noqa: S608


@dataclass
class Interrupted:
    """A source that fails behind its first items, the second time that it is read."""

    inner: ImportSource
    behind: int
    readings: int = 0

    @property
    def name(self) -> str:
        return self.inner.name

    def items(self) -> Iterator[ImportedItem]:
        self.readings += 1
        for place, item in enumerate(self.inner.items()):
            if place == self.behind and self.readings == 2:
                msg = "the disk was pulled out"
                raise StoreUnavailableError(msg)
            yield item


@pytest.mark.parametrize(("source", "place"), EACH, indirect=["place"])
async def test_dry_then_interrupted_then_whole_then_again(
    memory: ReMe, tmp_path: Path, source: str, place: Path
) -> None:
    empty = tables(tmp_path)
    dry = await memory.import_from(source, place, every_user=True, user_id="emma", dry_run=True)
    assert tables(tmp_path) == empty
    assert dry.added_memories + dry.added_messages > 1
    with pytest.raises(StoreUnavailableError):
        await memory.import_from(Interrupted(open_source(source, place), 1), every_user=True, user_id="emma")
    real = await memory.import_from(source, place, every_user=True, user_id="emma")
    assert real.added_messages + real.known_messages == dry.added_messages
    assert real.added_memories + real.known_memories == dry.added_memories
    whole = tables(tmp_path)
    again = await memory.import_from(source, place, every_user=True, user_id="emma")
    assert tables(tmp_path) == whole
    assert (again.added_messages, again.added_memories) == (0, 0)
    assert (again.known_messages, again.known_memories) == (dry.added_messages, dry.added_memories)
