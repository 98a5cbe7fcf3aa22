"""Every example in the README and the documents runs, and prints what the page says."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.doc_pages import ROOT, Page, agree, examples_of, pages

_RUN = {"python", "console"}
# Examples of this page name endpoints and keys that are not there; they are only compiled.
_NEEDS_SERVERS = {"docs/models.md"}


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("REME_USER", "REME_SPACE", "REME_DIR", "REME_WAIT", "REME_LLM_MODEL", "REME_EMBEDDING_MODEL"):
        monkeypatch.setenv(name, "")  # so that what a page exports is taken back
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_of_a_page_runs_and_prints_what_it_says(page: Path, in_a_folder: Path) -> None:
    examples = [example for example in examples_of(page.read_text(encoding="utf-8")) if example.is_run]
    with asyncio.Runner() as runner:
        context = Page(runner)
        for example in examples:
            if str(page.relative_to(ROOT)) in _NEEDS_SERVERS:
                context.compile(example)
            else:
                context.run(example)


def test_each_python_example_of_the_readme_is_a_program_of_its_own(in_a_folder: Path) -> None:
    examples = examples_of((ROOT / "README.md").read_text(encoding="utf-8"))
    programs = [example for example in examples if example.kind == "python" and example.is_run]
    for number, program in enumerate(programs):
        Path(f"example_{number}.py").write_text(program.body, encoding="utf-8")
        subprocess.run([sys.executable, f"example_{number}.py"], check=True, capture_output=True)
    assert programs


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_an_example_that_is_not_run_says_why(page: Path) -> None:
    for example in examples_of(page.read_text(encoding="utf-8")):
        if example.kind in _RUN and not example.is_run:
            assert len(example.mark.removeprefix("not run:").strip()) > 10, f"line {example.line}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_another_page_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{target} is linked and not there"


def test_the_checker_tells_a_wrong_output_from_a_right_one() -> None:
    assert agree("memory 0123456789abcdef0123456789abcdef\n", "memory fedcba9876543210fedcba9876543210")
    assert agree("first…last", "first\nsecond\nlast")
    assert not agree("nothing found", "something found")


def test_every_code_block_is_found_by_the_reader() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert len(examples_of(text)) * 2 == len(re.findall(r"^```", text, re.MULTILINE)), page
