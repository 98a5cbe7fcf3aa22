"""Holds of open sessions on offloaded texts, and the clean-up that respects them. Functions over a connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from reme_core.errors import InvalidInputError
from reme_core.ports import CleanOffloads, HoldOffloads
from reme_core.schema import CleanedOffloads, OffloadInfo, OffloadKind, Scope, parse_time
from reme_core.stores.sql.bookkeeping import find_scope, find_session, make_session_number
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.memory_rows import microseconds


def check_hold(hold: HoldOffloads) -> HoldOffloads:
    """Check what can be checked without the file (InvalidInputError)."""
    try:
        since = None if hold.keep_since is None else parse_time(hold.keep_since)
        return replace(hold, now=parse_time(hold.now), keep_since=since)
    except ValueError as exc:
        msg = f"hold: {exc}"
        raise InvalidInputError(msg) from exc


def check_clean(clean: CleanOffloads) -> CleanOffloads:
    """Check what can be checked without the file (InvalidInputError)."""
    if clean.max_bytes is not None and clean.max_bytes < 0:
        msg = f"max_bytes: wanted a number of bytes from 0 on, found {clean.max_bytes}"
        raise InvalidInputError(msg)
    try:
        return replace(
            clean,
            older_than=None if clean.older_than is None else parse_time(clean.older_than),
            idle_since=parse_time(clean.idle_since),
        )
    except ValueError as exc:
        msg = f"clean: {exc}"
        raise InvalidInputError(msg) from exc


def add_holds(connection: SqlConnection, scope: int, session: int, rows: Iterable[int], said: int) -> None:
    """Let a session hold offloads besides what it holds; `said` in microseconds, never lowered."""
    held = list(rows)
    connection.execute("UPDATE offload_holders SET said = ? WHERE session = ? AND said < ?", (said, session, said))
    connection.execute(
        "INSERT INTO offload_holders (session, scope, said) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (session, scope, said),
    )
    connection.execute(
        "UPDATE offload_holds SET since = ? WHERE session = ? AND since < ?"
        " AND offload IN (SELECT value FROM json_each(?))",
        (said, session, said, str(held)),
    )
    connection.executemany(
        "INSERT INTO offload_holds (session, offload, scope, since) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(session, row, scope, said) for row in held],
    )


def hold_offloads(connection: SqlConnection, scope: Scope, hold: HoldOffloads) -> None:
    """Replace what a session holds; references that the scope doesn't have are passed over."""
    number = find_scope(connection, scope)
    if number is None:
        return
    found = connection.execute(
        "SELECT offload FROM offloads WHERE scope = ? AND reference IN (SELECT value FROM json_each(?))",
        (number, json.dumps(sorted(hold.references))),
    ).fetchall()
    # A session that holds nothing gets no row: its name may stand nowhere else.
    session = make_session_number(connection, number, hold.session_id) if found else None
    if session is None:
        session = find_session(connection, number, hold.session_id)
    if session is None:
        return
    if hold.keep_since is None:
        connection.execute("DELETE FROM offload_holders WHERE session = ?", (session,))
        connection.execute("DELETE FROM offload_holds WHERE session = ?", (session,))
    else:
        connection.execute(
            "DELETE FROM offload_holds WHERE session = ? AND since < ?", (session, microseconds(hold.keep_since))
        )
    if found:
        add_holds(connection, number, session, [row for (row,) in found], microseconds(hold.now))
    else:
        _forget_idle_holders(connection, number)
        _drop_empty_sessions(connection, number)


def clean_offloads(connection: SqlConnection, scope: Scope, clean: CleanOffloads) -> CleanedOffloads:
    """Remove texts that may go, unless it is to be tried only, and say which; see `Store.clean_offloads`."""
    number = find_scope(connection, scope)
    if number is None:
        return CleanedOffloads(dry_run=clean.dry_run)
    texts = connection.execute(
        "SELECT offload, created, bytes, EXISTS (SELECT 1 FROM offload_holds h JOIN offload_holders USING (session)"
        " WHERE h.offload = offloads.offload AND said >= ?) FROM offloads WHERE scope = ? AND kind <> ?"
        " ORDER BY created, offload",
        (microseconds(clean.idle_since), number, OffloadKind.MESSAGES),
    ).fetchall()
    gone, held, left = _chosen(texts, clean)
    cleaned = CleanedOffloads(
        removed=_infos(connection, gone),
        held=_infos(connection, held),
        bytes_removed=sum(size for _, _, size, _ in texts) - left,
        bytes_left=left,
        dry_run=clean.dry_run,
    )
    if gone and not clean.dry_run:
        _remove(connection, number, gone)
    return cleaned


def _chosen(texts: Sequence[tuple[int, int, int, int]], clean: CleanOffloads) -> tuple[list[int], list[int], int]:
    """Return the rows that go, those that would go if they were not held, and the bytes that stay.

    `texts` are rows with creation time, bytes, and whether they are held; oldest first.
    """
    before = None if clean.older_than is None else microseconds(clean.older_than)
    left = sum(size for _, _, size, _ in texts)
    gone: list[int] = []
    held: list[int] = []
    # By age first: what is too old makes room, so that less of the rest has to go.
    old = [item for item in texts if before is not None and item[1] < before]
    for row, _, size, is_held in old:
        (held if is_held else gone).append(row)
        left -= 0 if is_held else size
    for row, _, size, is_held in texts[len(old) :]:
        if clean.max_bytes is None or left <= clean.max_bytes:
            break
        (held if is_held else gone).append(row)
        left -= 0 if is_held else size
    return gone, held, left


def _infos(connection: SqlConnection, rows: Sequence[int]) -> tuple[OffloadInfo, ...]:
    found = connection.execute(
        "SELECT info FROM offloads WHERE offload IN (SELECT value FROM json_each(?)) ORDER BY created, offload",
        (str(rows),),
    )
    return tuple(OffloadInfo.model_validate_json(info) for (info,) in found)


def _remove(connection: SqlConnection, scope: int, rows: Sequence[int]) -> None:
    chosen = "offload IN (SELECT value FROM json_each(?))"
    passages = connection.execute(f"SELECT passage FROM offload_passages WHERE {chosen}", (str(rows),)).fetchall()  # noqa: S608
    connection.dialect.remove_words(connection, "offload_words", (passage for (passage,) in passages))
    for table in ("offload_passages", "offload_holds", "offloads"):
        connection.execute(f"DELETE FROM {table} WHERE {chosen}", (str(rows),))  # noqa: S608  # three names
    _forget_idle_holders(connection, scope)
    _drop_empty_sessions(connection, scope)


def _forget_idle_holders(connection: SqlConnection, scope: int) -> None:
    """Forget sessions that hold nothing."""
    connection.execute(
        "DELETE FROM offload_holders WHERE scope = ? AND session NOT IN (SELECT session FROM offload_holds)", (scope,)
    )


def _drop_empty_sessions(connection: SqlConnection, scope: int) -> None:
    """Forget the names of sessions of which nothing is left."""
    connection.execute(
        "DELETE FROM sessions WHERE scope = ?"
        " AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.session = sessions.session)"
        " AND NOT EXISTS (SELECT 1 FROM offloads WHERE offloads.session = sessions.session)"
        " AND NOT EXISTS (SELECT 1 FROM offload_holders WHERE offload_holders.session = sessions.session)",
        (scope,),
    )
