"""ChatGPT's and Claude's exports: small ones of the documented form (tests/data/importers), and wrong ones."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from reme_core.errors import InvalidInputError, StoreAccessError
from reme_core.transfer.importers import json_values
from reme_core.transfer.importers.chatgpt import ChatGPTExport
from reme_core.transfer.importers.claude import ClaudeExport
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, ImportedSession, Unreadable

DATA = Path(__file__).parents[2] / "data" / "importers"


def sessions(items: Iterator[ImportedItem]) -> list[ImportedSession]:
    return [item for item in items if isinstance(item, ImportedSession)]


def problems(items: Iterator[ImportedItem]) -> list[tuple[str, str]]:
    return [(item.where, item.reason) for item in items if isinstance(item, Unreadable)]


def told(items: Iterator[ImportedItem]) -> list[object]:
    """What sessions say, without the times of reading that messages without one bear; other items as they are."""
    return [
        (item.source_id, [(one.message_id, one.content) for one in item.messages])
        if isinstance(item, ImportedSession)
        else item
        for item in items
    ]


def turn(key: str, parent: str | None, text: str = "Hello", at: object = 1740821400.0) -> dict[str, object]:
    content = {"content_type": "text", "parts": [text]}
    return {
        "id": key,
        "parent": parent,
        "message": {"id": key, "author": {"role": "user"}, "create_time": at, "content": content},
    }


def chat(key: str, *turns: dict[str, object], current: str | None = None) -> dict[str, object]:
    mapping = {str(one["id"]): one for one in turns}
    return {"id": key, "title": key, "create_time": 1740821400.0, "mapping": mapping, "current_node": current}


def written(folder: Path, value: object) -> str:
    file = folder / "conversations.json"
    file.write_text(json.dumps(value))
    return str(file)


def test_the_branch_of_chatgpt_that_is_shown_is_the_conversation() -> None:
    trip, tea = sessions(ChatGPTExport(str(DATA / "chatgpt")).items())
    assert (trip.title, trip.user) == ("Porto to Lisbon", None)
    assert "About 200 km." not in [message.text for message in trip.messages]
    assert [message.text for message in tea.messages] == ["Tea or coffee?", "Tea."]
    said = {message.message_id: message for message in trip.messages}
    assert [block.type for block in said["q2"].content] == ["image", "text", "file"]
    assert said["q2"].full_text.splitlines() == ["map.png", "And by this map, at 90 km/h?", "route.gpx"]
    assert said["q3"].text == "Draw the bridge."
    assert said["pic"].full_text.strip() == "The bridge of Porto at dusk"
    assert said["code"].call_ids == said["out"].result_ids == ("code",)
    assert (said["out"].full_text, said["out"].trust) == ("3.477777777777778", "tool")
    assert (said["ctx"].full_text, said["th"].full_text) == ("", "")
    assert said["a1"].created_at.isoformat() == "2025-03-01T09:30:10.250000+00:00"
    assert said["a1"].metadata == {"model": "gpt-4o"}
    assert "created_at" not in said["end"].model_fields_set


def test_claude_s_conversations_keep_what_tools_said_apart_and_what_was_attached() -> None:
    items = list(ClaudeExport(str(DATA / "claude")).items())
    moving, tea = sessions(iter(items))
    assert (moving.title, moving.user) == ("Moving to Porto", "acc-1")
    assert [(one.message_id, one.role, one.trust) for one in moving.messages] == [
        ("m-1", "user", "user"),
        ("m-2", "assistant", "assistant"),
        ("m-2-1", "tool", "tool"),
        ("m-2-2", "assistant", "assistant"),
        ("m-4", "assistant", "assistant"),
    ]
    assert moving.messages[0].text == "Which papers do I need?\nPassport and lease"
    assert moving.messages[1].call_ids == moving.messages[2].result_ids == ("toolu_1",)
    assert moving.messages[4].text == "Older exports have the text alone."
    assert [message.text for message in tea.messages] == ["Tea or coffee?", "Tea."]
    noted = [item for item in items if isinstance(item, ImportedMemory)]
    assert [(one.content, one.memory_target, one.when_to_use) for one in noted] == [
        ("Alice works on memory libraries.", "self", "Work context"),
        ("Lives in Porto", "self", "Personal context"),
        ("Has a dog called Rex", "self", "Personal context"),
        ("Ship the importers first.", "project p-1", ""),
    ]


@pytest.mark.parametrize(("source", "name"), [(ChatGPTExport, "chatgpt"), (ClaudeExport, "claude")])
def test_a_zip_a_folder_around_it_and_the_bare_file_say_the_same(
    tmp_path: Path, source: type[ChatGPTExport | ClaudeExport], name: str
) -> None:
    [*files] = (DATA / name).iterdir()
    packed = tmp_path / "export.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, f"../../{file.name}")  # nothing is ever written by these names
    whole = told(source(str(packed)).items())
    assert whole == told(source(str(DATA / name)).items())
    bare = told(source(str(DATA / name / "conversations.json")).items())
    assert bare == [one for one in whole if isinstance(one, tuple)]
    nested = tmp_path / "unpacked" / "in"
    nested.mkdir(parents=True)
    (nested / "conversations-000.json").write_bytes((DATA / name / "conversations.json").read_bytes())
    (nested / "conversations.json").symlink_to(DATA / name / "conversations.json")
    around = list(source(str(tmp_path / "unpacked")).items())
    assert told(iter(sessions(iter(around)))) == bare
    assert problems(iter(around)) == [("conversations.json", "is no regular file")]


def test_what_is_wrong_costs_that_conversation_or_message_alone(tmp_path: Path) -> None:
    ring = [turn("a", "c"), turn("b", "a"), turn("c", "b")]
    path = written(
        tmp_path,
        [
            chat("ring", *ring, current="c"),
            chat("all in a ring", *ring),
            chat("times", turn("a", None), turn("b", "a", at=1e300), turn("c", "b", at=0), turn("d", "c"), current="d"),
            {"id": "no mapping"},
            [7],
            chat("cut", turn("a", "gone", "Half \ud83d"), current="a"),
            chat("roles", turn("a", None), {**turn("b", "a"), "message": {"id": "b", "author": {"role": "wizard"}}}),
        ],
    )
    times, cut, roles = sessions(ChatGPTExport(path).items())
    assert [("created_at" in one.model_fields_set) for one in times.messages] == [True, False, False, True]
    assert cut.messages[0].text == "Half �"
    assert len(roles.messages) == 1
    wrong = problems(ChatGPTExport(path).items())
    assert [where.removeprefix("conversations.json, ") for where, _ in wrong] == [
        "value 1 ('ring')",
        "value 2 ('all in a ring')",
        "value 3 ('times'), message 'b'",
        "value 3 ('times'), message 'c'",
        "value 4",
        "value 5",
    ]
    assert wrong[0][1] == "its messages answer each other in a ring"
    assert "has that of the message before it" in wrong[2][1]


def test_a_conversation_in_which_nothing_was_said_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, [chat("opened", current=""), chat("kept", turn("a", None), current="a")])
    [kept] = ChatGPTExport(path).items()
    assert isinstance(kept, ImportedSession)
    assert kept.title == "kept"


def test_claude_s_messages_in_a_ring_cost_their_conversation(tmp_path: Path) -> None:
    said = [{"uuid": key, "sender": "human", "text": "x", "parent_message_uuid": to} for key, to in ("ab", "ba")]
    path = written(tmp_path, [{"uuid": "1", "name": "ring", "chat_messages": said}, {"uuid": "2", "chat_messages": []}])
    assert list(ClaudeExport(path).items()) == [
        Unreadable("conversations.json, value 1 ('ring')", "its messages answer each other in a ring")
    ]


def test_a_broken_value_costs_itself_and_a_cut_file_its_end(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    good = json.dumps(chat("good", turn("a", None)))
    file.write_text(f'[{good}, {{"id": oops}}, {good.replace("good", "next")}, {good[:-30]}')
    items = list(ChatGPTExport(str(file)).items())
    assert [one.source_id for one in sessions(iter(items))] == ["good", "next"]
    assert [where for where, _ in problems(iter(items))] == [
        "conversations.json, value 2",
        "conversations.json, behind value 3",
    ]
    file.write_text("[" * 200_000)
    assert len(problems(ChatGPTExport(str(file)).items())) == 1


def test_bombs_and_archives_of_other_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "_RATIO_MATTERS_BYTES", 1 << 16)
    packed = tmp_path / "export.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/conversations.json", b"[" + b" " * (1 << 20) + b"]")
        archive.writestr("b/conversations-1.json", b"[]", compress_type=zipfile.ZIP_LZMA)
        archive.writestr("__MACOSX/conversations.json", b"\0")
    reasons = [reason for _, reason in problems(ChatGPTExport(str(packed)).items())]
    assert "would unpack" in reasons[0]
    assert "packed in a way that no export is" in reasons[1]
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("conversations.json", json.dumps([chat("a", turn("a", None))]))
    data = packed.read_bytes().replace(b"Hello", b"Jello")
    packed.write_bytes(data)
    assert "can't be unpacked further" in problems(ChatGPTExport(str(packed)).items())[0][1]
    packed.write_bytes(data.replace(b"PK\x01\x02", b"PK\x09\x02"))
    with pytest.raises(InvalidInputError, match="is no whole ZIP"):
        list(ChatGPTExport(str(packed)).items())
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("chat.html", "x")
    with pytest.raises(InvalidInputError, match=r"holds no conversations\.json"):
        list(ChatGPTExport(str(packed)).items())
    with pytest.raises(StoreAccessError):
        list(ChatGPTExport(str(tmp_path / "nothing")).items())


def test_a_conversation_that_is_too_large_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MAX_VALUE_CHARS", 2000)
    monkeypatch.setattr(json_values, "_READ_AT_ONCE", 100)
    long = chat("long", *(turn(str(n), None, "x" * 500) for n in range(9)))
    path = written(tmp_path, [chat("a", turn("a", None)), long, chat("b", turn("a", None))])
    assert [one.source_id for one in sessions(ChatGPTExport(path).items())] == ["a", "b"]
    path = written(tmp_path, [chat("a", turn("a", None)), chat("text", turn("a", None, "x" * 9000))])
    assert [one.source_id for one in sessions(ChatGPTExport(path).items())] == ["a"]
    assert len(problems(ChatGPTExport(path).items())) == 1


TEXT = st.text('[]{}",\\ aé\U0001f600\n', max_size=6)
JSON = st.dictionaries(TEXT, TEXT | st.lists(st.integers(), max_size=2) | st.dictionaries(TEXT, TEXT, max_size=1))


@settings(deadline=None, max_examples=25)
@given(values=st.lists(JSON | st.none() | st.integers() | TEXT, max_size=4), at_once=st.integers(1, 9))
def test_an_array_is_cut_into_its_values_wherever_reading_pauses(values: list[JsonValue], at_once: int) -> None:
    file = BytesIO(json.dumps(values, ensure_ascii=False).encode())
    before, json_values._READ_AT_ONCE = json_values._READ_AT_ONCE, at_once
    try:
        found = [json.loads(raw or "") for raw in json_values._Splitter(file).values()]
    finally:
        json_values._READ_AT_ONCE = before
    assert found == values


def test_an_array_is_read_no_further_than_the_value_that_is_wanted() -> None:
    file = BytesIO(json.dumps([{"text": "x" * 1000}] * 5000).encode())
    next(json_values._Splitter(file).values())
    assert file.tell() <= 2 * json_values._READ_AT_ONCE
