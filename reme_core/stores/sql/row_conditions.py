"""Conditions on rows: filters of memories in SQL; and the texts of memories and messages that wait for vectors."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from reme_core.errors import InvalidInputError, UnsupportedFilterError
from reme_core.ports import IndexedBy, MemoryFilter, MessageVector, PendingText, PutMemory, Vector
from reme_core.retrieval import message_text
from reme_core.rules import check_vector
from reme_core.schema import Memory, MemoryType, Scope, read_stored_message
from reme_core.schema.checks import kind_of
from reme_core.stores._cursors import given, seconds
from reme_core.stores.sql.bookkeeping import Layer, find_scope, log_changes
from reme_core.stores.sql.connection import AMONG, SqlConnection
from reme_core.stores.sql.embedding_record import claim_embedding
from reme_core.stores.sql.items import row_links as item_links
from reme_core.stores.sql.trust_rows import trust_of_memory
from reme_core.text import pack_terms, passage_spans, query_terms, terms, unpack_terms

_MOST_KEYS = 100
"""SQLite's expressions are at most 1,000 levels deep; each key is one of them."""

TELLS_RELATIONS = """body LIKE '%"relations":[_"subject"%'"""
"""Both engines take the index memories_related for these words; within the texts of a body, quotes are escaped."""

_SELDOM = ({MemoryType.BLOCK}, {MemoryType.RECORD})

_BEFORE_ALL, _AFTER_ALL = -9e99, 9e99
_DURING = "((observed_at >= ? AND observed_at < ?) OR ((valid_from >= ? OR valid_to > ?) AND valid_from < ?))"


def check_filter(wanted: MemoryFilter) -> None:
    """Refuse a filter that means nothing, or that can't be honoured, whether or not the scope holds anything.

    Raises:
        InvalidInputError: `as_of` together with `include_superseded`, or a keyword without a word.
        UnsupportedFilterError: A metadata value that is neither a string, a number, a boolean nor None.
    """
    if wanted.as_of is not None and wanted.include_superseded:
        msg = "as_of and include_superseded contradict each other: give one of them"
        raise InvalidInputError(msg)
    if wanted.keyword is not None and not query_terms(wanted.keyword):
        msg = f"keyword: {wanted.keyword!r:.60} has no word that is indexed (only blanks, signs or words like 'the')"
        raise InvalidInputError(msg)
    if len(wanted.metadata) > _MOST_KEYS:
        msg = f"metadata: {len(wanted.metadata)} keys, at most {_MOST_KEYS} can be compared at once: give fewer"
        raise UnsupportedFilterError(msg)
    for key, value in wanted.metadata.items():
        _comparable(key, value)


def is_seldom(wanted: MemoryFilter) -> bool:
    """Tell whether a filter means memories that are few beside others and read in each turn: blocks, or records."""
    return wanted.types is not None and set(wanted.types) in _SELDOM


