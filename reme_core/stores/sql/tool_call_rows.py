"""Tool calls as rows. Plain functions over a connection; the caller holds the transaction.

What the calls of a tool add up to is read along one index that has all that is counted, and no body. Nothing is kept
beside the calls, so that adding one touches nothing that grows with its tool.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reme_core.errors import ConflictError, ToolCallNotFoundError
from reme_core.ports import AddedToolCalls, ListToolCalls, ListTools, ToolCallPage, ToolPage
from reme_core.schema import Scope, ToolCallResult, ToolError, ToolStatistics
from reme_core.stores._cursors import check_limit, cut_page, given, in_order, read_cursor
from reme_core.stores.sql.bookkeeping import enter_scope, find_scope
from reme_core.stores.sql.connection import SqlConnection, reading_rows
from reme_core.stores.sql.memory_rows import from_microseconds, microseconds
from reme_core.text import error_class

MOST_ERRORS = 5
"""How many kinds of errors statistics name. Source: `ToolStatistics.errors`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call with all that can be worked out of it before the file is locked.

    Attributes:
        call: The call.
        error: The kind of its failure; None for a success.
        body: The call as JSON.
    """

    call: ToolCallResult
    error: str | None
    body: str


def prepare_calls(calls: Sequence[ToolCallResult]) -> list[PreparedCall]:
    """Write calls as JSON and tell kinds of errors: up to 60 ms for an output of 8 MB, so not on the loop."""
    return [
        PreparedCall(call=call, error=None if call.success else error_class(call.output), body=call.model_dump_json())
        for call in calls
    ]


def add_calls(connection: SqlConnection, scope: Scope, prepared: Sequence[PreparedCall]) -> AddedToolCalls:
    """Record calls; the same ones that are there already are left alone (ConflictError)."""
    if not prepared:
        return AddedToolCalls(added=())
    number = enter_scope(connection, scope)
    added, known = list[str](), list[str]()
    for item in prepared:
        (added if _insert(connection, number, item) else known).append(item.call.call_id)
    return AddedToolCalls(added=tuple(added), known=tuple(known))


def _insert(connection: SqlConnection, scope: int, item: PreparedCall) -> bool:
    """Record a call; tell whether it is new. One with other content under its id is a ConflictError."""
    call = item.call
    cursor = connection.execute(
        "INSERT INTO tool_calls (scope, call_id, tool_name, created, success, time_cost, token_cost, error, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (scope, call_id) DO NOTHING",
        (
            scope,
            call.call_id,
            call.tool_name,
            microseconds(call.create_time),
            call.success,
            call.time_cost,
            call.token_cost,
            item.error,
            item.body,
        ),
    )
    if cursor.rowcount:
        return True
    (body,) = connection.execute(
        "SELECT body FROM tool_calls WHERE scope = ? AND call_id = ?", (scope, call.call_id)
    ).fetchone()
    timed = "create_time" in call.model_fields_set
    if body != item.body and _canonical(body, timed=timed) != _canonical(item.body, timed=timed):
        msg = (
            f"call {call.call_id!r} is recorded with other content: ids are unique in a scope; leave it out to get one"
        )
        raise ConflictError(msg)
    return False


def _canonical(body: str, *, timed: bool) -> str:
    """Write a call so that equal ones, up to the order of keys, are written alike; 1, 1.0 and true are three values.

    Not `timed`: its time was left to us, so it tells nothing.
    """
    fields = json.loads(body)
    if not timed:
        fields.pop("create_time", None)
    return json.dumps(fields, sort_keys=True)


def get_calls(connection: SqlConnection, scope: Scope, call_ids: Sequence[str]) -> list[ToolCallResult]:
    """Return calls by id, in the order asked (ToolCallNotFoundError)."""
    number = find_scope(connection, scope)
    found = {}
    for call_id in dict.fromkeys(call_ids):
        row = connection.execute(
            "SELECT body FROM tool_calls WHERE scope = ? AND call_id = ?", (number, call_id)
        ).fetchone()
        if row is not None:
            found[call_id] = ToolCallResult.model_validate_json(row[0])
    return in_order(call_ids, found, ToolCallNotFoundError)


def list_calls(connection: SqlConnection, scope: Scope, query: ListToolCalls) -> ToolCallPage:
    """Return one page of calls, by the time they were made, or its reverse."""
    check_limit(query.limit)
    place = None if query.cursor is None else read_cursor("tool_calls", query.cursor, int, int)
    number = find_scope(connection, scope)
    if number is None:
        return ToolCallPage(calls=())
    where, values = given(
        ("scope = ?", number),
        ("tool_name = ?", query.tool_name),
        ("success = ?", query.success),
        ("error = ?", query.error),
    )
    if place is not None:
        where.append(f"(created, call) {'<' if query.newest_first else '>'} (?, ?)")
        values += place
    order = "DESC" if query.newest_first else "ASC"
    rows = connection.execute(
        f"SELECT created, call, body FROM tool_calls WHERE {' AND '.join(where)}"  # noqa: S608  # fixed texts
        f" ORDER BY created {order}, call {order} LIMIT ?",
        (*values, query.limit + 1),
    ).fetchall()
    page, cursor = cut_page(rows, query.limit, "tool_calls", places=2)
    return ToolCallPage(
        calls=tuple(ToolCallResult.model_validate_json(body) for _, _, body in page), next_cursor=cursor
    )


def list_tools(connection: SqlConnection, scope: Scope, query: ListTools) -> ToolPage:
    """Return one page of tools with the number of their calls, by name."""
    check_limit(query.limit)
    # SQLite compares texts as UTF-8, which orders them by their code points.
    after = [""] if query.cursor is None else read_cursor("tools", query.cursor, str)
    rows = connection.execute(
        "SELECT tool_name, count(*) FROM tool_calls WHERE scope = ? AND tool_name > ?"
        " GROUP BY tool_name ORDER BY tool_name LIMIT ?",
        (find_scope(connection, scope), *after, query.limit + 1),
    ).fetchall()
    page, cursor = cut_page(rows, query.limit, "tools")
    return ToolPage(tools=tuple((name, count) for name, count in page), next_cursor=cursor)


@reading_rows()
def tool_statistics(connection: SqlConnection, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
    """Add up the calls of each tool, in the order asked."""
    number = find_scope(connection, scope)
    added_up = {name: _add_up(connection, number, name) for name in dict.fromkeys(tool_names)}
    return [added_up[name] for name in tool_names]


def _add_up(connection: SqlConnection, scope: int | None, tool_name: str) -> ToolStatistics:
    # The sum of tokens in two parts: SQLite's integers end at 2^63, which 1,025 calls of the highest cost exceed.
    calls, successes, token_calls, high, low, first, last = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE success), count(token_cost), coalesce(sum(token_cost >> 32), 0),"
        " coalesce(sum(token_cost & 4294967295), 0), min(created), max(created)"
        " FROM tool_calls WHERE scope = ? AND tool_name = ?",
        (scope, tool_name),
    ).fetchone()
    if not calls:
        return ToolStatistics(tool_name=tool_name)
    tokens = (int(high) << 32) + int(low)
    times = _times(connection, scope, tool_name)
    errors = _errors(connection, scope, tool_name)
    return ToolStatistics(
        tool_name=tool_name,
        calls=calls,
        successes=successes,
        success_rate=successes / calls,
        timed_calls=len(times),
        mean_time_s=math.fsum(times) / len(times) if times else None,
        p95_time_s=_nearest_rank(times, 95) if times else None,
        token_calls=token_calls,
        tokens=tokens,
        mean_tokens=tokens / token_calls if token_calls else None,
        errors=errors,
        other_errors=calls - successes - sum(error.count for error in errors),
        first_at=from_microseconds(first),
        last_at=from_microseconds(last),
    )


def _times(connection: SqlConnection, scope: int | None, tool_name: str) -> list[float]:
    rows: Iterable[tuple[float]] = connection.execute(
        "SELECT time_cost FROM tool_calls WHERE scope = ? AND tool_name = ? AND time_cost IS NOT NULL",
        (scope, tool_name),
    )
    return sorted(time for (time,) in rows)


def _nearest_rank(ordered: Sequence[float], percent: int) -> float:
    """Return the ceil(percent / 100 * n)-th of n ordered values; in integers, since 0.95 is none of the floats."""
    return ordered[-(-percent * len(ordered) // 100) - 1]


def _errors(connection: SqlConnection, scope: int | None, tool_name: str) -> tuple[ToolError, ...]:
    rows = connection.execute(
        "SELECT error, count(*) AS times, max(created) AS latest FROM tool_calls"
        " WHERE scope = ? AND tool_name = ? AND error IS NOT NULL"
        " GROUP BY error ORDER BY times DESC, latest DESC, error LIMIT ?",
        (scope, tool_name, MOST_ERRORS),
    )
    return tuple(
        ToolError(error=error, count=count, last_at=from_microseconds(latest)) for error, count, latest in rows
    )
