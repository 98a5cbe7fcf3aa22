"""The table of messages that a history sink has not got yet: written with the checkpoint that brings them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from sqlite3 import Connection

from reme_langchain.saver._checkpoint_tables import HISTORY
from reme_langchain.saver._message_blobs import KnownDigests

_WAITING = "name = ? AND queue = ? AND payload IS NOT NULL"


def insert_waiting(connection: Connection, *, thread: str, entries: Sequence[tuple[str, bytes]]) -> None:
    """Add messages, each known by an id, that are not known yet."""
    connection.executemany(
        "INSERT OR IGNORE INTO langchain_journal (name, queue, entry_id, payload) VALUES (?, ?, ?, ?)",
        [(HISTORY, thread, entry_id, payload) for entry_id, payload in entries],
    )


def claim(
    connection: Connection,
    _: KnownDigests,
    *,
    thread: str,
    holder: str,
    now: float,
    until: float,
    is_gone: Callable[[str], bool],
) -> list[tuple[int, bytes]] | None:
    """Return place and payload of what waits of a thread, in order, held from now on; None while others hold some.

    Times are seconds since 1970. What is held by those who have certainly ended counts as free.
    """
    found = connection.execute(
        f"SELECT DISTINCT holder FROM langchain_journal WHERE {_WAITING} AND held > ?",  # noqa: S608  # ours
        (HISTORY, thread, now),
    )
    if any(other not in {None, holder} and not is_gone(other) for (other,) in found):
        return None
    connection.execute(
        f"UPDATE langchain_journal SET holder = ?, held = ? WHERE {_WAITING}",  # noqa: S608  # ours
        (holder, until, HISTORY, thread),
    )
    return connection.execute(
        f"SELECT place, payload FROM langchain_journal WHERE {_WAITING} ORDER BY place",  # noqa: S608  # ours
        (HISTORY, thread),
    ).fetchall()


def release(connection: Connection, _: KnownDigests, *, thread: str, holder: str) -> None:
    """Let go of what is held of a thread."""
    connection.execute(
        "UPDATE langchain_journal SET holder = NULL, held = 0 WHERE name = ? AND queue = ? AND holder = ?",
        (HISTORY, thread, holder),
    )


def finish(connection: Connection, _: KnownDigests, *, places: Iterable[int]) -> None:
    """Forget what was handed over; its ids stay known."""
    connection.executemany(
        "UPDATE langchain_journal SET payload = NULL, holder = NULL WHERE place = ?", [(place,) for place in places]
    )


def waiting_threads(connection: Connection) -> list[str]:
    """Return the threads of which something waits."""
    found = connection.execute(
        "SELECT queue FROM langchain_journal WHERE name = ? AND payload IS NOT NULL GROUP BY queue ORDER BY min(place)",
        (HISTORY,),
    )
    return [thread for (thread,) in found]
