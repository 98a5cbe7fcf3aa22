"""The answer of a model, put together from what passes through: one JSON object, or the pieces of a stream.

Source: https://platform.openai.com/docs/api-reference/chat-streaming.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from reme_core.schema import Usage

MAX_BYTES = 8 << 20
"""Of an answer that is read along, and of one that is held back until it is on disk."""
# Of one answer and its prompt: far more than any model's window.
_MAX_TOKENS = 1 << 40
_DONE = b"[DONE]"
_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_HEADER = 47  # of zlib: that of gzip or its own, with a window of any size


@dataclass(slots=True)
class AnswerReader:
    """Reads along. What is no answer, or more than 8 MiB, makes it partial; it never fails.

    Attributes:
        is_stream: Whether the pieces are those of an event stream.
        encoding: What the bytes are compressed with, though nobody asked for it; "" for nothing.
        is_whole: Whether the answer has come to its end.
    """

    is_stream: bool = False
    encoding: str = ""
    is_whole: bool = False
    _usage: Mapping[str, JsonValue] = field(default_factory=dict)
    _kept: bytearray = field(default_factory=bytearray)
    _taken: int = 0
    _end: bytes = b"\n\n"
    _decoder: zlib._Decompress = field(default_factory=lambda: zlib.decompressobj(_ANY_HEADER))
    _texts: list[str] = field(default_factory=list)
    _calls: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def is_between_events(self) -> bool:
        """Whether a line of our own would not fall into an event of the model's, nor into compressed bytes."""
        return not self.encoding and self._end.endswith((b"\n\n", b"\n\r\n"))

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
        self._end = (self._end + piece[-3:])[-3:]
        piece = self._decoded(piece)
        self._taken += len(piece)
        if self._taken > MAX_BYTES:
            return
        self._kept += piece
        if self.is_stream and b"\n" in piece:
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

    def _decoded(self, piece: bytes) -> bytes:
        """Return what a piece says; nothing where that can't be told."""
        if not self.encoding:
            return piece
        if self.encoding not in _COMPRESSED:
            return b""
        try:
            return self._decoder.decompress(piece, MAX_BYTES + 1 - min(self._taken, MAX_BYTES))
        except zlib.error:
            return b""

    def _read_line(self, line: bytes) -> None:
        name, _, value = line.strip().partition(b":")
        if name != b"data":
            return
        if value.strip() == _DONE:
            self.is_whole = self._taken <= MAX_BYTES
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
        for call in calls if isinstance(calls, list) else []:
            self._take_call(_mapping(call))

    def _take_call(self, call: Mapping[str, JsonValue]) -> None:
        index = call.get("index")
        if not isinstance(index, int):  # some endpoints tell calls apart by their ids alone
            index = max(self._calls, default=-1) + bool(call.get("id"))
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
    return told if type(told) is int and 0 <= told <= _MAX_TOKENS else 0  # True is none


def _first_choice(event: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    choices = event.get("choices")
    found = (_mapping(choice) for choice in (choices if isinstance(choices, list) else []))
    return next((choice for choice in found if choice.get("index", 0) == 0), {})
