"""Memories as rows, each change with its event. Plain functions over a connection; the caller holds the transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import DeleteMemory, IndexedBy, ListMemories, PutMemory, Target, WriteBatch
from reme_core.rules import (
    beside,
    check_useless,
    check_vector,
    claimed_content,
    kept_by_updates,
    reason_for,
    repetition,
    run_for,
)
from reme_core.schema import (
    NO_STATEMENTS,
    EventKind,
    Memory,
    MemoryPage,
    MemoryType,
    Scope,
    format_time,
    parse_time,
)
from reme_core.stores._cursors import check_limit, cut_page, in_order, read_cursor, seconds
from reme_core.stores.sql import row_conditions as waiting
from reme_core.stores.sql.bookkeeping import Layer, enter_scope, find_scope, insert_memory, log_changes
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.embedding_record import claim_embedding
from reme_core.stores.sql.items import row_links as item_links
from reme_core.stores.sql.new_vectors import NewVectorOf, forget_new_vectors
from reme_core.stores.sql.row_conditions import check_filter, conditions, is_seldom
from reme_core.stores.sql.trust_rows import no_more_trusted
from reme_core.text import normalise_content, pack_terms, terms

_EPOCH = parse_time("1970-01-01")


def microseconds(moment: datetime) -> int:
    """Return whole microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(count: int) -> datetime:
    """Return the time of whole microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=count)


def check_batch(scope: Scope, batch: WriteBatch) -> WriteBatch:
    """Check what can be checked without the file.

    Raises:
        InvalidInputError: A memory of another scope, or a bad vector.
    """
    puts = []
    for put in batch.puts:
        memory = put.memory
        if (memory.memory_space, memory.user_id) != (scope.memory_space, scope.user_id):
            msg = f"memory {memory.memory_id!r} belongs to another scope than the call: copy it into this one first"
            raise InvalidInputError(msg)
        vector = None if put.vector is None else check_vector(put.vector, f"the vector of memory {memory.memory_id!r}")
        puts.append(replace(put, vector=vector))
    return replace(batch, puts=puts)


def put_batch(connection: SqlConnection, scope: Scope, batch: WriteBatch, *, distinct: bool = False) -> list[Memory]:
    """Write a checked batch: deletes, then puts in their order; see `Store.put` for what is raised.

    With `distinct` a put stands beside a memory that says the same, as items under two keys do.
    """
    if not batch.puts and not batch.deletes:
        return []
    number = enter_scope(connection, scope)
    changed: list[int] = []
    missing = [d.memory_id for d in batch.deletes if not _is_known(connection, number, d)]
    if missing:
        raise MemoryNotFoundError(missing)
    for delete in batch.deletes:
        changed += _delete_one(connection, number, batch, delete)
    stored = []
    _claim(connection, scope, batch)
    for put in no_more_trusted(connection, number, batch.puts):
        memory, rows = _put_one(connection, number, batch, put, distinct=distinct)
        stored.append(memory)
        changed += rows
    log_changes(connection, number, Layer.MEMORIES, dict.fromkeys(changed))
    return stored


def _claim(connection: SqlConnection, scope: Scope, batch: WriteBatch) -> None:
    """Make sure that the vectors of a batch come from the model of the others, once for each dimension there is."""
    first = {len(put.vector): put for put in reversed(batch.puts) if put.vector is not None}
    for dimension, put in reversed(first.items()):
        made = IndexedBy(dimension=dimension, model=batch.embedded_by)
        claim_embedding(connection, scope.memory_space, made, f"the vector of memory {put.memory.memory_id!r}")


def find_memory(connection: SqlConnection, scope: int, memory_id: str) -> tuple[int, Memory] | None:
    """Return the row of a memory and the memory, None where the scope doesn't hold it."""
    row = connection.execute(
        "SELECT row, body FROM memories WHERE scope = ? AND memory_id = ?", (scope, memory_id)
    ).fetchone()
    return None if row is None else (int(row[0]), Memory.model_validate_json(row[1]))


def _is_known(connection: SqlConnection, scope: int, delete: DeleteMemory) -> bool:
    """Tell whether there is something to delete: a memory, or, to be erased, the history of one that was deleted."""
    if find_memory(connection, scope, delete.memory_id) is not None:
        return True
    history = "SELECT 1 FROM events WHERE scope = ? AND memory_id = ? LIMIT 1"
    return delete.erase and connection.execute(history, (scope, delete.memory_id)).fetchone() is not None


