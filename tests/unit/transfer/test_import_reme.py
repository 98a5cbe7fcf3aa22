"""ReMe 0.2, 0.3 and 0.4, stores that each version itself wrote (tests/data/importers/make_reme.py)."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.schema import Memory
from reme_core.testing import FixedClock
from reme_core.transfer.importers.items import ImportedMemory, ImportedSession, Unreadable
from reme_core.transfer.importers.note_trees import ReMeNotes
from reme_core.transfer.importers.reme_vectors import ReMeVectors

PACKED = Path(__file__).parents[2] / "data" / "importers" / "reme.zip"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    with zipfile.ZipFile(PACKED) as archive:
        archive.extractall(tmp_path / "written")
    return tmp_path / "written"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def held(memory: ReMe, user: str) -> dict[str, Memory]:
    return {item.content: item for item in (await memory.list_memories(user_id=user)).memories}


@pytest.mark.parametrize("backend", ["local", "chroma", "qdrant"])
async def test_a_working_folder_of_0_3_comes_over_with_its_dialogues_and_profiles(
    memory: ReMe, written: Path, backend: str
) -> None:
    before = contents(written)
    report = await memory.import_from("reme-0.3", written / f"reme03_{backend}", every_user=True, user_id="coach")
    assert contents(written) == before
    assert not report.unreadable_count
    assert {user.source_user: (user.memories, user.messages) for user in report.users} == {
        "alice": (3, 2),
        "bob": (1, 0),
        None: (2, 0),
    }
    alices = await held(memory, "alice")
    assert set(alices) == {"Prefers concise code", "Lives in Porto", "city: Porto"}
    home = alices["Lives in Porto"]
    assert (home.when_to_use, home.importance, home.observed_at.isoformat()) == (
        "where alice lives",
        0.8,
        "2026-03-01T09:30:00+00:00",
    )
    assert (home.trust, home.metadata["tags"]) == ("assistant", "home,city")
    said = [item.message for item in await memory.store.get_messages(home.scope, home.sources[0].message_ids)]
    assert [(item.role, item.name, item.text) for item in said] == [
        ("user", "alice", "I moved to Porto."),
        ("assistant", None, "Noted."),
    ]
    others = await held(memory, "coach")
    assert {(one.memory_type, one.memory_target) for one in others.values()} == {
        ("procedural", "release"),
        ("tool", "grep"),
    }


async def test_a_file_of_a_store_is_read_once_to_survey_it_and_twice_for_what_it_holds(
    memory: ReMe, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = Counter[Path](), Path.read_bytes

    def counted(path: Path) -> bytes:
        reads[path] += 1
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    await memory.import_from("reme-0.3", written / "reme03_local", every_user=True, user_id="coach", dry_run=True)
    assert set(reads.values()) == {3}


@pytest.mark.parametrize("kind", ["local", "chroma", "library"])
async def test_workspaces_of_0_2_are_users_and_a_store_and_its_library_say_the_same(
    memory: ReMe, written: Path, kind: str
) -> None:
    report = await memory.import_from("reme-0.3", written / f"reme02_{kind}", user_id="emma")
    found = await held(memory, "emma")
    release = found["Run the linter before the tests"]
    assert (release.memory_type, release.when_to_use, release.importance) == ("procedural", "before a release", 0.9)
    assert (release.freq, release.utility, release.metadata["tags"]) == (3, 2, ["ci"])
    assert (release.created_at.day, release.updated_at.day, release.metadata["author"]) == (5, 6, "qwen-plus")
    assert found["alice lives in Porto"].memory_target == "alice"
    assert (kind == "chroma") != ("use -F for plain texts" in found)
    assert ["1 recorded calls stay behind" in one.reason for one in report.unreadable] == [True] * (kind != "chroma")
    again = await memory.import_from("reme-0.3", written / "reme02_library" / "team.jsonl", user_id="emma")
    assert (again.known_memories, again.added_memories) == (len(found), 3 - len(found))


async def test_a_workspace_of_0_4_comes_over_and_notes_lead_to_their_dialogue(memory: ReMe, written: Path) -> None:
    report = await memory.import_from("reme-0.4", written / "reme04", user_id="emma")
    assert not report.unreadable_count
    found = await held(memory, "emma")
    assert set(found) == {
        "Alice moved to Porto on 1 March.",
        "Prefers concise code",
        "Works with Bob on [[digest/wiki/reme.md]]",
        "Alice lives in Porto.",
        "ReMe keeps memory as files.",
        "Trigger: before a release.\n\n1. Run the linter\n2. Run the tests",
    }
    moved = found["Alice moved to Porto on 1 March."]
    assert (moved.observed_at.date().isoformat(), moved.memory_target) == ("2026-03-01", "self")
    said = [item.message for item in await memory.store.get_messages(moved.scope, moved.sources[0].message_ids)]
    assert [item.text for item in said] == ["I moved to Porto today.", "Noted: Porto.", "Here is a picture."]
    assert [block.type for item in said for block in item.content] == [
        "text",
        "other",
        "text",
        "tool_call",
        "text",
        "image",
    ]
    procedure = found["Trigger: before a release.\n\n1. Run the linter\n2. Run the tests"]
    assert (procedure.memory_type, procedure.memory_target) == ("procedural", "Release")


def test_one_bad_record_costs_itself_alone(written: Path) -> None:
    store = written / "reme03_local" / "vector_store" / "reme"
    (store / "bad.json").write_text("{")
    (store / "odd.json").write_text(json.dumps({"vector_id": "x", "content": "y", "metadata": {"memory_type": "mood"}}))
    (store / "late.json").write_text(
        json.dumps({"vector_id": "z", "content": "y", "metadata": {"memory_type": "personal", "message_time": "soon"}})
    )
    (store / "secret.json").symlink_to(written / "reme02_local" / "team.jsonl")
    (written / "reme03_local" / "profile" / "bob.jsonl").write_text("[]\n")
    items = list(ReMeVectors(str(written / "reme03_local")).items())
    assert sum(isinstance(item, ImportedMemory) for item in items) == 6
    assert [item.where for item in items if isinstance(item, Unreadable)] == [
        "bad.json",
        "reme/late.json",
        "reme/odd.json",
    ]


def test_a_damaged_database_is_told_and_the_profiles_beside_it_are_read(written: Path) -> None:
    file = written / "reme03_chroma" / "vector_store" / "chroma.sqlite3"
    file.write_bytes(file.read_bytes()[:5000])
    items = list(ReMeVectors(str(written / "reme03_chroma")).items())
    assert [type(item) for item in items] == [Unreadable, ImportedMemory]


def test_messages_of_0_4_that_are_none_cost_themselves_alone(written: Path) -> None:
    dialogue = written / "reme04" / "session" / "dialog" / "s1.jsonl"
    with dialogue.open("a") as file:
        file.write('{"id": "m4", "role": "wizard", "content": "x"}\nnot JSON\n')
    (dialogue.parents[1] / "claude_code").mkdir()
    (dialogue.parents[1] / "claude_code" / "c.jsonl").write_text("{}\n")
    (written / "reme04" / "resource").mkdir()
    (written / "reme04" / "resource" / "paper.txt").write_text("raw")
    items = list(ReMeNotes(str(written / "reme04")).items())
    [session] = [item for item in items if isinstance(item, ImportedSession)]
    assert [message.message_id for message in session.messages] == ["m1", "m2", "m3"]
    assert [item.where for item in items if isinstance(item, Unreadable)] == [
        "session/claude_code/c.jsonl",
        "session/dialog/s1.jsonl, line 5",
        "session/dialog/s1.jsonl, message 'm4'",
        "resource/",
    ]


@pytest.mark.parametrize("source", [ReMeVectors, ReMeNotes])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, source: type[ReMeVectors | ReMeNotes]) -> None:
    with pytest.raises(InvalidInputError, match=r"ReMe 0\."):
        list(source(str(tmp_path)).items())


async def test_reme_files_import_reads_the_notes_of_0_4(memory: ReMe, written: Path) -> None:
    from reme_core.transfer.trees.import_tree import import_tree
    from reme_core.transfer.trees.statement import TreeKind

    await memory.flush()
    scope = (await memory.add_memory("x", user_id="emma")).scope
    tree = await import_tree(
        memory.store, None, scope, written / "reme04", kind=None, at=FixedClock("2027-01-01T00:00:00Z").now()
    )
    assert (tree.kind, len(tree.added), tree.left_out) == (TreeKind.REME, 6, ())
