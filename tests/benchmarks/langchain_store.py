"""The store of LangGraph: how long its calls take, beside LangGraph's own store in memory in the same run.

One namespace, vectors of 384 dimensions made beforehand, ten results: python tests/benchmarks/langchain_store.py
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from figures import Figure, show
from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore, IndexConfig, PutOp
from langgraph.store.memory import InMemoryStore

from reme_core import ReMe
from reme_langchain import ReMeStore, memory_namespace

DIMENSION = 384
PLACE = ("bench", "items")
BARS_MS = {1_000: 0.5, 10_000: 2.0, 50_000: 15.0}


class Rows(Embeddings):
    """A text is the number of its vector."""

    def __init__(self, count: int) -> None:
        matrix = np.random.default_rng(5).normal(size=(count, DIMENSION)).astype(np.float32)
        self.rows: list[list[float]] = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.rows[int(text) % len(self.rows)] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.rows[int(text) % len(self.rows)]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


def value(number: int) -> dict[str, object]:
    return {"text": str(number), "tenth": number % 10, "note": f"a note of some words about item {number}"}


async def p50_ms(count: int, call: Callable[[int], Awaitable[object]], *, warm_up: int = 2) -> float:
    times = []
    for number in range(count + warm_up):
        begun = time.perf_counter()
        await call(number)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[warm_up:]) * 1000


async def stall_ms(call: Callable[[], Awaitable[object]]) -> float:
    """Return the longest gap on the event loop while something runs."""
    worst, running = 0.0, True

    async def watch() -> None:
        nonlocal worst
        last = time.perf_counter()
        while running:
            await asyncio.sleep(0)
            now = time.perf_counter()
            worst, last = max(worst, now - last), now

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await call()
    running = False
    await watching
    return worst * 1000


async def fill(store: BaseStore, count: int, place: tuple[str, ...] = PLACE) -> float:
    """Put so many items, by 100; return items a second."""
    begun = time.perf_counter()
    for start in range(0, count, 100):
        await store.abatch([PutOp(place, str(n), value(n)) for n in range(start, min(start + 100, count))])
    return count / (time.perf_counter() - begun)


async def searches(store: BaseStore, times: int) -> dict[str, float]:
    return {
        "search": await p50_ms(times, lambda n: store.asearch(PLACE, query=str(7 * n))),
        "search, filter 10 %": await p50_ms(
            times, lambda n: store.asearch(PLACE, query=str(7 * n), filter={"tenth": 3})
        ),
        "unranked": await p50_ms(times, lambda _: store.asearch(PLACE)),
        "get": await p50_ms(times, lambda n: store.aget(PLACE, str(n))),
        "loop stall": await stall_ms(lambda: store.asearch(PLACE, query="3")),
    }


async def one_size(folder: Path, count: int) -> list[Figure]:
    index: IndexConfig = {"dims": DIMENSION, "embed": Rows(count), "fields": ["text"]}
    figures = []
    async with ReMeStore.from_path(folder / str(count), index=index, synchronous="NORMAL") as store:
        rate = await fill(store, count)
        ours = await searches(store, 30)
        single = 1000 / await p50_ms(200, lambda n: store.aput(PLACE, f"new{n}", value(n)))
        alone = 1000 / await asyncio.to_thread(sync_put_ms, store)
        size = (folder / str(count) / "memory.db").stat().st_size / 1e6
    memory = InMemoryStore(index=index)
    await fill(memory, count)
    theirs = await searches(memory, 3 if count > 10_000 else 10)
    bars = {"search": BARS_MS[count], "search, filter 10 %": ours["search"] * 1.1, "unranked": 2.0, "get": 0.3}
    bars["loop stall"] = 20.0
    for name, spent in ours.items():
        beside = f"InMemoryStore {theirs[name]:.3f} ms"
        figures.append(Figure(f"store, {count} items: {name}", round(spent, 3), "ms", bars[name], True, beside))
    figures.append(Figure(f"store, {count} items: put by 100", round(rate), "/s", 30_000, False, f"file {size:.0f} MB"))
    figures.append(Figure(f"store, {count} items: put one by one", round(single), "/s", 750, False, "async"))
    figures.append(Figure(f"store, {count} items: put one by one", round(alone), "/s", 750, False, "sync, one thread"))
    return figures


def sync_put_ms(store: BaseStore) -> float:
    times = []
    for number in range(200):
        begun = time.perf_counter()
        store.put(PLACE, f"sync{number}", value(number))
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1000


async def memories(folder: Path, count: int) -> list[Figure]:
    """The same for items that are memories as well."""
    index: IndexConfig = {"dims": DIMENSION, "embed": Rows(count), "fields": ["text"]}
    place = memory_namespace("ann")
    fast = {"backend": "local_file", "synchronous": "NORMAL"}
    memory = ReMe("bench", folder / "memories", llm=None, embedding=None, vector_store=fast)
    async with memory, ReMeStore(memory, index=index) as store:
        rate = await fill(store, count, place)
        spent = await p50_ms(30, lambda n: store.asearch(place, query=str(7 * n)))
        got = await p50_ms(30, lambda n: store.aget(place, str(n)))
    what = f"store, {count} memories"
    return [
        Figure(f"{what}: put by 100", round(rate), "/s", 5_000, False, "with the bar of memories added in a batch"),
        Figure(f"{what}: search", round(spent, 3), "ms", BARS_MS[count], True, ""),
        Figure(f"{what}: get", round(got, 3), "ms", 0.3, True, ""),
    ]


async def _measure(sizes: tuple[int, ...]) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = [figure for count in sizes for figure in await one_size(folder, count)]
        return [*figures, *await memories(folder, 10_000)]


def measure(sizes: tuple[int, ...] = (1_000, 10_000, 50_000)) -> list[Figure]:
    return asyncio.run(_measure(sizes))


if __name__ == "__main__":
    table = measure(tuple(map(int, sys.argv[1:])) or (1_000, 10_000, 50_000))
    print(show(table))
    sys.exit(0 if all(figure.held for figure in table) else 1)