def _delete_one(connection: SqlConnection, scope: int, batch: WriteBatch, delete: DeleteMemory) -> list[int]:
    """Delete a memory; return the rows that changed."""
    if delete.erase:
        _erase_history(connection, scope, delete.memory_id)
    found = find_memory(connection, scope, delete.memory_id)
    if found is None and delete.erase:
        return []
    if found is None:
        raise MemoryNotFoundError([delete.memory_id])
    row, memory = found
    _expect(memory.memory_id, memory.revision, delete.expected_revision)
    check_useless(memory, delete.only_if_useless)
    connection.execute("DELETE FROM memories WHERE row = ?", (row,))
    connection.execute("DELETE FROM memory_vectors WHERE row = ?", (row,))
    forget_new_vectors(connection, NewVectorOf.MEMORY, [row])
    item_links.remove_item_of(connection, row)
    connection.dialect.remove_words(connection, "memory_words", [row])
    if not delete.erase:
        _add_event(connection, scope, batch, delete, EventKind.DELETE, memory, None)
    return [row]


def _erase_history(connection: SqlConnection, scope: int, memory_id: str) -> None:
    connection.execute("DELETE FROM events WHERE scope = ? AND memory_id = ?", (scope, memory_id))
    connection.dialect.note_erasure(connection)


def _put_one(
    connection: SqlConnection, scope: int, batch: WriteBatch, put: PutMemory, *, distinct: bool
) -> tuple[Memory, list[int]]:
    """Write one memory; return it as stored, and the rows written: none, or that of one that makes way as well."""
    digest = content_digest(claimed_content(put.memory))
    found, twin = _look_up(connection, scope, put.memory, digest)
    _expect(put.memory.memory_id, 0 if found is None else found[1].revision, put.expected_revision)
    normal = digest if found is None else _normal(connection, digest, found)
    if normal != digest:
        twin = _look_up(connection, scope, put.memory, normal)[1]
    rows: list[int] = []
    if twin is not None and distinct:
        normal = _salted(normal, put.memory.memory_id)
    elif twin is not None:
        if found is not None or put.on_duplicate == "raise":
            raise repetition(put.memory, twin[1].memory_id)
        settled = beside(twin[1], put.memory, at=batch.at)
        if settled is None:
            return twin[1], []
        displaced, wanted = settled
        put = replace(put, memory=wanted)
        if displaced is not twin[1]:
            way = PutMemory(memory=displaced, reason=put.reason, run_id=put.run_id)
            rows += _write(connection, scope, batch, way, twin, normal)[1]
    memory, changed = _write(connection, scope, batch, put, found, normal)
    return memory, [*rows, *changed]


def _write(
    connection: SqlConnection,
    scope: int,
    batch: WriteBatch,
    put: PutMemory,
    found: tuple[int, Memory] | None,
    normal: bytes,
) -> tuple[Memory, list[int]]:
    """Write a memory over the one found under its id, with its event; return it as stored, and its row if it had one.

    A new row is logged as it is written; its number is asked for where a vector needs it.
    """
    if found is None:
        memory = put.memory
        if memory.revision != 1:
            memory = memory.model_copy(update={"revision": 1})
        words = terms(memory.index_text)
        name = {"scope": scope, "memory_id": memory.memory_id}
        waits = {"waits": put.wants_vector and put.vector is None}
        rows = insert_memory(connection, scope, {**name, **_columns(memory, words, normal), **waits}, words)
        kind, before = EventKind.ADD, None
        if put.vector is not None:
            (row,) = rows
            waiting.put_vector(connection, row, put.vector, is_new=True)
    else:
        row, before = found
        memory = put.memory.model_copy(update=kept_by_updates(before))
        words = terms(memory.index_text)
        columns = _columns(memory, words, normal)
        setting = ", ".join(f"{column} = ?" for column in columns)
        connection.execute(f"UPDATE memories SET {setting} WHERE row = ?", (*columns.values(), row))  # noqa: S608  # ours
        superseded = before.is_current and not memory.is_current
        kind = EventKind.SUPERSEDE if superseded else EventKind.UPDATE
        said_anew = memory.index_text != before.index_text
        item_links.follow_edit(connection, row, microseconds(memory.updated_at), put.vector, said_anew=said_anew)
        if said_anew:
            connection.execute("DELETE FROM memory_vectors WHERE row = ?", (row,))
            connection.dialect.remove_words(connection, "memory_words", [row])
            connection.dialect.add_words(connection, "memory_words", scope, row, words)
        if put.vector is not None:
            waiting.put_vector(connection, row, put.vector)
        waiting.note(connection, row, put, before)
    _add_event(connection, scope, batch, put, kind, before, memory)  # last: an engine may send it with the commit
    return memory, [] if found is None else [found[0]]


def _expect(memory_id: str, revision: int, expected: int | None) -> None:
    if expected is None or expected == revision:
        return
    state = "doesn't exist" if revision == 0 else f"has revision {revision}"
    msg = f"memory {memory_id!r} {state}, expected was {expected}: read it again, then decide"
    raise ConflictError(msg)


def content_digest(content: str) -> bytes:
    """Return the digest by which equal contents are told: up to case, blanks and outer punctuation."""
    normal = normalise_content(content) or content
    return hashlib.blake2b(normal.encode(), digest_size=16).digest()


