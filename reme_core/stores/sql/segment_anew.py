"""The words of all rows, cut anew: those that an older segmentation cut would not be found any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, get_args

from reme_core.schema import Block, Memory, Message
from reme_core.stores.sql.connection import Statements, WordTable
from reme_core.text import is_question, pack_terms, segment_passages, states_wish, terms

AddWords: TypeAlias = Callable[[WordTable, int, int, Sequence[str]], None]

WORD_TABLE_NAMES: tuple[WordTable, ...] = get_args(WordTable)

_CHUNK = 500


def segment_anew(connection: Statements, add: AddWords, tables: Sequence[WordTable]) -> None:
    """Write the terms of all messages, blocks, memories and offloads again, within a transaction.

    Args:
        connection: One that sees every scope.
        add: Writes the terms of a row to one of the tables of words.
        tables: Those that there are.
    """
    for table in tables:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608  # three names
    if "offload_words" in tables:
        _segment_offloads(connection, add)
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
        add("message_words", scope, row, words)
    for row, scope, body in _rows(
        connection, "SELECT row, scope, body FROM memories WHERE row > ? ORDER BY row LIMIT ?"
    ):
        words = terms(Memory.model_validate_json(body).index_text)
        connection.execute("UPDATE memories SET terms = ? WHERE row = ?", (pack_terms(words), row))
        add("memory_words", scope, row, words)
    for row, _, body in _rows(
        connection, "SELECT block, scope, body FROM blocks WHERE block > ? ORDER BY block LIMIT ?"
    ):
        words = terms(Block.model_validate_json(body).summary)
        connection.execute("UPDATE blocks SET terms = ? WHERE block = ?", (pack_terms(words), row))


def _segment_offloads(connection: Statements, add: AddWords) -> None:
    """Write the words of all passages again; one text at a time, since one may be as large as many others."""
    for (offload,) in connection.execute("SELECT offload FROM offloads ORDER BY offload").fetchall():
        scope, text = connection.execute("SELECT scope, text FROM offloads WHERE offload = ?", (offload,)).fetchone()
        passages = connection.execute(
            "SELECT passage, start, chars FROM offload_passages WHERE offload = ? ORDER BY passage", (offload,)
        ).fetchall()
        for passage, start, chars in passages:
            add("offload_words", scope, passage, terms(text[start : start + chars]))


def _rows(connection: Statements, query: str) -> Iterator[tuple[int, int, str]]:
    after = 0
    while rows := connection.execute(query, (after, _CHUNK)).fetchall():
        yield from rows
        after = rows[-1][0]
