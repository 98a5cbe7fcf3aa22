"""A new process on a large file: seconds to open, of the first search, until all is loaded, MB resident, MB before."""

from __future__ import annotations

import asyncio
import sys
import time

import psutil
from corpus import Corpus, PoolEmbedder

from reme_core import ReMe


def resident_mb() -> float:
    return psutil.Process().memory_info().rss / 1e6


async def main(folder: str) -> None:
    corpus, embedder = Corpus(seed=9), PoolEmbedder(size=64)
    before = resident_mb()
    async with ReMe("bench", folder, llm=None, embedding=embedder) as memory:
        begun = time.perf_counter()
        await memory.stats(user_id="nobody")
        opened = time.perf_counter() - begun
        begun = time.perf_counter()
        await memory.retrieve(corpus.question(), user_id="user-0")
        first = time.perf_counter() - begun
        while (await memory.retrieve(corpus.question(), user_id="user-0")).degraded:
            pass
        loaded = time.perf_counter() - begun
        for _ in range(20):
            await memory.retrieve(corpus.question(), user_id="user-0")
        print(opened, first, loaded, resident_mb(), before)


asyncio.run(main(sys.argv[1]))
