"""Every example for AgentScope 2.x runs as a program of its own, without a key, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "agentscope2"
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if path.name != "stand_in.py")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_an_example_runs_and_its_checks_pass(path: Path, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REME_", "OPENAI_"))}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nok  " in done.stdout
    assert list(tmp_path.iterdir()) == []
