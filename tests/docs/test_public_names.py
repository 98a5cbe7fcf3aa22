"""The public names are those of `docs/api.txt`, and all that the documents use is among them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import reme_core
from tests.docs.doc_pages import ROOT, examples_of, pages
from tests.support.public_names import MODULES, public_names

FILE = ROOT / "docs" / "api.txt"
_PACKAGES = ("reme_core", "reme_agentscope", "reme_langchain")
_CHANGED = """the public names, or their signatures, are not those of docs/api.txt.
A name that went, or takes or gives something else, breaks programs: docs/stability.md says how that is done. If it is
right, `python -m tests.support.public_names > docs/api.txt` writes the file anew, and CHANGELOG.md says it to users.
Gone: {gone}
New: {new}"""


def test_the_public_names_are_those_of_the_file() -> None:
    now, before = public_names(), FILE.read_text(encoding="utf-8").splitlines()
    gone, new = set(before) - set(now), set(now) - set(before)
    assert now == before, _CHANGED.format(gone=sorted(gone)[:20], new=sorted(new)[:20])


def _imported(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_PACKAGES):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_what_pages_and_examples_import_is_public() -> None:
    shown = [item for page in pages() for item in examples_of(page.read_text(encoding="utf-8"))]
    programs = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.py")]
    used = {
        name
        for code in (*(item.body for item in shown if item.kind == "python"), *programs)
        for name in _imported(code)
    }
    text = FILE.read_text(encoding="utf-8")
    listed = set(re.findall(r"^(?:class |async )?((?:reme_\w+\.)(?:\w+\.)*\w+)", text, re.MULTILINE))
    assert used
    assert used - listed - set(MODULES) == set()


def test_the_list_of_the_package_is_what_python_has() -> None:
    section = FILE.read_text(encoding="utf-8").split("\n\n")[0]
    listed = set(re.findall(r"^(?:class |async )?reme_core\.(\w+)", section, re.MULTILINE))
    assert listed == set(reme_core.__all__) - {"__version__"}
