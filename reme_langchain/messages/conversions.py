"""Messages of LangChain as ours, and back.

What a `Message` has no place for (ids and texts that the core can't keep, the form of content lists, artifact, usage,
`additional_kwargs`, `response_metadata`) is carried in its metadata under `langchain`, or in a block that nobody reads
where metadata can't hold it. So a message comes back as it was, with these exceptions:

- A message without an id comes back with the random one that it was given.
- Values that are not JSON, as an artifact may hold them, come back as JSON: tuples as lists, pydantic models as
  objects, other objects, and what is nested deeper than 64 levels, as a short text. Nothing is pickled.
- A chunk comes back as the message that it is a chunk of, a subclass as its base.
- What does not fit into 8 MiB is left out, and a note says so.

Where the core has changed a block since, the changed one comes back. Of messages that never were LangChain's, the time
and the metadata have no place in LangChain and are not handed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from langchain_core.messages import (
    BaseMessage,
    MessageLikeRepresentation,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langchain_core.prompt_values import PromptValue

from reme_core.errors import InvalidInputError
from reme_core.schema import Message, shown
from reme_langchain.messages._read_message import read_message
from reme_langchain.messages._write_message import write_message


def from_langchain(messages: Iterable[MessageLikeRepresentation] | PromptValue) -> list[Message]:
    """Return messages of LangChain in our form; nothing that is handed in is changed.

    Args:
        messages: Messages, dictionaries, `(role, text)` pairs and texts of the user. A `RemoveMessage` is passed over.

    Raises:
        InvalidInputError: LangChain can't read one of them; names it.
    """
    if isinstance(messages, PromptValue):
        messages = messages.to_messages()
    given: object = messages
    if isinstance(given, str | bytes | Mapping | BaseMessage) or not isinstance(given, Iterable):
        msg = f"messages: wanted a list of messages, found {type(given).__name__}: put it into a list"
        raise InvalidInputError(msg)
    read = (_coerce(item, place) for place, item in enumerate(messages))
    return [read_message(message) for message in read if not isinstance(message, RemoveMessage)]


def to_langchain(messages: Iterable[Message]) -> list[BaseMessage]:
    """Return messages in LangChain's form, each with its id, independent of ours.

    One of ours that answers several tool calls, or says something beside an answer, becomes several: the first keeps
    the id, the others add `-1`, `-2` to it.

    Raises:
        InvalidInputError: Something in the list is not a `Message`.
    """
    written: list[BaseMessage] = []
    items: Iterable[object] = messages
    for place, message in enumerate(items):
        if not isinstance(message, Message):
            msg = f"messages[{place}]: wanted a Message of reme, found {shown(message)}"
            raise InvalidInputError(msg)
        written += write_message(message)
    return written


def _coerce(item: MessageLikeRepresentation, place: int) -> BaseMessage:
    try:
        [message] = convert_to_messages([item])
        return message_chunk_to_message(message)
    # What LangChain raises for dictionaries of a wrong form is not stated, and depends on what is wrong.
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as exc:
        msg = f"messages[{place}]: LangChain can't read {shown(item)}: {type(exc).__name__}: {str(exc)[:200]}"
        raise InvalidInputError(msg) from exc
