"""Every example in the README and the documents runs, and prints what the page says."""

from __future__ import annotations

import ast
import asyncio
import codeop
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.doc_pages import ROOT, Example, Page, agree, examples_of, pages
from tests.support.openai_server import KEY, Completion, OpenAIServer

_RUN = {"python", "console"}
# Examples of these pages name servers and keys that are not there; they are only compiled. The second is run with its
# server, in tests/postgres.
_NEEDS_SERVERS = {"docs/models.md", "docs/postgres.md"}


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


def _readme() -> list[Example]:
    return examples_of((ROOT / "README.md").read_text(encoding="utf-8"))


def _pasted(program: Example, folder: Path, **environment: str) -> str:
    """Run an example as a file of its own in an empty folder."""
    folder.mkdir()
    (folder / "pasted.py").write_text(program.body, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REME_", "OPENAI_"))}
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "pasted.py"],
        cwd=folder,
        env={**kept, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_python_example_of_the_readme_prints_what_it_says_when_pasted_alone(tmp_path: Path) -> None:
    examples = _readme()
    programs = [(place, item) for place, item in enumerate(examples) if item.kind == "python" and item.is_run]
    for place, program in programs:
        printed = _pasted(program, tmp_path / str(place))
        after = examples[place + 1]
        if after.mark == "prints":
            assert agree(after.body, printed), f"line {program.line}: printed\n{printed}"
    assert len(programs) >= 2


def test_examples_of_the_readme_that_ask_a_model_run_against_an_endpoint(tmp_path: Path) -> None:
    programs = [item for item in _readme() if item.kind == "python" and "endpoint" in item.mark]
    with OpenAIServer() as server:
        server.replies(Completion(text="You surf."), Completion(text='{"facts": []}'))
        for number, program in enumerate(programs):
            asked = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
            _pasted(program, tmp_path / str(number), **asked)
        assert len(server.bodies) >= len(programs) == 2


def test_a_chat_by_the_client_of_openai_knows_in_the_next_talk_what_was_said(tmp_path: Path) -> None:
    program = ROOT / "examples" / "openai_client" / "chat.py"
    with OpenAIServer() as server:
        environment = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
        environment |= {"PYTHONPATH": os.pathsep.join(sys.path)}
        for typed in ("My parrot is called Coco.\n\n", "What is my parrot called?\n\n"):
            command = [sys.executable, str(program), "ana"]
            done = subprocess.run(command, cwd=tmp_path, env=environment, input=typed, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        first, second = server.bodies
    assert first["messages"][-1]["content"] == "My parrot is called Coco."
    assert "Coco" in second["messages"][0]["content"]
    assert second["messages"][1:] == [{"role": "user", "content": "What is my parrot called?"}]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_an_example_that_is_not_run_says_why(page: Path) -> None:
    for example in examples_of(page.read_text(encoding="utf-8")):
        if example.kind in _RUN and not example.is_run:
            assert len(example.mark.removeprefix("not run:").strip()) > 10, f"line {example.line}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_another_page_leads_to_a_file(page: Path) -> None:
    # What begins with "/" leads within the site that a page of `packages/provider_pages` is for.
    for target in re.findall(r"\]\(([^)#:\s/][^)#:\s]*)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{target} is linked and not there"


def _is_for_a_console(page: Path) -> bool:
    return page.parent.name == "recipes" or "m asyncio`" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [*filter(_is_for_a_console, pages())], ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_of_a_page_that_names_a_console_can_be_pasted_into_it(page: Path) -> None:
    # Up to Python 3.12 `python -m asyncio` takes a line at a time: an empty one ends what is indented.
    console = codeop.CommandCompiler()
    console.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for example in examples_of(page.read_text(encoding="utf-8")):
        waiting: list[str] = []
        for line in [*example.body.splitlines(), ""] if example.kind == "python" and example.is_run else []:
            waiting.append(line)
            if console("\n".join(waiting), f"line {example.line}", "single") is not None:
                waiting.clear()
        assert not "".join(waiting)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "recipes").glob("*.md")), ids=lambda page: page.name)
def test_a_recipe_says_how_its_blocks_are_run(page: Path) -> None:
    assert re.search(r"\[How to run the blocks\]\(index\.md\)|`python -m asyncio`", page.read_text(encoding="utf-8"))


def test_the_checker_tells_a_wrong_output_from_a_right_one() -> None:
    assert agree("memory 0123456789abcdef0123456789abcdef\n", "memory fedcba9876543210fedcba9876543210")
    assert agree("first…last", "first\nsecond\nlast")
    assert not agree("nothing found", "something found")


def test_every_code_block_is_found_by_the_reader() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert len(examples_of(text)) * 2 == len(re.findall(r"^```", text, re.MULTILINE)), page


_OPTIONAL = re.compile(
    r"^\s*(?:from|import) (?:langchain|langgraph|agentscope|reme_langchain|reme_agentscope|qdrant_client|tiktoken)",
    re.M,
)


@pytest.mark.parametrize(
    "path",
    [*pages(), *sorted((ROOT / "examples").rglob("*.py"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_library_that_an_example_needs_besides_is_named_with_its_extra(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path == ROOT / "README.md":  # each of its examples is pasted alone
        texts = [example.body for example in examples_of(text) if example.kind == "python" and example.is_run]
    else:
        texts = [text]
    assert all("reme-memory[" in part for part in texts if _OPTIONAL.search(part))


def test_what_goes_into_the_source_archive_is_named_from_the_root_and_there() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    # A name without "/" is looked for in every folder: a README.md of an example went along.
    assert all(name.startswith("/") and (ROOT / name[1:]).exists() for name in included)
    packages = {f"/{path.parent.name}" for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"}
    assert {name for name in included if (ROOT / name[1:]).is_dir()} == packages
