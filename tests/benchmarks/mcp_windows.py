"""Eight windows of agents on one file: `reme mcp` in eight processes, each asked something every 250 ms for a minute.

    PYTHONPATH=. python tests/benchmarks/mcp_windows.py [--seconds 60] [--windows 8] [--messages 2000] [--json FILE]

The bar: nothing lost, no errors, 95 % of the recalls within 50 ms, from the line that asks to the line that answers.
Source: issue 17.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from figures import Figure, show, write

from reme_core import ReMe
from tests.support.mcp_stdio import StdioServer

EVERY_S = 0.25
BAR_MS = 50
MIX = ("recall", "record", "recall", "remember", "recall", "recent", "recall", "get_memory")


@dataclass
class Window:
    """What one client has seen."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    kept: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


async def fill(folder: Path, count: int) -> None:
    """Write what earlier sessions said."""
    async with ReMe("default", folder, llm=None, embedding=None) as memory:
        for session in range(count // 50):
            said = [("user", f"In week {session} I watered bed {n} and read page {session * n}.") for n in range(50)]
            await memory.summary(said, user_id="ana", session_id=f"week-{session}")


def arguments(tool: str, number: int, step: int, kept: list[str]) -> dict[str, object]:
    """Return what a call of a window asks for."""
    said = [{"role": "user", "content": f"Window {number} planted tulip{number}x{step} in bed {step % 50}."}]
    return {
        "recall": {"query": f"Who planted tulip{number}x{step - 1} in which bed?"},
        "record": {"session": f"window-{number}", "messages": said},
        "remember": {"content": f"Tulip{number}x{step} needs water."},
        "recent": {"limit": 5},
        "get_memory": {"id": kept[-1]} if kept else {},
    }[tool]


def work(server: StdioServer, number: int, seconds: float) -> Window:
    """Ask something every 250 ms; a call that is late moves no other."""
    window, begun = Window(), time.perf_counter() + number * EVERY_S / 8
    for step in range(int(seconds / EVERY_S)):
        time.sleep(max(0.0, begun + step * EVERY_S - time.perf_counter()))
        tool = MIX[step % len(MIX)]
        asked = time.perf_counter()
        try:
            answer = server.call(tool, **arguments(tool, number, step, window.kept))
        except (AssertionError, EOFError, OSError) as exc:
            window.errors.append(f"{tool}: {exc!s:.200}")
            continue
        window.seconds[tool].append(time.perf_counter() - asked)
        window.kept += answer.get("message_ids", []) if tool == "record" else []
        window.kept += [answer["id"]] if tool == "remember" else []
    return window


def percentile(values: list[float], share: float) -> float:
    """Return a percentile by nearest rank."""
    return sorted(values)[max(0, -(-len(values) * share // 1).__int__() - 1)] if values else 0.0


def measure(folder: Path, windows: int, seconds: float) -> list[Figure]:
    """Run the windows; return the figures. Calls that failed and what stands on stderr are printed."""
    servers = [StdioServer(folder) for _ in range(windows)]
    with ThreadPoolExecutor(windows) as pool:
        list(pool.map(StdioServer.__enter__, servers))
        for server in servers:
            server.call("recall", query="warm up")
        before = cpu_of(servers)
        seen = list(pool.map(lambda pair: work(pair[1], pair[0], seconds), enumerate(servers)))
        cpu_s = cpu_of(servers) - before
        lost = [own_id for window in seen for own_id in window.kept if not is_there(servers[0], own_id)]
        errors = [error for window in seen for error in window.errors]
        errors += [err.decode() for _, err in pool.map(StdioServer.finish, servers) if err]
    print(*errors[:10], sep="\n")
    times = {tool: [s for window in seen for s in window.seconds[tool]] for tool in dict.fromkeys(MIX)}
    calls = sum(map(len, times.values()))
    told = ", ".join(f"{tool} {percentile(values, 0.5) * 1000:.1f}" for tool, values in times.items())
    kept = f"{sum(len(window.kept) for window in seen)} acknowledged, {calls} calls"
    return [
        Figure(f"{windows} windows, {seconds:g} s: lost", len(lost), "", 0, at_most=True, baseline=kept),
        Figure("errors", len(errors), "", 0, at_most=True),
        Figure(
            "recall p95", percentile(times["recall"], 0.95) * 1000, "ms", BAR_MS, at_most=True, baseline=f"p50: {told}"
        ),
        Figure("CPU of a call", cpu_s / calls * 1000, "ms", BAR_MS, at_most=True),
    ]


def cpu_of(servers: list[StdioServer]) -> float:
    """Return the seconds of CPU that the servers have had."""
    return sum(sum(psutil.Process(server.process.pid).cpu_times()[:2]) for server in servers)


def is_there(server: StdioServer, own_id: str) -> bool:
    """Tell whether what was acknowledged is found by its id."""
    try:
        return bool(server.call("get_memory", id=own_id)["id"])
    except AssertionError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reme-mcp-") as folder:
        asyncio.run(fill(Path(folder), given.messages))
        figures = measure(Path(folder), given.windows, given.seconds)
    print(show(figures))
    if given.json:
        write(figures, given.json)
    return 0 if all(figure.held for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
