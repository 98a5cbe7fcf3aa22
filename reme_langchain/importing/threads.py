"""Threads of LangGraph's own savers as sessions: all messages that their states have held, each with its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import ValidationError

from reme_core.errors import ReMeError
from reme_core.schema import Message, describe
from reme_core.transfer.importers.foreign_data import text_of, time_of
from reme_core.transfer.importers.items import ImportedItem, ImportedSession, Unreadable
from reme_langchain.importing.foreign_savers import ForeignSaver, checkpoint_keys, foreign_saver
from reme_langchain.messages import read_message

_USER = ("user_id", "langgraph_user_id")
"""Where applications say whose run it is; LangGraph keeps what a run was configured with."""


_DAMAGED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What the library raises for bytes that it didn't write; errors of databases are of neither kind."""

SAFE = JsonPlusSerializer(allowed_msgpack_modules=None)
"""Builds messages and plain values; a value of another class stays as it is written, and no module is imported."""


@dataclass(frozen=True, slots=True)
class LangGraphThreads:
    """The conversations in the channel `messages` of each thread; subgraphs and other channels are left out.

    Attributes:
        place: A file of `SqliteSaver`, or the URL of a database of `PostgresSaver`.
        channel: The channel that holds messages.
    """

    place: str
    channel: str = "messages"
    name: str = "langgraph"

    def items(self) -> Iterator[ImportedItem]:
        """Yield a session a thread; see `ImportSource.items`."""
        with foreign_saver(self.place, SAFE) as saver:
            for thread, keys in groupby(checkpoint_keys(saver, None), key=itemgetter(0)):
                yield from self._thread(saver, thread, [key[2] for key in keys if not key[1]])

    def _thread(self, saver: ForeignSaver, thread: str, checkpoints: Sequence[str]) -> Iterator[ImportedItem]:
        where = f"thread {thread!r:.80}"
        said: dict[str, tuple[BaseMessage, datetime | None]] = {}
        users = set[str]()
        for checkpoint_id in checkpoints:
            try:
                user, at, held = self._read(saver, thread, checkpoint_id)
            except _DAMAGED as exc:
                yield Unreadable(f"{where}, checkpoint {checkpoint_id!r:.80}", f"is damaged: {exc!r:.200}")
                continue
            users |= {user} if user else set()
            for place, message in enumerate(held):
                said.setdefault(message.id or f"place {place}", (message, at))
        messages: list[Message] = []
        for source_id, (message, at) in said.items():
            try:
                messages.append(_message(source_id, message, at))
            except (ReMeError, ValidationError) as exc:
                reason = describe(exc, "message") if isinstance(exc, ValidationError) else str(exc)
                yield Unreadable(f"{where}, message {source_id!r:.80}", reason)
        if len(users) > 1:
            yield Unreadable(where, f"its runs name {len(users)} users: import_checkpoints moves it as it is")
        elif messages:
            yield ImportedSession(source_id=thread, user=next(iter(users), None), messages=messages)
        elif not said:
            yield Unreadable(where, f"has no messages in its channel {self.channel!r}")

    def _read(
        self, saver: ForeignSaver, thread: str, checkpoint_id: str
    ) -> tuple[str | None, datetime | None, list[BaseMessage]]:
        """Return whose run a checkpoint is of, its time, and the messages that its state holds."""
        place = {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
        found = saver.get_tuple({"configurable": place})
        if found is None:
            return None, None, []
        user = next((name for key in _USER if (name := text_of(found.metadata.get(key)))), None)
        return user, time_of(found.checkpoint["ts"]), _messages(found.checkpoint["channel_values"].get(self.channel))


def _messages(value: object) -> list[BaseMessage]:
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, BaseMessage) and not isinstance(item, RemoveMessage)]


def _message(source_id: str, message: BaseMessage, at: datetime | None) -> Message:
    read = read_message(message)
    times: dict[str, object] = {} if at is None else {"created_at": at}
    return read.model_copy(update={"message_id": source_id, **times})