def conditions(connection: SqlConnection, scope: int, wanted: MemoryFilter) -> tuple[str, list[object]]:
    """Return the condition on `memories` and its values for a checked filter; the scope is always part of it."""
    where, values = given(
        ("scope = ?", scope),
        ("observed_at >= ?", seconds(wanted.observed_from)),
        ("observed_at < ?", seconds(wanted.observed_to)),
    )
    if wanted.as_of is not None:
        moment = wanted.as_of.timestamp()
        # One that was joined into another holds at no time; see `Memory.holds_at`.
        where.append("valid_from <= ? AND coalesce(? < valid_to, superseded_by IS NULL)")
        values += [moment, moment]
    elif not wanted.include_superseded:
        where.append("superseded_by IS NULL")
    types = wanted.types
    if types is not None and (is_seldom(wanted) or set(types) == {MemoryType.META}):
        where.append(f"memory_type = '{types[0]}'")  # in these words, SQLite takes the index of these
        types = None
    for column, names in (("memory_type", types), ("memory_target", wanted.targets)):
        if names is not None:
            where.append(f"{column} IN (SELECT value FROM json_each(?))")  # noqa: S608  # two names of columns
            values.append(json.dumps(names))
    if wanted.trust is not None:
        where.append(f"{trust_of_memory(connection)} {AMONG}")
        values.append(json.dumps(wanted.trust))
    if wanted.during_from is not None or wanted.during_to is not None:
        first = _BEFORE_ALL if wanted.during_from is None else wanted.during_from.timestamp()
        end = _AFTER_ALL if wanted.during_to is None else wanted.during_to.timestamp()
        where.append(_DURING)
        values += [first, end, first, first, end]
    if wanted.telling_relations:
        where.append(TELLS_RELATIONS)
    for key, value in wanted.metadata.items():
        condition, bound = connection.dialect.metadata_is(key, _comparable(key, value))
        where.append(condition)
        values += bound
    if wanted.keyword is not None:
        condition, bound = _keyword(connection, scope, wanted.keyword)
        where.append(condition)
        values += bound
    return " AND ".join(where), values


