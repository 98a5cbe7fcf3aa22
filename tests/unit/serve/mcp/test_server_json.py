"""What the MCP registry reads: the names and versions of the package, of `server.json` and of the README are one."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from reme_core import __version__

ROOT = Path(__file__).parents[4]


def published():
    return json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_all_versions_are_one():
    server, [package] = published(), published()["packages"]
    assert project()["version"] == __version__ == server["version"] == package["version"]
    [argument] = package["runtimeArguments"]
    assert argument["value"] == f"{project()['name']}[serve]=={__version__}"
    assert package["identifier"] == project()["name"]


def test_the_readme_says_that_the_package_is_the_servers():
    """Source: https://modelcontextprotocol.io/registry/package-types, PyPI."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"mcp-name: (\S+)", readme) == [published()["name"]]


def test_the_registry_takes_it():
    """Source: https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json."""
    server = published()
    assert server["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert 1 <= len(server["description"]) <= 100
    assert project()["scripts"]["reme-memory"] == "reme_core.cli:main"
    assert "serve" in project()["optional-dependencies"]
