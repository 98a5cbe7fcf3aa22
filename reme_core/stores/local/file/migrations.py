"""Steps of the schema that rewrite rows: times of memories, and every text cut into words anew.

Before it, a memory with an end was not current, whether another one had taken its place or its time was merely over.
After it, only what was replaced is not: `superseded_by` is a column, and the unique index goes by it. What has merely
ended is found again. Where one content then stands more than once, nothing is lost either: one stays current, and the
others are superseded by it, each with an event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from reme_core.rules import replaced_elsewhere, settle_equal
from reme_core.schema import Block, EventKind, Memory, Message, format_time, utc_now
from reme_core.stores.local.file.vectors_and_words import add_words
from reme_core.text import is_question, pack_terms, segment_passages, states_wish, terms

_CHUNK = 500


def segment_anew(connection: sqlite3.Connection, *, fts5: bool) -> None:
    """Write the terms of all messages, blocks, memories and offloads again, within a transaction."""
    if fts5:
        for table in ("message_words", "memory_words", "offload_words"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608  # three names
        _segment_offloads(connection)
    for row, scope, body in _rows(
        connection, "SELECT seq, scope, body FROM messages WHERE seq > ? ORDER BY seq LIMIT ?"
    ):
        text = Message.model_validate_json(body).full_text
        words, passages = segment_passages(text)
        # A vector of a whole text that has passages now serves all of them, until each has its own.
        connection.execute(
            "UPDATE messages SET terms = ?, asks = ?, wishes = by_user AND ?, passages = ?, waits = waits OR"
            " (length(?) > 0 AND EXISTS (SELECT 1 FROM message_vectors WHERE message_vectors.seq = messages.seq))"
            " WHERE seq = ?",
            (pack_terms(words), is_question(text), states_wish(text), passages, passages, row),
        )
        if fts5:
            add_words(connection, "message_words", scope, row, words)
    for row, scope, body in _rows(
        connection, "SELECT row, scope, body FROM memories WHERE row > ? ORDER BY row LIMIT ?"
    ):
        words = terms(Memory.model_validate_json(body).index_text)
        connection.execute("UPDATE memories SET terms = ? WHERE row = ?", (pack_terms(words), row))
        if fts5:
            add_words(connection, "memory_words", scope, row, words)
    for row, _, body in _rows(
        connection, "SELECT block, scope, body FROM blocks WHERE block > ? ORDER BY block LIMIT ?"
    ):
        words = terms(Block.model_validate_json(body).summary)
        connection.execute("UPDATE blocks SET terms = ? WHERE block = ?", (pack_terms(words), row))


def _segment_offloads(connection: sqlite3.Connection) -> None:
    """Write the words of all passages again; one text at a time, since one may be as large as many others."""
    for (offload,) in connection.execute("SELECT offload FROM offloads ORDER BY offload").fetchall():
        scope, text = connection.execute("SELECT scope, text FROM offloads WHERE offload = ?", (offload,)).fetchone()
        passages = connection.execute(
            "SELECT passage, start, chars FROM offload_passages WHERE offload = ? ORDER BY passage", (offload,)
        ).fetchall()
        for passage, start, chars in passages:
            add_words(connection, "offload_words", scope, passage, terms(text[start : start + chars]))


def _rows(connection: sqlite3.Connection, query: str) -> Iterator[tuple[int, int, str]]:
    after = 0
    while rows := connection.execute(query, (after, _CHUNK)).fetchall():
        yield from rows
        after = rows[-1][0]


OWN_TIMES = (
    "ALTER TABLE memories ADD COLUMN superseded_by TEXT",
    """CREATE UNIQUE INDEX memories_current ON memories (scope, memory_type, memory_target, normal)
        WHERE superseded_by IS NULL""",
)
"""What the step adds to the schema, in the order in which a new file has it."""


def tell_ends_from_replacements(connection: sqlite3.Connection) -> None:
    """Take the step; the caller holds the transaction."""
    add_column, create_index = OWN_TIMES
    connection.execute("DROP INDEX memories_current")
    connection.execute(add_column)
    connection.execute("UPDATE memories SET superseded_by = json_extract(body, '$.superseded_by')")
    _keep_replaced(connection)
    _settle(connection)
    connection.execute(create_index)


def _keep_replaced(connection: sqlite3.Connection) -> None:
    """Let what a library brought as replaced stay so: by what is not here, which was moved to its origin."""
    rows = connection.execute(
        "SELECT scope, body FROM memories WHERE superseded_by IS NULL AND valid_to IS NOT NULL"
        " AND json_type(body, '$.metadata.origin.superseded_by') = 'text'"
    ).fetchall()
    for scope, memory in _memories(rows):
        replaced = replaced_elsewhere(memory)
        if replaced.superseded_by is not None:
            _supersede(connection, scope, memory, replaced, "it was replaced where it comes from")


def _settle(connection: sqlite3.Connection) -> None:
    """Let one of the memories that say the same stay current."""
    repeated = connection.execute(
        "SELECT scope, memory_type, memory_target, normal FROM memories WHERE superseded_by IS NULL"
        " GROUP BY scope, memory_type, memory_target, normal HAVING count(*) > 1"
    ).fetchall()
    for group in repeated:
        rows = connection.execute(
            "SELECT scope, body FROM memories WHERE superseded_by IS NULL"
            " AND scope = ? AND memory_type = ? AND memory_target = ? AND normal = ?",
            group,
        ).fetchall()
        equal = {memory.memory_id: memory for _, memory in _memories(rows)}
        for memory in settle_equal(equal.values()):
            reason = "an equal memory that ends later, or not at all, takes its place"
            _supersede(connection, group[0], equal[memory.memory_id], memory, reason)


def _memories(rows: Iterable[tuple[int, str]]) -> list[tuple[int, Memory]]:
    return [(scope, Memory.model_validate_json(body)) for scope, body in rows]


def _supersede(connection: sqlite3.Connection, scope: int, before: Memory, replaced: Memory, reason: str) -> None:
    now = utc_now()
    after = replaced.model_copy(update={"revision": before.revision + 1, "updated_at": now})
    connection.execute(
        "UPDATE memories SET superseded_by = ?, revision = ?, body = ? WHERE scope = ? AND memory_id = ?",
        (after.superseded_by, after.revision, after.model_dump_json(), scope, after.memory_id),
    )
    states = (before.model_dump_json(), after.model_dump_json())
    connection.execute(
        "INSERT INTO events (scope, memory_id, operation, before, after, reason, run_id, actor, at)"
        " VALUES (?, ?, ?, ?, ?, ?, NULL, 'migration', ?)",
        (scope, after.memory_id, EventKind.SUPERSEDE, *states, reason, format_time(now)),
    )
