"""What left a context on the command line: `offloads`, `reload`, `clean`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reme_core import ReMe, SyncReMe
from reme_core.cli import ExitCode, offloads
from reme_core.cli.offloads import read_lines
from reme_core.errors import InvalidInputError
from reme_core.testing import FixedClock
from tests.unit.cli.conftest import MESSAGES, Reme

LOG = "\n".join(f"{line:03} all is quiet" if line != 40 else "040 the door code is 7919-K" for line in range(1, 81))
LONG_AGO = FixedClock(datetime(2025, 3, 4, 20, tzinfo=UTC))


def opened(clock: FixedClock | None = None) -> SyncReMe:
    return ReMe.sync("default", ".reme", llm=None, embedding=None, clock=clock)


@pytest.fixture
def log(reme: Reme) -> str:
    """The reference of a log that an open session has offloaded just now."""
    with opened() as memory:
        return memory.offload_text(LOG, user_id="ana", session_id="s1", name="read_log").reference


@pytest.fixture
def old(reme: Reme) -> str:
    """The reference of a text that was offloaded long ago."""
    with opened(LONG_AGO) as memory:
        return memory.offload_text("老日志：门没有锁。", user_id="ana", session_id="s0", name="old").reference


@pytest.fixture
def talk(reme: Reme) -> str:
    """The reference of three messages that left a context."""
    with opened() as memory:
        reference = memory.offload_context(MESSAGES, user_id="ana", session_id="s1").reference
    assert reference is not None
    return reference


def test_offloads_are_listed_newest_first_with_time_session_kind_name_and_size(
    reme: Reme, old: str, log: str, talk: str
) -> None:
    listed = reme("offloads")
    assert (listed.code, listed.err) == (0, "")
    messages, text, first = listed.out.splitlines()
    assert re.fullmatch(rf"{talk}  20\d\d-\d\d-\d\d \d\d:\d\d  messages  3 messages  session s1", messages)
    assert re.fullmatch(rf"{log}  .{{16}}  tool_result  read_log  1,\d\d\d bytes  session s1", text)
    assert first == f"{old}  2025-03-04 20:00  tool_result  old  27 bytes  session s0"


def test_offloads_are_paged_and_narrowed_to_a_session(reme: Reme, old: str, log: str, talk: str) -> None:
    page = reme("offloads", "--limit", "2", "--json").value
    assert [item["reference"] for item in page["offloads"]] == [talk, log]
    rest = reme("offloads", "--limit", "2", "--cursor", page["next_cursor"], "--json").value
    assert ([item["reference"] for item in rest["offloads"]], rest["next_cursor"]) == ([old], None)
    assert f"more: --cursor {page['next_cursor']}" in reme("offloads", "--limit", "2").err
    assert [item["kind"] for item in reme("offloads", "--session", "s1", "--json").value["offloads"]] == [
        "messages",
        "tool_result",
    ]
    none = reme("offloads", "--session", "elsewhere")
    assert (none.code, none.out) == (0, "")
    assert "no offloads" in none.err


def test_a_text_is_printed_whole_even_where_it_takes_several_pieces(
    reme: Reme, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reme("reload", log).out == LOG + "\n"
    monkeypatch.setattr(offloads, "_PIECE_CHARS", 100)
    whole = reme("reload", log)
    assert (whole.code, whole.out, whole.err) == (0, LOG + "\n", "")
    [item] = reme("reload", log, "--json").value["results"]
    assert (item["memory"], item["next_offset"], item["first_line"], item["last_line"]) == (LOG, None, 1, 80)


def test_lines_of_a_text_are_printed(reme: Reme, log: str) -> None:
    lines = LOG.splitlines(keepends=True)
    for wanted, found in (("39-41", lines[38:41]), ("40", lines[39:40]), ("-2", lines[:2])):
        assert reme("reload", log, "--lines", wanted).out == "".join(found)
    assert reme("reload", log, "--lines", "79-").out == "".join(lines[78:]) + "\n"


def test_a_text_is_read_on_from_the_character_that_is_told(reme: Reme, log: str) -> None:
    assert reme("reload", log, "--offset", str(len(LOG) - 5)).out == "quiet\n"
    part = reme("reload", log, "--chars", "100")
    [last, lines, offset] = re.findall(r"\d+", part.err)
    assert (int(last), lines) == (part.out.count("\n"), "80")
    assert part.out.strip() + "\n" + reme("reload", log, "--offset", offset).out.strip() == LOG
    value = reme("reload", log, "--chars", "100", "--json").value["results"][0]
    assert (value["next_offset"], value["chars"]) == (int(offset), len(LOG))


def test_a_text_is_searched(reme: Reme, log: str) -> None:
    found = reme("reload", log, "--query", "door code")
    assert found.code == 0
    assert found.out.startswith("line 40 ")
    assert found.out.endswith("040 the door code is 7919-K\n")
    assert found.err == "1 place of 80 lines\n"
    assert reme("reload", log, "--query", "door code", "--json").value["results"][0]["matches"] == 1
    none = reme("reload", log, "--query", "submarine")
    assert (none.code, none.out, none.err) == (ExitCode.NOTHING_FOUND, "", "nothing found\n")
    assert reme("reload", log, "--query", "submarine", "--json").code == ExitCode.NOTHING_FOUND


def test_everything_that_left_is_searched_without_a_reference(reme: Reme, old: str, log: str, talk: str) -> None:
    found = reme("reload", "--query", "door code", "--limit", "1")
    assert found.code == 0
    head, *_, foot = found.out.splitlines()
    assert re.fullmatch(r"1\.  \d\.\d\d  tool_result  .{16}  read_log", head)
    assert foot == f"    reference {log}  session s1"
    said = reme("reload", "--query", "puppy Biscuit", "--limit", "1").out
    assert "  message  2025-03-04 20:00  Ana\n" in said
    assert said.endswith("    id m-1  session s1\n")
    assert reme("reload", "--query", "门没有锁", "--json").value["results"][0]["reference"] == old
    none = reme("reload", "--query", "submarine")
    assert (none.code, none.out, none.err) == (ExitCode.NOTHING_FOUND, "", "nothing found\n")


def test_a_search_is_narrowed_to_a_session_and_a_time(reme: Reme, log: str, old: str, talk: str) -> None:
    assert reme("reload", "--query", "door", "--session", "elsewhere").code == ExitCode.NOTHING_FOUND
    assert reme("reload", "--query", "door", "--session", "s1").code == 0
    assert reme("reload", "--query", "door", "--to", "2025-03-05").code == ExitCode.NOTHING_FOUND
    by_time = reme("reload", "--from", "2025-03-04", "--to", "2025-03-05", "--json").value["results"]
    assert [item["reference"] or item["message_ids"][0] for item in by_time] == ["m-1", old, "m-2", "m-3"]


def test_messages_that_left_are_read_as_a_talk(reme: Reme, talk: str) -> None:
    read = reme("reload", talk).out
    assert "Ana: I adopted a puppy called Biscuit" in read
    assert "Ana: 三个月，在成都出生。" in read


def test_what_is_reloaded_is_data_to_a_terminal(reme: Reme) -> None:
    with opened() as memory:
        text = "\x1b[31mred \u202e [bold]b[/bold]"
        reference = memory.offload_text(text, user_id="ana", session_id="[blink]s", name="\x1b[5mtool").reference
    assert reme("reload", reference).out == "\\x1b[31mred \\u202e [bold]b[/bold]\n"
    assert reme("reload", reference, "--json").value["results"][0]["memory"] == text
    for arguments in (("offloads",), ("reload", "--query", "red"), ("clean", "--days", "0", "--dry-run")):
        printed = reme(*arguments)
        assert "\x1b" not in printed.out + printed.err
    assert "\\x1b[5mtool  " in reme("offloads").out
    assert "session [blink]s\n" in reme("offloads").out


def test_references_of_others_are_not_found(reme: Reme, log: str) -> None:
    for other in (("--user", "bob"), ("--space", "elsewhere"), ("--shared",)):
        assert reme("reload", log, *other).code == ExitCode.NOT_FOUND
        assert reme("offloads", *other, "--json").value["offloads"] == []
        assert reme("reload", "--query", "door", *other).code == ExitCode.NOTHING_FOUND
        assert reme("clean", "--days", "0", "--idle-days", "0", "--yes", *other).code == 0
    assert reme("reload", log, "--session", "elsewhere").code == ExitCode.NOT_FOUND
    assert reme("reload", log, "--session", "s1").code == 0
    unknown = reme("reload", "0123456789abcdef", "--json")
    assert (unknown.code, unknown.error["type"]) == (ExitCode.NOT_FOUND, "OffloadNotFoundError")


def test_lines_that_are_cut_short_are_not_read_on_past_their_end(reme: Reme, log: str) -> None:
    cut = reme("reload", log, "--lines", "2-3", "--chars", "10")
    assert cut.code == 0
    assert "--offset" not in cut.err
    assert "the rest of these lines: a larger --chars" in cut.err
    assert reme("reload", log, "--lines", "2-3", "--chars", "100").err == ""


def test_a_reference_of_another_session_is_not_said_to_be_nowhere(reme: Reme, log: str) -> None:
    refused = reme("reload", log, "--session", "elsewhere")
    assert refused.code == ExitCode.NOT_FOUND
    assert "in this scope" not in refused.err
    assert "it left the context of another session" in refused.err


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("reload", "REF", "--chars", "0"), "--chars"),
        (("reload", "REF", "--lines", "81-90"), "--lines"),
        (("reload", "REF", "--lines", "5-3"), "--lines"),
        (("reload", "REF", "--offset", "-1"), "--offset"),
        (("reload", "REF", "--lines", "1-2", "--offset", "3"), "--offset"),
        (("reload", "REF", "--lines", "1-2", "--limit", "3"), "--limit"),
        (("reload", "REF", "--limit", "3"), "--limit"),
        (("reload", "--query", " "), "--query"),
        (("reload", "--query", "x", "--limit", "0"), "--limit"),
        (("reload", "--query", "x", "--from", "long ago"), "--from"),
        (("reload", "--from", "2026-01-01", "--to", "2025-01-01"), "--from"),
        (("offloads", "--limit", "0"), "--limit"),
        (("clean", "--days", "-1"), "--days"),
        (("clean", "--idle-days", "nan"), "--idle-days"),
        (("clean", "--max-bytes", "-1"), "--max-bytes"),
    ],
)
def test_what_is_refused_is_told_by_the_name_of_the_option(
    reme: Reme, log: str, arguments: tuple[str, ...], option: str
) -> None:
    told = reme(*(log if word == "REF" else word for word in arguments))
    assert told.code == ExitCode.BAD_INPUT
    assert option in told.err
    assert "_" not in told.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("reload",),
        ("reload", "--lines", "1-2", "--query", "x"),
        ("reload", "--offset", "0", "--query", "x"),
        ("reload", "REF", "--from", "2025-03-04"),
        ("reload", "REF", "--lines", "ten"),
        ("reload", "REF", "--lines", "0-3"),
        ("reload", "REF", "--lines", "5-3"),
        ("reload", "REF", "--lines", "81-90"),
        ("reload", "REF", "--lines", "1-2", "--offset", "3"),
        ("reload", "REF", "--lines", "1-2", "--query", "x"),
        ("reload", "REF", "--chars", "0"),
        ("reload", "REF", "--offset", "-1"),
        ("reload", "--query", " "),
        ("offloads", "--limit", "0"),
        ("clean", "--days", "-1"),
        ("clean", "--days", "nan"),
        ("clean", "--max-bytes", "-1"),
    ],
    ids=" ".join,
)
def test_options_that_say_nothing_together_are_refused(reme: Reme, log: str, arguments: tuple[str, ...]) -> None:
    done = reme(*(log if word == "REF" else word for word in arguments))
    assert (done.code, done.out) == (ExitCode.BAD_INPUT, "")
    assert done.err.count("\n") == 1


def test_without_a_file_there_is_nothing_to_look_at(reme: Reme, tmp_path: Path) -> None:
    for arguments in (("offloads",), ("reload", "0123456789abcdef"), ("reload", "--query", "x"), ("clean", "--yes")):
        assert reme(*arguments).code == ExitCode.NOT_FOUND
    assert list(tmp_path.iterdir()) == []


def test_without_a_user_nothing_is_looked_at(reme: Reme, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REME_USER")
    for arguments in (("offloads",), ("reload", log), ("clean", "--yes")):
        assert reme(*arguments).code == ExitCode.BAD_INPUT


def test_a_dry_run_lists_what_would_go_and_changes_nothing(reme: Reme, old: str, log: str, talk: str) -> None:
    would = reme("clean", "--dry-run")
    assert would.code == 0
    listed, total = would.out.splitlines()
    assert listed.startswith(f"{old}  2025-03-04 20:00")
    assert total.startswith("would remove 1 offload (27 bytes); 1,")
    value = reme("clean", "--dry-run", "--yes", "--json").value
    assert ([item["reference"] for item in value["removed"]], value["dry_run"]) == ([old], True)
    assert len(reme("offloads", "--json").value["offloads"]) == 3


def test_clean_removes_old_texts_and_leaves_messages_and_what_an_open_session_holds(
    reme: Reme, old: str, log: str, talk: str
) -> None:
    done = reme("clean", "--days", "0", "--yes")
    assert done.code == 0
    assert done.out.startswith("removed 1 offload (27 bytes); 1,")
    assert done.err == "1 offload would go and stay: an open session refers to them\n"
    assert reme("reload", old).code == ExitCode.NOT_FOUND
    assert reme("reload", log).code == 0
    assert reme("reload", talk).code == 0
    value = reme("clean", "--days", "0", "--idle-days", "0", "--yes", "--json").value
    assert ([item["reference"] for item in value["removed"]], value["bytes_left"]) == ([log], 0)
    assert reme("reload", talk).code == 0


def test_clean_removes_the_oldest_beyond_a_size(reme: Reme, old: str, log: str) -> None:
    value = reme("clean", "--days", "36500", "--max-bytes", str(len(LOG) + 27), "--yes", "--json").value
    assert value["removed"] == []
    value = reme("clean", "--days", "36500", "--max-bytes", str(len(LOG)), "--yes", "--json").value
    assert [item["reference"] for item in value["removed"]] == [old]


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 1), ("n\n", 130, 2), ("", 130, 2)])
def test_clean_asks_on_a_terminal(reme: Reme, old: str, log: str, answer: str, code: int, left: int) -> None:
    done = reme("clean", typed=answer, at_terminal=True)
    assert done.code == code
    assert "1 offload (27 bytes, made 2025-03-04 20:00 to 2025-03-04 20:00) of user 'ana'" in done.err
    assert len(reme("offloads", "--json").value["offloads"]) == left


def test_clean_without_a_terminal_and_without_yes_changes_nothing(reme: Reme, old: str) -> None:
    assert reme("clean").code == ExitCode.BAD_INPUT
    assert reme("reload", old).code == 0


def test_clean_asks_nothing_where_nothing_would_go(reme: Reme, log: str) -> None:
    done = reme("clean")
    assert done.code == 0
    assert done.out.startswith("removed 0 offloads (0 bytes); 1,")


def test_stats_count_offloads_and_their_bytes(reme: Reme, log: str, talk: str) -> None:
    assert f"offloads:  2 ({len(LOG):,} bytes)\n" in reme("stats").out
    value = reme("stats", "--json").value
    assert (value["offloads"], value["offload_bytes"]) == (2, len(LOG))


def test_offloads_move_with_an_export_and_go_with_everything(reme: Reme, log: str, talk: str) -> None:
    assert "3 messages, 1 block, 2 offloads, 0 memories" in reme("export", "ana.jsonl").out
    assert "2 offloads" in reme("import", "ana.jsonl", "--user", "copy").out
    assert reme("reload", log, "--user", "copy").out == LOG + "\n"
    done = reme("delete", "--all", typed="y\n", at_terminal=True)
    assert "3 messages, 2 offloads and 0 memories" in done.err
    assert "2 offloads" in done.out
    assert reme("reload", log).code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("text", "lines"), [("10-40", (10, 40)), ("10-", (10, None)), ("-40", (None, 40)), ("10", (10, 10))]
)
def test_lines_are_read_as_they_are_written(text: str, lines: tuple[int | None, int | None]) -> None:
    assert read_lines(text) == lines


@pytest.mark.parametrize("text", ["", "-", "a", "1-2-3", " 1", "1.5", "١-٢", "1" * 10])
def test_other_lines_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="--lines"):
        read_lines(text)


def test_search_finds_a_passage_that_left_a_context_and_show_its_beginning(reme: Reme, log: str) -> None:
    found = reme("search", "door code", "--limit", "1")
    assert found.out.endswith(f"    [… reload {log}]\n    session s1\n")
    shown = reme("show", log)
    assert shown.out.startswith(f"{shown.out[:16]}  tool_result  read_log\n    001 all is quiet\n")
    assert shown.out.endswith(f"    reference {log}  session s1\n")
    value = reme("show", log, "--json").value
    assert (value["kind"], value["offload"]["memory"], value["messages"]) == ("offload", LOG, [])


def test_show_prints_a_long_text_in_part_and_says_so(reme: Reme) -> None:
    with opened() as memory:
        text = LOG * 10
        reference = memory.offload_text(text, user_id="ana", session_id="s1").reference
    shown = reme("show", reference).out
    assert 4000 < len(shown) < 6000
    assert re.search(r"  up to line \d+ of 791, reme reload prints all\n", shown)


def test_show_prints_the_messages_that_left_once(reme: Reme, talk: str) -> None:
    shown = reme("show", talk).out
    assert shown.count("I adopted a puppy called Biscuit") == 1
    assert "from 3 messages" not in shown
