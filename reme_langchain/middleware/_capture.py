"""Capture of a thread's messages into the memory, and of those left in the journal of an earlier release."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from langchain_core.messages import AnyMessage, HumanMessage

from reme_core import Message, ReMe, SqlConnection
from reme_core.errors import ConfigurationError, InvalidInputError
from reme_langchain._place import CAPTURED, LEFT, HookContext, internal_calls
from reme_langchain._searching import known_messages
from reme_langchain.messages import from_langchain, untimed
from reme_langchain.middleware._own_messages import is_cut, said

_LOG = logging.getLogger("reme")


# The newest messages of a session among which a conversation that is handed in again is looked for.
_LOOKED_AT = 1_000


def behind(messages: Sequence[AnyMessage], cursor: str | None) -> list[AnyMessage]:
    """Return what was said after the last captured message; all of it where that is gone."""
    begin = 0
    for place in range(len(messages) - 1, -1, -1):
        if cursor is not None and messages[place].id == cursor:
            begin = place + 1
            break
    return [message for message in said(messages[begin:]) if not is_cut(message)]


def left_over(messages: Sequence[AnyMessage], cursor: str | None) -> list[AnyMessage]:
    """Return what a run left that ended before it was captured: all behind the cursor but what the user says now."""
    waiting = behind(messages, cursor)
    if waiting and isinstance(waiting[-1], HumanMessage):
        waiting.pop()
    return waiting


class LeftOver(NamedTuple):
    """What a user left in a thread that another one goes on with: the messages behind an id, up to another one."""

    user_id: str
    behind: str | None
    until: str | None

    def within(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return those of the messages, none where the last of them is gone."""
        ends = [number for number, message in enumerate(messages) if message.id == self.until]
        return behind(messages[: ends[-1] + 1], self.behind) if ends else []


def find_left(
    messages: Sequence[AnyMessage], place: HookContext, owner: str
) -> tuple[list[AnyMessage], list[LeftOver]]:
    """Return what an earlier run left, and what of it is of other users, with what was not on disk before.

    Args:
        messages: Of the thread.
        place: Whose run begins.
        owner: Whose run the last one was.
    """
    cursor = place.notes.get(CAPTURED)
    left = left_over(messages, cursor)
    others = [LeftOver(*each) for each in json.loads(place.notes.get(LEFT) or "[]")]
    answered = [message.id for message in left if not isinstance(message, HumanMessage)]
    if answered and owner != place.user_id:
        others.append(LeftOver(owner, cursor, answered[-1]))
    return left, others


def note_left(left: Sequence[LeftOver]) -> dict[str, str]:
    """Return the note by which the next run finds what is not on disk yet."""
    return {LEFT: json.dumps(left)}


def session_of(place: HookContext) -> str:
    """Return the name of a user's thread: within it the order is kept."""
    return json.dumps([place.user_id, place.session_id])


def as_said(messages: Sequence[AnyMessage], said_at: datetime) -> list[Message]:
    """Return messages of a thread in the core's form, each id once, said now."""
    taken = {message.message_id: message for message in from_langchain(messages)}
    return [untimed(message.model_copy(update={"created_at": said_at})) for message in taken.values()]


async def append(memory: ReMe, place: HookContext, said: Sequence[Message], *, memory_type: str, begins: bool) -> None:
    """Put messages into the memory; those it has are left alone, also where this is done twice.

    Args:
        memory: The memory.
        place: Whose, and in which thread.
        said: The messages.
        memory_type: What is distilled of them.
        begins: The run begins with them: an earlier one may have brought some of them, under other ids.

    Raises:
        ReMeError: They are not on disk.
    """
    messages = list(said)
    if CAPTURED not in place.notes:  # then an earlier run may have brought some
        if begins and place.has_thread:
            messages = await _without_repeated(memory, place, messages)
        messages = await _without_known(memory, place.user_id, messages)
    if messages:
        with internal_calls():  # here no stream listens, but tracers do
            await memory.summary(
                messages,
                user_id=place.user_id,
                session_id=place.session_id,
                memory_type=memory_type,
                background=True,
                on_conflict="rename",
            )


