"""Messages in our form, each converted once: a context is handed in with every call of the model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import datetime

from langchain_core.messages import AIMessage, BaseMessage

from reme_core import Message
from reme_langchain.messages import from_langchain
from reme_langchain.middleware._own_messages import without_note

_REMEMBERED = 8_192
# Tokens of anything that is no text, and around a message: more than they take.
_OTHER_TOKENS, _AROUND_TOKENS = 5_000, 32


class ConvertedMessages:
    """Remembers our form of the messages read last, so that each is converted once. Threads may share one.

    A message that was loaded from a checkpoint again is another object and an equal one: to compare them takes some
    two percent of the time of a conversion.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._known: OrderedDict[str, tuple[BaseMessage, Message]] = OrderedDict()
        self._gate = threading.Lock()

    def read(self, message: BaseMessage, *, now: datetime) -> Message:
        """Return our form of a message, the same object for the same message."""
        if message.id is None:
            return _converted(message, now)
        with self._gate:
            found = self._known.get(message.id)
        if found is not None and (found[0] is message or found[0] == message):
            return found[1]
        form = _converted(message, now)
        self.remember(message, form)
        return form

    def remember(self, message: BaseMessage, form: Message) -> None:
        """Have a message in this form from now on."""
        if message.id is None:
            return
        with self._gate:
            self._known[message.id] = (message, form)
            self._known.move_to_end(message.id)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


def _converted(message: BaseMessage, now: datetime) -> Message:
    # The memory knows a message again that was cut, and by nothing else that changed.
    [form] = from_langchain([without_note(message)])
    form = form.model_copy(update={"created_at": now})
    form.model_fields_set.discard("created_at")  # nobody said when: said again at another time it is the same
    return form


def most_tokens(text: str) -> int:
    """Return more tokens than a text has: what fits by this needs no counting."""
    return len(text) // 2 + 1 if text.isascii() else 2 * len(text)


def most_tokens_of(message: BaseMessage) -> int:
    """Return more tokens than a message has."""
    tokens = _AROUND_TOKENS
    if isinstance(message.content, str):
        tokens += most_tokens(message.content)
    else:
        for block in message.content:
            text = block if isinstance(block, str) else block.get("text")
            tokens += most_tokens(text) if isinstance(text, str) else _OTHER_TOKENS
    if isinstance(message, AIMessage):
        tokens += sum(_AROUND_TOKENS + most_tokens(str(call["args"])) for call in message.tool_calls)
    return tokens
