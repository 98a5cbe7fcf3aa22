"""Messages and blocks as rows. Plain functions over a connection; the caller holds the transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from reme_core.errors import BlockNotFoundError, ConflictError, MessageNotFoundError
from reme_core.ports import (
    WAITING,
    Appended,
    AppendMessages,
    BlockPage,
    BlockSummary,
    FindMessages,
    ListBlocks,
    MessagePage,
)
from reme_core.schema import EXTRACTIVE, Blob, Block, Message, Scope, StoredMessage, read_stored_message
from reme_core.schema.blobs import BASE64_MARK
from reme_core.schema.messages import renamings
from reme_core.stores._cursors import Row, check_limit, cut_page, given, in_order, row_after, seconds
from reme_core.stores.sql.blob_rows import blob_beside, put_blobs, with_sizes
from reme_core.stores.sql.bookkeeping import (
    Layer,
    enter_scope,
    find_scope,
    find_session,
    insert_messages,
    insert_row,
    log_changes,
    make_session,
    session_asked,
)
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.row_conditions import texts_waiting
from reme_core.text import (
    is_question,
    pack_terms,
    passage_spans,
    query_terms,
    segment_passages,
    states_wish,
    terms,
    unpack_terms,
)

_STORED = (
    "SELECT seq, body, session_id, (SELECT block_id FROM blocks WHERE blocks.block = messages.block) FROM messages"
)
_STORED += " JOIN sessions USING (session)"


def append_messages(
    connection: SqlConnection, scope: Scope, request: AppendMessages, blobs: Mapping[str, Mapping[str, Blob]]
) -> Appended:
    """Add messages at the end of a session, with the bytes that they refer to (ConflictError, BlobNotFoundError).

    Equal ones that are there already are left alone. `blobs` are the bytes of each message, by its id and reference.
    """
    if not request.messages:
        return Appended(added=(), known=())
    number = enter_scope(connection, scope)
    session, held = _look_up(connection, number, request)
    if session is None:
        session = make_session(connection, number, request.session_id)
    added: list[_New] = []
    known: list[str] = []
    renamed: dict[str, str] = {}
    fresh: dict[str, Blob] = {}
    for wanted in with_sizes(connection, number, request.messages):
        message, is_known = _placed(connection, number, session, wanted, request, held)
        if message.message_id != wanted.message_id:
            renamed[wanted.message_id] = message.message_id
        if is_known:
            known.append(message.message_id)
            continue
        added.append(_New(message, *segment_passages(message.full_text)))
        fresh |= blobs.get(wanted.message_id, {})
        held[message.message_id] = (session, message)
    put_blobs(connection, number, [item.message for item in added], fresh)
    values = [(number, session, *_values(item, waits=request.want_vectors)) for item in added]
    insert_messages(connection, number, _COLUMNS, values, [item.words for item in added])
    waiting = texts_waiting(connection, number, WAITING) if request.want_vectors else []
    ids = tuple(item.message.message_id for item in added)
    return Appended(added=ids, known=tuple(known), waiting=tuple(waiting), renamed=renamed)


class _New(NamedTuple):
    """A message to be inserted, the terms of its text, and where its passages stand."""

    message: Message
    words: Sequence[str]
    passages: bytes


_Held: TypeAlias = dict[str, tuple[int, Message]]


def _look_up(connection: SqlConnection, scope: int, request: AppendMessages) -> tuple[int | None, _Held]:
    """Return the number of the session, if there is one, and those of the messages that there are."""
    names = json.dumps([message.message_id for message in request.messages])
    rows = connection.execute(
        f"{_SESSION} UNION ALL {_HELD}",
        (scope, request.session_id, scope, names),
    ).fetchall()
    sessions = [session for session, name, _ in rows if name is None]
    return next(iter(sessions), None), _read_held(row for row in rows if row[1] is not None)


_SESSION = "SELECT session, NULL, NULL FROM sessions WHERE scope = ? AND session_id = ?"
_HELD = (
    "SELECT session, message_id, body FROM messages WHERE scope = ? AND message_id IN (SELECT value FROM json_each(?))"
)


def _read_held(rows: Iterable[Row]) -> _Held:
    """Return messages by their ids, each with its session."""
    return {name: (session, read_stored_message(body)) for session, name, body in rows}


def _placed(
    connection: SqlConnection, scope: int, session: int, message: Message, request: AppendMessages, held: _Held
) -> tuple[Message, bool]:
    """Return the message under the id that it gets, and whether it lies there already (ConflictError)."""
    conflict = ""
    for candidate in chain((message,), renamings(message, request.session_id)):
        if candidate is not message and candidate.message_id not in held:
            held |= _read_held(connection.execute(_HELD, (scope, json.dumps([candidate.message_id]))))
        there = held.get(candidate.message_id)
        if there is None:
            return candidate, False
        if there[0] == session and candidate.repeats(there[1]):
            return candidate, True
        conflict = "other content" if there[0] == session else "another session"
        if request.on_conflict == "raise":
            break
    msg = (
        f"message {message.message_id!r} exists with {conflict}: ids are unique in a scope; leave it out to get a new "
        "one, or have it renamed"
    )
    raise ConflictError(msg)


_COLUMNS = tuple(
    "scope session message_id speaker said_at asks by_user wishes waits terms passages body".split()  # noqa: SIM905
)


def _values(item: _New, *, waits: bool) -> tuple[object, ...]:
    message, text = item.message, item.message.full_text
    by_user = message.role == "user"
    return (
        message.message_id,
        message.speaker,
        message.created_at.timestamp(),
        is_question(text),
        by_user,
        by_user and states_wish(text),
        waits and bool(text.strip()),
        pack_terms(item.words),
        item.passages,
        message.model_dump_json(),
    )


def _stored(connection: SqlConnection, row: Row) -> StoredMessage:
    # Two hundred are read for a question with a budget; all that could be checked was, as it was written.
    message = read_stored_message(row[1])
    if BASE64_MARK in row[1]:
        message = message.with_base64(lambda ref, most: blob_beside(connection, row[0], ref, most))
    return StoredMessage.model_construct(message=message, session_id=row[2], block_id=row[3])


def messages_by_rows(connection: SqlConnection, rows: Sequence[int]) -> dict[int, StoredMessage]:
    """Return messages by row number."""
    # By the scope as well: a server then looks a session up once for all rows of it.
    asked = f"{_STORED.replace('(session)', '(session, scope)')} WHERE seq IN (SELECT value FROM json_each(?))"  # noqa: S608
    found = connection.execute(asked, (str(list(rows)),))
    return {row[0]: _stored(connection, row) for row in found.fetchall()}


def passages_by_rows(connection: SqlConnection, numbers: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return where passages stand in the texts of messages, by row: of each (row, number of the passage)."""
    wanted = dict(numbers)
    if not wanted:  # few texts are long
        return {}
    found = connection.execute(
        "SELECT seq, passages FROM messages WHERE seq IN (SELECT value FROM json_each(?))", (str(list(wanted)),)
    )
    spans = {row: passage_spans(packed)[wanted[row]] for row, packed in found}
    return {row: (passage.start, passage.end) for row, passage in spans.items()}


