"""A memory in PostgreSQL beside the local file and beside bare inserts: all in one run, by turns.

    python tests/benchmarks/postgres.py [--rounds N] [--json FILE]

The server is one of its own, which writes to the disk what it says is written, or that of REME_TEST_POSTGRES_URL. Round
trips are the steadier figures: times are those of a machine that may have other things to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from figures import Figure, show

from reme_core import ReMe
from reme_core.ports import AppendMessages, MemorySearch, Store
from reme_core.schema import Scope
from reme_core.stores import LocalStore, PostgresStore
from reme_core.testing.store_values import ALICE, BOB, batch, memory, message
from tests.support.postgres_server import running_server
from tests.support.round_trips import Traced, traced_connections

Call = Callable[[int], Awaitable[object]]

_SYLLABLES = ("ba", "de", "fi", "go", "lu", "mal", "nest", "pi", "rom", "su", "ta", "vek")
_WORDS = [one + other for one in _SYLLABLES for other in _SYLLABLES]
_WARM = 20


def said(seed: int, words: int = 14) -> str:
    """Return a text of some words, frequent and rare ones."""
    draw = random.Random(seed)
    return " ".join(_WORDS[int(len(_WORDS) * draw.random() ** 2)] for _ in range(words)) + f" n{seed}"


def append(store: Store, scope: Scope, first: int, count: int = 1) -> Awaitable[object]:
    """Append messages that nobody has said before."""
    return store.append(
        scope, AppendMessages(session_id="s", messages=[message(said(first + n)) for n in range(count)])
    )


def put(store: Store, scope: Scope, number: int) -> Awaitable[object]:
    """Put one new memory."""
    return store.put(scope, batch(memory(said(number), scope=scope)))


async def by_turns(calls: Mapping[str, Call], rounds: int) -> dict[str, list[float]]:
    """Run calls one after the other, again and again; return the milliseconds of each, without the first rounds."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(_WARM + rounds):
        for name, call in calls.items():
            begun = time.perf_counter()
            await call(number)
            if number >= _WARM:
                taken[name].append(1000 * (time.perf_counter() - begun))
    return taken


def told(taken: Mapping[str, list[float]]) -> str:
    return ", ".join(f"{name} {statistics.median(times):.2f} ms" for name, times in taken.items())


def ratio(taken: Mapping[str, list[float]], name: str, base: str) -> float:
    return statistics.median(taken[name]) / statistics.median(taken[base])


async def measure_writes(url: str, rounds: int) -> list[Figure]:
    """Compare acknowledged writes with bare inserts of a text as long, awaited in the same way."""
    store = PostgresStore(url)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as raw:
        await raw.execute("CREATE SCHEMA bare")
        await raw.execute("CREATE TABLE bare.texts (row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)")

        async def insert(number: int) -> None:
            body = message(said(number)).model_dump_json()
            await raw.execute("INSERT INTO bare.texts (body) VALUES (%s) RETURNING row", (body,))

        calls: dict[str, Call] = {
            "insert": insert,
            "append": lambda n: append(store, ALICE, n),
            "put": lambda n: put(store, ALICE, n),
        }
        taken = await by_turns(calls, rounds)
    await store.close()
    return [
        Figure(f"{name}, acknowledged, beside a bare insert", ratio(taken, name, "insert"), "x", 2.5, True, told(taken))
        for name in ("append", "put")
    ]


async def measure_retrieve(url: str, rounds: int) -> list[Figure]:
    """Compare questions to equal memories in PostgreSQL and in the local file."""
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, Any] = {"local": LocalStore(Path(folder) / "memory.db"), "postgres": PostgresStore(url)}
        calls: dict[str, Call] = {}
        for name, store in stores.items():
            for first in range(0, 3000, 100):
                await append(store, BOB, first, 100)
            for number in range(500):
                await put(store, BOB, 10_000 + number)
            asked = ReMe("space", llm=None, embedding=None, vector_store=store)
            calls[name] = lambda n, asked=asked: asked.retrieve(said(n, 4), user_id="bob")
        taken = await by_turns(calls, rounds)
        for store in stores.values():
            await store.close()
    return [Figure("retrieve of 3,500 texts", ratio(taken, "postgres", "local"), "x", 1.5, True, told(taken))]


async def measure_round_trips(url: str) -> list[Figure]:
    """Count how often the server is waited for, once statements are prepared."""
    with traced_connections() as traced:
        store = PostgresStore(url)
        asked = MemorySearch(text="nothing")
        calls: dict[str, tuple[int, Call]] = {
            "append of one message": (2, lambda n: append(store, ALICE, 20_000 + n)),
            "append of twenty": (2, lambda n: append(store, ALICE, 30_000 + 20 * n, 20)),
            "put of a memory": (2, lambda n: put(store, ALICE, 40_000 + n)),
            "search of memories": (3, lambda _: store.search(ALICE, asked)),
        }
        counts = {name: await _trips(traced, call) for name, (_, call) in calls.items()}
        await store.close()
    return [Figure(f"round trips: {name}", counts[name], "", bar, True) for name, (bar, _) in calls.items()]


async def _trips(traced: Traced, call: Call) -> int:
    for number in range(_WARM):
        await call(number)
    before = traced.round_trips()
    await call(_WARM)
    return traced.round_trips() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures: list[Figure] = []
    with running_server(durable=True) as server:
        measured: list[Callable[[str], Any]] = [
            partial(measure_writes, rounds=given.rounds),
            partial(measure_retrieve, rounds=given.rounds),
            measure_round_trips,
        ]
        for measure in measured:
            name = server.make_database()
            figures += asyncio.run(measure(server.url_of(name)))
            server.drop_database(name)
    print(show(figures))
    if given.json is not None:
        given.json.write_text(json.dumps([figure.as_json() for figure in figures], indent=1) + "\n")


if __name__ == "__main__":
    main()
