"""Events of memories, read as rows.

Their times are no order: clocks differ, and a write may wait for a model. Those of one memory lie together in an index,
and so do the sequence numbers of a scope, which are read without the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from reme_core.ports import EventQuery
from reme_core.schema import Event, EventKind, Memory, Scope, format_time, parse_time
from reme_core.stores._cursors import Row, check_limit, given
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.connection import AMONG, SqlConnection, reading_rows

_COLUMNS = "SELECT sequence, operation, memory_id, before, after, reason, run_id, actor, at FROM events"
_ALONG = "events_by_memory"
_ROWS = "+scope = ? AND sequence"
"""Rows by their numbers: the sign keeps SQLite from reading all of the scope to look for them."""
_LOOKED_AT = 500
"""Rows whose times are compared in one statement: a page of a hundred is full with few of them."""


@reading_rows()
def list_events(connection: SqlConnection, scope: Scope, query: EventQuery) -> list[Event]:
    """Return events; see `Store.events`."""
    check_limit(query.limit)
    number = find_scope(connection, scope)
    if number is None:
        return []
    where, values = _bounds(number, query)
    about, names = _about(connection, query)
    if query.take == "all" and query.newest_first:
        rest = [*where[1:], *about], [*values[1:], *names]  # the scope is told by the numbers
        return list(map(_event, _newest(connection, number, query, rest)))
    if query.take != "all":
        end = "max" if query.take == "last" else "min"
        inner = f"SELECT {end}(sequence) FROM events WHERE {' AND '.join(where)} GROUP BY memory_id"  # noqa: S608  # ours
        where, values = [f"{_ROWS} IN ({inner})"], [number, *values]
    order = "DESC" if query.newest_first else "ASC"
    rows = connection.execute(
        f"{_COLUMNS} WHERE {' AND '.join((*where, *about))} ORDER BY sequence {order} LIMIT ?",
        (*values, *names, query.limit),
    )
    return list(map(_event, rows))


def _bounds(number: int, query: EventQuery) -> tuple[list[str], list[object]]:
    """Return the conditions that events meet, whatever their memories are."""
    ids = None if query.memory_ids is None else json.dumps(query.memory_ids)
    # Without the Z, what has no fraction of a second stands before what has one.
    return given(
        ("scope = ?", number),
        ("sequence > ?", query.after),
        ("sequence < ?", query.before),
        ("memory_id = ?", query.memory_id),
        (f"memory_id {AMONG}", ids),
        ("run_id = ?", query.run_id),
        ("rtrim(at, 'Z') >= ?", _bound(query.since)),
        ("rtrim(at, 'Z') < ?", _bound(query.until)),
    )


def _bound(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment).removesuffix("Z")


def _about(connection: SqlConnection, query: EventQuery) -> tuple[list[str], list[object]]:
    """Return the conditions that the memories of events meet."""
    state, text = "coalesce(after, before)", connection.dialect.json_text
    types, targets = (None if names is None else json.dumps(names) for names in (query.types, query.targets))
    return given(
        (f"{text(state, 'memory_type')} {AMONG}", types),
        (f"{text(state, 'memory_target')} {AMONG}", targets),
    )


def _newest(
    connection: SqlConnection, number: int, query: EventQuery, conditions: tuple[Sequence[str], Sequence[object]]
) -> Iterator[Row]:
    """Read rows, newest first, until there are enough: those further back stay unread."""
    numbers = connection.execute(
        f"SELECT sequence FROM events{connection.dialect.along(_ALONG)} WHERE scope = ?",  # noqa: S608  # our own name
        (number,),
    ).fetchall()
    wanted = sorted((row[0] for row in numbers if query.before is None or row[0] < query.before), reverse=True)
    where, values = conditions
    left = query.limit
    for begin in range(0, len(wanted), _LOOKED_AT):
        among = json.dumps(wanted[begin : begin + _LOOKED_AT])
        rows = connection.execute(
            f"{_COLUMNS} WHERE {' AND '.join((f'{_ROWS} {AMONG}', *where))} ORDER BY sequence DESC LIMIT ?",
            (number, among, *values, left),
        ).fetchall()
        yield from rows
        left -= len(rows)
        if left <= 0:
            return


def _event(row: Row) -> Event:
    sequence, operation, memory_id, before, after, reason, run_id, actor, at = row
    return Event(
        sequence=sequence,
        operation=EventKind(operation),
        memory_id=memory_id,
        before=None if before is None else Memory.model_validate_json(before),
        after=None if after is None else Memory.model_validate_json(after),
        reason=reason,
        run_id=run_id,
        actor=actor,
        at=parse_time(at),
    )
