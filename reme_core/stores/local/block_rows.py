"""Blocks as rows. Plain functions over a connection; the caller holds the transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from reme_core.errors import BlockNotFoundError, ConflictError
from reme_core.ports import BlockPage, BlockSummary, ListBlocks
from reme_core.schema import EXTRACTIVE, Block, Scope
from reme_core.stores._cursors import check_limit, cut_page, given, in_order, row_after, seconds
from reme_core.stores.local.file.scope_numbers import Layer, find_scope, log_changes, make_scope_number, session_asked
from reme_core.stores.local.file.vectors_and_words import insert_row
from reme_core.stores.local.message_rows import check_sessions
from reme_core.text import pack_terms, terms


def put_blocks(connection: sqlite3.Connection, scope: Scope, blocks: Sequence[Block]) -> None:
    """Add blocks; equal ones that are there already are left alone (MessageNotFoundError, ConflictError)."""
    if not blocks:
        return
    number = make_scope_number(connection, scope)
    rows = [row for block in blocks if (row := _put(connection, number, block)) is not None]
    log_changes(connection, number, Layer.BLOCKS, rows)


def _put(connection: sqlite3.Connection, scope: int, block: Block) -> int | None:
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


def put_summaries(connection: sqlite3.Connection, scope: Scope, summaries: Sequence[BlockSummary]) -> None:
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


def get_blocks(connection: sqlite3.Connection, scope: Scope, block_ids: Sequence[str]) -> list[Block]:
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


def blocks_by_rows(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, Block]:
    """Return blocks by row number."""
    found = connection.execute(
        "SELECT block, body FROM blocks WHERE block IN (SELECT value FROM json_each(?))", (str(list(rows)),)
    )
    return {row: Block.model_validate_json(body) for row, body in found}


def list_blocks(connection: sqlite3.Connection, scope: Scope, query: ListBlocks) -> BlockPage:
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
