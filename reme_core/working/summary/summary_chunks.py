"""Messages cut into chunks that a summariser can read one after the other, nothing left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reme_core.ports import TokenCounter
from reme_core.schema import Message, trust_field
from reme_core.text import conversation_lines, json_line, prompt_time

LEAST_ROOM = 200
"""Tokens of a chunk below which a model isn't asked: lines would be cut into shreds."""

_NAME_CHARS = 30
_WHOLE_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Chunk:
    """JSON lines as a prompt shows them, and the texts in them as they were said."""

    lines: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines, a line break between two."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class _ChunkLine:
    line: str
    text: str


def chunks(messages: Sequence[Message], earlier: str, room: int, counter: TokenCounter) -> list[Chunk]:
    """Write messages as JSON lines (see `conversation_lines`), in chunks of at most `room` tokens, in order.

    A message that is longer than a chunk goes on in lines with the same `n` and the number of the `part`; their texts
    join to the whole. A text from `earlier`, if there is one, comes first, with the number 0.

    Raises:
        ValueError: `room` is below `LEAST_ROOM`.
    """
    if room < LEAST_ROOM:
        msg = f"room must be at least {LEAST_ROOM} tokens, not {room}"
        raise ValueError(msg)
    return [
        Chunk(tuple(item.line for item in packed), tuple(item.text for item in packed))
        for packed in _packed(_lines(messages, earlier, room, counter), room, counter)
    ]


def _packed(lines: Iterable[_ChunkLine], room: int, counter: TokenCounter) -> Iterator[list[_ChunkLine]]:
    chunk: list[_ChunkLine] = []
    left = room
    for line in lines:
        cost = _cost(line.line, counter)
        if chunk and cost > left:
            yield chunk
            chunk, left = [], room
        chunk.append(line)
        left -= cost
    if chunk:
        yield chunk


def _lines(messages: Sequence[Message], earlier: str, room: int, counter: TokenCounter) -> Iterator[_ChunkLine]:
    if earlier:
        yield from _parts({"n": 0, "by": "earlier summary"}, earlier, room, counter)
    for number, message in enumerate(messages, 1):
        text = message.full_text
        line = conversation_lines((message,), first=number, max_chars=len(text))
        if _cost(line, counter) <= room:
            yield _ChunkLine(line, text)
        else:
            # The names that people have may be long as well; only so much is needed to tell them apart.
            who: dict[str, JsonValue] = {"by": message.speaker[:_NAME_CHARS], "role": message.role}
            told = trust_field(message.trust, message.role)
            fields: dict[str, JsonValue] = {"n": number, "at": prompt_time(message.created_at), **who, **told}
            yield from _parts(fields, text, room, counter)


def _parts(fields: dict[str, JsonValue], text: str, room: int, counter: TokenCounter) -> Iterator[_ChunkLine]:
    """Write a text as lines that each fit, as long as they can be within a quarter or so."""
    start, part, size = 0, 0, len(text)
    while start < len(text):
        part += 1
        piece = text[start : start + size]
        line = json_line({**fields, "part": part, "text": piece})
        while len(piece) > 1 and _cost(line, counter) > room:
            # A token is rarely more than eight characters, so far above that there is no need for small steps.
            piece = piece[: len(piece) // 2 if len(piece) > 16 * room else len(piece) * 3 // 4]
            line = json_line({**fields, "part": part, "text": piece})
        if start + len(piece) < len(text) and (whole := _whole_words(piece)) != piece:
            piece = whole
            line = json_line({**fields, "part": part, "text": piece})
        yield _ChunkLine(line, piece)
        start += len(piece)
        size = len(piece) + len(piece) // 4 + 1


def _whole_words(piece: str) -> str:
    """Return a piece up to its last blank if that is near its end: an identifier that is cut apart can't be read."""
    end = max(piece.rfind(" "), piece.rfind("\n")) + 1
    return piece[:end] if end > len(piece) * _WHOLE_SHARE else piece


def _cost(line: str, counter: TokenCounter) -> int:
    return counter.count(line) + 1  # its line break
