"""The command that tells what changed: `reme diff`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import CommonOptions, Targets, Types, types_of, with_common_options
from reme_core.cli.output import Output, counted, minute
from reme_core.errors import InvalidInputError
from reme_core.schema import MemoryChange, format_time, told_change

_AGO = re.compile(r"(\d{1,6})([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@with_common_options
async def diff(
    where: CommonOptions,
    output: Output,
    *,
    since: Annotated[
        str, typer.Option("--since", help="Written at this time or later: 2026-11-01, 7d, 12h, 2w, yesterday, today.")
    ] = "7d",
    until: Annotated[str | None, typer.Option("--until", help="Written before this time, as --since.")] = None,
    types: Types = None,
    targets: Targets = None,
    every: Annotated[bool, typer.Option("--every", help="Each change, what came and went included.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, the newest.")] = 500,
    cursor: Annotated[str | None, typer.Option("--cursor", help="The next page; from the page before.")] = None,
) -> int:
    """Show what changed in memory, of the last seven days unless told otherwise. Exit code 1: nothing."""
    async with where.existing() as (memory, whose):
        now = memory.clock.now()
        found = await memory.changes(
            **whose,
            since=moment(since, now, "--since"),
            until=None if until is None else moment(until, now, "--until"),
            memory_type=types_of(types or ()),
            memory_target=targets or None,
            every=every,
            limit=limit,
            cursor=cursor,
        )
    if output.as_json:
        output.value(found.model_dump(mode="json"))
    else:
        for (kind, target), items in found.by_target.items():
            output.line(f"{kind} / {target}: {counted(len(items), 'change')}", style="bold")
            for item in items:
                print_change(output, item)
    if found.next_cursor is not None:
        # What is told from now means another time at the next page.
        ends = {"--since": found.since, "--until": found.until}
        times = [f"{name} {format_time(moment)}" for name, moment in ends.items() if moment is not None]
        output.remark(f"more: {' '.join(times)} --cursor {found.next_cursor}")
    if found.changes:
        return ExitCode.DONE
    output.remark("nothing changed")
    return ExitCode.NOTHING_FOUND


def print_change(output: Output, item: MemoryChange, *, with_sources: bool = False) -> None:
    """Print what became of a memory, with the run to undo and, where wanted, the messages that it comes from."""
    words, first, second = told_change(item)
    text = f"- {first}\n+ {second}" if second else first
    reason = f"because: {item.reason}" if item.reason else ""
    run = f"run {item.run_id}" if item.run_id else ""
    ids = [name for source in item.sources for name in source.message_ids] if with_sources else []
    told = f"from {' '.join(ids)}" if ids else ""
    output.record((minute(item.at), words, f"by {item.actor}"), text, (f"id {item.memory_id}", reason, run, told))


def read_duration(text: str, name: str) -> timedelta | None:
    """Return a time span: `12h`, `7d`, `2w`; None for another text (InvalidInputError: it is beyond all calendars)."""
    told = _AGO.fullmatch(text.strip())
    try:
        return None if told is None else int(told[1]) * _UNITS[told[2]]
    except OverflowError as exc:
        raise _too_long_ago(text, name) from exc


def moment(text: str, now: datetime, name: str) -> datetime | str:
    """Return a time that is told from now: `7d`, `12h`, `2w`, `today`, `yesterday` (UTC); a date as it is.

    Raises:
        InvalidInputError: It is neither, or lies before all times that can be told.
    """
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = {"now": now, "today": today, "yesterday": today - timedelta(days=1)}
    if text.strip().lower() in named:
        return named[text.strip().lower()]
    ago = read_duration(text, name)
    if ago is None:
        if not text.strip()[:4].isdecimal():
            msg = f"{name}: not a time: {text[:40]!r}; write 2026-11-01, 7d, 12h, 2w, yesterday or today"
            raise InvalidInputError(msg)
        return text
    try:
        return now - ago
    except OverflowError as exc:
        raise _too_long_ago(text, name) from exc


def _too_long_ago(text: str, name: str) -> InvalidInputError:
    return InvalidInputError(f"{name}: {text} ago is before all calendars")
