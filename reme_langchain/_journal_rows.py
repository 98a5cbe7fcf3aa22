"""The table of the journal. Times are seconds since 1970 by the memory's clock."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from sqlite3 import Connection

from reme_core import Database
from reme_core.schema import Scope

# erased_with: the scope whose end is that of the row;
# payload: NULL once it is delivered, where that is remembered; due: not before; holder: who delivers it, held: until.
_TABLE = """CREATE TABLE IF NOT EXISTS langchain_journal (
    place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, queue TEXT NOT NULL, entry_id TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0, holder TEXT, held REAL NOT NULL DEFAULT 0,
    erased_with INTEGER, payload BLOB, UNIQUE (name, queue, entry_id))"""
_INDEX = """CREATE INDEX IF NOT EXISTS langchain_journal_waiting ON langchain_journal (name, queue, place)
    WHERE payload IS NOT NULL"""
# The first that waits of each queue: only this one may be delivered.
_HEADS = """(SELECT min(place) AS place FROM langchain_journal
    WHERE name = :name AND payload IS NOT NULL AND queue NOT IN (SELECT value FROM json_each(:but)) GROUP BY queue)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is to be delivered.

    Attributes:
        queue: Where it stands.
        entry_id: What it is known by there.
        payload: What was handed in.
        place: Its row.
    """

    queue: str
    entry_id: str
    payload: bytes
    place: int


def create(connection: Connection) -> None:
    """Make the table, if it is not there."""
    connection.execute(_TABLE)
    connection.execute(_INDEX)


def insert(
    connection: Connection, *, name: str, queue: str, entries: Sequence[tuple[str, bytes]], scope: Scope | None = None
) -> None:
    """Add entries that are not known yet; with a scope they go when that is erased."""
    number = None if scope is None else Database.number_of(connection, scope)
    connection.executemany(
        "INSERT OR IGNORE INTO langchain_journal (name, queue, entry_id, erased_with, payload) VALUES (?, ?, ?, ?, ?)",
        [(name, queue, entry_id, number, payload) for entry_id, payload in entries],
    )


def claim(
    connection: Connection, *, name: str, holder: str, now: float, until: float, but: Collection[str], limit: int
) -> list[tuple[Entry, int]]:
    """Hold what is due, at most `limit` entries of as many queues, and return each with its failed tries."""
    found = connection.execute(
        f"""SELECT queue, entry_id, payload, place, tries FROM langchain_journal JOIN {_HEADS} USING (place)
        WHERE due <= :now AND held <= :now ORDER BY place LIMIT :limit""",  # noqa: S608  # a constant of this module
        {"name": name, "now": now, "limit": max(0, limit), "but": json.dumps(sorted(but))},
    ).fetchall()
    connection.executemany(
        "UPDATE langchain_journal SET holder = ?, held = ? WHERE place = ?", [(holder, until, row[3]) for row in found]
    )
    return [(Entry(queue=row[0], entry_id=row[1], payload=row[2], place=row[3]), row[4]) for row in found]


def next_due(connection: Connection, *, name: str, but: Collection[str]) -> float | None:
    """Return when the next entry may be tried; None if none waits."""
    (due,) = connection.execute(
        f"SELECT min(max(due, held)) FROM langchain_journal JOIN {_HEADS} USING (place)",  # noqa: S608  # as above
        {"name": name, "but": json.dumps(sorted(but))},
    ).fetchone()
    return None if due is None else float(due)


def is_held(connection: Connection, *, name: str, holder: str, now: float) -> bool:
    """Tell whether another process or journal is delivering something."""
    found = connection.execute(
        "SELECT 1 FROM langchain_journal WHERE name = ? AND payload IS NOT NULL AND holder != ? AND held > ? LIMIT 1",
        (name, holder, now),
    )
    return found.fetchone() is not None


def finish(connection: Connection, *, place: int, remember: bool) -> None:
    """Forget an entry that was delivered, or only its payload."""
    if remember:
        connection.execute("UPDATE langchain_journal SET payload = NULL, holder = NULL WHERE place = ?", (place,))
    else:
        connection.execute("DELETE FROM langchain_journal WHERE place = ?", (place,))


def put_off(connection: Connection, *, place: int, due: float) -> None:
    """Let an entry wait after a failure."""
    connection.execute(
        "UPDATE langchain_journal SET tries = tries + 1, due = ?, holder = NULL, held = 0 WHERE place = ?", (due, place)
    )


def release(connection: Connection, *, holder: str) -> None:
    """Let go of what is held: another process may deliver it at once."""
    connection.execute("UPDATE langchain_journal SET holder = NULL, held = 0 WHERE holder = ?", (holder,))


def release_gone(connection: Connection, *, name: str, now: float, is_gone: Callable[[str], bool]) -> None:
    """Let go of what is held by those who have certainly ended, such as a process that was killed."""
    holders = connection.execute(
        "SELECT DISTINCT holder FROM langchain_journal WHERE name = ? AND payload IS NOT NULL AND held > ?", (name, now)
    ).fetchall()
    for (holder,) in holders:
        if holder is not None and is_gone(holder):
            release(connection, holder=holder)


def hasten(connection: Connection, *, name: str) -> int:
    """Make due whatever waits after a failure, and return how many entries that are."""
    changed = connection.execute(
        "UPDATE langchain_journal SET due = 0 WHERE name = ? AND payload IS NOT NULL AND due > 0", (name,)
    )
    return changed.rowcount


def forget_waiting(connection: Connection, *, name: str, queue: str) -> None:
    """Remove what waits in a queue; what was delivered stays known."""
    connection.execute(
        "DELETE FROM langchain_journal WHERE name = ? AND queue = ? AND payload IS NOT NULL", (name, queue)
    )


def count(connection: Connection, *, name: str) -> int:
    """Return how many entries wait."""
    query = "SELECT count(*) FROM langchain_journal WHERE name = ? AND payload IS NOT NULL"
    (number,) = connection.execute(query, (name,)).fetchone()
    return int(number)
