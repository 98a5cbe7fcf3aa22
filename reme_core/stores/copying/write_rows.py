"""Writing what a copy brings, within one transaction of the target: numbers moved, words indexed, readers told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reme_core.errors import ConflictError
from reme_core.schema import Memory, Scope, read_stored_message
from reme_core.stores.copying.read_rows import Batch, Digests, ItemsOf, packed, read_items, read_scope
from reme_core.stores.copying.tables import ITEMS, CopiedTable, Row, Value
from reme_core.stores.sql.blob_rows import keep_for_good, kept_type
from reme_core.stores.sql.bookkeeping import ITEMS as ITEM_LAYER
from reme_core.stores.sql.bookkeeping import Layer, begin_anew, enter_scope
from reme_core.stores.sql.connection import SqlConnection, WordTable
from reme_core.stores.sql.embedding_record import find_embedding
from reme_core.stores.sql.items.item_rows import make_namespace
from reme_core.text import segment_passages, terms


@dataclass(frozen=True, slots=True)
class Numbers:
    """What numbers of the source become: as much higher for all rows of a table, but for rows that were there.

    Attributes:
        higher: By how much, by table.
        known: The numbers in the target of rows that it holds already, by table and number in the source.
    """

    higher: Mapping[str, int]
    known: dict[str, dict[int, int]] = field(default_factory=dict)

    def of(self, table: str, number: Value) -> int | None:
        """Return a number in the target."""
        if number is None:
            return None
        found = int(number)
        return self.known.get(table, {}).get(found, found + self.higher.get(table, 0))


Held = dict[str, dict[bytes, tuple[int | None, bytes]]]
"""Rows that the target has: their number and content, by table and identity."""


def _held(batches: Iterator[Batch], where: str, *, merges: bool) -> Held:
    """Return what the target holds; where nothing is to be there, see that nothing is (ConflictError)."""
    if merges:
        return held_rows(batches)
    if next(batches, None) is not None:
        msg = f"{where}: somebody has just written to it in the target, nothing of it was copied: run the copy again"
        raise ConflictError(msg)
    return {}


def held_rows(batches: Iterator[Batch]) -> Held:
    """Note rows of the target by what they are known by; for a merge alone, as it takes memory for each row."""
    held: Held = {}
    for table, rows in batches:
        of_table = held.setdefault(table.name, {})
        for row in rows:
            number = None if row[0] is None else int(row[0])
            of_table[packed(table.identity(row))] = (number, packed(table.content(row)))
    return held


def fresh_rows(table: CopiedTable, rows: Sequence[Row], held: Held, numbers: Numbers, where: str) -> list[Row]:
    """Return the rows that the target lacks; note the numbers of the others (ConflictError: they say other things)."""
    of_table, fresh = held.get(table.name, {}), []
    for row in rows:
        found = of_table.get(packed(table.identity(row)))
        if found is None:
            fresh.append(row)
        elif found[1] != packed(table.content(row)):
            name = " ".join(str(value) for value in table.identity(row) if isinstance(value, str))
            msg = (
                f"{where}: {table.name} {name!r:.80} is in the target and says something else: nothing of this user was"
                " copied; delete it in one of them, or copy into another database"
            )
            raise ConflictError(msg)
        elif row[0] is not None and found[0] is not None:
            numbers.known.setdefault(table.name, {})[int(row[0])] = found[0]
    return fresh


def write_scope(
    connection: SqlConnection, scope: Scope, batches: Iterator[Batch], numbers: Numbers, *, merges: bool
) -> Digests:
    """Write the rows of a scope; return the digests of all that came."""
    where = f"user {scope.user_id!r} of space {scope.memory_space!r}"
    number, sums = enter_scope(connection, scope), Digests(of_rows=merges)
    if merges:  # what one of them holds for a session alone, the other may hold for a message
        types = keep_for_good(connection, number)
        batches = (
            (table, [_for_good(row, types) for row in rows] if table.name == "blobs" else rows)
            for table, rows in batches
        )
    held = _held(read_scope(connection, scope), where, merges=merges)
    for table, rows in batches:
        sums.add(table, rows)
        fresh = fresh_rows(table, rows, held, numbers, where) if merges else rows
        _insert(connection, table, fresh, numbers, number)
    for layer in Layer:
        begin_anew(connection, number, layer)
    return sums


def _for_good(row: Row, types: Mapping[str, str]) -> Row:
    """Return the row of an image or a file as `keep_for_good` has it; of the type that the same bytes have there."""
    number, digest, media_type, *others = row
    return (number, digest, types.get(str(digest), kept_type(str(media_type))), *others)


def _insert(connection: SqlConnection, table: CopiedTable, rows: Sequence[Row], numbers: Numbers, scope: int) -> None:
    columns = len(table.columns) + 1
    placed = []
    for row in rows:
        values: list[object] = list(row[:columns])
        for place in table.flag_places:
            values[place] = bool(values[place])
        values[0] = numbers.of(table.name, row[0])
        values += [numbers.of(item.table, row[columns + n]) for n, item in enumerate(table.references)]
        placed.append([*values[table.number is None :], *([scope] if table.owner == "t" else [])])
    connection.executemany(table.insert(), placed)
    words_of = _WORDS.get(table.name)
    if words_of is not None and words_of.table in connection.dialect.word_tables(connection):
        for row in rows:
            words = words_of.read(str(table.value(row, "body")))
            connection.dialect.add_words(connection, words_of.table, scope, numbers.of(table.name, row[0]) or 0, words)
    if table.name == "offload_passages":
        _index_passages(connection, rows, numbers, scope)


class _Words(NamedTuple):
    """The index of a table's terms, and how these are read from a body."""

    table: WordTable
    read: Callable[[str], Sequence[str]]


