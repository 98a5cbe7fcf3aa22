"""Delivery of what an earlier release has left in its journal: turns that were not in the memory when it ended."""

from __future__ import annotations

import json
import logging
from functools import partial
from sqlite3 import Connection

from reme_core import Message, ReMe
from reme_core.errors import ConfigurationError, InvalidInputError
from reme_langchain.middleware._capture import untimed

_LOG = logging.getLogger("reme")
_TABLE = "langchain_journal"


async def deliver_old(memory: ReMe) -> None:
    """Put into the memory what its file has of captured turns on their way, in their order.

    Raises:
        ReMeError: Some of it is not in the memory yet; do it again.
    """
    try:
        database = memory.database
    except ConfigurationError:  # nothing of this memory lies in a file of ours
        return
    for place, payload in await database.read(partial(_read, f"capture:{memory.memory_space}")):
        try:
            await _deliver(memory, payload)
        except (InvalidInputError, ValueError, TypeError, KeyError) as exc:
            _LOG.error(
                "a turn that an earlier release has captured can't be read, and is left out: %s", type(exc).__name__
            )
        await database.write(partial(_remove, place), settled=False)


async def _deliver(memory: ReMe, payload: bytes) -> None:
    read = json.loads(payload)
    user_id, session_id, memory_type = (str(read[key]) for key in ("user_id", "session_id", "memory_type"))
    await memory.summary(
        [untimed(Message.model_validate(item)) for item in read["messages"]],
        user_id=user_id,
        session_id=session_id,
        memory_type=memory_type,
        background=True,
        on_conflict="rename",
    )


def _read(name: str, connection: Connection) -> list[tuple[int, bytes]]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone() is None:
        return []
    return connection.execute(
        f"SELECT place, payload FROM {_TABLE} WHERE name = ? AND payload IS NOT NULL ORDER BY place",  # noqa: S608  # ours
        (name,),
    ).fetchall()


def _remove(place: int, connection: Connection) -> None:
    connection.execute(f"DELETE FROM {_TABLE} WHERE place = ?", (place,))  # noqa: S608  # as above