async def _without_known(memory: ReMe, user_id: str, messages: list[Message]) -> list[Message]:
    """Leave out what is known by its id, in whatever session: of runs without a thread each is a session of its own."""
    stored = await known_messages(memory, user_id, [message.message_id for message in messages])
    known = {item.message.message_id: item.message for item in stored}
    return [
        message
        for message in messages
        if (same := known.get(message.message_id)) is None
        or (same.role, same.apart()[0].content) != (message.role, message.apart()[0].content)
    ]


async def _without_repeated(memory: ReMe, place: HookContext, messages: list[Message]) -> list[Message]:
    """Leave out the beginning of a conversation that its caller hands in with each run, under other ids each time.

    Without a checkpointer LangGraph names messages anew that have no ids. What is known by its id is left to the
    memory, and what nobody has said in words, such as a tool's call, is often not handed in again.
    """
    ids = {message.message_id for message in messages}
    page = await memory.find_messages(
        user_id=place.user_id, session_id=place.session_id, limit=_LOOKED_AT, newest_first=True
    )
    stored = [item.message for item in reversed(page.messages) if item.message.message_id not in ids]
    heard = [_words(message) for message in stored if _words(message)]
    worded = [(place, words) for place, message in enumerate(messages) if (words := _words(message))]
    longest = 0
    for begin in range(len(heard)):
        pairs = zip(heard[begin:], worded, strict=False)
        same = next((count for count, (one, (_, other)) in enumerate(pairs) if one != other), None)
        longest = max(longest, min(len(heard) - begin, len(worded)) if same is None else same)
    return messages[worded[longest - 1][0] + 1 :] if longest else messages


def _words(message: Message) -> tuple[str, str] | None:
    is_worded = message.role in {"user", "assistant"} and message.text.strip()
    return (message.role, message.text.strip()) if is_worded else None


_TABLE = "langchain_journal"


async def deliver_old(memory: ReMe) -> None:
    """Put into the memory what its file has of captured turns on their way, in their order.

    Raises:
        ReMeError: Some of it is not in the memory yet; do it again.
    """
    try:
        database = memory.database
    except ConfigurationError:  # nothing of this memory lies in a file of ours
        return
    space = memory.memory_space
    for place, payload in await database.read(partial(_read, f"capture:{space}"), within=space):
        try:
            await _deliver(memory, payload)
        except (InvalidInputError, ValueError, TypeError, KeyError) as exc:
            _LOG.error(
                "a turn that an earlier release has captured can't be read, and is left out: %s", type(exc).__name__
            )
        await database.write(partial(_remove, place), within=space, settled=False)


async def _deliver(memory: ReMe, payload: bytes) -> None:
    read = json.loads(payload)
    user_id, session_id, memory_type = (str(read[key]) for key in ("user_id", "session_id", "memory_type"))
    await memory.summary(
        [untimed(Message.model_validate(item)) for item in read["messages"]],
        user_id=user_id,
        session_id=session_id,
        memory_type=memory_type,
        background=True,
        on_conflict="rename",
    )


def _read(name: str, connection: SqlConnection) -> list[tuple[int, bytes]]:
    if not connection.dialect.is_file:  # there were no servers then
        return []
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone() is None:
        return []
    return connection.execute(
        f"SELECT place, payload FROM {_TABLE} WHERE name = ? AND payload IS NOT NULL ORDER BY place",  # noqa: S608  # ours
        (name,),
    ).fetchall()


def _remove(place: int, connection: SqlConnection) -> None:
    connection.execute(f"DELETE FROM {_TABLE} WHERE place = ?", (place,))  # noqa: S608  # as above