_WORDS = {
    "messages": _Words("message_words", lambda body: segment_passages(read_stored_message(body).full_text)[0]),
    "memories": _Words("memory_words", lambda body: terms(Memory.model_validate_json(body).index_text)),
}


def _index_passages(connection: SqlConnection, rows: Sequence[Row], numbers: Numbers, scope: int) -> None:
    """Index passages, those of a text one behind the other: it is read once."""
    last, text = None, ""
    for passage, start, chars, _, offload, _ in rows if connection.dialect.word_tables(connection) else ():
        if offload != last:
            query = "SELECT text FROM offloads WHERE scope = ? AND offload = ?"
            (text,) = connection.execute(query, (scope, numbers.of("offloads", offload))).fetchone()
            last = offload
        first = int(start or 0)
        words = terms(text[first : first + int(chars or 0)])
        connection.dialect.add_words(
            connection, "offload_words", scope, numbers.of("offload_passages", passage) or 0, words
        )


def write_items(
    connection: SqlConnection,
    items: ItemsOf,
    batches: Iterator[Batch],
    numbers: Numbers,
    scopes: Mapping[Scope, int],
    *,
    merges: bool,
) -> Digests:
    """Write items of a space, whose memories and scopes are there; return the digest of all that came."""
    where, sums = f"items of space {items.memory_space!r}", Digests(of_rows=merges)
    held = _held(read_items(connection, items, scopes), where, merges=merges)
    namespaces: dict[str, int] = {}
    made = find_embedding(connection, items.memory_space)
    size = 0 if made is None else 4 * made.dimension
    for table, rows in batches:
        sums.add(table, rows)
        for row in fresh_rows(table, rows, held, numbers, where) if merges else rows:
            path = str(row[7])
            if path not in namespaces:
                namespaces[path] = make_namespace(connection, items.memory_space, path)
            item = _insert_item(connection, row, namespaces[path], numbers, scopes)
            _insert_vectors(connection, item, row[-1], size)
    for number in namespaces.values():
        begin_anew(connection, number, ITEM_LAYER)
    return sums


def _insert_item(
    connection: SqlConnection, row: Row, ns: int, numbers: Numbers, scopes: Mapping[Scope, int]
) -> int | None:
    _, key, created, updated, expires, ttl, value, _, memory_id, memory_of, owner, _ = row
    item = numbers.of(ITEMS.name, row[0])
    memory = None
    if memory_id is not None:
        found = connection.execute(
            "SELECT row FROM memories WHERE scope = ? AND memory_id = ?", (_number(memory_of, scopes), memory_id)
        ).fetchone()
        memory = found[0]
    erased_with = None if owner is None else _number(owner, scopes)
    connection.execute(
        "INSERT INTO items (item, ns, key, created, updated, expires, ttl, memory_row, value, erased_with)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (item, ns, key, created, updated, expires, ttl, memory, value, erased_with),
    )
    return item


def _insert_vectors(connection: SqlConnection, item: int | None, vectors: Value, size: int) -> None:
    """Insert the vectors of an item, which came in one piece; `size` is that of one of them."""
    if isinstance(vectors, bytes):
        step = size or len(vectors)
        pieces = [(item, vectors[start : start + step]) for start in range(0, len(vectors), step)]
        connection.executemany("INSERT INTO item_vectors (item, data) VALUES (?, ?)", pieces)


def _number(name: Value, scopes: Mapping[Scope, int]) -> int:
    space, user = json.loads(str(name))
    return scopes[Scope(memory_space=space, user_id=user)]
