"""The talk that a request brings: its messages under ids that stay the same when the client sends them again.

A client of chat completions sends the whole conversation each time, without ids. The id of a message follows from the
session, the message before it and what it says: so what was recorded is known again, and a conversation that takes
another turn halfway has other ids from there on.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.schema import FileBlock, ImageBlock, Message, is_embedded, parse_messages
from reme_core.schema.plain import clean_json
from reme_core.steps.user_input import read_id

MAX_MESSAGES = 10_000
"""Of one request: with a client that sends all of them each time, each costs something each time."""
PARTIAL = "reme_partial"
"""In the metadata of an answer that broke off: the client left, or the model did."""

_INSTRUCTIONS = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A conversation as a request brings it.

    Attributes:
        session_id: The session, by its header or by the first message that is no instruction.
        messages: All that was said, in order; instructions of the application are none of it.
        question: What the user said last, after the last answer; empty where there is nothing.
        place: Where in the request's messages the last one of the user stands; None where there is none.
    """

    session_id: str
    messages: tuple[Message, ...]
    question: str
    place: int | None

    def answered(self, answer: Mapping[str, JsonValue], *, is_partial: bool) -> Message | None:
        """Return the answer as the message that follows; None where it says nothing."""
        if not answer.get("content") and not answer.get("tool_calls"):
            return None
        [message] = _parsed([{**answer, "role": "assistant"}])
        before = self.messages[-1].message_id if self.messages else ""
        metadata: dict[str, JsonValue] = {PARTIAL: True} if is_partial else {}
        return _named(message, self.session_id, before).model_copy(update={"metadata": metadata})


def read_talk(messages: object, session: str | None) -> Talk:
    """Read the messages of a request.

    Raises:
        InvalidInputError: They can't be read, or the session's name can't be one.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        msg = "messages: wanted a list"
        raise InvalidInputError(msg)
    if len(messages) > MAX_MESSAGES:
        msg = f"messages: {len(messages)} of them are more than {MAX_MESSAGES}"
        raise InvalidInputError(msg)
    said = _parsed([message for message in messages if not is_instruction(message)])
    session_id = read_id(session, "X-Reme-Session") if session is not None else _session_of(said)
    named: list[Message] = []
    for message in said:
        named.append(_named(message, session_id, named[-1].message_id if named else ""))
    places = [place for place, message in enumerate(messages) if _role(message) == "user"]
    return Talk(
        session_id=session_id,
        messages=tuple(named),
        question=_question(named),
        place=places[-1] if places else None,
    )


def is_instruction(message: object) -> bool:
    """Tell whether a message of a request is one of the application, which nobody has said."""
    return _role(message) in _INSTRUCTIONS


def _parsed(messages: list[JsonValue]) -> tuple[Message, ...]:
    """Read messages (InvalidInputError); what no store keeps, such as half of an emoji, is replaced."""
    try:
        return parse_messages(clean_json(messages))
    except RecursionError:
        msg = "messages: lie too deep in one another"
        raise InvalidInputError(msg) from None


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, Mapping) else None


def _session_of(said: Sequence[Message]) -> str:
    return _id_of(["session", *map(_words, said[:1])])


def _named(message: Message, session_id: str, before: str) -> Message:
    named = message.model_copy(update={"message_id": _id_of([session_id, before, _words(message)])})
    named.model_fields_set.discard("created_at")  # the client told no time: said again, it is the same message
    return named


def _words(message: Message) -> str:
    """Return what makes a message the same when it is sent again: who said what, however it is laid out."""
    said = [message.role, message.name, message.full_text.strip(), *message.call_ids, *message.result_ids]
    media = (block for block in message.content if isinstance(block, (ImageBlock, FileBlock)))
    shown = (block.url.encode() for block in media if is_embedded(block.url))  # which its text doesn't tell apart
    return json.dumps([*said, *(hashlib.sha256(url).hexdigest() for url in shown)])


def _id_of(parts: Sequence[str]) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(parts)).hex


def _question(said: Sequence[Message]) -> str:
    """Return what the user said last; within a loop of tools, what began it."""
    words: list[str] = []
    for message in reversed(said):
        if message.role == "user":
            words.append(message.text)
        elif words:
            break
    return "\n".join(reversed(words)).strip()
