"""Runs suites of LangGraph and AgentScope with their own in-memory classes and with ours, and compares test by test.

The tests of LangGraph come with its source distribution, in the version that is installed; those of AgentScope with a
checkout of its repository alone. Nothing of them is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
EXPLAINED = HERE / "explained.md"
# Of AgentScope's tests those that use its working memory; its Redis and SQL classes are not what we replace.
AGENTSCOPE_FILES = ("memory_test.py", "memory_compression_test.py", "react_agent_test.py", "session_test.py")
AGENTSCOPE_OTHERS = "not Redis and not SQLAlchemy"

Outcomes = Mapping[str, str]


def fetched(package: str, folder: Path) -> Path:
    """Return a folder with the tests of a package as its source distribution has them."""
    wanted = f"{package}=={version(package)}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "download", "--no-binary", package, "--no-deps", "--dest", str(folder), wanted], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        # Without the package itself, which would be imported in place of the installed one.
        parts = [item for item in packed.getmembers() if item.name.split("/")[1] in ("tests", "pyproject.toml")]
        packed.extractall(folder, members=parts, filter="data")
    return next(folder.glob("*/tests")).parent


def run(folder: Path, plugins: Sequence[str], tests: Sequence[str]) -> Outcomes:
    """Run tests in a folder, and return the outcome of each by its id."""
    with tempfile.TemporaryDirectory() as place:
        outcomes = Path(place, "outcomes.json")
        path = os.pathsep.join([str(HERE.parents[1]), str(HERE / "plugins")])
        env = {**os.environ, "NO_DOCKER": "true", "UPSTREAM_OUTCOMES": str(outcomes), "PYTHONPATH": path}
        options = ["-o", "addopts=", "-p", "no:cacheprovider", "--quiet", "--tb=short", "--timeout=180"]
        loaded = [part for name in ("upstream_outcomes", *plugins) for part in ("-p", name)]
        subprocess.run([sys.executable, "-m", "pytest", *options, *loaded, *tests], cwd=folder, env=env, check=False)
        found: Outcomes = json.loads(outcomes.read_text())
    return found


def worse(theirs: Outcomes, ours: Outcomes) -> list[str]:
    """Return the tests that pass with their classes and do not with ours."""
    return sorted(name for name, outcome in theirs.items() if outcome == "passed" and ours.get(name) != "passed")


def compared(suite: str, folder: Path, plugin: str, tests: Sequence[str]) -> list[str]:
    """Run a suite twice, say how it went, and return what fails with ours alone and is not explained."""
    theirs, ours = run(folder, (), tests), run(folder, (plugin,), tests)
    # Some expect parts of a stream within fractions of a second: what differs is run once more, by itself.
    if again := worse(theirs, ours):
        ours = {**ours, **run(folder, (plugin,), again)}
    failing, explained = worse(theirs, ours), EXPLAINED.read_text()
    passed = [list(outcomes.values()).count("passed") for outcomes in (theirs, ours)]
    print(f"\n{suite}: of {len(theirs)} tests {passed[0]} pass with its own classes, {passed[1]} with ours")
    for name in failing:
        print(f"  {'explained' if f'`{name}`' in explained else 'NOT EXPLAINED'}: {name}")
    return [name for name in failing if f"`{name}`" not in explained]


def main() -> int:
    """Run the suites that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", choices=["langgraph", "langgraph-prebuilt", "agentscope"])
    parser.add_argument("--agentscope", type=Path, help="a checkout of AgentScope's repository, at 1.x")
    asked = parser.parse_args()
    unexplained = []
    for suite in asked.suites:
        with tempfile.TemporaryDirectory() as place:
            if suite != "agentscope":
                unexplained += compared(suite, fetched(suite, Path(place)), "upstream_langgraph", ["tests"])
            elif asked.agentscope is None:
                parser.error("agentscope: its tests are on no package index: give --agentscope FOLDER, a checkout")
            else:
                tests = [str(asked.agentscope.resolve() / "tests" / name) for name in AGENTSCOPE_FILES]
                tests += ["-k", AGENTSCOPE_OTHERS, "-o", "python_files=*_test.py"]
                unexplained += compared(suite, Path(place), "upstream_agentscope", tests)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
