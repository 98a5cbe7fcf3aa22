"""Importers on what nobody has written in good faith: pipes, cut logs, broken archives, wrong types."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import zipfile
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue

from reme_core.errors import InvalidInputError, ReMeError, StoreAccessError
from reme_core.schema import make_scope
from reme_core.transfer.importers.chatgpt import ChatGPTExport
from reme_core.transfer.importers.foreign_data import foreign_database
from reme_core.transfer.importers.items import ImportedMemory, ImportedSession, Unreadable
from reme_core.transfer.importers.mem0 import Mem0Source
from reme_core.transfer.importers.named_sources import SOURCES, open_source
from reme_core.transfer.importers.openmemory import OpenMemorySource
from reme_core.transfer.importers.stored_form import stored_memory, stored_messages

DATA = Path(__file__).parents[2] / "data" / "importers"
NOW, SCOPE = datetime(2027, 1, 1, tzinfo=UTC), make_scope("remy", user_id="emma")


@pytest.mark.parametrize("source", SOURCES)
def test_a_pipe_is_refused_and_not_waited_for(source: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReMeError):
        list(open_source(source, tmp_path / "pipe").items())
    with pytest.raises(ReMeError):
        list(open_source(source, "~nobody-here/nothing").items())


def test_a_pipe_beside_an_index_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "mem0.faiss").write_bytes(b"")
    os.mkfifo(tmp_path / "mem0.pkl")
    with pytest.raises(StoreAccessError, match="no regular file"):
        list(Mem0Source(str(tmp_path)).items())


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """A database as a killed program leaves it: what was written last is in its log."""
    with closing(sqlite3.connect(tmp_path / "used.db")) as used:
        used.execute("PRAGMA journal_mode = wal")
        used.execute("CREATE TABLE told (text)")
        used.execute("INSERT INTO told VALUES ('Rows')")
        used.commit()
        (tmp_path / "left").mkdir()
        for file in tmp_path.glob("used.db*"):
            shutil.copyfile(file, tmp_path / "left" / file.name)
    return tmp_path / "left" / "used.db"


@pytest.mark.parametrize("has_index", [True, False])
def test_a_log_is_read_and_nothing_beside_a_database_is_made_or_changed(logged: Path, has_index: bool) -> None:
    if not has_index:
        logged.with_name("used.db-shm").unlink()
    before = {file.name: file.read_bytes() for file in logged.parent.iterdir()}
    with foreign_database(logged) as connection:
        assert connection.execute("SELECT text FROM told").fetchall() == [("Rows",)]
    assert {file.name: file.read_bytes() for file in logged.parent.iterdir()} == before


def test_a_write_that_was_cut_off_is_not_taken_for_what_is_there(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "used.db")) as used:
        used.execute("CREATE TABLE told (text)")
        used.executemany("INSERT INTO told VALUES (?)", [("x" * 5000,)] * 9)
        used.commit()
        used.execute("PRAGMA cache_size = 1")
        used.execute("UPDATE told SET text = 'never committed'")
        (tmp_path / "left").mkdir()
        for file in tmp_path.glob("used.db*"):
            shutil.copyfile(file, tmp_path / "left" / file.name)
    with pytest.raises(StoreAccessError), foreign_database(tmp_path / "left" / "used.db") as connection:
        connection.execute("SELECT text FROM told").fetchall()


def test_text_that_is_no_unicode_costs_its_characters_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "history.db")) as history:
        columns = "id, memory_id, old_memory, new_memory, event, created_at, updated_at, is_deleted"
        history.execute(f"CREATE TABLE history ({columns})")
        history.execute("INSERT INTO history VALUES ('1', 'a', NULL, cast(x'52ff' as text), 'ADD', NULL, NULL, 0)")
        history.execute("INSERT INTO history VALUES ('2', 'b', NULL, 'Swims', 'ADD', NULL, NULL, 0)")
        history.commit()
    items = Mem0Source(str(tmp_path / "history.db")).items()
    assert [item.content for item in items if isinstance(item, ImportedMemory)] == [
        "R\N{REPLACEMENT CHARACTER}",
        "Swims",
    ]


@pytest.mark.parametrize("source", [ChatGPTExport, OpenMemorySource])
def test_an_archive_whose_headers_differ_is_told_as_damaged(
    tmp_path: Path, source: type[ChatGPTExport | OpenMemorySource]
) -> None:
    packed = tmp_path / "export.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("conversations.json", "[]")
        archive.writestr("memories.json", "{}")
    packed.write_bytes(packed.read_bytes().replace(b"conversations", b"confersations", 1).replace(b"mem", b"nem", 1))
    [item] = source(str(packed)).items()
    assert isinstance(item, Unreadable)
    assert "can't be unpacked" in item.reason


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    told = [{"vector_id": "1", "content": "Rows", "metadata": {"memory_type": "personal", "memory_target": "bob"}}]
    (tmp_path / "other" / "in").mkdir(parents=True)
    (tmp_path / "other" / "in" / "1.json").write_text(json.dumps(told))
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "vector_store").symlink_to(tmp_path / "other")
    assert len(list(open_source("reme-0.3", tmp_path / "other").items())) == 1
    with pytest.raises(ReMeError, match="holds no vector store"):
        list(open_source("reme-0.3", tmp_path / "given").items())


def test_two_collections_of_chroma_with_the_same_id_keep_to_themselves(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "chroma.sqlite3")) as chroma:
        chroma.executescript(
            """CREATE TABLE collections (id, name); CREATE TABLE segments (id, collection);
            CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id, embedding_id);
            CREATE TABLE embedding_metadata (id, key, string_value, int_value, float_value, bool_value);
            INSERT INTO collections VALUES ('c', 'now'), ('d', 'then');
            INSERT INTO segments VALUES ('s', 'c'), ('t', 'd');
            INSERT INTO embeddings VALUES (1, 's', 'same'), (2, 't', 'same');
            INSERT INTO embedding_metadata (id, key, string_value) VALUES
                (1, 'data', 'Rows'), (1, 'user_id', 'ann'), (2, 'data', 'Swims'), (2, 'user_id', 'bob');"""
        )
    items = list(Mem0Source(str(tmp_path)).items())
    assert [(one.user, one.content) for one in items if isinstance(one, ImportedMemory)] == [
        ("ann", "Rows"),
        ("bob", "Swims"),
    ]


def test_who_owns_a_memory_is_what_the_memory_says_and_not_its_metadata(tmp_path: Path) -> None:
    told = [
        {"id": "1", "memory": "Rows", "metadata": {"user_id": "bob", "data": "Swims"}},
        {"id": "2", "memory": "Runs", "user_id": 7},
    ]
    (tmp_path / "told.json").write_text(json.dumps(told))
    first, second = Mem0Source(str(tmp_path / "told.json")).items()
    assert isinstance(first, ImportedMemory)
    assert (first.user, first.content) == (None, "Rows")
    assert second == Unreadable("told.json, item 2", "has a user that is no name")


def test_numbers_and_times_that_can_t_be_cost_themselves(tmp_path: Path) -> None:
    turns = {
        key: {"message": {"id": key, "author": {"role": "user"}, "create_time": at, "content": {"parts": ["Hi"]}}}
        for key, at in (("a", 10**400), ("b", 1740821400))
    }
    (tmp_path / "conversations.json").write_text(json.dumps([{"id": "1", "title": "\0", "mapping": turns}]))
    [chat] = ChatGPTExport(str(tmp_path)).items()
    assert isinstance(chat, ImportedSession)
    assert ([one.message_id for one in chat.messages], chat.title) == (["b"], "\N{REPLACEMENT CHARACTER}")
    (tmp_path / "team.jsonl").write_text(
        '{"memory_type": "personal", "memory_id": "1", "content": "Rows", "workspace_id": "w",'
        ' "time_created": "1950-01-01"}'
    )
    [old] = open_source("reme-0.3", tmp_path / "team.jsonl").items()
    assert isinstance(old, ImportedMemory)
    assert old.created_at is not None
    assert old.created_at.year == 1950


def test_a_transcript_of_all_who_spoke_is_not_what_the_user_said(tmp_path: Path) -> None:
    (tmp_path / "team.jsonl").write_text(
        '{"memory_type": "history", "memory_id": "1", "content": "alice: Hello\\nassistant: Transfer it all"}'
    )
    [session] = open_source("reme-0.3", tmp_path / "team.jsonl").items()
    assert isinstance(session, ImportedSession)
    assert [message.trust for message in session.messages] == ["assistant"]


def test_a_note_whose_time_can_t_be_has_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text(
        "---\ntitle: Tea\ncreated: 0001-01-01\n---\n\n- [fact] Rows; DROP TABLE memories\n"
    )
    os.utime(tmp_path / "note.md", (1740821400, 1740821400))
    [item] = open_source("basic-memory", tmp_path).items()
    assert isinstance(item, ImportedMemory)
    assert item.created_at is not None
    assert item.created_at.year == 2025


WRONG: tuple[JsonValue, ...] = (
    *(None, True, -1, 10**400, 1e308, float("nan"), float("inf"), "", " ", "\0", "\ud83d", "../x", "x" * 600),
    *("0001-01-01", "9999-12-31T23:59:59+14:00", "{", -62135596800, [[None]], {"": {"a": [1]}}, [{"type": "text"}]),
)


def mutated(value: JsonValue, at: random.Random) -> JsonValue:
    """A copy with something else here and there, or something less."""
    if at.random() < 0.03:
        return at.choice(WRONG)
    if isinstance(value, dict):
        return {name: mutated(part, at) for name, part in value.items() if at.random() > 0.02}
    return [mutated(part, at) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["chatgpt", "claude", "mem0"])
def test_whatever_is_wrong_in_a_record_costs_what_is_in_it(name: str, tmp_path: Path) -> None:
    told = [{"id": "1", "memory": "Rows", "user_id": "ann", "created_at": "2025-05-01", "metadata": {"a": [1]}}]
    file = DATA / name / "conversations.json"
    records = json.loads(file.read_text()) if file.exists() else told
    for seed in range(60):
        wrong = [mutated(record, random.Random(seed)) for record in records]
        (tmp_path / "conversations.json").write_text(json.dumps([*wrong, *records]))
        items = list(open_source(name, tmp_path / "conversations.json").items())
        for item in items:
            if isinstance(item, ImportedSession):
                list(stored_messages(name, item, NOW))
            elif isinstance(item, ImportedMemory):
                with suppress(ValueError, InvalidInputError):
                    stored_memory(name, item, SCOPE, NOW)
        assert sum(not isinstance(item, Unreadable) for item in items) >= len(records)
