"""The map of the code names what is there: every file, and every function in it."""

from __future__ import annotations

import ast
import re

from tests.docs.doc_pages import ROOT

# A row: | what happens | `path/to/file.py` | `name` or `Class.method` |
_ROW = re.compile(r"^\| (?P<what>[^|]+) \| `(?P<path>[\w/]+\.\w+)` \| `(?P<name>[\w.]+)` \|$", re.MULTILINE)
_LEAST = 40


def _defined(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, _FUNCTIONS)}
        elif isinstance(node, _FUNCTIONS):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _rows() -> list[tuple[str, str, str]]:
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    return [(row["what"], row["path"], row["name"]) for row in _ROW.finditer(text)]


def test_the_map_names_at_least_forty_behaviours_each_once() -> None:
    told = [what for what, _, _ in _rows()]
    assert len(told) >= _LEAST
    assert len(set(told)) == len(told)


def test_every_row_of_the_map_is_read_and_leads_to_what_is_defined_there() -> None:
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    table_lines = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(table_lines) == len(_rows())
    gone = [
        f"{path}: {name}"
        for _, path, name in _rows()
        if not (ROOT / path).is_file() or name not in _defined(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    ]
    assert gone == []
