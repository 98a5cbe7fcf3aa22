"""`reme copy`: what it says of what it leaves behind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from reme_core.cli import ExitCode
from tests.unit.cli.conftest import Reme


def test_tables_that_a_copy_leaves_behind_are_named_with_what_moves_them(reme: Reme, tmp_path: Path) -> None:
    reme("add", "Ana likes green tea")
    (file,) = tmp_path.rglob("memory.db")
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute("CREATE TABLE langgraph_threads (id INTEGER PRIMARY KEY, name TEXT)")
        raw.execute("INSERT INTO langgraph_threads (name) VALUES ('t')")
    done = reme("copy", "--from", str(file), "--to", "copy.db")
    assert done.code == ExitCode.PARTLY_DONE
    assert "copied and compared 1 user" in done.out
    assert "left behind, in tables of adapters: langgraph_threads" in done.err
    assert "python -m reme_langchain.import_checkpoints" in done.err
