"""What an import costs, and what an installation brings."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from figures import Figure

ROOT = Path(__file__).resolve().parents[2]
_CPU = (
    "import resource, sys; before = resource.getrusage(resource.RUSAGE_SELF); import {module}; "
    "after = resource.getrusage(resource.RUSAGE_SELF); "
    "print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "
    "int('openai' in sys.modules), int('qdrant_client' in sys.modules))"
)


def _import_cpu(module: str) -> tuple[float, int]:
    runs = []
    for _ in range(5):
        command = [sys.executable, "-c", _CPU.format(module=module)]
        cpu, *loaded = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()
        runs.append((float(cpu), sum(map(int, loaded))))
    return min(runs)


def _distributions() -> int:
    """Count what a base installation of this checkout brings, reme itself included, pip and setuptools not."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder) / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", str(ROOT)], check=True, capture_output=True)
        listed = subprocess.run([*pip, "list", "--format=json"], check=True, capture_output=True, text=True).stdout
    return len({item["name"] for item in json.loads(listed)} - {"pip", "setuptools", "wheel"})


def measure() -> list[Figure]:
    cpu, loaded = _import_cpu("reme_core")
    plain, _ = _import_cpu("pydantic, numpy")
    return [
        Figure("import reme_core, CPU", round(cpu, 3), "s", 0.3, True, f"pydantic and numpy alone {plain:.3f} s"),
        Figure("openai or qdrant_client loaded by it", loaded, "", 0, True),
        Figure("distributions of a base installation", _distributions(), "", 20, True),
    ]
