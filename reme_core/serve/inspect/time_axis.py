"""Time axis of a user: messages, memories, runs and jobs as marks, the newest part first; for pages and for files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reme_core.facade.reme import ReMe
from reme_core.ports import EventQuery, FindMessages, ListMemories, MemoryFilter
from reme_core.schema import STATEMENTS, Event, Job, Memory, MemoryType, Scope, StoredMessage
from reme_core.serve.inspect.pictures import Mark, Shape, Timeline, timeline

_ON_AXIS = 80
_MEMORIES = 120
_EVENTS = 120
_LAST_EVENTS = 40
_LABEL = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAxis:
    """Which part of a time axis is asked for; None means any.

    Attributes:
        types: Memories of these types, and no messages.
        session: Messages of this session, and memories that rest on them.
        as_of: Memories that did not hold at this time are hollow; by default those that were replaced.
        cursor: From the part before, with the time at which that begins.
        until: See `cursor`.
    """

    types: tuple[MemoryType, ...] | None = None
    session: str | None = None
    as_of: datetime | None = None
    cursor: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """A part of a time axis.

    Attributes:
        said: Its messages, the newest first.
        made: Its memories, the newest first.
        picture: All of it as marks; None where there is nothing.
        cursor: Of the part before it; None: there is none.
        begin: Where it begins; None: at the beginning.
    """

    said: Sequence[StoredMessage]
    made: Sequence[Memory]
    picture: Timeline | None
    cursor: str | None
    begin: datetime | None


async def read_axis(memory: ReMe, scope: Scope, asked: AskedAxis, link: Callable[..., str]) -> TimeAxis:
    """Read a part of a time axis; `link` makes the address that a mark leads to."""
    query = FindMessages(session_id=asked.session, limit=_ON_AXIS, newest_first=True, cursor=asked.cursor)
    page = await memory.store.find_messages(scope, query)
    begin = min((item.message.created_at for item in page.messages), default=None) if page.next_cursor else None
    said = page.messages if asked.types is None else ()
    made = await made_in(memory, scope, begin, asked.until, asked.types)
    if asked.session is not None:
        ids = {item.message.message_id for item in page.messages}
        made = [item for item in made if not ids.isdisjoint(rests_on(item))]
    is_newest = asked.cursor is None and asked.session is None
    events = await _events(memory, scope, made, asked.types, is_newest=is_newest)
    jobs = await memory.store.list_jobs(scope) if is_newest else []
    lanes = {
        "said": [_said_mark(link, item) for item in said],
        "remembered": [_memory_mark(link, item, asked.as_of) for item in made],
        "runs": [_run_mark(link, run_id, group) for run_id, group in by_run(events)],
        "jobs": [_job_mark(link, job) for job in jobs[:_EVENTS]],
    }
    return TimeAxis(said=said, made=made, picture=_picture(lanes, asked.as_of), cursor=page.next_cursor, begin=begin)


async def made_in(
    memory: ReMe,
    scope: Scope,
    begin: datetime | None,
    end: datetime | None,
    types: tuple[MemoryType, ...] | None = None,
) -> Sequence[Memory]:
    """Return memories of what was said in a time, its end included, replaced ones too."""
    wanted = MemoryFilter(
        types=STATEMENTS if types is None else types,
        include_superseded=True,
        observed_from=begin,
        observed_to=None if end is None else end + timedelta(microseconds=1),
    )
    return (await memory.store.list_memories(scope, ListMemories(filter=wanted, limit=_MEMORIES))).memories


def rests_on(memory: Memory) -> set[str]:
    """Return the ids of the messages that a memory rests on."""
    return {name for source in memory.sources for name in source.message_ids}


def by_run(events: Sequence[Event]) -> list[tuple[str | None, list[Event]]]:
    """Group events that follow each other in one run."""
    groups: list[tuple[str | None, list[Event]]] = []
    for event in events:
        if groups and event.run_id is not None and groups[-1][0] == event.run_id:
            groups[-1][1].append(event)
        else:
            groups.append((event.run_id, [event]))
    return groups


async def _events(
    memory: ReMe, scope: Scope, made: Sequence[Memory], types: tuple[MemoryType, ...] | None, *, is_newest: bool
) -> list[Event]:
    """Return what became of memories, and of the newest part what happened last; the newest first."""
    about = EventQuery(memory_ids=tuple(item.memory_id for item in made), limit=_EVENTS)
    events = await memory.store.events(scope, about) if made else []
    if is_newest:
        last = EventQuery(newest_first=True, limit=_LAST_EVENTS, types=types)
        events = [*events, *await memory.store.events(scope, last)]
    return sorted({event.sequence: event for event in events}.values(), key=lambda event: -event.sequence)


def _picture(lanes: Mapping[str, Sequence[Mark]], as_of: datetime | None) -> Timeline | None:
    told = (lanes["said"], lanes["remembered"])  # runs of later, as of an import, stand at the edge
    times = sorted(mark.at for marks in (told if any(told) else lanes.values()) for mark in marks)
    return timeline(lanes, times[0], times[-1], as_of) if times else None


def _said_mark(link: Callable[..., str], item: StoredMessage) -> Mark:
    message = item.message
    label = f"{message.created_at:%Y-%m-%d %H:%M} {message.speaker}: {_cut(message.full_text)}"
    shape: Shape = "circle" if message.role == "user" else "square"
    return Mark(message.created_at, shape, label, link("message", id=message.message_id))


def _memory_mark(link: Callable[..., str], item: Memory, as_of: datetime | None) -> Mark:
    held = item.is_current if as_of is None else item.holds_at(as_of)
    state = "" if held else " (replaced)" if as_of is None else " (did not hold then)"
    label = f"{item.observed_at:%Y-%m-%d %H:%M} {_cut(item.memory_target)}: {_cut(item.content)}{state}"
    return Mark(item.observed_at, "diamond", label, link("memory", id=item.memory_id), hollow=not held)


def _run_mark(link: Callable[..., str], run_id: str | None, events: Sequence[Event]) -> Mark:
    label = f"{events[0].at:%Y-%m-%d %H:%M} {len(events)} changes by {events[0].actor}"
    to = link("run", id=run_id) if run_id else link("memory", id=events[0].memory_id)
    return Mark(events[0].at, "triangle", label, to)


def _job_mark(link: Callable[..., str], job: Job) -> Mark:
    label = f"{job.created_at:%Y-%m-%d %H:%M} job {job.kind}: {job.state}"
    return Mark(job.created_at, "cross", label, link("jobs"), hollow=job.state != "dead")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LABEL else f"{text[:_LABEL]} …"
