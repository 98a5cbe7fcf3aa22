"""Pages about what was said: the timeline, sessions, and what was made of each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from reme_core.errors import ConfigurationError
from reme_core.ports import EventQuery, ListMemories, MemoryFilter
from reme_core.schema import STATEMENTS, Event, Job, Memory, MemoryType, StoredMessage
from reme_core.serve.inspect.memory_pages import by_run
from reme_core.serve.inspect.pictures import Mark, Shape, Timeline
from reme_core.serve.inspect.pictures import timeline as place
from reme_core.serve.inspect.view import View
from reme_core.steps import user_input as inputs
from reme_core.stores.sql.bookkeeping import SessionRow, list_sessions

_ON_AXIS = 80
_MEMORIES = 120
_EVENTS = 120
_LAST_EVENTS = 40
_SESSIONS = 40
_MESSAGES = 40
_LABEL = 90


async def timeline(view: View) -> Response:
    """Show messages, memories, runs and jobs on one axis of time, the newest part first."""
    session, kind = view.ask("session"), view.ask("type")
    types = inputs.read_types(kind or "auto")
    page = await view.memory.find_messages(
        **view.whose, session_id=session or None, limit=_ON_AXIS, newest_first=True, cursor=view.cursor()
    )
    said = [] if kind else list(page.messages)
    is_first, now = view.cursor() is None, view.memory.clock.now()
    begin = min((item.message.created_at for item in page.messages), default=None)
    end = None if is_first else max((item.message.created_at for item in page.messages), default=now)
    made = [] if session else await made_in(view, begin, end, types)
    events = [] if session else await _events(view, made, types, is_newest=is_first)
    jobs = await view.memory.list_jobs(**view.whose) if is_first and not session else []
    as_of = view.ask_time("as_of")
    lanes = {
        "said": [_said_mark(view, item) for item in said],
        "remembered": [_memory_mark(view, item, as_of) for item in made],
        "runs": [_run_mark(view, run_id, group) for run_id, group in by_run(events)],
        "jobs": [_job_mark(view, job) for job in jobs[:_EVENTS]],
    }
    return view.page(
        "timeline",
        picture=_picture(lanes, as_of),
        said=said,
        made=made,
        as_of=as_of,
        types=list(MemoryType),
        more=view.next_page(page.next_cursor),
    )


async def _events(
    view: View, made: Sequence[Memory], types: tuple[MemoryType, ...] | None, *, is_newest: bool
) -> list[Event]:
    """Return what became of memories, and where the page is the newest, what happened last; the newest first."""
    about = EventQuery(memory_ids=tuple(item.memory_id for item in made), limit=_EVENTS)
    events = await view.memory.store.events(view.scope, about) if made else []
    if is_newest:
        last = EventQuery(newest_first=True, limit=_LAST_EVENTS, types=types)
        events = [*events, *await view.memory.store.events(view.scope, last)]
    return sorted({event.sequence: event for event in events}.values(), key=lambda event: -event.sequence)


def _picture(lanes: Mapping[str, Sequence[Mark]], as_of: datetime | None) -> Timeline | None:
    told = (lanes["said"], lanes["remembered"])  # runs of later, as of an import, stand at the edge
    times = sorted(mark.at for marks in (told if any(told) else lanes.values()) for mark in marks)
    return place(lanes, times[0], times[-1], as_of) if times else None


async def made_in(
    view: View, begin: datetime | None, end: datetime | None, types: tuple[MemoryType, ...] | None = None
) -> tuple[Memory, ...]:
    """Return memories of what was said in a time, replaced ones too."""
    wanted = MemoryFilter(
        types=STATEMENTS if types is None else types,
        include_superseded=True,
        observed_from=begin,
        observed_to=None if end is None else end + timedelta(microseconds=1),
    )
    page = await view.memory.store.list_memories(view.scope, ListMemories(filter=wanted, limit=_MEMORIES))
    return page.memories


def _said_mark(view: View, item: StoredMessage) -> Mark:
    message = item.message
    label = f"{message.created_at:%Y-%m-%d %H:%M} {message.speaker}: {_cut(message.full_text)}"
    shape: Shape = "circle" if message.role == "user" else "square"
    return Mark(message.created_at, shape, label, view.link("message", id=message.message_id))


def _memory_mark(view: View, item: Memory, as_of: datetime | None) -> Mark:
    held = item.is_current if as_of is None else item.holds_at(as_of)
    state = "" if held else " (replaced)" if as_of is None else " (did not hold then)"
    label = f"{item.observed_at:%Y-%m-%d %H:%M} {item.memory_target}: {_cut(item.content)}{state}"
    return Mark(item.observed_at, "diamond", label, view.link("memory", id=item.memory_id), hollow=not held)


def _run_mark(view: View, run_id: str | None, events: Sequence[Event]) -> Mark:
    label = f"{events[0].at:%Y-%m-%d %H:%M} {len(events)} changes by {events[0].actor}"
    to = view.link("run", id=run_id) if run_id else view.link("memory", id=events[0].memory_id)
    return Mark(events[0].at, "triangle", label, to)


def _job_mark(view: View, job: Job) -> Mark:
    label = f"{job.created_at:%Y-%m-%d %H:%M} job {job.kind}: {job.state}"
    return Mark(job.created_at, "cross", label, view.link("jobs"), hollow=job.state != "dead")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LABEL else f"{text[:_LABEL]} …"


async def sessions(view: View) -> Response:
    """List sessions, the newest first."""
    try:
        database = view.memory.database
    except ConfigurationError:  # a store of somebody else, which lists no sessions
        return view.page("sessions", sessions=[], more=None)
    before = view.number()
    rows: list[SessionRow] = await database.read(
        lambda c: list_sessions(c, view.scope, before, _SESSIONS + 1), within=view.scope
    )
    more = str(rows[_SESSIONS - 1].number) if len(rows) > _SESSIONS else None
    return view.page("sessions", sessions=[_timed(row) for row in rows[:_SESSIONS]], more=view.next_page(more))


def _timed(row: SessionRow) -> dict[str, object]:
    first, last = (
        None if moment is None else datetime.fromtimestamp(moment, UTC) for moment in (row.first_at, row.last_at)
    )
    return {"id": row.session_id, "messages": row.messages, "first": first, "last": last}


async def session(view: View) -> Response:
    """Show the messages of a session in their order, each with what was made of it."""
    session_id = inputs.read_id(view.ask("id"), "id")
    page = await view.memory.find_messages(**view.whose, session_id=session_id, limit=_MESSAGES, cursor=view.cursor())
    made = await _made_of(view, page.messages)
    block_ids = list(dict.fromkeys(item.block_id for item in page.messages if item.block_id is not None))
    blocks = await view.memory.store.get_blocks(view.scope, block_ids)
    return view.page(
        "session",
        session_id=session_id,
        messages=[(item, made.get(item.message.message_id, [])) for item in page.messages],
        blocks={block.block_id: block for block in blocks},
        more=view.next_page(page.next_cursor),
    )


async def _made_of(view: View, messages: Sequence[StoredMessage]) -> dict[str, list[Memory]]:
    """Return the memories of messages by the messages that they rest on."""
    times = [item.message.created_at for item in messages]
    made: dict[str, list[Memory]] = {}
    for item in await made_in(view, min(times), max(times)) if times else ():
        for name in {name for source in item.sources for name in source.message_ids}:
            made.setdefault(name, []).append(item)
    return made


async def message(view: View) -> Response:
    """Show one message with what was made of it."""
    [item] = await view.memory.get_messages([inputs.read_id(view.ask("id"), "id")], **view.whose)
    made = await _made_of(view, [item])
    return view.page("message", item=item, made=made.get(item.message.message_id, []))