def rows_of_messages(connection: SqlConnection, scope: int, message_ids: Sequence[str]) -> dict[str, int]:
    """Return the row numbers of those messages that the scope holds."""
    if not message_ids:
        return {}
    found = connection.execute(
        "SELECT message_id, seq FROM messages WHERE scope = ? AND message_id IN (SELECT value FROM json_each(?))",
        (scope, json.dumps(list(message_ids))),
    )
    return dict(found.fetchall())


def get_messages(connection: SqlConnection, scope: Scope, message_ids: Sequence[str]) -> list[StoredMessage]:
    """Return messages by id, in the order asked (MessageNotFoundError)."""
    number = find_scope(connection, scope)
    rows = {} if number is None else rows_of_messages(connection, number, list(dict.fromkeys(message_ids)))
    numbers = in_order(message_ids, rows, MessageNotFoundError)
    stored = messages_by_rows(connection, numbers)
    return [stored[row] for row in numbers]


def find_messages(connection: SqlConnection, scope: Scope, query: FindMessages) -> MessagePage:
    """Return one page of the messages that meet all conditions."""
    check_limit(query.limit)
    after = row_after("messages", query.cursor)
    number = find_scope(connection, scope)
    if number is None:
        return MessagePage(messages=())
    where, values = given(
        ("messages.scope = ?", number),
        ("messages.session = ?", session_asked(connection, number, query.session_id)),
        ("said_at >= ?", seconds(query.said_from)),
        ("said_at < ?", seconds(query.said_to)),
        ("seq < ?" if query.newest_first else "seq > ?", after),
    )
    if query.unsliced:
        where.append("block IS NULL")
    rows = _matching(connection, number, query, " AND ".join(where), values)
    page, cursor = cut_page(list(islice(rows, query.limit + 1)), query.limit, "messages")
    return MessagePage(messages=tuple(_stored(connection, row) for row in page), next_cursor=cursor)


