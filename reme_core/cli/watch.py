"""The command that shows a memory in a terminal as it happens: what was said, made of it, and replaced."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field

from reme_core.cli.options import CommonOptions, Whose, with_common_options
from reme_core.cli.output import Output, minute
from reme_core.facade.reme import ReMe
from reme_core.schema import Event, EventKind, StoredMessage, make_scope

_PAGE = 100
_PAUSE_S = 1.0
_SIGNS = {EventKind.ADD: "+", EventKind.DELETE: "-", EventKind.SUPERSEDE: "x"}


@dataclass(slots=True)
class Watcher:
    """Tells what came since it looked last."""

    memory: ReMe
    whose: Whose
    _seen: set[str] = field(default_factory=set)
    _sequence: int = 0

    async def begin(self) -> None:
        """Take what is there as seen."""
        page = await self.memory.find_messages(**self.whose, limit=_PAGE, newest_first=True)
        self._seen = {item.message.message_id for item in page.messages}
        newest = await self._events(newest_first=True, limit=1)
        self._sequence = newest[0].sequence if newest else 0

    async def look(self) -> tuple[list[StoredMessage], list[Event]]:
        """Return the messages that came, and the changes of memories, each oldest first."""
        events = await self._events(after=self._sequence)
        said: list[StoredMessage] = []
        cursor: str | None = None
        while True:
            page = await self.memory.find_messages(**self.whose, limit=_PAGE, newest_first=True, cursor=cursor)
            said += [item for item in page.messages if item.message.message_id not in self._seen]
            cursor = page.next_cursor
            if cursor is None or any(item.message.message_id in self._seen for item in page.messages):
                break
        self._sequence = events[-1].sequence if events else self._sequence
        self._seen |= {item.message.message_id for item in said}
        return said[::-1], events

    async def _events(self, *, after: int = 0, newest_first: bool = False, limit: int = 1000) -> list[Event]:
        from reme_core.ports import EventQuery  # noqa: PLC0415  # help is shown without it

        query = EventQuery(after=after, newest_first=newest_first, limit=limit)
        return await self.memory.store.events(make_scope(self.memory.memory_space, **self.whose), query)


@with_common_options
async def watch(where: CommonOptions, output: Output) -> int:
    """Show what is said, what is made of it and what that replaces, as it happens; Ctrl-C ends it."""
    async with where.existing() as (memory, whose):
        watcher = Watcher(memory, whose)
        await watcher.begin()
        output.remark("waiting for what happens; Ctrl-C ends it")
        while True:
            said, events = await watcher.look()
            for item in said:
                print_said(output, item)
            for event in events:
                print_event(output, event)
            sys.stdout.flush()
            await asyncio.sleep(_PAUSE_S)


def print_said(output: Output, item: StoredMessage) -> None:
    """Print a message."""
    if output.as_json:
        output.value(item.model_dump(mode="json"))
    else:
        output.line(minute(item.message.created_at), f"{item.message.speaker}:", item.message.full_text)


def print_event(output: Output, event: Event) -> None:
    """Print a change of a memory."""
    if output.as_json:
        output.value(event.model_dump(mode="json"))
        return
    memory = event.after or event.before
    if memory is not None:
        about = f"{memory.memory_type} / {memory.memory_target}:"
        output.line(minute(event.at), _SIGNS.get(event.operation, "~"), about, memory.content, style="bold")
