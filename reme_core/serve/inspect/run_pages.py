"""Pages about work: runs with what they changed, and jobs that wait, run or were given up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from functools import partial

from pydantic import JsonValue
from starlette.responses import Response

from reme_core.errors import RunNotFoundError
from reme_core.ports import EventQuery
from reme_core.schema import Cost, Job, StoredMessage
from reme_core.serve.access import Right
from reme_core.serve.http.handlers import list_jobs
from reme_core.serve.inspect.differences import CHARS_IN_LIST, changes
from reme_core.serve.inspect.time_axis import by_run
from reme_core.serve.inspect.view import View
from reme_core.steps import user_input as inputs
from reme_core.steps.costs import CostBook
from reme_core.steps.message_lines import find_all

_EVENTS = 100
_JOBS = 20
_MESSAGES = 20
_TRIES = timedelta(days=8)  # around a run: its job may have failed before, and is paid for after it has written


async def runs(view: View) -> Response:
    """List what was changed, run by run, the newest first."""
    query = EventQuery(newest_first=True, limit=_EVENTS + 1, before=view.number())
    events = await view.memory.store.events(view.scope, query)
    more = str(events[_EVENTS - 1].sequence) if len(events) > _EVENTS else None
    return view.page("runs", runs=by_run(events[:_EVENTS]), more=view.next_page(more))


async def run(view: View) -> Response:
    """Show what one run changed, and undo it."""
    run_id = inputs.read_id(view.ask("id"), "id")
    query = EventQuery(run_id=run_id, after=view.number() or 0, limit=_EVENTS + 1)
    events = await view.memory.store.events(view.scope, query)
    if not events:
        raise RunNotFoundError([run_id])
    more = str(events[_EVENTS - 1].sequence) if len(events) > _EVENTS else None
    day = events[0].at.date()
    return view.page(
        "run",
        run_id=run_id,
        costs=await _costs(view, run_id, since=day - _TRIES, until=day + _TRIES),
        events=[(event, changes(event.before, event.after, CHARS_IN_LIST)) for event in events[:_EVENTS]],
        more=view.next_page(more),
        writes=view.may(Right.WRITE),
    )


async def jobs(view: View) -> Response:
    """List jobs: what they are given, how often they were tried, why they failed and what the model answered."""
    page = await list_jobs(view.memory, user_id=view.scope.user_id, limit=_JOBS, cursor=view.cursor())
    costs = (await view.memory.costs(**view.whose))[-30:]
    return view.page(
        "jobs",
        jobs=[
            (job, await _given(view, job), await _costs(view, job.run_id, since=job.created_at.date()))
            for job in page.jobs
        ],
        costs=costs,
        more=view.next_page(page.next_cursor),
        writes=view.may(Right.WRITE),
        drops=view.may(Right.ADMIN),
    )


async def _costs(view: View, run_id: str, *, since: date, until: date | None = None) -> list[Cost]:
    """Return what models cost for a run by day, the tries of its job that failed included."""
    book, scope = CostBook(view.memory.store, view.memory.clock), view.scope
    return await book.read(scope.memory_space, user_id=scope.user_id, since=since, until=until, run_id=run_id)


async def _given(view: View, job: Job) -> list[StoredMessage]:
    """Return the first messages that a job is about."""
    block_ids = [name for name in _texts(job.payload, "block_ids", "blocks") if name]
    found = []
    for block in await find_all(partial(view.memory.store.get_blocks, view.scope), block_ids[:3]):
        found += list(block.message_ids)
    return await find_all(partial(view.memory.get_messages, **view.whose), found[:_MESSAGES])


def _texts(payload: Mapping[str, JsonValue], *names: str) -> list[str]:
    values = next((payload[name] for name in names if isinstance(payload.get(name), list)), [])
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
