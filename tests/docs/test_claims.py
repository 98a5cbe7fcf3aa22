"""Claims about durability: each stands on its page, and has a test that is there."""

from __future__ import annotations

import ast
import re

from tests.docs.doc_pages import ROOT

_SECTION = re.compile(r"^### .*`(?P<page>docs/\w+\.md)`$", re.MULTILINE)
# A row: | a sentence of the page | `tests/path.py` | `test_name` |
_ROW = re.compile(r"^\| (?P<claim>[^|]+) \| `(?P<path>tests/[\w/]+\.py)` \| `(?P<name>test_\w+)` \|$", re.MULTILINE)


def _sections() -> list[tuple[str, str]]:
    parts = _SECTION.split((ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _words(text: str) -> str:
    return " ".join(text.split())


def test_all_pages_have_their_claims_and_every_row_is_read() -> None:
    assert [page for page, _ in _sections()] == ["docs/storage.md", "docs/jobs.md", "docs/mcp.md"]
    for page, text in _sections():
        rows = [line for line in text.splitlines() if line.startswith("| ") and "`tests/" in line]
        assert len(rows) == len(_ROW.findall(text)) >= 10, page


def test_every_claim_stands_on_its_page() -> None:
    for page, text in _sections():
        said = _words((ROOT / page).read_text(encoding="utf-8"))
        assert [row["claim"] for row in _ROW.finditer(text) if _words(row["claim"]) not in said] == []


def test_every_claim_has_a_test_that_is_there() -> None:
    for _, text in _sections():
        for row in _ROW.finditer(text):
            tree = ast.parse((ROOT / row["path"]).read_text(encoding="utf-8"))
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert row["name"] in names, row["path"]
