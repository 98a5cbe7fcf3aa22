"""Items as rows: namespaces, and reading by address and by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reme_core.ports import Item, ItemRecord, ItemValue
from reme_core.rules import overlaid, path_after, read_value, split_path, value_of
from reme_core.schema import NO_STATEMENTS, Memory, MemoryType
from reme_core.stores.sql.blob_rows import put_together
from reme_core.stores.sql.bookkeeping import find_scope, insert_row
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.memory_rows import find_memory, from_microseconds, microseconds

_SELECT = (
    "SELECT items.item, ns, key, value, items.created, updated, expires, ttl, memory_row, body, superseded_by,"
    " erased_with FROM items LEFT JOIN memories ON memories.row = memory_row"
)
_OF_OWNER = "scope = (SELECT erased_with FROM items WHERE item = ?)"
_SOME = 500
NOT_ITEMS = NO_STATEMENTS | {MemoryType.HISTORY}
"""Types of memories that are never items: no statements."""


class ItemRow(NamedTuple):
    """A row of `items`, or one of `memories` that was not written as an item (`item` None, `ns` None).

    Times in microseconds since 1970; `body` is the memory as JSON, `superseded_by` the one that replaced it, `owner`
    the number of the scope whose end is that of the item.
    """

    item: int | None
    ns: int | None
    key: str
    value: str | None
    created: int
    updated: int
    expires: int | None
    ttl: int | None
    memory_row: int | None
    body: str | None
    superseded_by: str | None
    owner: int | None

    @property
    def is_closed(self) -> bool:
        """Whether its memory was superseded: then it is no item any more."""
        return self.superseded_by is not None

    def is_over(self, at: int) -> bool:
        """Whether its time to live is over."""
        return self.expires is not None and self.expires <= at

    def lives(self, at: int) -> bool:
        """Whether it has a time to live that is not over, which a read begins anew."""
        return self.expires is not None and self.expires > at

    def memory(self) -> Memory | None:
        """Read its memory."""
        return None if self.body is None else Memory.model_validate_json(self.body)


def find_namespace(connection: SqlConnection, memory_space: str, path: str) -> int | None:
    """Return the number of a namespace, None where it holds no item."""
    row = connection.execute(
        "SELECT ns FROM item_namespaces WHERE memory_space = ? AND path = ?", (memory_space, path)
    ).fetchone()
    return None if row is None else int(row[0])


def make_namespace(connection: SqlConnection, memory_space: str, path: str) -> int:
    """Return the number of a namespace, a new one for a new namespace."""
    number = find_namespace(connection, memory_space, path)
    if number is not None:
        return number
    return insert_row(connection, "item_namespaces", {"memory_space": memory_space, "path": path})


def namespaces_under(connection: SqlConnection, memory_space: str, prefix: str) -> dict[int, str]:
    """Return the paths of the namespaces under a prefix by their numbers."""
    where, values = "memory_space = ?", [memory_space]
    if prefix:
        where += " AND path >= ? AND path < ?"
        values += [prefix, path_after(prefix)]
    return dict(connection.execute(f"SELECT ns, path FROM item_namespaces WHERE {where}", values))  # noqa: S608


def rows_by_keys(connection: SqlConnection, ns: int, keys: Sequence[str]) -> dict[str, ItemRow]:
    """Return the rows of a namespace under some keys."""
    found: dict[str, ItemRow] = {}
    for start in range(0, len(keys), _SOME):
        some = keys[start : start + _SOME]
        # Not as JSON: SQLite would end a key at NUL.
        marks = ", ".join("?" * len(some))
        for row in connection.execute(f"{_SELECT} WHERE ns = ? AND key IN ({marks})", (ns, *some)):
            found[row[2]] = ItemRow._make(row)
    return found


def rows_by_items(connection: SqlConnection, items: Sequence[int], needles: Sequence[str] = ()) -> dict[int, ItemRow]:
    """Return the rows of items by their numbers; without those that lack one of some texts as they are stored.

    Items that are memories are not judged by that: edits through the memory change what their values say.
    """
    if not items:
        return {}
    holds = connection.dialect.holds("items.value")
    having = "".join(f" AND (memory_row IS NOT NULL OR {holds})" for _ in needles)
    rows = connection.execute(
        f"{_SELECT} WHERE items.item IN (SELECT value FROM json_each(?)){having}",  # noqa: S608
        (str(list(items)), *needles),
    )
    return {row[0]: ItemRow._make(row) for row in rows}


def rows_by_memories(connection: SqlConnection, memory_rows: Sequence[int]) -> dict[int, ItemRow]:
    """Return memories as rows of items by their numbers, without those that are closed or were written as items."""
    if not memory_rows:
        return {}
    rows = connection.execute(
        "SELECT row, body FROM memories WHERE row IN (SELECT value FROM json_each(?)) AND superseded_by IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM items WHERE memory_row = memories.row)",
        (str(list(memory_rows)),),
    )
    return {number: _of_memory(number, body) for number, body in rows}


def _of_memory(number: int, body: str) -> ItemRow:
    memory = Memory.model_validate_json(body)
    return ItemRow(
        None,
        None,
        memory.memory_id,
        None,
        microseconds(memory.created_at),
        microseconds(memory.updated_at),
        None,
        None,
        number,
        body,
        None,
        None,
    )


def find_unlinked(connection: SqlConnection, record: ItemRecord, key: str) -> ItemRow | None:
    """Return the memory that lies under a namespace with its id as the key, if it was not written as an item."""
    if not record.is_home or record.topic or record.memory_type in NOT_ITEMS:
        return None
    number = find_scope(connection, record.scope)
    found = None if number is None else find_memory(connection, number, key)
    if found is None or found[1].memory_type is not record.memory_type:
        return None
    return rows_by_memories(connection, [found[0]]).get(found[0])


def value_of_row(connection: SqlConnection, row: ItemRow) -> tuple[ItemValue, Memory | None]:
    """Read the value of a row as it is now, and its memory."""
    memory = row.memory()
    if row.value is None or row.item is None:  # so it is a memory that was not written as an item
        return ({} if memory is None else value_of(memory)), memory
    value = read_value(put_together(connection, row.item, row.value, where=_OF_OWNER))
    return (value if memory is None else overlaid(value, memory)), memory


def make_item(
    row: ItemRow, read: tuple[ItemValue, Memory | None], namespaces: dict[int, str], score: float | None = None
) -> Item:
    """Return a row as an item; `namespaces` has the path of its namespace."""
    value, memory = read
    return Item(
        namespace=None if row.ns is None else split_path(namespaces[row.ns]),
        key=row.key,
        value=value,
        created_at=from_microseconds(row.created),
        updated_at=from_microseconds(row.updated),
        memory=memory,
        score=score,
    )
