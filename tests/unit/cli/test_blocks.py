"""`reme block`: memory blocks for people and for programs."""

from __future__ import annotations

from tests.unit.cli.conftest import Reme


def test_a_block_is_set_shown_listed_and_deleted(reme: Reme) -> None:
    reme("add", "a fact")
    assert reme("block", "list").code == 1
    made = reme(
        "block", "set", "human", "-", "--description", "the user", "--limit", "9", "--json", typed="Ana\nLisbon"
    )
    assert (made.value["text"], made.value["limit_tokens"]) == ("Ana\nLisbon", 9)
    shown = reme("block", "show", "human").out.splitlines()
    assert shown[0].startswith("human  ")
    assert shown[0].endswith("of 9 tokens  revision 1")
    assert shown[1:3] == ["    Ana", "    Lisbon"]
    assert "the user" in reme("block", "list").out
    assert reme("block", "set", "human", "word " * 99).code == 2
    conflict = reme("block", "set", "human", "other", "--expect", "7")
    assert (conflict.code, "has revision 1" in conflict.err) == (8, True)
    assert "block / human: 1 change" in reme("diff").out
    assert reme("block", "delete", "human").out == "deleted human\n"
    gone = reme("block", "show", "human")
    assert (gone.code, "`reme block list` lists those there are" in gone.err) == (3, True)
    assert "--limit: wanted a whole number" in reme("block", "set", "human", "--limit", "0").err
    assert "--expect: wanted the revision" in reme("block", "delete", "human", "--expect", "0").err
    empty = reme("block", "set", "human")
    assert (empty.code, "give its text, or an option" in empty.err) == (2, True)


def test_a_grant_is_taken_back_by_its_own_command(reme: Reme) -> None:
    reme("block", "set", "team", "Be kind.", "--shared")
    reme("block", "grant", "team")
    [entry] = reme("list", "--type", "block", "--json").value["memories"]
    [event] = reme("history", entry["memory_id"], "--json").value["events"]
    assert "or take it back by `reme block revoke`" in reme("undo", event["run_id"]).err


def test_a_shared_block_is_granted_to_a_user_and_revoked(reme: Reme) -> None:
    reme("block", "set", "team", "Be kind.", "--shared", "--read-only")
    assert reme("block", "grant", "team", "--write").code == 0
    assert "shared for write  read-only" in reme("block", "list").out
    assert reme("block", "list", "--user", "ben").code == 1
    assert reme("block", "revoke", "team", "--json").value == {"revoked": "team"}
    assert reme("block", "show", "team").code == 3
    assert reme("block", "show", "team", "--shared").code == 0
