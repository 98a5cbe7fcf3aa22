# asserts are what a contract suite is made of
"""Values and small helpers for the contract of tool call stores."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue

from reme_core.ports import AddedToolCalls, ListToolCalls, ListTools, Store
from reme_core.schema import Scope, ToolCallResult, ToolError, ToolStatistics, new_id
from reme_core.testing.store_values import ALICE, at
from reme_core.text import error_class

TOOL = "search"
FAILURES = (
    "TimeoutError: no answer after 30 s",
    "HTTP 503",
    "no such file: '/tmp/a/b'",
    "ValueError: 3",
    "quota of 5 used up",
    "错误：没有权限",
    "",
)
"""Outputs of failed calls, each of a kind of its own."""


def call(
    call_id: str | None = None,
    tool_name: str = TOOL,
    *,
    minute: float = 0,
    output: str = "found",
    success: bool = True,
    time_cost: float | None = None,
    token_cost: int | None = None,
    arguments: JsonValue = None,
) -> ToolCallResult:
    """Build a call that was made `minute` minutes after `NOW`."""
    return ToolCallResult(
        call_id=call_id or new_id(),
        tool_name=tool_name,
        create_time=at(minute),
        input={"query": "walrus"} if arguments is None else arguments,
        output=output,
        success=success,
        time_cost=time_cost,
        token_cost=token_cost,
    )


def failed(output: str, call_id: str | None = None, *, minute: float = 0, tool_name: str = TOOL) -> ToolCallResult:
    """Build a call that failed."""
    return call(call_id, tool_name, minute=minute, output=output, success=False)


def random_calls(seed: int, count: int, tools: Sequence[str]) -> list[ToolCallResult]:
    """Return calls of these tools of every kind: failed and not, timed and not, many at the same time."""
    chance = random.Random(seed)  # no secret: the same calls for the same seed
    return [
        call(
            f"{seed} {number}",
            chance.choice(tools),
            minute=chance.randrange(count // 4 + 1),
            output=chance.choice(FAILURES),
            success=chance.random() < 0.6,
            time_cost=chance.choice((None, 0.0, 0.1, chance.expovariate(1), chance.expovariate(1e-9) % 1e9)),
            token_cost=chance.choice((None, 0, chance.randrange(5000), 1 << 53)),
        )
        for number in range(count)
    ]


def added_up(calls: Sequence[ToolCallResult], tool_name: str) -> ToolStatistics:
    """Work out the statistics of a tool anew, the plainest way."""
    own = [item for item in calls if item.tool_name == tool_name]
    if not own:
        return ToolStatistics(tool_name=tool_name)
    times = sorted(item.time_cost for item in own if item.time_cost is not None)
    tokens = [item.token_cost for item in own if item.token_cost is not None]
    failures = [(error_class(item.output), item.create_time) for item in own if not item.success]
    counts = Counter(error for error, _ in failures)
    kinds = [
        ToolError(error=error, count=count, last_at=max(moment for name, moment in failures if name == error))
        for error, count in counts.items()
    ]
    kinds.sort(key=lambda kind: kind.error)
    kinds.sort(key=lambda kind: (kind.count, kind.last_at), reverse=True)
    return ToolStatistics(
        tool_name=tool_name,
        calls=len(own),
        successes=len(own) - len(failures),
        success_rate=(len(own) - len(failures)) / len(own),
        timed_calls=len(times),
        mean_time_s=math.fsum(times) / len(times) if times else None,
        p95_time_s=next(time for rank, time in enumerate(times, start=1) if 20 * rank >= 19 * len(times))
        if times
        else None,
        token_calls=len(tokens),
        tokens=sum(tokens),
        mean_tokens=sum(tokens) / len(tokens) if tokens else None,
        errors=tuple(kinds[:5]),
        other_errors=len(failures) - sum(kind.count for kind in kinds[:5]),
        first_at=min(item.create_time for item in own),
        last_at=max(item.create_time for item in own),
    )


async def add(store: Store, *calls: ToolCallResult, scope: Scope = ALICE) -> AddedToolCalls:
    """Record calls in one go."""
    return await store.add_tool_calls(scope, calls)


async def listed(store: Store, query: ListToolCalls | None = None, *, scope: Scope = ALICE) -> list[ToolCallResult]:
    """List calls on all pages; no page is longer than asked for, and only the last one may be shorter."""
    asked = query or ListToolCalls()
    calls: list[ToolCallResult] = []
    while True:
        page = await store.list_tool_calls(scope, asked)
        calls += page.calls
        if page.next_cursor is None:
            assert len(page.calls) <= asked.limit
            return calls
        assert len(page.calls) == asked.limit
        asked = replace(asked, cursor=page.next_cursor)


async def tools(store: Store, *, limit: int = 100, scope: Scope = ALICE) -> list[tuple[str, int]]:
    """List tools on all pages; only the last one may be shorter than asked for."""
    asked = ListTools(limit=limit)
    found: list[tuple[str, int]] = []
    while True:
        page = await store.list_tools(scope, asked)
        found += page.tools
        if page.next_cursor is None:
            assert len(page.tools) <= limit
            return found
        assert len(page.tools) == limit
        asked = replace(asked, cursor=page.next_cursor)


async def statistics(store: Store, tool_name: str = TOOL, *, scope: Scope = ALICE) -> ToolStatistics:
    """Return what the calls of one tool add up to."""
    [found] = await store.tool_statistics(scope, [tool_name])
    return found


def ids(calls: Sequence[ToolCallResult]) -> list[str]:
    """Return the ids of calls, in their order."""
    return [item.call_id for item in calls]
