"""Systems of a run, the environment that each is installed in, and the surroundings that its script runs in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peers.endpoint import Upstream

HERE = Path(__file__).resolve().parent
# A system's whole run is waited for so long: a person may be its chat model.
_RUN_S = 24 * 3600
# What no system is to take from whoever starts the run: a database or an account of theirs, where it reports.
_SETTINGS = (
    "REME_",
    "MEM0_",
    "BASIC_MEMORY_",
    "LANGSMITH_",
    "LANGCHAIN_",
    "CHROMA_",
    "QDRANT_",
    "OPENAI_",
    "PYTHONPATH",
)
_NO_REPORTS = {
    "ANONYMIZED_TELEMETRY": "False",
    "BASIC_MEMORY_FORCE_LOCAL": "true",
    "BASIC_MEMORY_NO_PROMOS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "MEM0_TELEMETRY": "False",
}


@dataclass(frozen=True)
class Candidate:
    """One system: its script, its requirements (none: reme's own environment), and the oldest Python it takes."""

    name: str
    script: str
    requirements: str | None = None
    with_model: str | None = None
    words_alone: bool = False
    python: tuple[int, int] = (3, 11)


CANDIDATES = (
    Candidate("reme, words alone", "reme_messages.py", words_alone=True),
    Candidate("reme, with vectors", "reme_messages.py", with_model="reme, memories and messages"),
    Candidate("mem0, infer=False", "mem0_memory.py", "mem0.txt", "mem0"),
    Candidate("LangMem's store", "langmem_store.py", "langmem.txt", "LangMem's manager"),
    Candidate("ReMe 0.3, add_memory", "reme_0_3.py", "reme_0_3.txt", "ReMe 0.3"),
    Candidate("basic-memory", "basic_memory_notes.py", "basic_memory.txt", python=(3, 12)),
)


def upstream() -> Upstream:
    """Return the chat model's endpoint that the environment names, as reme itself reads it."""
    url, key = (
        os.environ.get(f"REME_LLM_{name}") or os.environ.get(f"OPENAI_{name}") for name in ("BASE_URL", "API_KEY")
    )
    return Upstream((url or "https://api.openai.com/v1").rstrip("/"), key or "")


def candidates(only: str | None, model: str | None) -> list[tuple[str, Candidate]]:
    """Return the systems asked for, each with its name in this run (SystemExit: there is none)."""
    named = [
        (f"{candidate.with_model} ({model})" if model and candidate.with_model else candidate.name, candidate)
        for candidate in CANDIDATES
    ]
    words = [word.strip() for word in (only or "").split(",") if word.strip()]
    found = [one for one in named if not words or any(word in one[0] for word in words)]
    if not found:
        raise SystemExit(
            f"--only {only}: no system's name holds that; there are {'; '.join(name for name, _ in named)}"
        )
    return found


def environment_of(candidate: Candidate, folder: Path) -> Path:
    """Return the Python of a system's environment, made if there is none.

    Raises:
        RuntimeError: There is no such Python, or pip can't install the system; it says why.
    """
    if candidate.requirements is None:
        return Path(sys.executable)
    home = folder.absolute() / Path(candidate.requirements).stem
    python = home / "bin" / "python"
    if not (home / "done").exists():
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        requirements = str(HERE / candidate.requirements)
        made_by = _python(candidate.python)
        try:
            call([made_by, "-m", "venv", "--clear", str(home)], environment)
            install = [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
                requirements,
            ]
            call(install, environment)
        except RuntimeError as exc:
            raise RuntimeError(f"its environment can't be made (is a package index reachable?): {exc}") from exc
        (home / "done").touch()
    return python


def _python(oldest: tuple[int, int]) -> str:
    if sys.version_info[:2] >= oldest:
        return sys.executable
    for minor in range(oldest[1], oldest[1] + 3):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0:
            return found
    raise RuntimeError(f"it needs Python {oldest[0]}.{oldest[1]}, which isn't on the path")


def surroundings(candidate: Candidate, work: Path) -> dict[str, str]:
    """Return the environment of a script: no key or setting of a system, no reports, its own home, loopback direct."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_SETTINGS)}
    hosts = ",".join(filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1")))
    kept |= _NO_REPORTS | {"no_proxy": hosts, "NO_PROXY": hosts}
    if candidate.requirements is None:
        return kept | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    for name in ("home", "tmp"):
        (work / name).mkdir(exist_ok=True)
    return kept | {"HOME": str(work / "home"), "TMPDIR": str(work / "tmp")}


def call(command: Sequence[str], environment: dict[str, str], log: Path | None = None) -> None:
    """Run a command (RuntimeError: it failed; with the last line that it wrote)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_RUN_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise RuntimeError(f"it took longer than {_RUN_S // 3600} hours") from exc
    if log is not None:
        log.write_text(public(done.stdout + done.stderr), encoding="utf-8")
    if done.returncode:
        lines = (done.stderr or done.stdout).splitlines()
        told = [line for line in lines if line.strip() and not line.startswith("WARNING")]
        raise RuntimeError(public(told[-1].strip()) if told else f"exit code {done.returncode}")


def public(text: str) -> str:
    """Return what may stand in results: without the key, and without where on this machine it was."""
    key = upstream().key
    return (text.replace(key, "(the key)") if key else text).replace(f"{HERE.parent}{os.sep}", "")
