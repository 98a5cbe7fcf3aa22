"""Activity of a scope as it happens: what is said, what becomes of it, and the work between; read by polling.

Any process may write. Each reading costs three queries where nothing happened, however much the scope holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from reme_core.ports import EventQuery, FindMessages, Store
from reme_core.recall.changes import told_events
from reme_core.schema import WATCHED, Event, Job, JobState, MemoryChange, Scope, StoredMessage

_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What has happened since the reading before.

    Attributes:
        messages: What was said, in the order of keeping.
        changes: What became of memories, in order, each change for itself.
        jobs: Work that is new, or stands where it did not stand before.
        ended_jobs: Work that was there at the reading before and is no more: it is done, or was dropped.
    """

    messages: Sequence[StoredMessage] = ()
    changes: Sequence[MemoryChange] = ()
    jobs: Sequence[Job] = ()
    ended_jobs: Sequence[Job] = ()


@dataclass(slots=True, kw_only=True)
class ActivityFeed:
    """Reads a scope again and again; use it from one task.

    Attributes:
        store: Where it is kept.
        scope: Whose it is.
    """

    store: Store
    scope: Scope
    _last_message: str | None = None
    _last_event: int = 0
    _jobs: dict[str, Job] = field(default_factory=dict)

    async def begin(self, since: datetime | None = None) -> Activity:
        """Begin with what follows from here on; return what was said and written since a time, if one is given."""
        newest = await self.store.events(self.scope, EventQuery(newest_first=True, limit=1))
        self._last_event = newest[0].sequence if newest else 0
        page = await self.store.find_messages(self.scope, FindMessages(newest_first=True, limit=1))
        self._last_message = page.messages[0].message.message_id if page.messages else None
        self._jobs = {job.job_id: job for job in await self.store.list_jobs(self.scope)}
        if since is None:
            return Activity()
        events = await self._events(EventQuery(since=since, before=self._last_event + 1))
        said = [item for item in page.messages if item.message.created_at >= since]
        if page.next_cursor is not None:
            said += await self._said(FindMessages(said_from=since, cursor=page.next_cursor))
        return Activity(
            messages=said[::-1],
            changes=await told_events(self.store, self.scope, events),
            jobs=tuple(self._jobs.values()),
        )

    async def read(self) -> Activity:
        """Return what has happened since this was asked last."""
        # Events before messages: what is made of a message is never told before it.
        events = await self._events(EventQuery(after=self._last_event))
        known, self._jobs = self._jobs, {job.job_id: job for job in await self.store.list_jobs(self.scope)}
        said = await self._said(FindMessages())
        if events:
            self._last_event = events[-1].sequence
        if said:
            self._last_message = said[0].message.message_id
        return Activity(
            messages=said[::-1],
            changes=await told_events(self.store, self.scope, events),
            jobs=[job for name, job in self._jobs.items() if name not in known or _stands(job) != _stands(known[name])],
            ended_jobs=[job for name, job in known.items() if name not in self._jobs],
        )

    async def _events(self, query: EventQuery) -> list[Event]:
        """Return the events of memories that a query asks for, memory blocks among them, in order."""
        events: list[Event] = []
        query = replace(query, types=WATCHED, limit=_PAGE)
        while page := await self.store.events(self.scope, query):
            events += page
            query = replace(query, after=page[-1].sequence)
        return events

    async def _said(self, query: FindMessages) -> list[StoredMessage]:
        """Return what was said after the last message that was told, newest first."""
        query = replace(query, newest_first=True, limit=_PAGE)
        said: list[StoredMessage] = []
        while True:
            page = await self.store.find_messages(self.scope, query)
            for item in page.messages:
                if item.message.message_id == self._last_message:
                    return said
                said.append(item)
            if page.next_cursor is None:
                return said
            query = replace(query, cursor=page.next_cursor)


def _stands(job: Job) -> tuple[JobState, int, str]:
    return job.state, job.attempts, job.error
