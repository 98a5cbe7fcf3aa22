"""Every option of every command with ordinary wrong values: one line in the words of the command line, or done.

The default suite takes every third row; REME_ALL_ROWS=1 takes them all, in some 15 seconds.
"""

from __future__ import annotations

import os
import re
from typing import Any

from reme_core.cli.exits import ExitCode
from tests.unit.cli.conftest import Reme

WRONG = ("", "x", "-1", "1.5", "2026-13-45", "[1]", "{", "no/such/file")
# Names of Python, and functions where a person has commands and options.
FOREIGN = re.compile(
    r"NoneType|dict object|ValidationError|Tuple should|Input should|Traceback|TypeError|object has no attribute"
    r"|\b[a-z_]+\(\)|\b(?:user_id|working_dir|list_memories|list_jobs|retry_job|drop_job|delete_all_memories"
    r"|reload_context|memory_type|memory_target|token_budget|min_score|start_time|end_time|as_of)\b"
)
# What a command needs besides to come as far as its options.
NEEDED: dict[str, list[str]] = {
    "add": ["a fact"],
    "search": ["tea"],
    "show": ["nope"],
    "history": ["nope"],
    "export": ["out.jsonl"],
    "import": ["nope.jsonl"],
    "delete": ["nope", "--yes"],
    "undo": ["nope"],
    "reload": ["nope"],
    "learn": ["nope.json", "--task", "t"],
    "tasks": ["tea"],
    "forget": ["--yes"],
    "dump": ["dump.jsonl"],
    "load": ["nope.jsonl"],
    "picture": ["timeline", "--out", "timeline.svg"],
}
LEAST_ROWS = 300


def rows() -> list[list[str]]:
    from reme_core.cli.program import _commands

    commands: dict[str, Any] = _commands().commands
    table = []
    for name, command in commands.items():
        if name in {"chat", "serve", "inspect", "watch"}:  # they go on until they are ended; tested apart
            continue
        for option in command.params:
            if option.param_type_name == "argument":
                table += [[name, value] for value in WRONG]
            elif option.is_flag:
                table.append([name, *NEEDED.get(name, []), option.opts[-1]])
            elif option.name not in {"folder", "wait", "help"}:
                table += [[name, *NEEDED.get(name, []), option.opts[0], value] for value in WRONG]
    return table if os.environ.get("REME_ALL_ROWS") else table[::3]


# Where a space is empty and others are not, a line before the answer says so.
_HINT = re.compile(r"^reme: memory space .* use --space\n?")


def test_an_ordinary_mistake_ends_in_one_line_without_names_of_python(reme: Reme) -> None:
    reme("add", "Ana drinks tea")
    table, faults = rows(), dict[str, str]()
    for arguments in table:
        done = reme(*arguments)
        told = _HINT.sub("", done.err.removesuffix("\n"))
        # `load` lists the lines that it can't use.
        is_wrong = (
            done.code == ExitCode.UNEXPECTED
            or ("\n" in told and arguments[0] != "load")
            or FOREIGN.search(re.sub(r"'[^']*'", "", told))
        )
        if is_wrong:
            faults[" ".join(map(repr, arguments))] = f"{done.code}: {told}"
    assert faults == {}
    assert len(table) >= LEAST_ROWS
