"""Empty environments to install into: made by uv, which is quick, or where it is missing by venv and pip."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Where pip is configured to take packages from, as options that uv takes, too."""

    options: tuple[str, ...]
    certificates: str | None


@cache
def _index() -> _Index:
    """Read pip's configuration, files and variables: uv knows nothing of it."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = value.strip("'\"")
    options = ["--index-strategy=unsafe-best-match"]  # as pip does: the best release, whichever index has it
    for name in ("index-url", "extra-index-url", "find-links"):
        # A list in a file has blanks or, as pip prints it, `\n` between its items.
        options += [f"--{name}={value}" for value in settings.get(name, "").replace("\\n", " ").split()]
    return _Index(options=tuple(options), certificates=settings.get("cert"))


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in `folder`, whose programs see `variables` and nothing else."""

    folder: Path
    variables: dict[str, str]
    lowest: bool = False

    def install(self, requirements: Sequence[str], *, links: Path) -> None:
        """Make the environment and install into it; what lies in `links` is found there first."""
        options = [*requirements, f"--find-links={links}"]
        if importlib.util.find_spec("uv") is None:
            if self.lowest:
                msg = "the oldest releases are chosen by uv: pip install uv"
                raise SystemExit(msg)
            _run([sys.executable, "-m", "venv", str(self.folder)], self.variables)
            _run([str(self._python), "-m", "pip", "install", *options], self.variables)
            return
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--python", sys.executable, str(self.folder)], self._installing)
        options += [*_index().options, *(["--resolution=lowest-direct"] if self.lowest else [])]
        _run([*uv, "pip", "install", "--python", str(self._python), *options], self._installing)

    def run_tool(self, requirement: str, command: Sequence[str], *, links: Path) -> None:
        """Run a program as `uvx` does, in an environment of uv's own; its input has an end at once."""
        if importlib.util.find_spec("uv") is not None:
            options = [f"--find-links={links}", *_index().options, "--from", requirement]
            _run([sys.executable, "-m", "uv", "tool", "run", *options, *command], self._installing)

    def run(self, command: Sequence[str], *, cwd: Path) -> None:
        """Run a program of the environment; `python` is its Python."""
        program, *rest = command
        _run([str(self._python.parent / program), *rest], self.variables, cwd=cwd)

    @property
    def _installing(self) -> dict[str, str]:
        certificates = _index().certificates
        return self.variables | ({"SSL_CERT_FILE": certificates} if certificates else {})

    @property
    def _python(self) -> Path:
        return self.folder / "bin" / "python"


def _run(command: Sequence[str], variables: dict[str, str], *, cwd: Path | None = None) -> None:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    subprocess.run(command, env=variables, cwd=cwd, check=True, text=True, **streams)