def _matching(
    connection: SqlConnection, scope: int, query: FindMessages, where: str, values: list[object]
) -> Iterator[Row]:
    order, most = f"ORDER BY seq {'DESC' if query.newest_first else 'ASC'}", query.limit + 1
    if query.keyword is None:
        yield from connection.execute(f"{_STORED} WHERE {where} {order} LIMIT ?", [*values, most])
        return
    words = query_terms(query.keyword)
    indexed = connection.dialect.with_words(connection, "message_words", "seq", scope, words) if words else None
    if indexed is not None:
        found, bound = indexed
        yield from connection.execute(f"{_STORED} WHERE {where} AND {found} {order} LIMIT ?", [*values, *bound, most])
        return
    # Words that no index holds ("the", "!!"), or no index: the slower way, reading every message of the scope.
    wanted = set(unpack_terms(pack_terms(words)).tolist())
    plain = query.keyword.strip().casefold()
    with closing(connection.dialect.stream(connection, f"{_STORED} WHERE {where} {order}", values)) as rows:
        for row in rows:
            text = read_stored_message(row[1]).full_text
            if wanted <= set(unpack_terms(pack_terms(terms(text))).tolist()) if wanted else plain in text.casefold():
                yield row


def unsliced(connection: SqlConnection, scope: Scope, session_id: str) -> list[Message]:
    """Return the messages of a session that lie in no block yet, in order."""
    number = find_scope(connection, scope)
    session = None if number is None else find_session(connection, number, session_id)
    rows = connection.execute(
        "SELECT body FROM messages WHERE session = ? AND block IS NULL ORDER BY seq", (session,)
    ).fetchall()
    return [read_stored_message(body) for (body,) in rows]


def check_sessions(connection: SqlConnection, scope: int, session_id: str, message_ids: Sequence[str]) -> int:
    """Return the number of the session that holds all these messages (MessageNotFoundError)."""
    session = find_session(connection, scope, session_id)
    held = connection.execute(  # no message has the session None
        "SELECT message_id FROM messages WHERE scope = ? AND session = ?"
        " AND message_id IN (SELECT value FROM json_each(?))",
        (scope, session, json.dumps(list(message_ids))),
    )
    missing = list(message_ids)
    if session is not None:
        there = {name for (name,) in held}
        missing = [name for name in message_ids if name not in there]
    if missing or session is None:
        raise MessageNotFoundError(missing)
    return session


def put_blocks(connection: SqlConnection, scope: Scope, blocks: Sequence[Block]) -> None:
    """Add blocks; equal ones that are there already are left alone (MessageNotFoundError, ConflictError)."""
    if not blocks:
        return
    number = enter_scope(connection, scope)
    rows = [row for block in blocks if (row := _put(connection, number, block)) is not None]
    log_changes(connection, number, Layer.BLOCKS, rows)


