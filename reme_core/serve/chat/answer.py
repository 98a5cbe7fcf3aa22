"""The answer of a model, put together from what passes through: one JSON object, or the pieces of a stream.

Source: https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from reme_core.schema import Usage

_MAX_BYTES = 8 << 20
# Of one answer and its prompt: far more than any model's window.
_MAX_TOKENS = 1 << 40
DONE = b"[DONE]"


@dataclass(slots=True)
class AnswerReader:
    """Reads along. What is no answer, or more than 8 MiB, makes it partial; it never fails.

    Attributes:
        is_stream: Whether the pieces are those of an event stream.
        is_whole: Whether the answer has come to its end.
    """

    is_stream: bool = False
    is_whole: bool = False
    _usage: Mapping[str, JsonValue] = field(default_factory=dict)
    _kept: bytearray = field(default_factory=bytearray)
    _taken: int = 0
    _texts: list[str] = field(default_factory=list)
    _calls: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def is_between_events(self) -> bool:
        """Whether a line of our own would not fall into one of the model's."""
        return not self._kept

    @property
    def spent(self) -> Usage:
        """What the model says that the answer took; a number that can't be one counts as none."""
        return Usage(
            model_calls=1,
            prompt_tokens=_tokens(self._usage.get("prompt_tokens")),
            completion_tokens=_tokens(self._usage.get("completion_tokens")),
        )

    def feed(self, piece: bytes) -> None:
        """Take over the next bytes."""
        self._taken += len(piece)
        if self._taken > _MAX_BYTES:
            return
        self._kept += piece
        if self.is_stream:
            *lines, rest = bytes(self._kept).split(b"\n")
            self._kept[:] = rest
            for line in lines:
                self._read_line(line)

    def message(self) -> dict[str, JsonValue]:
        """Return the first choice's message, as far as it came."""
        if not self.is_stream:
            self._read_whole()
        calls: list[JsonValue] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for _, call in sorted(self._calls.items())
            if call["id"] and call["name"]
        ]
        message: dict[str, JsonValue] = {"content": "".join(self._texts) or None}
        return {**message, "tool_calls": calls} if calls else message

    def _read_line(self, line: bytes) -> None:
        name, _, value = line.strip().partition(b":")
        if name != b"data":
            return
        if value.strip() == DONE:
            self.is_whole = self._taken <= _MAX_BYTES
            return
        event = _object(value)
        self._take_usage(event)
        choice = _first_choice(event)
        self._take(_mapping(choice.get("delta")))

    def _read_whole(self) -> None:
        body = _object(bytes(self._kept))
        self._kept.clear()
        self._take_usage(body)
        choice = _first_choice(body)
        self.is_whole = bool(choice)
        self._take(_mapping(choice.get("message")))

    def _take_usage(self, event: Mapping[str, JsonValue]) -> None:
        self._usage = _mapping(event.get("usage")) or self._usage

    def _take(self, part: Mapping[str, JsonValue]) -> None:
        content = part.get("content")
        if isinstance(content, str):
            self._texts.append(content)
        calls = part.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            self._take_call(_mapping(call), place)

    def _take_call(self, call: Mapping[str, JsonValue], place: int) -> None:
        index = call.get("index", place)
        if not isinstance(index, int):
            return
        known = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = _mapping(call.get("function"))
        for name, value in (("id", call.get("id")), ("name", function.get("name"))):
            if isinstance(value, str) and value:
                known[name] = value
        arguments = function.get("arguments")
        known["arguments"] += arguments if isinstance(arguments, str) else ""


def _object(text: bytes) -> Mapping[str, JsonValue]:
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _tokens(told: JsonValue) -> int:
    return told if isinstance(told, int) and 0 <= told <= _MAX_TOKENS else 0


def _first_choice(event: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    choices = event.get("choices")
    found = (_mapping(choice) for choice in (choices if isinstance(choices, list) else []))
    return next((choice for choice in found if choice.get("index", 0) == 0), {})
