"""Handlers of paths that are not just a method of `ReMe`: one thing instead of a list, a page instead of all."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from pydantic import computed_field

from reme_core.errors import InvalidInputError
from reme_core.facade.reme import ReMe
from reme_core.ports import BlockPage, EventQuery, OffloadPage
from reme_core.schema import (
    ChangedMemories,
    Cost,
    Event,
    Job,
    RetrieveResult,
    StoredMessage,
    SummaryPreview,
    make_scope,
    shown,
)
from reme_core.schema.mapping import MappingModel
from reme_core.steps import user_input as inputs
from reme_core.steps.costs import CostBook

T = TypeVar("T", bound=MappingModel)

_MAX_DIGITS = 18  # of a whole number of 64 bits


class EventPage(MappingModel):
    """A page of a memory's history, oldest first; `next_cursor` is None on the last."""

    events: tuple[Event, ...] = ()
    next_cursor: str | None = None


class JobPage(MappingModel):
    """A page of a user's jobs, oldest first; `next_cursor` is None on the last."""

    jobs: tuple[Job, ...] = ()
    next_cursor: str | None = None


class UserPage(MappingModel):
    """A page of users by name; `next_cursor` is None on the last."""

    users: tuple[str, ...] = ()
    next_cursor: str | None = None


class FoundText(RetrieveResult, extra="ignore"):
    """The answer of `retrieve`, with `text`, which is ready for a prompt."""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def text(self) -> str:
        """The results as quoted data: dated, with who said them; "" where nothing was found."""
        return super().text


def with_text(found: RetrieveResult) -> FoundText:
    """Return what was found with its text."""
    return _as(FoundText, found)


class ChangesText(ChangedMemories, extra="ignore"):
    """The answer of `changes`, with `text`, which is ready for a prompt."""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def text(self) -> str:
        """The changes as quoted data, by target: dated, with their reasons; "" where there are none."""
        return super().text


def with_changes_text(found: ChangedMemories) -> ChangesText:
    """Return changes with their text."""
    return _as(ChangesText, found)


class PreviewText(SummaryPreview, extra="ignore"):
    """The answer of `preview_summary`, with `text`, which people read."""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def text(self) -> str:
        """The changes, then what facts were compared with, then what would be left out; quoted as data."""
        return super().text


def with_preview_text(found: SummaryPreview) -> PreviewText:
    """Return a preview with its text."""
    return _as(PreviewText, found)


def _as(form: type[T], found: MappingModel) -> T:
    """Return an answer of the facade in a form that has its fields and more."""
    return form.model_validate(found, from_attributes=True)


async def get_message(memory: ReMe, message_id: str, *, user_id: str) -> StoredMessage:
    """Return a message by its id."""
    [message] = await memory.get_messages([message_id], user_id=user_id)
    return message


async def history(
    memory: ReMe,
    memory_id: str,
    *,
    user_id: str,
    limit: int = 100,
    cursor: str | None = None,
) -> EventPage:
    """Return a page of the changes of a memory, oldest first; also of one that was deleted."""
    scope = make_scope(memory.memory_space, user_id)
    query = EventQuery(memory_id=inputs.read_id(memory_id, "memory_id"), after=_place(cursor), limit=limit + 1)
    events = await memory.store.events(scope, query)
    if not events and cursor is None:
        await memory.get_memory(memory_id, user_id=user_id)
    page = tuple(events[:limit])
    return EventPage(events=page, next_cursor=str(page[-1].sequence) if len(events) > limit else None)


async def list_jobs(memory: ReMe, *, user_id: str, limit: int = 100, cursor: str | None = None) -> JobPage:
    """Return a page of the user's jobs, oldest first: pending, running, and dead ones with the reason."""
    jobs, begin = await memory.list_jobs(user_id=user_id), _place(cursor)
    more = str(begin + limit) if len(jobs) > begin + limit else None
    return JobPage(jobs=tuple(jobs[begin : begin + limit]), next_cursor=more)


async def users_with_jobs(memory: ReMe, *, user_id: str, limit: int = 100, cursor: str | None = None) -> UserPage:
    """Return a page of the users of this memory space that have jobs."""
    users, begin = sorted(await memory.users_with_jobs()), _place(cursor)
    more = str(begin + limit) if len(users) > begin + limit else None
    return UserPage(users=tuple(users[begin : begin + limit]), next_cursor=more)


async def costs_of_users(
    memory: ReMe, *, start_time: datetime | str | None = None, end_time: datetime | str | None = None
) -> list[Cost]:
    """Return what this memory space spent on chat models, by day (UTC), user and purpose.

    Args:
        memory: The memory of the space.
        start_time: From its day on.
        end_time: Up to its day, which is not counted any more.
    """
    since, until = inputs.read_time(start_time, "start_time"), inputs.read_time(end_time, "end_time")
    return await CostBook(memory.store, memory.clock).read(
        memory.memory_space,
        since=None if since is None else since.date(),
        until=None if until is None else until.date(),
    )


async def list_blocks(
    memory: ReMe,
    *,
    user_id: str,
    session_id: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> BlockPage:
    """Return a page of the block index, oldest first."""
    blocks, more = await memory.list_blocks(user_id=user_id, session_id=session_id, limit=limit, cursor=cursor)
    return BlockPage(blocks=tuple(blocks), next_cursor=more)


async def list_offloads(
    memory: ReMe,
    *,
    user_id: str,
    session_id: str | None = None,
    limit: int = 100,
    newest_first: bool = False,
    cursor: str | None = None,
) -> OffloadPage:
    """Return a page of what was offloaded, oldest first unless told otherwise."""
    offloads, more = await memory.list_offloads(
        user_id=user_id, session_id=session_id, limit=limit, newest_first=newest_first, cursor=cursor
    )
    return OffloadPage(offloads=tuple(offloads), next_cursor=more)


def _place(cursor: str | None) -> int:
    """Read the cursor of a list that is counted (InvalidInputError)."""
    if cursor is None:
        return 0
    if cursor.isascii() and cursor.isdigit() and len(cursor) <= _MAX_DIGITS:
        return int(cursor)
    msg = f"cursor: {shown(cursor)} is none of this list: hand in next_cursor of the page before"
    raise InvalidInputError(msg)