def _normal(connection: SqlConnection, digest: bytes, found: _Found) -> bytes:
    """Return the digest for the unique index: the one stored, while the content is the same; see `_salted`."""
    if content_digest(claimed_content(found[1])) != digest:
        return digest
    stored: bytes
    (stored,) = connection.execute("SELECT normal FROM memories WHERE row = ?", (found[0],)).fetchone()
    return stored


def _salted(normal: bytes, memory_id: str) -> bytes:
    """Return a digest that lets a memory stand beside another one that says the same."""
    return hashlib.blake2b(normal + memory_id.encode(), digest_size=16).digest()


_Found: TypeAlias = tuple[int, Memory]


def _look_up(
    connection: SqlConnection, scope: int, memory: Memory, normal: bytes
) -> tuple[_Found | None, _Found | None]:
    """Return the memory of the same id, and another current one that the unique index would not let stand beside it.

    Each with its row.
    """
    rows = connection.execute(
        "SELECT memory_id, row, body FROM memories WHERE scope = ? AND memory_id = ?"
        " UNION ALL SELECT memory_id, row, body FROM memories"
        " WHERE scope = ? AND memory_type = ? AND memory_target = ? AND normal = ? AND superseded_by IS NULL"
        " AND memory_id <> ?",
        (scope, memory.memory_id, scope, memory.memory_type, memory.memory_target, normal, memory.memory_id),
    )
    found = twin = None
    for name, row, body in rows:
        if name == memory.memory_id:
            found = int(row), Memory.model_validate_json(body)
        elif memory.is_current:
            twin = int(row), Memory.model_validate_json(body)
    return found, twin


def _columns(memory: Memory, words: Sequence[str], normal: bytes) -> dict[str, object]:
    return {
        "memory_type": memory.memory_type,
        "memory_target": memory.memory_target,
        "normal": normal,
        "created": microseconds(memory.created_at),
        "observed_at": memory.observed_at.timestamp(),
        "valid_from": memory.valid_from.timestamp(),
        "valid_to": seconds(memory.valid_to),
        "superseded_by": memory.superseded_by,
        "revision": memory.revision,
        "terms": pack_terms(words),
        "body": memory.model_dump_json(),
    }


def _add_event(
    connection: SqlConnection,
    scope: int,
    batch: WriteBatch,
    change: PutMemory | DeleteMemory,
    operation: EventKind,
    before: Memory | None,
    after: Memory | None,
) -> None:
    memory = after or before
    columns = (
        scope,
        "" if memory is None else memory.memory_id,
        operation,
        None if before is None else before.model_dump_json(),
        None if after is None else after.model_dump_json(),
        reason_for(change.reason, batch),
        run_for(change.run_id if isinstance(change, PutMemory) else None, batch),
        batch.actor,
        format_time(batch.at),
    )
    connection.dialect.add_event(connection, columns)


def get_memories(connection: SqlConnection, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
    """Return memories by id, in the order asked (MemoryNotFoundError)."""
    number = find_scope(connection, scope)
    found = {}
    for memory_id in dict.fromkeys(memory_ids):
        hit = None if number is None else find_memory(connection, number, memory_id)
        if hit is not None:
            found[memory_id] = hit[1]
    return in_order(memory_ids, found, MemoryNotFoundError)


def list_page(connection: SqlConnection, scope: Scope, query: ListMemories) -> MemoryPage:
    """Return one page, newest first."""
    check_limit(query.limit)
    check_filter(query.filter)
    place = None if query.cursor is None else read_cursor("memories", query.cursor, int, str)
    number = find_scope(connection, scope)
    if number is None:
        return MemoryPage()
    where, values = conditions(connection, number, query.filter)
    if place is not None:
        where += " AND (created < ? OR (created = ? AND memory_id > ?))"
        values += [place[0], place[0], place[1]]
    # With the sign, an index of types is taken, and sorted, in place of the one by age, which is read from its end.
    age = "+created" if is_seldom(query.filter) else "created"
    rows = connection.execute(
        f"SELECT created, memory_id, body FROM memories WHERE {where}"  # noqa: S608  # fixed texts, bound values
        f" ORDER BY {age} DESC, memory_id LIMIT ?",
        (*values, query.limit + 1),
    ).fetchall()
    page, cursor = cut_page(rows, query.limit, "memories", places=2)
    return MemoryPage(memories=tuple(Memory.model_validate_json(body) for *_, body in page), next_cursor=cursor)


def count_targets(connection: SqlConnection, scope: Scope) -> dict[Target, int]:
    """Count the current memories of each target, along the index of these."""
    others = ", ".join("?" * len(NO_STATEMENTS))
    rows = connection.execute(
        "SELECT memory_type, memory_target, count(*) FROM memories WHERE scope = ? AND superseded_by IS NULL"  # noqa: S608
        f" AND memory_type NOT IN ({others}) GROUP BY memory_type, memory_target"
        " ORDER BY memory_type, memory_target",
        (find_scope(connection, scope), *NO_STATEMENTS),
    )
    return {Target(MemoryType(kind), target): count for kind, target, count in rows}
