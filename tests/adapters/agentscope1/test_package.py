"""The package in an environment with AgentScope 1.x."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import reme_agentscope

OWN = "v1"
FOLDER = Path(reme_agentscope.__file__).parent


@pytest.mark.requirement("AS-PKG-01")
def test_importing_the_package_imports_nothing_of_agentscope() -> None:
    code = "import sys, reme_agentscope; sys.exit(any(name.startswith('agentscope') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.requirement("AS-PKG-01")
@pytest.mark.parametrize(
    "name",
    [
        "ReMeMemory",
        "ReMePersonalLongTermMemory",
        "ReMeSession",
        "ReMeTaskLongTermMemory",
        "ReMeToolLongTermMemory",
        "as_chat_model",
        "as_embedder",
        "from_agentscope",
        "to_agentscope",
    ],
)
def test_every_name_of_this_generation_can_be_had(name: str) -> None:
    assert getattr(reme_agentscope, name).__module__.startswith(f"reme_agentscope.{OWN}")


@pytest.mark.requirement("AS-PKG-03")
@pytest.mark.parametrize("name", ["ReMeMiddleware", "ReMeOffloader", "create_memory_tools"])
def test_a_name_of_the_other_generation_says_what_to_use(name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{name} needs agentscope 2\.x, found 1\..*: .*use ReMe"):
        exec(f"from reme_agentscope import {name}")  # noqa: S102  # as a program says it
    assert not hasattr(reme_agentscope, name)


def test_a_star_imports_what_is_there() -> None:
    found: dict[str, object] = {}
    exec("from reme_agentscope import *", found)  # noqa: S102  # as a program says it
    assert {"as_chat_model", "ReMeMemory"} <= found.keys()
    assert "ReMeMiddleware" not in found


@pytest.mark.requirement("AS-PKG-04")
def test_agentscope_is_imported_at_the_top_of_its_modules_and_only_through_public_ones() -> None:
    for path in FOLDER.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        allowed = not {"v1", "v2"}.isdisjoint(path.parts)
        for node in ast.walk(tree):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name.partition(".")[0] == "agentscope":
                    assert allowed, f"{path.name} imports {name}"
                    assert not any(part.startswith("_") for part in name.split(".")), f"{path.name} imports {name}"
                    assert node.col_offset == 0 or "TYPE_CHECKING" in ast.dump(tree), f"{path.name} imports {name} late"
