"""Reading what a copy takes along, in one snapshot and a few rows at a time; and digests of it, by table.

Jobs come without the lease of whoever works on them: the copy has nobody who does.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from reme_core.schema import Job, JobState, Scope
from reme_core.stores.copying.tables import ITEMS, OF_ADAPTERS, OF_SCOPES, CopiedTable, Row, Value
from reme_core.stores.sql.blob_rows import has_blobs
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.connection import SqlConnection, reading_rows

Batch: TypeAlias = tuple[CopiedTable, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class ItemsOf:
    """Items of a memory space.

    Attributes:
        memory_space: The space.
        scopes: Those that belong to these: to a memory, or to a user.
        unowned: Also those that belong to nobody.
    """

    memory_space: str
    scopes: tuple[Scope, ...]
    unowned: bool


Unit: TypeAlias = Scope | ItemsOf
"""What is copied in one transaction: everything of a scope, or items of a space."""


@dataclass(frozen=True, slots=True)
class TableDigest:
    """How many rows of a table there are, and a digest (BLAKE2b) of what they say, in their order."""

    rows: int
    digest: str


@reading_rows()
def read_scope(connection: SqlConnection, scope: Scope) -> Iterator[Batch]:
    """Yield the rows of a scope, table by table."""
    number = find_scope(connection, scope)
    ours = OF_SCOPES if has_blobs(connection) else [table for table in OF_SCOPES if table.name != "blobs"]
    for table in (*ours, *adapter_tables(connection)) if number is not None else ():
        with closing(connection.dialect.stream(connection, table.select(), (number,))) as rows:
            while some := rows.fetchmany(table.at_once):
                yield table, _settled(table, some)


def adapter_tables(connection: SqlConnection) -> list[CopiedTable]:
    """Return the tables of adapters that are copied, as far as this store has them."""
    there = set(connection.dialect.table_names(connection))
    return [table for table in OF_ADAPTERS if table.name in there]


def _settled(table: CopiedTable, rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows in one form, whatever engine they are of."""
    if table.name == "jobs":
        return [_released(row) for row in rows]
    flags = table.flag_places
    if not flags:
        return rows
    return [tuple(int(bool(value)) if place in flags else value for place, value in enumerate(row)) for row in rows]


def _released(row: Row) -> Row:
    number, job_id, origin, kind, state, created, due, body = row
    if state != JobState.RUNNING:
        return tuple(row)
    job = Job.model_validate_json(str(body))
    free = {"state": JobState.PENDING, "attempts": max(job.attempts - 1, 0), "owner": None, "held_until": None}
    text = job.model_copy(update=free).model_dump_json()
    return (number, job_id, origin, kind, str(JobState.PENDING), created, due, text)


_ITEMS = (
    "SELECT t.item, t.key, t.created, t.updated, t.expires, t.ttl, t.value, r0.path, r1.memory_id, r1.scope,"
    " t.erased_with FROM items AS t JOIN item_namespaces AS r0 ON r0.ns = t.ns"
    " LEFT JOIN memories AS r1 ON r1.row = t.memory_row WHERE r0.memory_space = ?"
    " AND (t.erased_with IN (SELECT value FROM json_each(?)) OR r1.scope IN (SELECT value FROM json_each(?))"
    " OR (? = 1 AND t.erased_with IS NULL AND t.memory_row IS NULL)) ORDER BY t.item"
)


@reading_rows()
def read_items(connection: SqlConnection, items: ItemsOf, numbers: Mapping[Scope, int]) -> Iterator[Batch]:
    """Yield items; `numbers` has those of the scopes, of whatever space."""
    among = json.dumps([numbers[scope] for scope in items.scopes if scope in numbers])
    names = {number: scope_name(scope) for scope, number in numbers.items()}
    bound = (items.memory_space, among, among, int(items.unowned))
    with closing(connection.dialect.stream(connection, _ITEMS, bound)) as rows:
        while some := rows.fetchmany(ITEMS.at_once):
            vectors = _vectors(connection, [row[0] for row in some])
            yield ITEMS, [(*row[:9], names.get(row[9]), names.get(row[10]), vectors.get(row[0])) for row in some]


def _vectors(connection: SqlConnection, items: Sequence[int]) -> dict[int, bytes]:
    rows = connection.execute(
        "SELECT item, data FROM item_vectors WHERE item IN (SELECT value FROM json_each(?)) ORDER BY item, vector",
        (json.dumps(items),),
    ).fetchall()
    return {item: b"".join(data for _, data in some) for item, some in groupby(rows, key=lambda row: row[0])}


def scope_name(scope: Scope) -> str:
    """Return the name of a scope in a row."""
    return json.dumps([scope.memory_space, scope.user_id])


def digests_of(batches: Iterator[Batch]) -> dict[str, TableDigest]:
    """Read batches to their end; return the digest of each table that has rows."""
    return passed(batches).result()


def passed(batches: Iterator[Batch], *, of_rows: bool = False) -> Digests:
    """Read batches to their end."""
    sums = Digests(of_rows=of_rows)
    for table, rows in batches:
        sums.add(table, rows)
    return sums


class Digests:
    """Digests of tables while their rows go by; where it is asked for, of each row, too."""

    def __init__(self, *, of_rows: bool = False) -> None:
        """Begin with none."""
        self._rows: dict[str, int] = {}
        self._hashes: dict[str, hashlib.blake2b] = {}
        self._of_rows = of_rows
        self.of_rows: dict[str, set[bytes]] = {}

    def add(self, table: CopiedTable, rows: Sequence[Row]) -> None:
        """Add the next rows of a table."""
        digest = self._hashes.setdefault(table.name, hashlib.blake2b(digest_size=16))
        self._rows[table.name] = self._rows.get(table.name, 0) + len(rows)
        for row in rows:
            content = packed(table.content(row))
            digest.update(content)
            if self._of_rows:
                self.of_rows.setdefault(table.name, set()).add(hashlib.blake2b(content, digest_size=16).digest())

    def result(self) -> dict[str, TableDigest]:
        """Return them, by table."""
        return {name: TableDigest(self._rows[name], item.hexdigest()) for name, item in self._hashes.items()}


def packed(values: Row) -> bytes:
    """Return values as bytes that no other values have."""
    return b"".join(map(_packed, values))


def _packed(value: Value) -> bytes:
    match value:
        case None:
            return b"n"
        case int():
            return b"i%d;" % value
        case float():
            return b"f" + struct.pack("<d", value)
        case str():
            data = value.encode("utf-8", "surrogatepass")
            return b"s%d:%s" % (len(data), data)
        case bytes():
            return b"b%d:%s" % (len(value), value)
