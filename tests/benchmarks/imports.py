"""CPU of imports and first calls, as ratios of one run: python tests/benchmarks/imports.py.

Each piece of code runs in processes of its own, in turns with what it is compared with, after one run that writes the
bytecode. A figure is the median over the turns.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, show

ROOT = Path(__file__).resolve().parents[2]
TURNS = 9

PLAIN = "import pydantic, numpy"
IMPORT = "from reme_core import ReMe"
FIRST_CALL = """
import asyncio, sys
from reme_core import ReMe
async def main():
    async with ReMe("space", sys.argv[1], llm=None, embedding=None) as memory:
        await memory.summary([("user", "I like tea.")], user_id="alice")
asyncio.run(main())
"""
# A coding agent's hooks, as its client starts them: five turns are new in a transcript of 5,000 lines.
HOOK = """
import io, json, sys
sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps({event}).encode()))
sys.argv = ["reme", "hook", "--user", "ana", "--dir", {folder}]
from reme_core.cli import main
main()
"""
HELP = "import sys\nfrom reme_core.cli import main\nsys.exit(main(['--help']))"
GRAPH = "import langgraph.store.base, langgraph.checkpoint.base, numpy"
GRAPH_STORE = """
import pathlib, sys
from reme_langchain import ReMeSaver, ReMeStore
with ReMeStore.from_path(pathlib.Path(sys.argv[1]) / "memory.db"): pass
"""
AGENTSCOPE = "import agentscope.agent, agentscope.message, agentscope.tool"
# One pass of the garbage collector over all that AgentScope 2 has made takes 0.11 s, a third of the bar, and falls on
# whoever makes objects next: the application, or we.
FREEZE = "import gc; gc.collect(); gc.freeze()"
FIRST_GENERATION = """
import sys
from reme_core import ReMe
from reme_agentscope import ReMeMemory, ReMePersonalLongTermMemory
memory = ReMe("space", sys.argv[1], llm=None, embedding=None)
ReMeMemory(user_id="alice")
ReMePersonalLongTermMemory(reme=memory, user_name="alice")
"""
SECOND_GENERATION = """
import sys
from reme_core import ReMe
from reme_agentscope import ReMeMiddleware
ReMeMiddleware(reme=ReMe("space", sys.argv[1], llm=None, embedding=None))
"""


def cpu_s(code: str) -> float:
    """Return the CPU seconds of a process that runs this code in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-c", code, folder], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def medians(codes: Sequence[str]) -> list[float]:
    """Return the median CPU seconds of each code, run in turns."""
    for code in codes:
        cpu_s(code)
    turns = [[cpu_s(code) for code in codes] for _ in range(TURNS)]
    return [statistics.median(times) for times in zip(*turns, strict=True)]


def _write_transcript(path: Path, lines: int) -> None:
    words = ["parser", "header", "deploy", "branch", "commit", "index", "query", "token", "cache", "server", "field"]
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            role = "assistant" if number % 2 else "user"
            text = " ".join(words[(number * step) % len(words)] for step in range(1, 40))
            told = {"type": role, "uuid": f"line-{number}", "sessionId": "session", "timestamp": "2026-03-01T20:00:00Z"}
            file.write(json.dumps({**told, "message": {"role": role, "content": f"{number} {text}"}}) + "\n")


def hooks(folder: Path) -> list[Figure]:
    """Measure what coding agents call after a turn, before a prompt, and when a session begins."""
    transcript, before = folder / "transcript.jsonl", folder / "before"
    _write_transcript(transcript, 4_990)
    stop = {"hook_event_name": "Stop", "session_id": "session", "transcript_path": str(transcript)}
    cpu_s(HOOK.format(event=stop, folder=repr(str(before))))
    _write_transcript(transcript, 5_000)
    asks = {"hook_event_name": "UserPromptSubmit", "session_id": "other", "prompt": "Where is the header parsed?"}
    begins = {"hook_event_name": "SessionStart", "session_id": "other"}
    # What is kept anew has to be new each time: each process works on a copy.
    copied = f"import shutil, sys\nshutil.copytree({str(before)!r}, sys.argv[1] + '/m')\n"
    codes = [copied + HOOK.format(event=event, folder="sys.argv[1] + '/m'") for event in (stop, asks, begins)]
    ours, *times = medians([copied + IMPORT, *codes])
    names = ("keeps 10 of 5,000 lines", "recalls from 5,000 messages", "begins a session")
    base = f"{IMPORT}: {ours:.2f} s"
    return [
        Figure(f"CPU of reme hook that {name}, over the import", round(time - ours, 2), "s", 0.2, True, base)
        for name, time in zip(names, times, strict=True)
    ]


def measure() -> list[Figure]:
    plain, ours, first, help_text = medians([PLAIN, IMPORT, FIRST_CALL, HELP])
    base = f"import pydantic, numpy: {plain:.2f} s"
    figures = [
        Figure("CPU of from reme_core import ReMe", round(ours / plain, 2), "x", 2.4, True, base),
        Figure("CPU of opening an empty store, a first call", round((first - ours) / plain, 2), "x", 2.4, True, base),
        Figure("CPU of reme --help", round(help_text / plain, 2), "x", 3.0, True, base),
    ]
    with tempfile.TemporaryDirectory() as folder:
        figures += hooks(Path(folder))
    if importlib.util.find_spec("langgraph"):
        graph, store = medians([GRAPH, GRAPH_STORE])
        name = "CPU of ReMeStore and ReMeSaver, an empty store opened, over LangGraph"
        figures.append(Figure(name, round(store - graph, 2), "s", 0.5, True, f"LangGraph and numpy {graph:.2f} s"))
    return figures


def agentscope() -> list[Figure]:
    """Measure the generation that is installed."""
    import agentscope

    is_first = agentscope.__version__.startswith("1.")
    base = AGENTSCOPE if is_first else f"{AGENTSCOPE}, agentscope.middleware"
    base = f"{base}\n{FREEZE}"
    bare, ours = medians([base, f"{base}\n{FIRST_GENERATION if is_first else SECOND_GENERATION}"])
    name = f"CPU of import and constructors over AgentScope {agentscope.__version__}"
    return [Figure(name, round(ours - bare, 2), "s", 0.3, True, f"AgentScope {bare:.2f} s, its garbage collected once")]


if __name__ == "__main__":
    print(show([*(agentscope() if importlib.util.find_spec("agentscope") else []), *measure()]))
