"""The tables of the page on ten million users are those that its program prints."""

from __future__ import annotations

import subprocess
import sys

from tests.docs.doc_pages import ROOT


def test_the_page_on_ten_million_users_shows_what_its_program_computes() -> None:
    program = [sys.executable, str(ROOT / "tests" / "benchmarks" / "sizing.py")]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "design" / "ten-million-users.md").read_text(encoding="utf-8")
    tables = printed.strip().split("\n\n")
    assert len(tables) == 3
    assert [table for table in tables if table not in page] == []
