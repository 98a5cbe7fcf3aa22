"""What each command does, for people and as JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reme_core import ReMe
from reme_core.cli import ExitCode, options
from reme_core.openai_agents import ReMeSession
from reme_core.stores.sql import partitions
from tests.unit.cli.conftest import MESSAGES, Reme


def test_an_added_memory_is_found_listed_and_shown(reme: Reme) -> None:
    added = reme("add", "Ana is allergic to shellfish", "--target", "Ana", "--metadata", '{"from": "form"}', "--json")
    memory_id = added.value["memory_id"]
    assert (added.code, added.err) == (0, "")
    assert added.value["memory_target"] == "Ana"
    found = reme("search", "which allergy", "--json")
    assert found.value["results"][0]["memory_id"] == memory_id
    assert reme("list", "--json").value["memories"][0]["metadata"] == {"from": "form"}
    shown = reme("show", memory_id)
    assert "Ana is allergic to shellfish" in shown.out
    assert memory_id in shown.out
    assert reme("show", memory_id, "--json").value["memory"]["memory_id"] == memory_id


def test_a_memory_is_read_from_standard_input(reme: Reme) -> None:
    assert reme("add", "-", "--json", typed="两点开会 🎉\n").value["content"] == "两点开会 🎉"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MESSAGES),
        json.dumps({"messages": MESSAGES}),
        "\n".join(json.dumps(message, ensure_ascii=False) for message in MESSAGES) + "\n\n",
        "\ufeff" + json.dumps(MESSAGES, indent=2),
    ],
    ids=["list", "object", "lines", "byte order mark"],
)
def test_messages_are_read_in_each_form(reme: Reme, text: str) -> None:
    done = reme("add", "--messages", "-", "--session", "s1", "--end", "--json", typed=text)
    assert done.value["session_id"] == "s1"
    assert done.value["message_ids"] == ["m-1", "m-2", "m-3"]
    assert len(done.value["block_ids"]) == 1


def test_a_single_message_is_a_line_of_its_own(reme: Reme) -> None:
    assert reme("add", "-m", "-", "--json", typed=json.dumps(MESSAGES[0])).value["message_ids"] == ["m-1"]


def test_messages_that_are_there_are_not_added_again(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    again = reme("add", "--messages", chat, "--session", "s1")
    assert "0 messages (3 more were there already)" in again.out


def test_search_finds_messages_and_says_who_said_them_when(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    found = reme("search", "puppy")
    assert found.code == 0
    assert "2025-03-04 20:00  Ana" in found.out
    assert "session s1" in found.out
    assert reme("search", "在哪儿出生", "--limit", "1", "--json").value["results"][0]["message_ids"] == ["m-3"]


def test_search_tells_what_it_had_no_time_to_look_at(reme: Reme, chat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_CHUNK_ROWS", 1)
    reme("add", "--messages", chat, "--session", "s1")
    assert reme("search", "puppy").err == ""
    monkeypatch.setattr(options, "_LOADING_WAIT_S", 0)
    told = "only the newest 1 messages were searched: the older ones are still being loaded"
    done = reme("search", "在哪儿出生")
    assert (done.code, done.err) == (0, f"{told}\n")
    assert reme("search", "在哪儿出生", "--json").value["degraded"] == [told]


def test_search_explains_its_scores_and_what_is_missing(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    told = reme("search", "puppy", "--limit", "1", "--why-not", "m-3")
    assert "    text nearby          +0." in told.out
    assert "why not m-3:" in told.out
    many = reme("search", "puppy", "--layer", "message", "--tokens", "5", "--explain")
    assert "    left out: the budget of tokens had no room for it" in many.out
    explained = reme("search", "puppy", "--explain", "--json").value["explanation"]
    assert explained["candidates"][0]["parts"]["text"] > 0
    assert reme("search", "puppy", "--json").value["explanation"] is None


def test_a_picture_of_the_time_axis_is_a_file_of_its_own(reme: Reme, chat: str, tmp_path: Path) -> None:
    out = tmp_path / "timeline.svg"
    assert reme("add", "Ana & <b>Ben</b> row", "--user", "bob").code == 0
    assert reme("picture", "timeline", "--out", str(out)).code == 1
    reme("add", "--messages", chat, "--session", "s1")
    assert reme("picture", "timeline", "--out", str(out)).code == 0
    root = ElementTree.parse(out).getroot()  # noqa: S314  # our own file
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any("I adopted a puppy called Biscuit" in title for title in titles)
    assert not list(root.iter("{http://www.w3.org/2000/svg}a"))
    reme("picture", "timeline", "--out", str(out), "--user", "bob")
    assert "Ana &amp; &lt;b&gt;Ben" in out.read_text(encoding="utf-8")


def test_map_growth_and_cost_are_drawn_as_files(reme: Reme, chat: str, tmp_path: Path) -> None:
    out = tmp_path / "drawn.svg"
    reme("add", "--messages", chat, "--session", "s1")
    reme("add", "Ana & <b>Ben</b> row", "--target", "<b>Ben</b>")
    drawn = {}
    for kind in ("map", "growth"):
        assert reme("picture", kind, "--out", str(out)).code == 0
        root = ElementTree.parse(out).getroot()  # noqa: S314  # our own file
        drawn[kind] = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
        assert not list(root.iter("{http://www.w3.org/2000/svg}a"))
    assert "<b>Ben</b>: memories 1, related names 0" in drawn["map"]
    assert "1 memories" in drawn["growth"][0]
    assert reme("picture", "cost", "--out", str(out)).code == 1
    assert "--as-of says nothing about" in reme("picture", "growth", "--out", str(out), "--as-of", "2024").err


def test_search_that_finds_nothing_ends_with_1(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat)
    nothing = reme("search", "submarine")
    assert (nothing.code, nothing.out, nothing.err) == (1, "", "nothing found\n")
    as_json = reme("search", "submarine", "--json")
    assert (as_json.code, as_json.value["results"], as_json.err) == (1, [], "")


def test_search_lists_a_time_without_a_question(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    listed = reme("search", "--from", "2025-03-04", "--to", "2025-03-05", "--json")
    assert {hit["created_at"][:10] for hit in listed.value["results"]} == {"2025-03-04"}
    assert reme("search", "what happened on 4 March 2025?", "--json").value["results"] == listed.value["results"]
    assert reme("search", "--to", "2020-01-01").code == 1
    refused = reme("search")
    assert refused.code == 2
    assert "--from or --to" in refused.err


def test_search_honours_every_filter(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    reme("add", "The puppy eats twice a day", "--type", "procedural", "--metadata", '{"n": 1}')
    assert reme("search", "puppy", "--layer", "memory", "--layer", "summary", "--json").code == 0
    assert reme("search", "puppy", "--session", "other").code == 1
    assert reme("search", "puppy", "--layer", "message", "--to", "2025-03-04").code == 1
    assert reme("search", "puppy", "--layer", "message", "--from", "2025-03-04", "--to", "2025-03-05").code == 0
    assert reme("search", "puppy", "--type", "procedural", "--metadata", '{"n": 1}').code == 0
    assert reme("search", "puppy", "--type", "procedural", "--metadata", '{"n": 2}').code == 1
    assert len(reme("search", "puppy", "--tokens", "8", "--json").value["results"]) == 1
    assert len(reme("search", "puppy", "--top-k", "1", "--json").value["results"]) == 1
    assert reme("search", "puppy", "--top-k", "1", "--limit", "2").code == 2
    assert reme("search", "puppy", "--min-score", "1.0", "--layer", "message").code == 1
    assert reme("search", "puppy", "--min-score", "2").code == 2
    assert reme("search", "puppy", "--type", "tool", "--type", "identity", "--superseded").code == 1
    assert reme("search", "puppy", "--layer", "memory", "--as-of", "2000-01-01").code == 1


def test_the_shared_scope_is_read_beside_ones_own_where_asked(reme: Reme) -> None:
    reme("add", "The office closes at six", "--shared")
    reme("add", "I leave at five")
    assert reme("search", "office").code == 1
    assert reme("search", "office", "--include-shared").code == 0
    assert reme("search", "office", "--shared").code == 0


def test_the_shared_scope_is_asked_for_by_name_alone(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    reme("add", "The office closes at six", "--shared")
    both = reme("list", "--shared", "--user", "bob")
    assert (both.code, both.err) == (2, "reme: --user 'bob' and --shared name two scopes: leave one of them out\n")
    blank = reme("list", "--user", " ")
    assert blank.code == 2
    assert "--user: is blank, which is no user: give the id of the user, or --shared for the shared scope" in blank.err
    monkeypatch.delenv("REME_USER")
    for nobody in ((), ("--user", "")):
        refused = reme("list", *nobody)
        assert refused.code == 2
        assert "or --shared for the shared scope of the space" in refused.err
    asked = reme("delete", "--all", "--shared", typed="no\n", at_terminal=True)
    assert "of the shared scope in memory space 'default' for good?" in asked.out + asked.err
    assert "The office closes at six" in reme("list", "--shared").out


def test_users_and_spaces_are_kept_apart(reme: Reme) -> None:
    memory_id = reme("add", "secret of ana", "--json").value["memory_id"]
    for other in (("--user", "bob"), ("--space", "elsewhere"), ("--shared",)):
        assert reme("search", "secret", *other).code == 1
        assert reme("show", memory_id, *other).code == 3
        assert reme("history", memory_id, *other).code == 3
        assert reme("delete", memory_id, "--yes", *other).code == 3
    assert reme("show", memory_id).code == 0


def test_list_pages_through_each_layer(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    for text in ("one", "two", "three"):
        reme("add", text)
    first = reme("list", "--limit", "2", "--json").value
    second = reme("list", "--limit", "2", "--cursor", first["next_cursor"], "--json").value
    assert [item["content"] for item in first["memories"] + second["memories"]] == ["three", "two", "one"]
    assert second["next_cursor"] is None
    messages = reme("list", "--layer", "message", "--session", "s1", "--keyword", "puppy", "--json").value
    assert [item["message"]["message_id"] for item in messages["messages"]] == ["m-1"]
    assert len(reme("list", "--layer", "summary", "--json").value["blocks"]) == 1
    assert "--cursor" in reme("list", "--limit", "1").err


def test_an_empty_list_says_where_messages_are(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat)
    empty = reme("list")
    assert (empty.code, empty.out) == (0, "")
    assert "--layer message" in empty.err


def test_show_takes_the_id_of_a_message_or_a_block(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    message = reme("show", "m-1", "--json").value
    block_id = message["message"]["block_id"]
    block = reme("show", block_id, "--json").value
    assert (message["kind"], block["kind"]) == ("message", "block")
    assert [item["message"]["message_id"] for item in block["messages"]] == ["m-1", "m-2", "m-3"]
    assert "from 3 messages:" in reme("show", block_id).out


def test_show_gives_the_source_messages_of_a_memory_and_passes_over_those_that_are_gone(
    reme: Reme, chat: str, tmp_path: Path
) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    block_id = reme("show", "m-1", "--json").value["message"]["block_id"]
    memory = reme("add", "Ana has a puppy", "--json").value
    sources = [{"message_ids": ["m-1", "gone"]}, {"block_id": block_id}, {"block_id": "gone"}]
    line = {"kind": "memory", "value": {**memory, "memory_id": "with-sources", "content": "x", "sources": sources}}
    (tmp_path / "in.jsonl").write_text(json.dumps(line), encoding="utf-8")
    assert reme("import", "in.jsonl").code == 0
    shown = reme("show", "with-sources", "--json").value
    assert [item["message"]["message_id"] for item in shown["messages"]] == ["m-1", "m-2", "m-3"]


def test_history_tells_of_a_memory_that_was_deleted(reme: Reme) -> None:
    memory_id = reme("add", "short-lived", "--json").value["memory_id"]
    assert reme("delete", memory_id, "--yes", "--json").value == {"deleted": memory_id}
    assert reme("show", memory_id).code == 3
    events = reme("history", memory_id, "--json").value["events"]
    assert [event["operation"] for event in events] == ["add", "delete"]
    told = reme("history", memory_id)
    assert "short-lived" in told.out
    assert "because: reme delete" in told.out


def test_an_export_comes_back_by_import_and_twice_changes_nothing(reme: Reme, chat: str, tmp_path: Path) -> None:
    reme("add", "--messages", chat, "--session", "s1")
    reme("add", "Ana likes tea")
    assert reme("export", "ana.jsonl", "--json").value == {
        "file": "ana.jsonl",
        "messages": 3,
        "blocks": 1,
        "memories": 1,
        "events": 1,
        "offloads": 0,
        "tool_calls": 0,
    }
    for known in (0, 1):
        read = reme("import", "ana.jsonl", "--user", "copy", "--json")
        assert read.value == {
            "messages": 3,
            "blocks": 1,
            "memories": 1,
            "offloads": 0,
            "tool_calls": 0,
            "known_messages": 3 * known,
            "known_memories": known,
            "problems": [],
        }
        assert reme("stats", "--user", "copy", "--json").value["messages"] == 3
    assert "wrote 3 messages, 1 block, 1 memory and 1 event to ana.jsonl" in reme("export", "ana.jsonl").out
    with pytest.MonkeyPatch.context() as terminal:
        terminal.setenv("FORCE_COLOR", "1")
        terminal.setenv("TERM", "xterm")
        bar = reme("import", "ana.jsonl", "--user", "copy").err
    assert 0 <= bar.find("reading ana.jsonl") < bar.find("importing ana.jsonl")
    again = reme("import", "ana.jsonl", "--user", "copy")
    assert "read 3 messages, 1 block and 1 memory; of them 3 messages and 1 memory known before" in again.out
    with (tmp_path / "ana.jsonl").open("a") as file:
        file.write("{")
    refused = reme("import", "ana.jsonl", "--user", "copy")
    assert (refused.code, "or give --skip-bad-lines" in refused.err) == (ExitCode.BAD_INPUT, True)
    skipped = reme("import", "ana.jsonl", "--user", "third", "--skip-bad-lines")
    assert (skipped.code, skipped.out) == (ExitCode.PARTLY_DONE, "read 3 messages, 1 block and 1 memory\n")
    assert "not JSON" in skipped.err


def test_delete_all_leaves_nothing_of_the_user_and_everything_of_others(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat)
    reme("add", "bob's", "--user", "bob")
    gone = {"memories": 0, "messages": 3, "blocks": 1, "events": 0, "jobs": 0, "offloads": 0, "tool_calls": 0}
    gone |= {"sessions": 1, "blobs": 0, "store_items": 0, "files": 0}
    places = {"adapter_rows": {}, "pages_cleared": True, "index_cleared": None, "left_to_operator": []}
    places |= {"files_elsewhere": []}
    assert reme("delete", "--all", "--yes", "--json").value == gone | places
    assert reme("stats", "--json").value["messages"] == 0
    assert reme("stats", "--user", "bob", "--json").value["memories"] == 1


def test_delete_all_tells_what_was_removed_from_where(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat)
    told = reme("delete", "--all", "--yes").out
    assert "deleted 3 messages, 1 block, 0 memories and 0 events" in told
    assert "nothing of it is left in the pages of the file" in told


def test_delete_all_says_that_nothing_was_there_only_if_no_adapter_kept_anything(reme: Reme) -> None:
    async def keep() -> None:
        async with ReMe("default", ".reme", llm=None, embedding=None) as memory:
            await ReMeSession("chat", memory, user_id="ana").add_items([{"type": "reasoning", "summary": []}])

    asyncio.run(keep())
    gone, again = (reme("delete", "--all", "--yes", "--user", "ana") for _ in range(2))
    assert ("rows of adapters: 1 of openai_agents_items" in gone.out, gone.err) == (True, "")
    assert again.err.startswith("nothing of user 'ana'")


def test_delete_with_erase_leaves_no_history(reme: Reme) -> None:
    memory_id = reme("add", "the code is xyzzy", "--json").value["memory_id"]
    assert "and its history" in reme("delete", memory_id, "--erase", "--yes").out
    assert reme("history", memory_id).code == 3


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 130, 1), ("", 130, 1)])
def test_delete_asks_on_a_terminal(reme: Reme, answer: str, code: int, left: int) -> None:
    memory_id = reme("add", "keep me?", "--json").value["memory_id"]
    done = reme("delete", memory_id, typed=answer, at_terminal=True)
    assert done.code == code
    assert "delete 'keep me?'?" in done.err
    assert reme("stats", "--json").value["memories"] == left


def test_delete_all_names_what_will_go_before_it_asks(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat)
    done = reme("delete", "--all", typed="y\n", at_terminal=True)
    assert "3 messages and 0 memories of user 'ana' in memory space 'default'" in done.err
    assert done.out.startswith("deleted 3 messages, 1 block, 0 memories and 0 events\n")
    assert "nothing of user 'ana'" in reme("delete", "--all", "--yes").err


def test_delete_without_a_terminal_and_without_yes_changes_nothing(reme: Reme) -> None:
    memory_id = reme("add", "still here", "--json").value["memory_id"]
    assert reme("delete", memory_id).code == 2
    assert reme("delete", "--all").code == 2
    assert reme("show", memory_id).code == 0


def test_stats_count_and_name_the_file(reme: Reme, chat: str) -> None:
    reme("add", "--messages", chat)
    reme("add", "a fact", "--type", "identity")
    value = reme("stats", "--json").value
    assert (value["messages"], value["memories"], value["sessions"]) == (3, 1, 1)
    assert value["current_memories"] == {"identity": 1}
    assert value["file_bytes"] > 0
    assert "1 (1 identity)" in reme("stats").out


def test_where_the_memory_lies_comes_from_options_or_variables(
    reme: Reme, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reme("add", "here", "--dir", "one", "--space", "work")
    monkeypatch.setenv("REME_DIR", str(tmp_path / "one"))
    monkeypatch.setenv("REME_SPACE", "work")
    assert reme("stats", "--json").value["memories"] == 1
    assert reme("stats", "--json", "--space", "play").value["memories"] == 0


def test_the_version_and_the_help_are_told(reme: Reme) -> None:
    assert reme("--version").out == "reme 1.0.0rc1\n"
    assert "Exit codes" in reme("--help").out
    assert "--yes" in reme("delete", "--help").out
