"""Distributions beside reme-memory have its version and its licence, and those under other names its very classes."""

from __future__ import annotations

import importlib
import importlib.util
import json
import tomllib
from pathlib import Path

import pytest

import reme_core
import reme_langchain
from tests.wheels.examples import CHECKS

ROOT = Path(__file__).parents[2]
FOLDERS = [*sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml")), ROOT / "benchmarks"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_distribution_is_of_the_version_and_the_licence_of_the_package_that_it_brings(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *project.get("optional-dependencies", {}).get("postgres", [])]
    brought = [item for item in named if item.startswith("reme-memory[")]
    assert project["version"] == reme_core.__version__
    assert brought
    assert all(item.endswith(f"]=={reme_core.__version__}") for item in brought)
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_every_place_that_names_the_version_names_this_one() -> None:
    version = reme_core.__version__
    server = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    package = server["packages"][0]
    plugin = json.loads((ROOT / "integrations/claude-code/.claude-plugin/plugin.json").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {server["version"], package["version"], plugin["version"], project["version"]} == {version}
    assert [argument["value"] for argument in package["runtimeArguments"]] == [f"reme-memory[serve]=={version}"]
    assert package["identifier"] in project["scripts"]  # what uvx runs
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"| {version} and" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_pages_for_langchain_take_every_address_from_the_project() -> None:
    folder = ROOT / "packages" / "provider_pages"
    spec = importlib.util.spec_from_file_location("filled", folder / "filled.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    urls = {"Documentation": "https://docs.test/reme/", "Source": "https://host.test/owner/reme"}
    pages = [module.filled((folder / name).read_text(encoding="utf-8"), urls) for name in module.PAGES]
    assert not [word for page in pages for word in ("DOCS_URL", "SOURCE") if word in page]
    assert "[`owner/reme`](https://host.test/owner/reme)" in pages[0]
    assert "https://docs.test/reme/langchain/#the-middleware" in pages[0]
    assert {path.name for path in folder.iterdir()} - set(module.PAGES) <= {"README.md", "filled.py", "__pycache__"}
    with pytest.raises(SystemExit, match="lacks Source"):
        module.filled(pages[0], {"Documentation": "https://docs.test"})


def test_langchain_reme_has_every_name_of_the_adapter_and_no_other() -> None:
    module = importlib.import_module("langchain_reme")
    assert module.__all__ == reme_langchain.__all__
    assert all(getattr(module, name) is getattr(reme_langchain, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Remember'"):
        _ = module.Remember
    assert set(module.__all__) <= set(dir(module))  # what a notebook completes


def test_the_names_that_lie_in_langgraphs_namespace_are_those_of_the_adapter() -> None:
    for name, first in (("langgraph.checkpoint.reme", "ReMeSaver"), ("langgraph.store.reme", "ReMeStore")):
        module = importlib.import_module(name)
        assert first in module.__all__
        assert all(getattr(module, name) is getattr(reme_langchain, name) for name in module.__all__)
    # The namespace is still LangGraph's: no `__init__.py` of ours hides what else lies in it.
    assert importlib.import_module("langgraph.checkpoint.memory").InMemorySaver
    assert not [
        path for folder in FOLDERS for path in folder.glob("langgraph/**/__init__.py") if path.parent.name != "reme"
    ]


def test_each_extra_that_users_install_has_an_example_that_is_run_where_it_alone_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tried = {check.extra for check in CHECKS if check.distribution == project["name"]}
    assert tried == {"", *project["optional-dependencies"]} - {"test", "types", "dev"}
    assert all(check.page or check.program or check.command for check in CHECKS)
