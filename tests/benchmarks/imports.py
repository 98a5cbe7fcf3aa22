"""CPU of imports and first calls, as ratios of one run: python tests/benchmarks/imports.py.

Each piece of code runs in processes of its own, in turns with what it is compared with, after one run that writes the
bytecode. A figure is the median over the turns.
"""

from __future__ import annotations

import importlib.util
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
HELP = "import sys\nfrom reme_core.cli import main\nsys.exit(main(['--help']))"
GRAPH = "import langgraph.store.base, langgraph.checkpoint.base, numpy"
GRAPH_STORE = """
import pathlib, sys
from reme_langchain import ReMeSaver, ReMeStore
with ReMeStore.from_path(pathlib.Path(sys.argv[1]) / "memory.db"): pass
"""
AGENTSCOPE = "import agentscope.agent, agentscope.message, agentscope.tool"
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


def measure() -> list[Figure]:
    plain, ours, first, help_text = medians([PLAIN, IMPORT, FIRST_CALL, HELP])
    base = f"import pydantic, numpy: {plain:.2f} s"
    figures = [
        Figure("CPU of from reme_core import ReMe", round(ours / plain, 2), "x", 2.4, True, base),
        Figure("CPU of opening an empty store, a first call", round((first - ours) / plain, 2), "x", 2.4, True, base),
        Figure("CPU of reme --help", round(help_text / plain, 2), "x", 3.0, True, base),
    ]
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
    bare, ours = medians([base, f"{base}\n{FIRST_GENERATION if is_first else SECOND_GENERATION}"])
    name = f"CPU of import and constructors over AgentScope {agentscope.__version__}"
    return [Figure(name, round(ours - bare, 2), "s", 0.3, True, f"AgentScope {bare:.2f} s")]


if __name__ == "__main__":
    print(show([*(agentscope() if importlib.util.find_spec("agentscope") else []), *measure()]))
