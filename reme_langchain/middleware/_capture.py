"""Capture of a thread's messages, from the thread into the journal, and from there into the memory."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import datetime

from langchain_core.messages import AnyMessage, HumanMessage

from reme_core import Message, ReMe
from reme_core.errors import ConflictError, CorruptDataError, PartialFailureError
from reme_langchain._journal import Entry
from reme_langchain._place import HookContext
from reme_langchain._searching import known_messages
from reme_langchain.messages import from_langchain
from reme_langchain.middleware._own_messages import is_cut, said

# In the metadata of a message whose own id is taken by another one, as the core writes it.
_ORIGINAL_ID = "reme_original_id"
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


def queue_of(place: HookContext) -> str:
    """Return the queue of a thread: within it the order is kept."""
    return json.dumps([place.user_id, place.session_id])


def pack(
    place: HookContext, messages: Sequence[AnyMessage], *, memory_type: str, said_at: datetime, again: bool
) -> bytes:
    """Return messages of a thread as an entry of the journal; `again`: an earlier run may have captured them."""
    taken: dict[str, Message] = {}
    for message in from_langchain(messages):
        taken[message.message_id] = message.model_copy(update={"created_at": said_at})
    head = {"user_id": place.user_id, "session_id": place.session_id, "memory_type": memory_type, "again": again}
    bodies = ",".join(message.model_dump_json() for message in taken.values())
    return f'{json.dumps(head)[:-1]}, "messages": [{bodies}]}}'.encode()


async def deliver(memory: ReMe, entry: Entry) -> None:
    """Put messages into the memory; those it has are left alone.

    Raises:
        ReMeError: They are not on disk; the journal hands them in again.
        CorruptDataError: The entry is not one that we wrote.
    """
    try:
        read = json.loads(entry.payload)
        user_id, session_id, memory_type = (str(read[key]) for key in ("user_id", "session_id", "memory_type"))
        messages = [untimed(Message.model_validate(item)) for item in read["messages"]]
        again = read.get("again") is True
    except (ValueError, TypeError, KeyError) as exc:
        msg = f"entry {entry.entry_id!r:.80} of the journal can't be read: {exc}"
        raise CorruptDataError(msg) from exc
    if again:
        messages = await _without_repeated(memory, user_id, session_id, messages)
    for attempt in range(2 if messages else 0):
        try:
            await memory.summary(
                messages, user_id=user_id, session_id=session_id, memory_type=memory_type, background=True
            )
        except PartialFailureError:
            return  # they are on disk, and the memory itself tries the rest again
        except ConflictError:
            if attempt:
                raise
            messages = await _without_conflicts(memory, user_id, session_id, messages)
            if not messages:
                return
        else:
            return


def untimed(message: Message) -> Message:
    """Return a message whose time is ours, not its sender's: the same said again at another time is the same."""
    message.model_fields_set.discard("created_at")
    return message


async def _without_repeated(memory: ReMe, user_id: str, session_id: str, messages: list[Message]) -> list[Message]:
    """Leave out the beginning of a conversation that its caller hands in with each run, under other ids each time.

    Without a checkpointer LangGraph names messages anew that have no ids. What is known by its id is left to the
    memory, and what nobody has said in words, such as a tool's call, is often not handed in again.
    """
    ids = {message.message_id for message in messages}
    page = await memory.find_messages(user_id=user_id, session_id=session_id, limit=_LOOKED_AT, newest_first=True)
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


async def _without_conflicts(memory: ReMe, user_id: str, session_id: str, messages: Sequence[Message]) -> list[Message]:
    """Leave out what was captured in another thread (a copy of it, say), and rename what was edited under its id."""
    ids = [message.message_id for message in messages]
    known = {stored.message.message_id: stored for stored in await known_messages(memory, user_id, ids)}
    kept = []
    for message in messages:
        stored = known.get(message.message_id)
        if stored is None or (stored.session_id == session_id and message.repeats(stored.message)):
            kept.append(message)
        elif (stored.message.role, stored.message.content) != (message.role, message.content):
            kept.append(_renamed(message, session_id))
    return kept


def _renamed(message: Message, session_id: str) -> Message:
    """Return a message under an id that follows from what it says: handed in again, it is known."""
    name = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([session_id, message.message_id, message.full_text])).hex
    metadata = {**message.metadata, _ORIGINAL_ID: message.message_id}
    return untimed(message.model_copy(update={"message_id": name, "metadata": metadata}))
