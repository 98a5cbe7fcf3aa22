"""`reme watch`: what is said and remembered, as it happens."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from reme_core.cli.changes import moment, print_change
from reme_core.cli.options import CommonOptions, with_common_options
from reme_core.cli.output import Output, minute
from reme_core.errors import InvalidInputError
from reme_core.schema import ChangeKind, Job, JobState, MemoryChange, StoredMessage
from reme_core.steps.user_input import read_time

if TYPE_CHECKING:
    from reme_core.recall.activity import Activity

_SHOWN_CHARS = 600
"""Of a message; a page of a tool's output says little on a terminal, and `reme show` prints all of it."""
_LEAST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 3600.0


@with_common_options
async def watch(
    where: CommonOptions,
    output: Output,
    *,
    since: Annotated[
        str | None, typer.Option("--since", help="First what was said and written since: 1h, 7d, today, 2026-11-01.")
    ] = None,
    pause: Annotated[float, typer.Option("--pause", help="Seconds between two looks.")] = 1.0,
) -> int:
    """Show what is said and what is remembered of it, as it happens, whoever writes; until Ctrl-C."""
    from reme_core.recall.activity import ActivityFeed  # noqa: PLC0415  # help is shown without it

    if not _LEAST_PAUSE_S <= pause <= _LONGEST_PAUSE_S:
        msg = f"--pause: wanted {_LEAST_PAUSE_S} to {_LONGEST_PAUSE_S:.0f} seconds, found {pause}"
        raise InvalidInputError(msg)
    async with where.existing() as (memory, whose):
        feed = ActivityFeed(store=memory.store, scope=memory.tool_context(**whose).scope)
        begin = None if since is None else read_time(moment(since, memory.clock.now(), "--since"), "--since")
        news = await feed.begin(begin)
        output.remark(f"watching {where.scope_name}; Ctrl-C ends")
        while True:
            (_print_lines if output.as_json else _print)(output, news)
            sys.stdout.flush()
            await asyncio.sleep(pause)
            news = await feed.read()


def _print_lines(output: Output, news: Activity) -> None:
    """Print a line of JSON for each thing, whole: `message`, `change`, `job` or `ended_job`."""
    for item in _in_order(news):
        name = "message" if isinstance(item, StoredMessage) else "change"
        output.value({name: item.model_dump(mode="json")})
    for name, jobs in (("job", news.jobs), ("ended_job", news.ended_jobs)):
        for job in jobs:
            output.value({name: job.model_dump(mode="json")})


def _print(output: Output, news: Activity) -> None:
    """Print what has happened for people; what replaced a memory is told with that one alone."""
    from reme_core.text import shortened  # noqa: PLC0415  # help is shown without it

    told = {item.replaced_by.memory_id for item in news.changes if item.replaced_by is not None}
    for item in _in_order(news):
        if isinstance(item, StoredMessage):
            message = item.message
            head = (minute(message.created_at), "said", f"by {message.speaker}")
            foot = (f"id {message.message_id}", f"session {item.session_id}")
            output.record(head, shortened(message.full_text, _SHOWN_CHARS), foot)
        elif item.kind is not ChangeKind.ADDED or item.memory_id not in told:
            print_change(output, item, with_sources=True)
    for job in news.jobs:
        output.line(f"job {job.job_id}", job.kind, _told(job))
    for job in news.ended_jobs:
        output.line(f"job {job.job_id}", job.kind, "is over")


def _in_order(news: Activity) -> list[StoredMessage | MemoryChange]:
    """Return what was said and what became of it by time."""
    return sorted(
        [*news.messages, *news.changes],
        key=lambda item: item.message.created_at if isinstance(item, StoredMessage) else item.at,
    )


def _told(job: Job) -> str:
    match job.state:
        case JobState.RUNNING:
            return "is being done"
        case JobState.DEAD:
            return f"was given up: {job.error}"
        case JobState.PENDING:
            return f"failed, and is tried again at {minute(job.due_at)}: {job.error}" if job.error else "waits"
