"""What a memory of many users takes in PostgreSQL, on paper: rows, bytes, log, connections, RAM and cost a day.

`python tests/benchmarks/sizing.py` prints the tables of docs/design/ten-million-users.md; `--measure` measures bytes of
rows and of a user in RAM that they begin with, in today's local file. Rows of PostgreSQL are computed by its page
layout, which agrees within 4 % with 20,000 rows in PostgreSQL 18.4; long vectors and the log were measured there.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Assumed of the users.
USERS = 10_000_000
ACTIVE = 0.05  # share of users who say something on a day; on each day others
MESSAGES_A_DAY = 20  # of an active user and the assistant together
DAYS = 365  # how long messages are kept
MEMORIES = 300  # of a user
EVENTS_A_MEMORY = 1.5
PEAK = 3  # the busiest hour against the mean

# Measured by `--measure`: 364 characters a message, 88 a memory.
MESSAGE_BODY, MESSAGE_TERMS = 551, 388
MEMORY_BODY, MEMORY_TERMS = 640, 96
BLOCK_BODY, BLOCK_TERMS, MESSAGES_A_BLOCK = 1278, 396, 19
WORDS_OF_MESSAGE, WORDS_OF_MEMORY = 175, 79  # of an index of words
RAM_OF_UNIT = 608  # a message or a memory in the memory of a process, without its vector

# PostgreSQL's layout: https://www.postgresql.org/docs/current/storage-page-layout.html
PAGE, PAGE_HEADER, POINTER, TUPLE, INDEX_TUPLE = 8192, 24, 4, 24, 8
FILL = 0.7  # of a B-tree whose keys come in no order
ID, KEY = 33, 8  # an id as text; the scope, a time, a number
# Measured in PostgreSQL 18.4 with pgvector 0.8: a row (scope, number, vector) with its share of pages and of what lies
# in chunks beside them (TOAST). 1,536 numbers fill a page: three chunks of 2 kB leave no room for another one.
VECTOR_ROW = {384: 1647, 1024: 5616, 1536: 8368}
# Measured there: bytes of log for each byte of a row, and for the first change of a page after a checkpoint.
LOG_OF_ROW, LOG_OF_PAGE = 1.22, 5470

# Assumed of the machines.
VISITS, PAGES_OF_VISIT = (
    1.0,
    20,
)  # of an active user on a day, between two checkpoints; tables and indexes touched by one
NODE_BYTES = 2e12  # data of one server: what is restored in some hours
HEADROOM = 1.3  # room for dead rows and growth
CACHED_HOURS = 1.0  # for so long a user's ranking stays in RAM
SERVER_RAM = 48e9  # of an application server of 64 GB, for rankings
TRANSACTIONS_A_TURN, SECONDS_A_TRANSACTION = 8, 0.005
# Public list prices in US dollars, rounded, of 2025: 8 processors and 64 GB; a gigabyte-month of SSD, and of backups.
SERVER_HOUR, SSD_MONTH, BACKUP_MONTH = 0.50, 0.10, 0.025


def heap(content: int) -> float:
    """Return the bytes of a row with its share of the page."""
    tuple_bytes = math.ceil((TUPLE + content) / 8) * 8 + POINTER
    return PAGE / ((PAGE - PAGE_HEADER) // tuple_bytes)


def index(key: int) -> float:
    """Return the bytes of an entry of a B-tree."""
    return (math.ceil((INDEX_TUPLE + key) / 8) * 8 + POINTER) / FILL


@dataclass(frozen=True)
class Rows:
    """One kind of row: how many a user has, the bytes of its columns, the bytes of the keys that it is found by."""

    name: str
    of_user: float
    content: int
    keys: tuple[int, ...]
    words: int = 0
    measured: int = 0

    @property
    def in_heap(self) -> float:
        return self.measured or heap(self.content)

    @property
    def in_indexes(self) -> float:
        return sum(index(key) for key in self.keys) + self.words


def rows_of(dimension: int) -> list[Rows]:
    messages = ACTIVE * MESSAGES_A_DAY * DAYS
    scope_and_number, scope_and_id = 2 * KEY, KEY + ID
    kinds = [
        Rows(
            "message",
            messages,
            6 * KEY + ID + MESSAGE_BODY + MESSAGE_TERMS,
            (scope_and_number, scope_and_id, 3 * KEY, 2 * KEY),
            WORDS_OF_MESSAGE,
        ),
        Rows(
            "block",
            messages / MESSAGES_A_BLOCK,
            5 * KEY + ID + BLOCK_BODY + BLOCK_TERMS,
            (scope_and_number, scope_and_id),
        ),
        Rows(
            "memory",
            MEMORIES,
            9 * KEY + ID + MEMORY_BODY + MEMORY_TERMS,
            (scope_and_number, scope_and_id, 3 * KEY, 5 * KEY, 2 * KEY),
            WORDS_OF_MEMORY,
        ),
        Rows(
            "event",
            EVENTS_A_MEMORY * MEMORIES,
            4 * KEY + 2 * ID + MEMORY_BODY,
            (scope_and_number, scope_and_id, scope_and_id),
        ),
        Rows("change", (messages + MEMORIES) / 4, 4 * KEY, (3 * KEY,)),
    ]
    if dimension:
        row = VECTOR_ROW[dimension]
        kinds.append(Rows("vector of a message", messages, 0, (scope_and_number,), measured=row))
        kinds.append(Rows("vector of a memory", MEMORIES, 0, (scope_and_number,), measured=row))
    return kinds


def bytes_of_user(dimension: int, *, only: str = "") -> float:
    """Return the bytes that a user takes; of `only` one kind of rows."""
    return sum(
        kind.of_user * (kind.in_heap + kind.in_indexes) for kind in rows_of(dimension) if not only or kind.name == only
    )


def log_a_day(dimension: int) -> float:
    """Return the bytes of write-ahead log: the rows, and whole pages at their first change after a checkpoint.

    What lies there after `DAYS` was written in as many days.
    """
    rows = LOG_OF_ROW * USERS * bytes_of_user(dimension) / DAYS
    return rows + USERS * ACTIVE * VISITS * PAGES_OF_VISIT * LOG_OF_PAGE


def ram(dimension: int) -> float:
    """Return the bytes that the rankings of those who were there in the last hours take, at the peak."""
    units = ACTIVE * MESSAGES_A_DAY * DAYS + MEMORIES
    present = USERS * ACTIVE * PEAK * CACHED_HOURS / 24
    return present * units * (RAM_OF_UNIT + 4 * dimension)


def nodes(dimension: int) -> int:
    return math.ceil(USERS * bytes_of_user(dimension) * HEADROOM / NODE_BYTES)


def servers(dimension: int) -> int:
    return max(2, math.ceil(ram(dimension) / SERVER_RAM))


def cost_a_day(dimension: int) -> float:
    """Return dollars: each database server twice, for failover; disks of both; backups once; application servers."""
    machines = (2 * nodes(dimension) + servers(dimension)) * SERVER_HOUR * 24
    data = USERS * bytes_of_user(dimension) / 1e9
    return machines + (2 * HEADROOM * data * SSD_MONTH + data * BACKUP_MONTH) * 12 / 365


def report() -> list[str]:
    """Return the tables of the page, line by line."""
    lines = ["| row | of a user | in all | heap, bytes | indexes, bytes |", "|---|---|---|---|---|"]
    for kind in rows_of(384):
        count = f"{kind.of_user:,.0f} | {kind.of_user * USERS / 1e9:.2f} G"
        lines.append(f"| {kind.name} | {count} | {kind.in_heap:,.0f} | {kind.in_indexes:,.0f} |")
    lines += ["", "| | words alone | 384 | 1,024 | 1,536 |", "|---|---|---|---|---|"]
    dimensions = (0, 384, 1024, 1536)
    for name, told in (
        ("bytes of a user", [f"{bytes_of_user(d) / 1e6:.1f} MB" for d in dimensions]),
        ("bytes in all", [f"{USERS * bytes_of_user(d) / 1e12:.0f} TB" for d in dimensions]),
        (
            "of it vectors of messages",
            [f"{USERS * bytes_of_user(d, only='vector of a message') / 1e12:.0f} TB" for d in dimensions],
        ),
        ("write-ahead log a day", [f"{log_a_day(d) / 1e9:.0f} GB" for d in dimensions]),
        ("servers of 2 TB, without standbys", [f"{nodes(d)}" for d in dimensions]),
        ("RAM of rankings at the peak", [f"{ram(d) / 1e9:.0f} GB" for d in dimensions]),
        ("application servers for it", [f"{servers(d)}" for d in dimensions]),
        ("dollars a day", [f"{round(cost_a_day(d), -2):,.0f}" for d in dimensions]),
        ("cents a user and year", [f"{cost_a_day(d) * 365 * 100 / USERS:.1f}" for d in dimensions]),
    ):
        lines.append(f"| {name} | {' | '.join(told)} |")
    said = USERS * ACTIVE * MESSAGES_A_DAY
    turns = said / 2 / 86400 * PEAK
    busy = turns * TRANSACTIONS_A_TURN * SECONDS_A_TRANSACTION
    lines += [
        "",
        "| at the peak | |",
        "|---|---|",
        f"| messages a day | {said / 1e6:.0f} M |",
        f"| turns a second | {turns:.0f} |",
        f"| transactions a second | {turns * TRANSACTIONS_A_TURN:,.0f} |",
        f"| connections that are busy | {math.ceil(busy)} |",
        f"| users whose ranking is in RAM | {USERS * ACTIVE * PEAK * CACHED_HOURS / 24:,.0f} |",
    ]
    return lines


async def measure() -> list[str]:
    """Measure today's local file: mean bytes of columns, and the memory that a process takes for a unit of a user."""
    from corpus import Corpus, fill

    from reme_core import ReMe

    corpus, units, users = Corpus(words=(8, 90)), 365 + 300, 60
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with ReMe("bench", folder, llm=None, embedding=None) as memory:
            for user in range(users):
                await fill(memory, f"user-{user}", corpus, 365)
                memories: list[dict[str, object]] = [{"content": corpus.text(6, 18)} for _ in range(300)]
                await memory.add_memories(memories, user_id=f"user-{user}")
        with sqlite3.connect(folder / "memory.db") as file:
            lines = []
            for column in (
                "messages.body",
                "messages.terms",
                "blocks.body",
                "blocks.terms",
                "memories.body",
                "memories.terms",
            ):
                table, _, field = column.partition(".")
                (mean,) = file.execute(f"SELECT avg(length(cast({field} AS blob))) FROM {table}").fetchone()  # noqa: S608  # ours
                lines.append(f"{column}: {mean:.0f}")
            (chars,) = file.execute("SELECT avg(length(c1)) FROM message_words_content").fetchone()
        async with ReMe("bench", folder, llm=None, embedding=None) as memory:
            await memory.retrieve(corpus.question(), user_id="user-0")
            before = _resident()
            for user in range(1, users):
                await memory.retrieve(corpus.question(), user_id=f"user-{user}")
            of_unit = (_resident() - before) / (users - 1) / units
    return [*lines, f"characters of a message: {chars:.0f}", f"RAM of a message or memory: {of_unit:.0f}"]


def _resident() -> int:
    gc.collect()
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure what the tables begin with")
    print("\n".join(asyncio.run(measure()) if parser.parse_args().measure else report()))