def _put(connection: SqlConnection, scope: int, block: Block) -> int | None:
    row = connection.execute(
        "SELECT body FROM blocks WHERE scope = ? AND block_id = ?", (scope, block.block_id)
    ).fetchone()
    if row is not None:
        if _is_same(Block.model_validate_json(row[0]), block):
            return None
        msg = f"block {block.block_id!r} exists with other content: blocks are never rewritten"
        raise ConflictError(msg)
    session = check_sessions(connection, scope, block.session_id, block.message_ids)
    columns = {
        "scope": scope,
        "session": session,
        "block_id": block.block_id,
        "started_at": block.started_at.timestamp(),
        "ended_at": block.ended_at.timestamp(),
        "terms": pack_terms(terms(block.summary)),
        "body": block.model_dump_json(),
    }
    number = insert_row(connection, "blocks", columns)
    for message_id in block.message_ids[block.repeats :]:
        sliced = connection.execute(
            "UPDATE messages SET block = ? WHERE scope = ? AND message_id = ? AND block IS NULL",
            (number, scope, message_id),
        )
        if not sliced.rowcount:
            msg = f"message {message_id!r} lies in another block already: read what is unsliced again"
            raise ConflictError(msg)
    return number


def _is_same(held: Block, block: Block) -> bool:
    """Tell whether two blocks are the same, whatever a model has made of the index entry of one of them."""
    entry = {"summary": held.summary, "summary_author": held.summary_author}
    is_summed_up = {held.summary_author, block.summary_author} != {EXTRACTIVE}
    return held == (block.model_copy(update=entry) if is_summed_up else block)


def put_summaries(connection: SqlConnection, scope: Scope, summaries: Sequence[BlockSummary]) -> None:
    """Write entries of the block index; those of blocks that are gone are passed over."""
    number = find_scope(connection, scope)
    rows: list[int] = []
    for summary in summaries:
        found = connection.execute(
            "SELECT block, body FROM blocks WHERE scope = ? AND block_id = ?", (number, summary.block_id)
        ).fetchone()
        if found is None:
            continue
        entry = {"summary": summary.summary, "summary_author": summary.author}
        block = Block.model_validate({**Block.model_validate_json(found[1]).model_dump(), **entry})
        connection.execute(
            "UPDATE blocks SET terms = ?, body = ? WHERE block = ?",
            (pack_terms(terms(block.summary)), block.model_dump_json(), found[0]),
        )
        rows.append(found[0])
    if number is not None:
        log_changes(connection, number, Layer.BLOCKS, rows)


def get_blocks(connection: SqlConnection, scope: Scope, block_ids: Sequence[str]) -> list[Block]:
    """Return blocks by id, in the order asked (BlockNotFoundError)."""
    number = find_scope(connection, scope)
    found = {}
    for block_id in dict.fromkeys(block_ids):
        row = connection.execute(
            "SELECT body FROM blocks WHERE scope = ? AND block_id = ?", (number, block_id)
        ).fetchone()
        if row is not None:
            found[block_id] = Block.model_validate_json(row[0])
    return in_order(block_ids, found, BlockNotFoundError)


def blocks_by_rows(connection: SqlConnection, rows: Sequence[int]) -> dict[int, Block]:
    """Return blocks by row number."""
    found = connection.execute(
        "SELECT block, body FROM blocks WHERE block IN (SELECT value FROM json_each(?))", (str(list(rows)),)
    )
    return {row: Block.model_validate_json(body) for row, body in found}


def list_blocks(connection: SqlConnection, scope: Scope, query: ListBlocks) -> BlockPage:
    """Return one page of blocks in the order of slicing."""
    check_limit(query.limit)
    after = row_after("blocks", query.cursor)
    number = find_scope(connection, scope)
    if number is None:
        return BlockPage(blocks=())
    where, values = given(
        ("scope = ?", number),
        ("session = ?", session_asked(connection, number, query.session_id)),
        ("ended_at >= ?", seconds(query.said_from)),
        ("started_at < ?", seconds(query.said_to)),
        ("block > ?", after),
    )
    rows = connection.execute(
        f"SELECT block, body FROM blocks WHERE {' AND '.join(where)} ORDER BY block LIMIT ?",  # noqa: S608
        (*values, query.limit + 1),
    ).fetchall()
    page, cursor = cut_page(rows, query.limit, "blocks")
    return BlockPage(blocks=tuple(Block.model_validate_json(body) for _, body in page), next_cursor=cursor)
