"""How long things take, each beside a baseline of the same run."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from corpus import DIMENSION, Corpus, PoolEmbedder, fill, unit
from figures import Figure

from reme_core import ReMe
from reme_core.ports import PutMemory, UseMemory, WriteBatch
from reme_core.retrieval import MEMORY_WEIGHTS, Query, RankingIndex, plain_rows
from reme_core.schema import Memory, RetrieveResult, ToolCallResult, make_scope, new_id, utc_now
from reme_core.stores import LocalStore

STORE_100K = "hundred-thousand"

Said: TypeAlias = list[list[dict[str, object]]]
Facts: TypeAlias = list[list[dict[str, str]]]


def p50_ms(times: list[float]) -> float:
    return statistics.median(times) * 1000


async def timed(count: int, call: Callable[[int], Awaitable[object]], *, warm_up: int = 3) -> list[float]:
    times = []
    for number in range(count + warm_up):
        begun = time.perf_counter()
        await call(number)
        times.append(time.perf_counter() - begun)
    return times[warm_up:]


def vector_search() -> list[Figure]:
    rng = np.random.default_rng(3)
    matrix = unit(rng.normal(size=(100_000, DIMENSION)).astype(np.float32))
    query = matrix[17]
    index = RankingIndex(MEMORY_WEIGHTS)
    index.extend(plain_rows(np.arange(len(matrix)), [b""] * len(matrix)), matrix)
    reads, searches = [], []
    for _ in range(40):  # in turn, so that both see the same machine
        begun = time.perf_counter()
        matrix.sum()
        middle = time.perf_counter()
        index.rank(Query(text="", vector=query), limit=10)
        reads.append(middle - begun)
        searches.append(time.perf_counter() - middle)
    ratio = p50_ms(searches) / p50_ms(reads)
    baseline = f"reading it once {p50_ms(reads):.2f} ms, searching {p50_ms(searches):.2f} ms"
    return [Figure("vector search, 100k x 384, against one reading", round(ratio, 2), "x", 1.7, True, baseline)]


def raw_write_ms(folder: Path, synchronous: str) -> float:
    """What SQLite takes for one row of 2 KB and its commit, nothing else."""
    connection = sqlite3.connect(folder / f"raw-{new_id()}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
    times = []
    for _ in range(300):
        begun = time.perf_counter()
        connection.execute("INSERT INTO t (b) VALUES (?)", (b"x" * 2000,))
        times.append(time.perf_counter() - begun)
    connection.close()
    return p50_ms(times)


async def writes(folder: Path) -> list[Figure]:
    corpus, figures = Corpus(), []
    for synchronous in ("FULL", "NORMAL"):
        settings = {"backend": "local_file", "synchronous": synchronous}
        memory = ReMe("bench", folder / synchronous, llm=None, embedding=PoolEmbedder(), vector_store=settings)

        said = [corpus.messages(100) for _ in range(30)]
        facts = [[{"content": f"{corpus.text()} {number}-{n}"} for n in range(100)] for number in range(30)]

        async def one_memory(number: int, memory: ReMe = memory, facts: Facts = facts) -> object:
            return await memory.add_memory(f"{facts[number % 30][number // 30]['content']}!", user_id="u")

        async def one_message(number: int, memory: ReMe = memory, said: Said = said) -> object:
            return await memory.summary([said[number % 30][number // 30]], user_id="u", session_id="s")

        async def many_memories(number: int, memory: ReMe = memory, facts: Facts = facts) -> object:
            return await memory.add_memories(facts[number], user_id="v")

        async def many_messages(number: int, memory: ReMe = memory, said: Said = said) -> object:
            return await memory.summary(said[number], user_id="v", session_id=f"s{number}")

        async with memory:
            if synchronous == "FULL":
                raw = f"SQLite's own insert and commit {raw_write_ms(folder, synchronous):.2f} ms"
                for name, call in (("memory", one_memory), ("message", one_message)):
                    spent = p50_ms(await timed(300, call))
                    figures.append(Figure(f"one {name} acknowledged, FULL, p50", round(spent, 2), "ms", 1.5, True, raw))
            else:
                raw = f"SQLite's own {1000 / raw_write_ms(folder, synchronous):,.0f} commits/s"
                for name, call in (("memories", many_memories), ("messages", many_messages)):
                    rate = 100_000 / p50_ms(await timed(20, call))
                    figures.append(Figure(f"100 {name} in a batch, NORMAL", round(rate), "/s", 5000, False, raw))
    return figures


async def tool_calls(folder: Path) -> list[Figure]:
    """Add to a tool with 100,000 calls, and add these up; count uses."""
    scope, corpus, path = make_scope("bench", "u"), Corpus(), folder / "calls.db"
    fast = LocalStore(path, synchronous="NORMAL")
    for start in range(0, 100_000, 2000):
        await fast.add_tool_calls(scope, [one_call(number, corpus) for number in range(start, start + 2000)])
    await fast.close()
    store = LocalStore(path)
    raw = raw_write_ms(folder, "FULL")

    async def add(number: int) -> object:
        return await store.add_tool_calls(scope, [one_call(100_000 + number, corpus)])

    async def count(_: int) -> object:
        return await store.tool_statistics(scope, ["search"])

    fact = Memory(memory_space="bench", user_id="u", content=corpus.text())
    await store.put(scope, WriteBatch(puts=[PutMemory(memory=fact)], at=utc_now()))

    async def use(_: int) -> object:
        return await store.record_uses(scope, [UseMemory(memory_id=fact.memory_id)])

    added, counted, used = [p50_ms(await timed(n, call)) for n, call in ((300, add), (20, count), (300, use))]
    await store.close()
    baseline = f"SQLite's own insert and commit {raw:.2f} ms"
    return [
        Figure("one call of a tool with 100k acknowledged, FULL, p50", round(added, 2), "ms", 2.0, True, baseline),
        Figure("statistics of 100k calls of a tool, p50", round(counted, 1), "ms", 150.0, True),
        Figure("one use of a memory acknowledged, FULL, p50", round(used, 2), "ms", 2.0, True, baseline),
    ]


def one_call(number: int, corpus: Corpus) -> ToolCallResult:
    failed = number % 10 == 0
    return ToolCallResult(
        tool_name="search",
        input={"query": corpus.question()},
        output=f"HTTP {400 + number % 70}" if failed else corpus.text() * 4,
        success=not failed,
        time_cost=number % 977 / 100,
        token_cost=number % 5000,
    )


async def questions(folder: Path) -> list[Figure]:
    figures, short = [], Corpus()
    fast = {"backend": "local_file", "synchronous": "NORMAL"}
    for name, users, each, bar, corpus in (
        ("10k messages of one scope", 1, 10_000, 8.0, short),
        ("10k messages of 200 terms of one scope", 1, 10_000, 10.0, Corpus(words=(200, 200))),
        ("100k messages of one scope", 1, 100_000, 15.0, short),
        ("1,000 scopes of 100 messages", 1000, 100, 2.0, short),
    ):
        place = folder / (STORE_100K if each == 100_000 else f"q-{name}")
        async with ReMe("bench", place, llm=None, embedding=PoolEmbedder(), vector_store=fast) as memory:
            for user in range(users):
                await fill(memory, f"user-{user}", corpus, each)
        async with ReMe("bench", place, llm=None, embedding=PoolEmbedder()) as memory:
            asked = np.random.default_rng(5).integers(0, users, 1000)

            async def ask(
                number: int, memory: ReMe = memory, asked: np.ndarray = asked, corpus: Corpus = corpus
            ) -> RetrieveResult:
                return await memory.retrieve(corpus.question(), user_id=f"user-{asked[number]}", limit=10)

            begun = time.perf_counter()
            await ask(0)
            first = (time.perf_counter() - begun) * 1000
            while (await ask(0)).degraded:  # a large scope is still being loaded
                pass
            spent = p50_ms(await timed(300 if users > 1 or each < 100_000 else 100, ask))
        figures.append(
            Figure(f"retrieve, {name}, p50", round(spent, 2), "ms", bar, True, f"the first one {first:.0f} ms")
        )
    return figures


def cold(folder: Path) -> list[Figure]:
    """Open the file of 100k messages in a new process."""
    child = Path(__file__).with_name("cold_child.py")
    done = subprocess.run(
        [sys.executable, str(child), str(folder / STORE_100K)], check=True, capture_output=True, text=True
    )
    opened, first, loaded, resident, held = (float(part) for part in done.stdout.split())
    vectors = 100_000 * DIMENSION * 4 / 1e6
    return [
        Figure("opening a file of 100k messages", round(opened, 4), "s", 0.1, True, "a first call that finds nothing"),
        Figure("first search in it", round(first, 2), "s", 1.0, True, f"everything is loaded after {loaded:.2f} s"),
        Figure(
            "resident memory after 20 searches",
            round(resident),
            "MB",
            round(2 * vectors + 100),
            True,
            f"vectors {vectors:.0f} MB, the process before opening {held:.0f} MB",
        ),
    ]


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            *vector_search(),
            *asyncio.run(writes(folder)),
            *asyncio.run(tool_calls(folder)),
            *asyncio.run(questions(folder)),
            *cold(folder),
        ]
