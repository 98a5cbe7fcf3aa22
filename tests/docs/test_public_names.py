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


def test_what_the_api_reference_shows_is_public() -> None:
    shown = [name for path in (ROOT / "docs" / "api").glob("*.md") for name in _shown(path.read_text(encoding="utf-8"))]
    listed = set(re.findall(r"^(?:class |async )?(?:reme_\w+\.)(?:\w+\.)*(\w+)", FILE.read_text("utf-8"), re.MULTILINE))
    assert shown
    # Of the three classes of AgentScope 1.x the page shows the base that they have in common.
    assert {name.rpartition(".")[2] for name in shown} - listed == {"LongTermMemory"}


def _shown(text: str) -> list[str]:
    return re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)


def test_the_list_of_the_package_is_what_python_has() -> None:
    section = FILE.read_text(encoding="utf-8").split("\n\n")[0]
    listed = set(re.findall(r"^(?:class |async )?reme_core\.(\w+)", section, re.MULTILINE))
    assert listed == set(reme_core.__all__) - {"__version__"}


def test_what_a_call_takes_and_gives_is_in_the_list_though_its_class_has_no_public_name() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    types = lines[lines.index("# types that signatures name: what they are is public, where they lie is not") :]
    for name, field in (("FileHit(MappingModel)", "start_line: int"), ("Parameters(BaseModel)", "top_k: int")):
        begin = types.index(f"class {name}")
        end = next(place for place, line in enumerate(types) if place > begin and not line.startswith("    "))
        assert any(line.strip().startswith(field) for line in types[begin:end])
    assert "Role: TypeAlias = Literal['system', 'user', 'assistant', 'tool']" in types


def test_a_default_is_told_by_its_value() -> None:
    listed = FILE.read_text(encoding="utf-8")
    assert "retention_days: float = 3.0" in listed
    assert "RETENTION_DAYS" not in listed
    assert "class reme_core.SimpleSummarizer\n" in listed  # its base has no public name, its members are told
