"""Text from memories is data: on any terminal, in any pipe, with any content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from reme_core.cli.wording import json_line, one_line, visible
from tests.unit.cli.conftest import Reme

HOSTILE = "\x1b[31mred\x1b[0m \x07 \x9b2J \r over \u202egnp.exe \u2028 [bold]b[/bold] [link=x]l[/link] :smile: {x} \\"
OBEYED = "\x1b\x07\x9b\r\u202e\u2028"


@pytest.fixture
def terminal(reme: Reme, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")


def shown(text: str) -> str:
    """Take out the colours that rich itself writes."""
    import re

    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_nothing_in_a_memory_reaches_the_terminal_as_a_command(reme: Reme) -> None:
    memory_id = reme("add", "-", "--json", typed=HOSTILE).value["memory_id"]
    for arguments in (("list",), ("search", "over"), ("show", memory_id), ("history", memory_id)):
        printed = reme(*arguments).out
        assert not any(char in printed for char in OBEYED)
        assert "\\x1b[31mred" in printed
        assert "[bold]b[/bold] [link=x]l[/link] :smile: {x} \\" in printed


def test_json_is_exact_and_safe_to_look_at(reme: Reme) -> None:
    reme("add", "-", typed=HOSTILE)
    done = reme("list", "--json")
    assert done.value["memories"][0]["content"] == HOSTILE
    assert not any(char in done.out for char in OBEYED)


def test_names_sessions_and_metadata_are_data_too(reme: Reme, tmp_path: Path) -> None:
    message = {"role": "user", "name": "[red]Eve\x1b[5m", "content": "hello\nworld", "metadata": {"k": "\x1b"}}
    reme("add", "--messages", "-", "--session", "[blink]s", typed=json.dumps([message]))
    for arguments in (("list", "--layer", "message"), ("search", "hello"), ("list", "--layer", "summary")):
        printed = reme(*arguments).out
        assert "\x1b" not in printed
        assert "[red]Eve\\x1b[5m" in printed
        assert "[blink]s" in printed


@pytest.mark.usefixtures("terminal")
def test_a_narrow_terminal_shows_everything_within_its_width(reme: Reme) -> None:
    text = "苹果和橘子，" * 12 + " " + "x" * 60 + " [bold] end"
    memory_id = reme("add", text, "--target", "t" * 50, "--json").value["memory_id"]
    for arguments in (("list",), ("search", "苹果"), ("show", memory_id), ("history", memory_id), ("stats",)):
        printed = shown(reme(*arguments).out)
        assert all(cell_len(line.rstrip()) <= 40 for line in printed.splitlines()), printed
        if arguments != ("stats",):
            assert text.replace(" ", "") in "".join(printed.split())
            assert memory_id in "".join(printed.split()) or arguments[0] == "history"


def test_a_pipe_gets_each_line_whole_and_without_colour(reme: Reme) -> None:
    text = "word " * 500 + "end"
    memory_id = reme("add", text, "--json").value["memory_id"]
    lines = reme("list").out.splitlines()
    assert lines[1] == f"    {text}"
    assert lines[2] == f"    id {memory_id}"


@pytest.mark.usefixtures("terminal")
def test_an_import_shows_a_bar_on_a_terminal_and_not_with_json(reme: Reme) -> None:
    reme("add", "x")
    reme("export", "x.jsonl")
    assert "importing x.jsonl" in shown(reme("import", "x.jsonl", "--user", "copy").err)
    assert reme("import", "x.jsonl", "--user", "copy", "--json").err == ""


def test_errors_are_one_line_whatever_they_quote(reme: Reme) -> None:
    reme("add", "x")
    done = reme("search", "x", "--type", "a\nb\x1b[2J\u2028c")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert not any(char in done.err for char in OBEYED)


def test_what_is_visible_is_shown_as_it_is() -> None:
    for text in ("plain", "你好，世界", "e\u0301", "👩\u200d👩\u200d👧 🏳️", "tab\tand\nline", "\\x1b"):
        assert visible(text) == text
    assert one_line("a\n  b\tc") == "a b c"


@pytest.mark.parametrize("value", ["\x7f\x9b", "\ud800", {"\x1b": ["\u202e", 1.5, None]}, "\u2028"])
def test_a_line_of_json_is_read_back_as_it_was(value: object) -> None:
    assert json.loads(json_line(value)) == value  # type: ignore[arg-type]
