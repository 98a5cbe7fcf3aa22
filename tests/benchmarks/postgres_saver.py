"""How long the checkpointer takes and how much it keeps in PostgreSQL, beside AsyncPostgresSaver in the same run.

    python tests/benchmarks/postgres_saver.py

It starts the server that comes with pip, which writes to the disk what it acknowledges; REME_TEST_POSTGRES_URL names
another one, of a role that may make databases.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from figures import Figure, show
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_saver import BLOCK, ROUNDS, TURNS, Times, chat, checkpoint, clocked, one_round
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from reme_langchain import ReMeSaver
from tests.support.postgres_server import VARIABLE, TestServer, running_server

LATE = 60
OURS, THEIRS = "ReMeSaver", "AsyncPostgresSaver"
OUR_TABLES, THEIR_TABLES = "reme.langgraph_%", "public.checkpoint%"


@asynccontextmanager
async def savers(server: TestServer, database: str) -> AsyncIterator[dict[str, Any]]:
    async with (
        ReMeSaver.from_conn_string(server.url_of(database)) as ours,
        AsyncPostgresSaver.from_conn_string(server.url_of(database, admin=True)) as theirs,
    ):
        await ours.setup()
        await theirs.setup()
        yield {OURS: ours, THEIRS: theirs}


async def single_calls(server: TestServer, database: str) -> dict[str, Times]:
    found: dict[str, Times] = {name: {} for name in (OURS, THEIRS)}
    messages: list[AnyMessage] = [HumanMessage("x" * 400, id=f"{n}") for n in range(100)]
    async with savers(server, database) as both:
        for block in range(0, ROUNDS, BLOCK):  # in turn, so that both see the same machine
            for name, saver in both.items():
                for number in range(block, block + BLOCK):
                    said = [*messages[:-1], AIMessage(f"{number} " + "y" * 400, id=f"n{number}")]
                    await one_round(saver, number, said, found[name])
        said = [HumanMessage("x" * 400, id=f"{n}") for n in range(2 * TURNS)]
        for number in range(LATE):
            said.append(AIMessage(f"{number} " + "y" * 400, id=f"n{number}"))
            made = checkpoint(number, {"messages": said})
            for name, saver in both.items():
                at = {"configurable": {"thread_id": "long", "checkpoint_ns": ""}}
                put = saver.aput(at, made, {"source": "loop", "step": number}, made["channel_versions"])
                await clocked(found[name], "put 600 messages", put)
                await clocked(found[name], "get_tuple 600 messages", saver.aget_tuple(at))
    return found


async def turns(server: TestServer, database: str) -> tuple[Times, dict[str, float]]:
    """Return the milliseconds of each turn of one chat, both savers turn by turn, and the megabytes of the tables."""
    times: Times = {}
    async with savers(server, database) as both:
        graphs = {name: chat(saver) for name, saver in both.items()}
        for graph in graphs.values():  # opens the connection
            await graph.ainvoke({"messages": [HumanMessage("h")]}, {"configurable": {"thread_id": "first"}})
        before = {name: size_of(server, database, tables) for name, tables in TABLES.items()}
        for number in range(TURNS):
            pair = list(graphs.items())
            for name, graph in pair if number % 2 else pair[::-1]:
                config = {"configurable": {"thread_id": "chat"}}
                await clocked(times, name, graph.ainvoke({"messages": [HumanMessage("h" * 400)]}, config))
    sizes = {name: (size_of(server, database, tables) - before[name]) / 1e6 for name, tables in TABLES.items()}
    return times, sizes


TABLES = {OURS: OUR_TABLES, THEIRS: THEIR_TABLES}


def size_of(server: TestServer, database: str, tables: str) -> int:
    """Return the bytes of tables with their indexes, and what lies beside the rows."""
    query = (
        "SELECT sum(pg_total_relation_size(pg_class.oid))::bigint FROM pg_class JOIN pg_namespace"
        " ON pg_namespace.oid = relnamespace WHERE relkind = 'r' AND nspname || '.' || relname LIKE %s"
    )
    with psycopg.connect(server.url_of(database, admin=True)) as admin:
        (size,) = admin.execute(query, (tables,)).fetchone() or (0,)
    return int(size)


def measure() -> list[Figure]:
    named = os.environ.get(VARIABLE)
    with running_server(durable=not named) as server:
        first, second = server.make_database(), server.make_database()
        calls = asyncio.run(single_calls(server, first))
        late, sizes = asyncio.run(turns(server, second))
        for name in (first, second):
            server.drop_database(name)
    of_calls = {call: (calls[OURS][call], calls[THEIRS][call]) for call in calls[OURS]}
    of_turns = {"turn 300 of a chat": (late[OURS][-20:], late[THEIRS][-20:])}
    figures = [
        Figure(
            f"checkpointer in PostgreSQL, {what}",
            statistics.median(ours),
            "ms",
            statistics.median(theirs),
            True,
            f"{THEIRS} {statistics.median(theirs):.2f} ms",
        )
        for what, (ours, theirs) in (of_calls | of_turns).items()
    ]
    size = Figure(
        "checkpointer in PostgreSQL, 300 turns",
        sizes[OURS],
        "MB",
        sizes[THEIRS],
        True,
        f"{THEIRS} {sizes[THEIRS]:.1f} MB",
    )
    return [*figures, size]


if __name__ == "__main__":
    print(show(measure()))