def _comparable(key: str, value: object) -> str | float | bool | None:
    """Return a metadata value that can be compared (UnsupportedFilterError)."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        msg = f"metadata[{key!r}]: {value} is beyond 64 bits, which this store can't compare: filter by a string"
        raise UnsupportedFilterError(msg)
    if value is None or isinstance(value, (str, int, float)):
        return value
    msg = f"metadata[{key!r}]: {kind_of(value)} can't be compared, only strings, numbers, booleans, None"
    raise UnsupportedFilterError(msg)


def _keyword(connection: SqlConnection, scope: int, keyword: str) -> tuple[str, list[object]]:
    indexed = connection.dialect.with_words(connection, "memory_words", "row", scope, query_terms(keyword))
    if indexed is not None:
        return indexed
    # Without an index: the slower way, over the terms of every memory of the scope.
    wanted = set(unpack_terms(pack_terms(terms(keyword))).tolist())
    rows = connection.execute("SELECT row, terms FROM memories WHERE scope = ?", (scope,))
    found = [row for row, packed in rows if wanted <= set(unpack_terms(packed).tolist())]
    return "row IN (SELECT value FROM json_each(?))", [str(found)]


_MEMORY_KEY = re.compile(r"memory-([0-9]{1,18})", re.ASCII)
_KEY = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,4}))?", re.ASCII)
# What an embedding model is given of one message, in characters of a short text (one word may be long) and in passages
# of a long one; the rest is found by its words.
_EMBEDDED_CHARS = 8_000
_EMBEDDED_PASSAGES = 64


def note(connection: SqlConnection, row: int, put: PutMemory, before: Memory) -> None:
    """Note whether a memory that was just written anew waits; where its text and its vector stay, so does that."""
    if put.vector is not None or before.index_text != put.memory.index_text:
        waits = put.vector is None and put.wants_vector
        connection.execute("UPDATE memories SET waits = ? WHERE row = ?", (waits, row))


def put_vector(connection: SqlConnection, row: int, vector: Vector, *, is_new: bool = False) -> None:
    """Store the vector of a memory, which has none as yet if it is new; that its model is the right one was checked."""
    if not is_new:
        connection.execute("DELETE FROM memory_vectors WHERE row = ?", (row,))
    connection.execute("INSERT INTO memory_vectors (row, vector) VALUES (?, ?)", (row, vector.tobytes()))


def pending_memories(connection: SqlConnection, scope: int, limit: int) -> list[PendingText]:
    """Return the memories that wait, oldest first, at most `limit`."""
    rows = connection.execute(
        "SELECT row, body FROM memories WHERE scope = ? AND waits ORDER BY row LIMIT ?", (scope, limit)
    )
    return [PendingText(key=f"memory-{row}", text=Memory.model_validate_json(body).index_text) for row, body in rows]


def is_of_memory(item: MessageVector) -> bool:
    """Tell whether a vector is that of a memory."""
    return _MEMORY_KEY.fullmatch(item.pending.key) is not None


def _fill_memories(connection: SqlConnection, scope: Scope, number: int, vectors: Sequence[MessageVector]) -> None:
    """Store the vectors of memories that wait and say what they said."""
    filled = [row for item in vectors if (row := _fill(connection, scope, number, item)) is not None]
    log_changes(connection, number, Layer.MEMORIES, filled)


def _fill(connection: SqlConnection, whose: Scope, scope: int, item: MessageVector) -> int | None:
    """Store the vector of one memory; return its row if that is another one now."""
    row = int(item.pending.key.removeprefix("memory-"))
    found = connection.execute("SELECT body FROM memories WHERE scope = ? AND row = ? AND waits", (scope, row))
    memory = next((Memory.model_validate_json(body) for (body,) in found), None)
    if memory is None or memory.index_text != item.pending.text:
        return None
    connection.execute("UPDATE memories SET waits = ? WHERE row = ?", (False, row))
    if item.vector is None:
        return None
    vector = check_vector(item.vector, f"the vector of memory {memory.memory_id!r}")
    made = IndexedBy(dimension=len(vector), model=item.embedded_by)
    claim_embedding(connection, whose.memory_space, made, f"the vector of memory {memory.memory_id!r}")
    put_vector(connection, row, vector)
    item_links.fill_vector(connection, row, vector)
    return row


def pending_texts(connection: SqlConnection, scope: Scope, limit: int) -> list[PendingText]:
    """Return texts that wait for vectors: memories, then messages, oldest first; the last message as a whole."""
    number = find_scope(connection, scope)
    return [] if number is None or limit < 1 else texts_waiting(connection, number, limit)


def texts_waiting(connection: SqlConnection, number: int, limit: int) -> list[PendingText]:
    """Return what `pending_texts` does, of the scope of a number."""
    texts = pending_memories(connection, number, limit)
    if len(texts) >= limit:
        return texts
    rows = connection.execute(
        "SELECT seq, speaker, body, passages FROM messages WHERE scope = ? AND waits ORDER BY seq LIMIT ?",
        (number, limit - len(texts)),
    )
    for seq, speaker, body, packed in rows:
        said = _said(speaker, body, packed)
        is_whole = not packed
        texts += [PendingText(key=f"{seq}" if is_whole else f"{seq}.{n}", text=text) for n, text in enumerate(said)]
        if len(texts) >= limit:
            break
    return texts


def texts_of_message(connection: SqlConnection, row: int) -> list[str]:
    """Return what is embedded of a message: its text, or those of its first passages."""
    return _said(*connection.execute("SELECT speaker, body, passages FROM messages WHERE seq = ?", (row,)).fetchone())


def _said(speaker: str, body: str, packed: bytes) -> list[str]:
    text, passages = read_stored_message(body).full_text, passage_spans(packed)[:_EMBEDDED_PASSAGES]
    if not passages:
        return [message_text(speaker, text)[:_EMBEDDED_CHARS]]
    return [message_text(speaker, text[passage.start : passage.end].strip()) for passage in passages]


def waiting_scopes(connection: SqlConnection, memory_space: str) -> list[Scope]:
    """Return the scopes of a memory space that have memories or messages waiting for vectors."""
    rows = connection.execute(
        "SELECT user_id FROM scopes WHERE memory_space = ?"
        " AND (EXISTS (SELECT 1 FROM messages WHERE messages.scope = scopes.scope AND waits)"
        " OR EXISTS (SELECT 1 FROM memories WHERE memories.scope = scopes.scope AND waits)) ORDER BY scope",
        (memory_space,),
    )
    return [Scope(memory_space=memory_space, user_id=user_id) for (user_id,) in rows]


def put_vectors(connection: SqlConnection, scope: Scope, vectors: Sequence[MessageVector]) -> None:
    """Store vectors of memories and messages that wait for them; what was erased meanwhile is passed over."""
    of_rows: dict[int, dict[int, Vector | None]] = {}
    of_memories = [item for item in vectors if is_of_memory(item)]
    for item in vectors:
        if is_of_memory(item):
            continue
        vector = None if item.vector is None else check_vector(item.vector, "the vector of a message")
        row, place = _place(item)
        of_rows.setdefault(row, {})[place] = vector
    number = find_scope(connection, scope)
    if number is None:
        return
    if of_rows:
        models = {item.embedded_by for item in vectors if not is_of_memory(item)}
        filled = _put_message_vectors(connection, scope, number, of_rows, models)
        log_changes(connection, number, Layer.MESSAGES, filled)
    _fill_memories(connection, scope, number, of_memories)


def _put_message_vectors(
    connection: SqlConnection,
    whose: Scope,
    scope: int,
    of_rows: Mapping[int, Mapping[int, Vector | None]],
    models: Collection[str | None],
) -> list[int]:
    """Store vectors of messages by their rows and places; return the rows for which anything was stored.

    A message waits until the vector of its last passage has been handed back, or given up.
    """
    rows = connection.execute(
        "SELECT seq, passages, vector FROM messages LEFT JOIN message_vectors USING (seq)"
        " WHERE messages.scope = ? AND waits AND seq IN (SELECT value FROM json_each(?))",
        (scope, str(list(of_rows))),
    )
    waiting = {row: (_wanted(passages), held) for row, passages, held in rows}
    usable = {
        row: {place: vector for place, vector in vectors.items() if vector is not None and place < waiting[row][0]}
        for row, vectors in of_rows.items()
        if row in waiting
    }
    for dimension in dict.fromkeys(len(vector) for vectors in usable.values() for vector in vectors.values()):
        for model in models:
            made = IndexedBy(dimension=dimension, model=model)
            claim_embedding(connection, whose.memory_space, made, "the vector of a message")
    matrices = {row: _filled(vectors, *waiting[row]) for row, vectors in usable.items() if vectors}
    ended = [row for row in usable if waiting[row][0] - 1 in of_rows[row]]
    among = "seq IN (SELECT value FROM json_each(?))"
    connection.execute(f"UPDATE messages SET waits = ? WHERE {among}", (False, str(ended)))  # noqa: S608  # fixed texts
    replaced = [row for row in matrices if waiting[row][1] is not None]
    connection.execute(f"DELETE FROM message_vectors WHERE {among}", (str(replaced),))  # noqa: S608  # as above
    connection.executemany("INSERT INTO message_vectors (seq, vector) VALUES (?, ?)", list(matrices.items()))
    return list(matrices)


def _wanted(passages: bytes) -> int:
    """Return how many vectors a message is to get."""
    return min(len(passage_spans(passages)), _EMBEDDED_PASSAGES) or 1


def _filled(vectors: Mapping[int, Vector], wanted: int, held: bytes | None) -> bytes:
    """Return the vectors that a message holds, with new ones at their places."""
    matrix = np.zeros((wanted, len(next(iter(vectors.values())))), "<f4")
    if held is not None and len(held) == matrix.nbytes:
        matrix[:] = np.frombuffer(held, "<f4").reshape(matrix.shape)
    for place, vector in vectors.items():
        matrix[place] = vector
    return matrix.tobytes()


def _place(item: MessageVector) -> tuple[int, int]:
    """Read the row of a pending text, and which of its passages it is (InvalidInputError)."""
    key = item.pending.key
    found = _KEY.fullmatch(key)
    if found is None:
        msg = f"key: {key!r:.40} is not one of this store: hand back what pending_texts gave"
        raise InvalidInputError(msg)
    return int(found[1]), int(found[2] or 0)
