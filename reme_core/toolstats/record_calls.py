"""Recording of tool calls: read from what is handed in, each stored once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reme_core.errors import ConflictError, ToolCallNotFoundError
from reme_core.ports import Store
from reme_core.schema import Scope, ToolCallResult, parse_messages, parse_tool_call_results
from reme_core.steps.user_input import check_time_not_future
from reme_core.toolstats.calls_in_messages import ReadCalls, read_tool_calls, with_outcome

# A look at ids may bring the calls along, each with megabytes.
_PAGE = 20


def read_handed_in(results: object, messages: object, now: datetime) -> tuple[tuple[ToolCallResult, ...], ReadCalls]:
    """Read calls handed in one by one, and those of a conversation. Takes long for megabytes, so not on the loop.

    Raises:
        InvalidInputError: Something can't be read, or was made later than now, a day's difference of clocks apart.
    """
    given = tuple(map(with_outcome, parse_tool_call_results(results)))
    for index, call in enumerate(given):
        if "create_time" in call.model_fields_set:
            check_time_not_future(call.create_time, f"results[{index}].create_time", now)
    read = read_tool_calls(parse_messages(messages, now=lambda: now))
    for call in read.calls:
        if "create_time" in call.model_fields_set:
            check_time_not_future(call.create_time, f"messages: created_at of {call.message_ids[-1]!r}", now)
    return given, read


async def unrecorded(
    store: Store, scope: Scope, calls: Sequence[ToolCallResult]
) -> tuple[tuple[ToolCallResult, ...], frozenset[str]]:
    """Return those calls whose ids aren't recorded yet, and the ids of the others, whatever is recorded under them."""
    missing: set[str] = set()
    for start in range(0, len(calls), _PAGE):
        try:
            await store.get_tool_calls(scope, [call.call_id for call in calls[start : start + _PAGE]])
        except ToolCallNotFoundError as exc:
            missing.update(exc.missing)
    fresh = tuple(call for call in calls if call.call_id in missing)
    return fresh, frozenset(call.call_id for call in calls) - missing


async def record(
    store: Store, scope: Scope, given: Sequence[ToolCallResult], read: Sequence[ToolCallResult]
) -> frozenset[str]:
    """Record calls, all or none; return the ids of those that were recorded already.

    Calls that were `read` from messages and whose ids are known are left alone: messages come again with outputs cut,
    or without the call.

    Raises:
        ConflictError: An id of the `given` calls that belongs to another call; nothing was recorded.
    """
    named = {call.call_id for call in given}
    fresh, known = await unrecorded(store, scope, [call for call in read if call.call_id not in named])
    try:
        added = await store.add_tool_calls(scope, (*given, *fresh))
    except ConflictError:
        # Somebody else may have recorded the same conversation since the look; otherwise it is raised again.
        fresh, more = await unrecorded(store, scope, fresh)
        known |= more
        added = await store.add_tool_calls(scope, (*given, *fresh))
    return known.union(added.known, (call.call_id for call in read if call.call_id in named))
