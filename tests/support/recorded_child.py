"""A process that writes with the shim before it, and says into a file beside the database what it was acknowledged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import writing_child

ROOT = Path(__file__).parents[2]


def run_behind(shim: Path, module: str, *arguments: object, file: Path, log: Path | None = None) -> str:
    """Run a module of the tests in a process whose disk is the shim's; return what it printed."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "TORTURE_FILE": str(file),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    if log is not None:
        environment["TORTURE_LOG"] = str(log)
    ran = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=environment, capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


class SaidFile:
    """A file of lines, each written at once."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def send_bytes(self, line: bytes, /) -> None:
        os.write(self._file, line + b"\n")


if __name__ == "__main__":
    folder, seed, synchronous, steps = sys.argv[1:]
    said = SaidFile(Path(folder) / "memory.db-said")
    writing_child.run(Path(folder), int(seed), said, synchronous=synchronous, steps=int(steps))
