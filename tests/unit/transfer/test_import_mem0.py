"""Stores that mem0 2.2.1 itself wrote (tests/data/importers/make_mem0.py), and OpenMemory's documented export."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.transfer.importers import inert_pickle, json_values
from reme_core.transfer.importers.inert_pickle import Inert, as_json, read_inert
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, ImportedSession, Unreadable
from reme_core.transfer.importers.mem0 import Mem0Source
from reme_core.transfer.importers.openmemory import OpenMemorySource

PACKED = Path(__file__).parents[2] / "data" / "importers" / "mem0.zip"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with zipfile.ZipFile(PACKED) as archive:
        archive.extractall(tmp_path / "mem0")
    return tmp_path / "mem0"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def told(items: list[ImportedItem]) -> list[ImportedMemory]:
    return [item for item in items if isinstance(item, ImportedMemory)]


@pytest.mark.parametrize("kind", ["qdrant", "chroma", "faiss"])
async def test_a_store_of_mem0_comes_over_whole(memory: ReMe, written: Path, kind: str) -> None:
    before = contents(written)
    report = await memory.import_from("mem0", written / kind, every_user=True, user_id="coach")
    assert not report.unreadable_count
    assert {user.source_user: (user.memories, user.messages) for user in report.users} == {
        "ann": (5, 1),
        "bob": (1, 0),
        None: (1, 0),
    }
    anns = {
        item.content: item for item in (await memory.list_memories(user_id="ann", include_superseded=True)).memories
    }
    assert set(anns) == {
        "Lives in Porto since May",
        "I moved to Porto",
        "Welcome to Porto!",
        "Rows on Sundays",
        "Ann has a dog called Rex",
    }
    now, former = anns["Lives in Porto since May"], anns["I moved to Porto"]
    assert former.superseded_by == now.memory_id
    assert former.valid_to == now.updated_at
    assert now.metadata["topic"] == "home"
    assert now.metadata["imported_from"] == "mem0"
    assert anns["Ann has a dog called Rex"].metadata["run_id"] == "r2"
    found = await memory.retrieve("What is the dog called?", user_id="ann")
    assert {"Ann has a dog called Rex", "My dog is called Rex"} <= {hit.memory for hit in found.results}
    assert (await memory.list_memories(user_id="coach")).memories[0].content == "The agent speaks German"
    again = await memory.import_from("mem0", written / kind, every_user=True, user_id="coach")
    assert (again.known_memories, again.known_messages, again.added_memories) == (7, 1, 0)
    assert contents(written) == before


def test_the_history_alone_brings_the_texts_and_names_nobody(written: Path) -> None:
    items = list(Mem0Source(str(written / "qdrant" / "history.db")).items())
    assert {item.user for item in told(items)} == {None}
    assert "Owns a cat" not in {item.content for item in told(items)}
    assert len(told(items)) == 7
    assert [item.user for item in items if isinstance(item, ImportedSession)] == ["ann"]


def test_what_mem0_counts_its_users_by_is_no_store(written: Path) -> None:
    marks = written / "home" / "migrations_qdrant" / "collection" / "mem0migrations"
    marks.mkdir(parents=True)
    (written / "qdrant" / "store" / "collection" / "mem0" / "storage.sqlite").rename(marks / "storage.sqlite")
    (written / "qdrant" / "history.db").rename(written / "home" / "history.db")
    assert {item.user for item in told(list(Mem0Source(str(written / "home")).items()))} == {None}


def test_what_get_all_told_is_read_whatever_the_store(written: Path) -> None:
    items = list(Mem0Source(str(written / "get_all.json")).items())
    assert {item.content for item in told(items)} >= {"Rows on Sundays", "Ann has a dog called Rex"}
    assert {item.user for item in told(items)} == {"ann"}
    [home] = [item for item in told(items) if item.metadata.get("topic") == "home" and item.metadata["role"] == "user"]
    assert home.created_at is not None


def test_an_older_faiss_store_is_read_without_unpickling(written: Path) -> None:
    store = written / "faiss" / "store"
    held = json.loads((store / "mem0.json").read_text())
    (store / "mem0.json").unlink()
    (store / "mem0.pkl").write_bytes(pickle.dumps((held["docstore"], held["index_to_id"])))
    items = list(Mem0Source(str(written / "faiss")).items())
    assert "Rows on Sundays" in {item.content for item in told(items)}


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch pwned",)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_a_program_runs_nothing(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    held = read_inert(pickle.dumps({"a": [1, 2.5, None, True, "x", (1,), {"b"}], "bomb": Bomb()}, protocol))
    assert isinstance(held, dict)
    assert isinstance(held["bomb"], Inert)
    assert as_json(held) == {"a": [1, 2.5, None, True, "x", [1], None], "bomb": None}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x04", b".", b"\x80\x04(u.", b"\x80\x04}K\x01u.", b"cos\nsystem\n", b"]" * 9]
)
def test_a_damaged_pickle_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"pickle|opcode|expected|reading"):
        read_inert(data)


def test_a_pickle_that_would_never_end_when_written_out_is_refused() -> None:
    bomb: list[object] = []
    for _ in range(30):
        bomb = [bomb, bomb]
    with pytest.raises(ValueError, match="more than"):
        as_json(read_inert(pickle.dumps(bomb)), most=1000)
    with pytest.raises(ValueError, match="characters"):
        as_json(read_inert(pickle.dumps(["x" * 1_000_000] * 100)))


def test_a_key_that_is_nested_without_end_ends_no_process() -> None:
    assert read_inert(b"\x80\x04})" + b"\x85" * 1000 + b"NsX\x01\x00\x00\x00aK\x01s.") == {"a": 1}


def test_a_pickle_of_too_many_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inert_pickle, "_MOST_STEPS", 1000)
    with pytest.raises(ValueError, match="more than 1000 steps"):
        read_inert(b"\x80\x04" + b"]" * 2000 + b".")


def test_a_record_that_is_wrong_costs_that_record(written: Path) -> None:
    with closing(
        sqlite3.connect(written / "qdrant" / "store" / "collection" / "mem0" / "storage.sqlite")
    ) as connection:
        connection.execute("INSERT INTO points VALUES ('0', ?), ('1', 'text'), ('2', NULL)", (pickle.dumps(Bomb()),))
        connection.commit()
    items = list(Mem0Source(str(written / "qdrant")).items())
    assert sum(isinstance(item, Unreadable) for item in items) == 3
    assert len(told(items)) == 7


@pytest.mark.parametrize("name", ["notes.txt", "other.json", "empty", "other.db"])
async def test_what_is_not_of_mem0_is_refused_by_what_is_wanted(memory: ReMe, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("words")
    (tmp_path / "other.json").write_text('{"a": 1}')
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE messages (body)")
    with pytest.raises(InvalidInputError, match="wanted the folder of a local Qdrant"):
        await memory.import_from("mem0", tmp_path / name, user_id="ann")


async def test_a_damaged_database_is_told_as_such(memory: ReMe, written: Path) -> None:
    (written / "qdrant" / "history.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(StoreAccessError, match=r"history\.db"):
        await memory.import_from("mem0", written / "qdrant", every_user=True)


EXPORT = {
    "user": {"id": "u-1", "user_id": "ann", "name": None},
    "apps": [{"id": "a-1", "name": "cursor"}],
    "categories": [{"id": "c-1", "name": "travel"}],
    "memories": [
        {
            "id": "m-1",
            "user_id": "u-1",
            "app_id": "a-1",
            "content": "Plans a trip to Kyoto",
            "metadata": {"mood": "glad"},
            "state": "active",
            "created_at": "2025-05-01T10:00:00+00:00",
            "updated_at": "2025-05-02T10:00:00+00:00",
            "archived_at": None,
            "deleted_at": None,
            "category_ids": ["c-1", 7],
        },
        {"id": "m-2", "content": "Old plan", "state": "archived", "created_at": None},
        {"id": "m-3", "content": "\ud83d", "state": "active"},
        ["no memory"],
    ],
    "export_meta": {"version": "1"},
}


@pytest.mark.parametrize("packed", [True, False])
async def test_an_export_of_openmemory_comes_over(memory: ReMe, tmp_path: Path, packed: bool) -> None:
    file = tmp_path / "export"
    if packed:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("memories.json", json.dumps(EXPORT, indent=2))
            archive.writestr("memories.jsonl.gz", b"")
    else:
        file.write_text(json.dumps(EXPORT))
    report = await memory.import_from("openmemory", file, every_user=True)
    trip = next(one for one in (await memory.list_memories(user_id="ann")).memories if "Kyoto" in one.content)
    assert (trip.content, trip.created_at.isoformat()) == ("Plans a trip to Kyoto", "2025-05-01T10:00:00+00:00")
    assert {name: trip.metadata[name] for name in ("mood", "app", "categories", "source_id")} == {
        "mood": "glad",
        "app": "cursor",
        "categories": ["travel"],
        "source_id": "m-1",
    }
    assert [item.where.rpartition(" ")[2] for item in report.unreadable] == ["2", "4"]
    assert "is archived there" in report.unreadable[0].reason


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MAX_VALUE_CHARS", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("memories.json", json.dumps({"memories": ["x" * 1000]}))
    [item] = OpenMemorySource(str(tmp_path / "bomb.zip")).items()
    assert item == Unreadable("memories.json, value 1", "has more than 1000 characters")
