"""What an import costs, and what an installation brings."""

from __future__ import annotations

import json
import subprocess
import tempfile
import venv
from pathlib import Path

import imports
from figures import Figure

ROOT = Path(__file__).resolve().parents[2]


def _distributions() -> int:
    """Count what a base installation of this checkout brings, reme itself included, pip and setuptools not."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder) / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", str(ROOT)], check=True, capture_output=True)
        listed = subprocess.run([*pip, "list", "--format=json"], check=True, capture_output=True, text=True).stdout
    return len({item["name"] for item in json.loads(listed)} - {"pip", "setuptools", "wheel"})


def measure() -> list[Figure]:
    return [
        *imports.measure(),
        Figure("distributions of a base installation", _distributions(), "", 20, True),
    ]
