"""Offloads and their passages as rows. Plain functions; those over a connection leave the transaction to the caller.

Only positions are stored: a passage is read out of the text of its offload.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reme_core.errors import ConflictError, InvalidInputError, MessageNotFoundError, OffloadNotFoundError
from reme_core.ports import ListOffloads, OffloadPage, OffloadSearch
from reme_core.schema import OffloadInfo, OffloadRecord, Scope, parse_time
from reme_core.stores._cursors import check_limit, cut_page, given, in_order, row_after
from reme_core.stores.sql.bookkeeping import (
    enter_scope,
    find_scope,
    insert_row,
    make_session_number,
    session_asked,
)
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.context_holds import add_holds
from reme_core.stores.sql.memory_rows import microseconds
from reme_core.stores.sql.message_rows import rows_of_messages
from reme_core.text import terms

# About 400 tokens: what a reader takes in at a glance, and enough words to tell passages of one text apart.
_PASSAGE_CHARS = 1_500
# No passage is cut shorter than this to end it with a line, or texts of short and long lines would make many.
_LEAST_CHARS = 750
# What stands across a border, up to so many characters, stands whole in the passage behind it.
_OVERLAP_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageRow:
    """A stretch of a text.

    Attributes:
        offset: Where it begins, in characters.
        chars: How long it is.
        first_line: The number of its first line, from 1.
        words: Its index terms.
    """

    offset: int
    chars: int
    first_line: int
    words: tuple[str, ...]


def cut_passages(text: str) -> Iterator[PassageRow]:
    """Cut a text into overlapping passages, at the ends of lines where there are any; none of an empty text."""
    offset, line = 0, 1
    while offset < len(text):
        end = _end(text, offset)
        yield PassageRow(offset=offset, chars=end - offset, first_line=line, words=tuple(terms(text[offset:end])))
        if end == len(text):
            return
        start = _start_before(text, end)
        line += text.count("\n", offset, start)
        offset = start


def _end(text: str, offset: int) -> int:
    most = offset + _PASSAGE_CHARS
    if most >= len(text):
        return len(text)
    line_end = text.rfind("\n", offset + _LEAST_CHARS, most)
    return most if line_end < 0 else line_end + 1


def _start_before(text: str, end: int) -> int:
    """Return where the passage behind `end` begins: with a line, if one begins in the characters before the overlap."""
    overlap = end - _OVERLAP_CHARS
    line_end = text.rfind("\n", overlap - _OVERLAP_CHARS, overlap)
    return overlap if line_end < 0 else line_end + 1


def add_passages(connection: SqlConnection, scope: int, offload: int, passages: Sequence[PassageRow]) -> None:
    """Add the passages of an offload, the last one first.

    So in falling order of their numbers come the newest texts, and each of them from its beginning: the order in which
    a search breaks ties.
    """
    for passage in reversed(passages):
        place = {"start": passage.offset, "chars": passage.chars, "line": passage.first_line}
        row = insert_row(connection, "offload_passages", {"scope": scope, "offload": offload, **place})
        connection.dialect.add_words(connection, "offload_words", scope, row, passage.words)


QueryT = TypeVar("QueryT", ListOffloads, OffloadSearch)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedOffload:
    """An offload with all that can be worked out of it before the file is locked.

    Attributes:
        offload: What is to be kept.
        digest: Of what makes it the same as another one, its reference and time apart.
        passages: Its text in passages, with their words.
    """

    offload: OffloadRecord
    digest: bytes
    passages: tuple[PassageRow, ...]


def prepare_offloads(offloads: Sequence[OffloadRecord]) -> list[PreparedOffload]:
    """Cut texts into passages and words: 0.7 s for five million characters, so not on the event loop."""
    return [
        PreparedOffload(offload=item, digest=_digest(item), passages=tuple(cut_passages(item.text)))
        for item in offloads
    ]


def _digest(offload: OffloadRecord) -> bytes:
    # 32 bytes: texts come from anywhere, and nobody is to make two that are taken for one.
    parts = (
        offload.session_id,
        offload.kind,
        offload.name,
        offload.message_id,
        offload.place,
        offload.message_ids,
        offload.text,
    )
    return hashlib.blake2b(json.dumps(parts, ensure_ascii=False).encode(), digest_size=32).digest()


def put_offloads(
    connection: SqlConnection,
    scope: Scope,
    prepared: Sequence[PreparedOffload],
    *,
    hold: bool,
    exact: bool,
) -> list[str]:
    """Keep offloads and return their references, those of the ones that are there already (ConflictError).

    Raises:
        MessageNotFoundError: Naming the messages that are pointed at and that the scope doesn't hold.
    """
    if not prepared:
        return []
    number = enter_scope(connection, scope)
    _check_messages(connection, number, [item.offload for item in prepared])
    references = []
    for item in prepared:
        session = make_session_number(connection, number, item.offload.session_id)
        twin = _find_equal(connection, number, item, exact=exact)
        row, reference = twin or _insert(connection, number, session, item)
        if hold:
            add_holds(connection, number, session, [row], microseconds(item.offload.created_at))
        references.append(reference)
    return references


def _check_messages(connection: SqlConnection, scope: int, offloads: Sequence[OffloadRecord]) -> None:
    wanted = list(dict.fromkeys(message_id for item in offloads for message_id in item.message_ids))
    in_order(wanted, rows_of_messages(connection, scope, wanted), MessageNotFoundError)


def _find_equal(connection: SqlConnection, scope: int, item: PreparedOffload, *, exact: bool) -> tuple[int, str] | None:
    """Return row and reference of what is the same; a reference that is taken by something else is a ConflictError."""
    reference = item.offload.reference
    taken = connection.execute(
        "SELECT offload, digest FROM offloads WHERE scope = ? AND reference = ?", (scope, reference)
    ).fetchone()
    if taken is not None and taken[1] == item.digest:
        return int(taken[0]), reference
    if taken is not None:
        msg = f"reference {reference!r} is that of something else: leave it out to get a new one"
        raise ConflictError(msg)
    if exact:
        return None
    row = connection.execute(
        "SELECT offload, reference FROM offloads WHERE scope = ? AND digest = ? ORDER BY offload",
        (scope, item.digest),
    ).fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def _insert(connection: SqlConnection, scope: int, session: int, item: PreparedOffload) -> tuple[int, str]:
    offload, info = item.offload, item.offload.info
    columns = {
        "scope": scope,
        "session": session,
        "reference": offload.reference,
        "kind": offload.kind,
        "message_id": offload.message_id,
        "digest": item.digest,
        "created": microseconds(offload.created_at),
        "said": microseconds(offload.said_at or offload.created_at),
        "bytes": info.bytes,
        "info": info.model_dump_json(),
        "text": offload.text,
    }
    row = insert_row(connection, "offloads", columns)
    add_passages(connection, scope, row, item.passages)
    return row, offload.reference


def get_offload(connection: SqlConnection, scope: Scope, reference: str) -> OffloadRecord:
    """Return an offload with its text (OffloadNotFoundError)."""
    number = find_scope(connection, scope)
    row = connection.execute(
        "SELECT info, text FROM offloads WHERE scope = ? AND reference = ?", (number, reference)
    ).fetchone()
    if row is None:
        raise OffloadNotFoundError([reference])
    known = OffloadInfo.model_validate_json(row[0]).model_dump(exclude={"chars", "lines", "bytes"})
    return OffloadRecord.model_validate({**known, "text": row[1]})


def list_offloads(connection: SqlConnection, scope: Scope, query: ListOffloads) -> OffloadPage:
    """Return one page of offloads in the order of keeping, or its reverse."""
    query = check_query(query)
    after = row_after("offloads", query.cursor)
    number = find_scope(connection, scope)
    if number is None:
        return OffloadPage(offloads=())
    where, values = offload_conditions(
        connection,
        number,
        query,
        ("message_id IN (SELECT value FROM json_each(?))", _as_json(query.message_ids)),
        ("reference IN (SELECT value FROM json_each(?))", _as_json(query.references)),
        ("offload < ?" if query.newest_first else "offload > ?", after),
    )
    order = "DESC" if query.newest_first else "ASC"
    rows = connection.execute(
        f"SELECT offload, info FROM offloads WHERE {' AND '.join(where)} ORDER BY offload {order} LIMIT ?",  # noqa: S608
        (*values, query.limit + 1),
    ).fetchall()
    page, cursor = cut_page(rows, query.limit, "offloads")
    return OffloadPage(offloads=tuple(OffloadInfo.model_validate_json(info) for _, info in page), next_cursor=cursor)


def check_query(query: QueryT) -> QueryT:
    """Check what can be checked without the file, and read times (InvalidInputError)."""
    check_limit(query.limit)
    try:
        return replace(
            query,
            made_from=None if query.made_from is None else parse_time(query.made_from),
            made_to=None if query.made_to is None else parse_time(query.made_to),
        )
    except ValueError as exc:
        msg = f"made_from, made_to: {exc}"
        raise InvalidInputError(msg) from exc


def offload_conditions(
    connection: SqlConnection, scope: int, query: ListOffloads | OffloadSearch, *more: tuple[str, object]
) -> tuple[list[str], list[object]]:
    """Return the conditions of rows of `offloads`, and their values: those of listing and search alike, and more."""
    return given(
        ("offloads.scope = ?", scope),
        ("session = ?", session_asked(connection, scope, query.session_id)),
        ("kind IN (SELECT value FROM json_each(?))", _as_json(query.kinds)),
        ("said >= ?", None if query.made_from is None else microseconds(query.made_from)),
        ("said < ?", None if query.made_to is None else microseconds(query.made_to)),
        *more,
    )


def _as_json(names: Sequence[str] | None) -> str | None:
    return None if names is None else json.dumps(names)


def count_offloads(connection: SqlConnection, scope: int) -> tuple[int, int]:
    """Return how many offloads a scope has, and the bytes of their texts."""
    count, size = connection.execute(
        "SELECT count(*), coalesce(sum(bytes), 0) FROM offloads WHERE scope = ?", (scope,)
    ).fetchone()
    return int(count), int(size)
