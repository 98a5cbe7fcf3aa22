"""Record of the model that embedded a file's items, and of the length of its vectors."""

from __future__ import annotations

import json
import sqlite3

from reme_core.errors import DimensionMismatchError
from reme_core.ports import IndexedBy

_NAME = "items_index"


def find_index(connection: sqlite3.Connection) -> IndexedBy | None:
    """Return what is recorded, None as long as nothing is."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_NAME,)).fetchone()
    return None if row is None else IndexedBy(**json.loads(row[0]))


def item_dimension(connection: sqlite3.Connection) -> int | None:
    """Return the length of the vectors of items, None while there are none and none is recorded."""
    indexed = find_index(connection)
    if indexed is not None:
        return indexed.dimension
    row = connection.execute("SELECT length(data) FROM item_vectors LIMIT 1").fetchone()
    return None if row is None else int(row[0]) // 4


def claim_index(connection: sqlite3.Connection, indexed: IndexedBy) -> IndexedBy:
    """Record what makes the vectors, unless something is; return what is.

    Raises:
        DimensionMismatchError: There are vectors of another length, and nothing is recorded.
    """
    found = find_index(connection)
    if found is not None:
        return found
    stored = item_dimension(connection)
    if stored is not None and stored != indexed.dimension:
        raise DimensionMismatchError(expected=stored, found=indexed.dimension, what="the index of items")
    value = json.dumps({"dimension": indexed.dimension, "model": indexed.model})
    connection.execute("INSERT INTO meta VALUES (?, ?)", (_NAME, value))
    return indexed
