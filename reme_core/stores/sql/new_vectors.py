"""Vectors of a new embedding model that wait beside the old ones; see `reembedding.py`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from reme_core.stores.sql.connection import AMONG, Statements


class NewVectorOf(IntEnum):
    """What a new vector belongs to."""

    MESSAGE = 1
    MEMORY = 2
    ITEM = 3


def forget_new_vectors(connection: Statements, kind: NewVectorOf, rows: Sequence[int]) -> None:
    """Remove the new vectors of rows that go."""
    connection.execute(
        f"DELETE FROM new_vectors WHERE kind = ? AND row {AMONG}",  # noqa: S608  # a fixed text
        (int(kind), str(list(rows))),
    )
