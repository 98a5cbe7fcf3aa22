"""Example calls of a tool that stand for all of them, and how they are shown."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from pydantic import JsonValue

from reme_core.ports import ListToolCalls, Store
from reme_core.schema import Scope, ToolCallResult, ToolStatistics, shown_input
from reme_core.text import json_line, prompt_time, shortened

MOST_EXAMPLES = 30
"""Calls that a guideline is written from: some of each kind of failure, and as many successes."""

SHOWN_CHARS = 400
"""Characters that are shown of an input, and of an output: their heads and tails tell what was asked and came of it."""

_PER_ERROR = 3
# Of lines that are too long together less is shown of each; where the shortest are, the oldest are left out.
_SHORTER = (SHOWN_CHARS, 300, 200, 120, 60)
# As `shortened` writes it, and in which share of a text it puts it.
_NOTICE = re.compile(r" \[… (\d{1,12}) characters left out …\] ")
_HEAD_SHARE = 2 / 3


async def pick_examples(
    store: Store,
    scope: Scope,
    statistics: ToolStatistics,
    *,
    limit: int = MOST_EXAMPLES,
    max_chars: int = SHOWN_CHARS,
) -> tuple[ToolCallResult, ...]:
    """Return the latest failures of each frequent kind and the latest successes, newest first, no call twice.

    At most `limit` calls, at least 1. Failures take at most half of them, but one of each kind goes first where there
    is room for few; what one side can't fill is the other's.

    Outputs are cut to `max_chars` characters, and so are inputs that are longer as JSON, which become its text; a
    notice of what is left out comes on top. Calls may have megabytes, so they are cut once, and not on the loop.
    """
    name, picked = statistics.tool_name, dict[str, ToolCallResult]()

    async def take(query: ListToolCalls) -> None:
        page = await store.list_tool_calls(scope, query)
        for call in page.calls:
            if len(picked) < limit:
                picked.setdefault(call.call_id, call)

    kinds = statistics.errors[: limit - 1 if statistics.successes and limit > 1 else limit]
    each = max(1, min(_PER_ERROR, limit // 2 // len(kinds))) if kinds else 0
    for kind in kinds:
        await take(ListToolCalls(tool_name=name, success=False, error=kind.error, limit=each))
    if len(picked) < limit and statistics.successes:
        await take(ListToolCalls(tool_name=name, success=True, limit=limit - len(picked)))
    if len(picked) < min(limit, statistics.calls):
        await take(ListToolCalls(tool_name=name, success=False, limit=limit))
    newest_first = sorted(picked.values(), key=lambda call: (call.create_time, call.call_id), reverse=True)
    return await asyncio.to_thread(_cut, newest_first, max_chars)


def _cut(calls: Sequence[ToolCallResult], max_chars: int) -> tuple[ToolCallResult, ...]:
    return tuple(_cut_one(call, max_chars) for call in calls)


def _cut_one(call: ToolCallResult, max_chars: int) -> ToolCallResult:
    asked = shown_input(call.input)
    cut = {
        "input": call.input if len(asked) <= max_chars else shortened(asked, max_chars),
        "output": shortened(call.output, max_chars),
    }
    return call.model_copy(update=cut)


def shown_call(call: ToolCallResult, max_chars: int = SHOWN_CHARS) -> str:
    """Write a call as one line of JSON for a prompt; of input and output at most so many characters each."""
    line: dict[str, JsonValue] = {
        "at": prompt_time(call.create_time),
        "ok": call.success,
        "input": _shortened_again(shown_input(call.input), max_chars),
        "output": _shortened_again(call.output, max_chars),
    }
    return json_line(line)


def _shortened_again(text: str, max_chars: int) -> str:
    """Shorten a text that may have been shortened before; the notice counts all that is left out."""
    notice = _NOTICE.search(text)
    if notice is None:
        return shortened(text, max_chars)
    kept = text[: notice.start()] + text[notice.end() :]
    if len(kept) <= max_chars:
        return text
    head = int(max_chars * _HEAD_SHARE)
    left_out = int(notice[1]) + len(kept) - max_chars
    return f"{kept[:head]} [… {left_out} characters left out …] {kept[len(kept) - (max_chars - head) :]}"


def shown_calls(calls: Sequence[ToolCallResult], max_chars: int) -> str:
    """Write calls, newest first, as lines of JSON of at most `max_chars` characters together, whatever they hold.

    The calls are cut already; see `pick_examples`.
    """
    lines: list[str] = []
    for size in _SHORTER:
        lines = [shown_call(call, size) for call in calls]
        if sum(len(line) + 1 for line in lines) <= max_chars:
            return "\n".join(lines)
    while lines and sum(len(line) + 1 for line in lines) > max_chars:
        lines.pop()
    return "\n".join(lines)
