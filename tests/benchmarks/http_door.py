"""Questions a second that `reme serve` answers over HTTP, and how long the slowest take at 100 a second.

    PYTHONPATH=. python tests/benchmarks/http_door.py [--json out.json]

Sixteen clients of one process ask another process, which has 10,000 short messages; both share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import httpx2
from chat_door import MESSAGES, fill
from figures import Figure, show, write

from tests.support.served_process import ServedProcess

CLIENTS, ASKED, RATE = 16, 2_000, 100
_WARM_UP = 100


async def ask(client: httpx2.AsyncClient, number: int) -> float:
    """Ask one question and return the milliseconds it took; a failure ends the run."""
    begun = time.perf_counter()
    answer = await client.post("/v1/retrieve", json={"query": f"What of topic{number % MESSAGES}, in short?"})
    assert answer.status_code == 200, answer.text
    return (time.perf_counter() - begun) * 1000


async def asked_by_all(client: httpx2.AsyncClient, count: int, rate: float | None = None) -> tuple[list[float], float]:
    """Have the clients ask, at a rate or as fast as they can; return the times of all, and questions a second."""
    times: list[float] = []
    begun, numbers = time.perf_counter(), iter(range(count))

    async def one() -> None:
        for number in numbers:
            if rate is not None:
                await asyncio.sleep(begun + number / rate - time.perf_counter())
            times.append(await ask(client, number))

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(one())
    return sorted(times), count / (time.perf_counter() - begun)


async def both(url: str) -> tuple[tuple[list[float], float], tuple[list[float], float]]:
    limits = httpx2.Limits(max_connections=CLIENTS)
    async with httpx2.AsyncClient(base_url=url, limits=limits, timeout=60, trust_env=False) as client:
        await asked_by_all(client, _WARM_UP)
        return await asked_by_all(client, ASKED), await asked_by_all(client, ASKED, RATE)


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(fill(folder / ".reme"))
        with ServedProcess(folder, "--space", "space", user="alice") as served:
            (full, rate), (paced, kept) = asyncio.run(both(served.url))
    p99 = paced[int(0.99 * len(paced))]
    what = f"HTTP, {MESSAGES:,} messages, {CLIENTS} clients"
    at_most = f"p50 {full[len(full) // 2]:.1f} ms, p99 {full[int(0.99 * len(full))]:.1f} ms, no errors"
    return [
        Figure(f"{what}: retrieve a second", round(rate), "/s", RATE, False, at_most),
        Figure(f"{what}: p99 at {RATE} a second", round(p99, 1), "ms", 250, True, f"{kept:.0f} a second were answered"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure()
    print(show(figures))
    if options.json:
        write(figures, options.json)
