"""State of a working memory, as values: messages with marks, their form on disk, and the summary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from agentscope.message import Msg
from pydantic_core import to_jsonable_python

from reme_agentscope._shared.recorded_text import SUMMARY_METADATA
from reme_core.schema.plain import as_json as plain

Entry: TypeAlias = tuple[Msg, list[str]]
"""A message and its marks, in AgentScope's layout. A change of marks makes another list."""

COMPRESSED = "compressed"
HINT = "hint"
SUMMARY_ID = "reme-summary"
# A summary has no time of its own, and one that changed would be another message each time.
_NO_TIME = "1970-01-01 00:00:00.000"


def plain_mark(mark: str) -> str:
    """Return a mark as a plain string: that of a member of a `str` Enum is its value, whatever its `str()` is."""
    if isinstance(mark, Enum) and isinstance(mark.value, str):
        return str.__str__(mark.value)
    return str.__str__(mark)


def read_mark(mark: object, name: str) -> str | None:
    """Return a mark that was given (TypeError: neither a string nor None)."""
    if mark is None:
        return None
    if not isinstance(mark, str):
        msg = f"The {name} should be a string or None, but got {type(mark)}."
        raise TypeError(msg)
    return plain_mark(mark)


def read_marks(marks: object, *, needed: bool = False) -> list[str]:
    """Return marks that were given, each once: one, a list of them, or None (TypeError: anything else).

    None isn't enough where they are `needed`.
    """
    if marks is None and not needed:
        return []
    if isinstance(marks, str):
        return [plain_mark(marks)]
    if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
        msg = f"The mark should be a string, a list of strings, or None, but got {type(marks)}."
        raise TypeError(msg)
    return list(dict.fromkeys(plain_mark(mark) for mark in marks))


def read_messages(memories: object) -> list[Msg]:
    """Return messages that were given: one, a list of them, or None, which may also stand in the list (TypeError)."""
    if memories is None:
        return []
    given = [memories] if isinstance(memories, Msg) else memories
    if not isinstance(given, list) or not all(item is None or isinstance(item, Msg) for item in given):
        msg = f"The memories should be a Msg, a list of Msg, or None, but got {type(memories)}."
        raise TypeError(msg)
    return [item for item in given if item is not None]


def read_summary(summary: object) -> str:
    """Return a summary that was given, empty for None (TypeError: no text)."""
    if summary is None:
        return ""
    if not isinstance(summary, str):
        msg = f"The summary should be a string, but got {type(summary)}."
        raise TypeError(msg)
    return str.__str__(summary)


def read_ids(msg_ids: object) -> frozenset[str]:
    """Return ids that were given; one string is one id (TypeError: no collection of them)."""
    if isinstance(msg_ids, str):
        return frozenset({msg_ids})
    if not isinstance(msg_ids, Iterable):
        msg = f"The msg_ids should be a list of strings, but got {type(msg_ids)}."
        raise TypeError(msg)
    return frozenset(msg_ids)


def bears(entry: Entry, mark: str) -> bool:
    """Tell whether a message bears a mark."""
    return mark in entry[1]


def summary_message(summary: str) -> Msg:
    """Return the message that shows a summary: always the same one for the same summary."""
    shown = Msg("user", summary, "user", metadata=dict(SUMMARY_METADATA), timestamp=_NO_TIME)
    shown.id = SUMMARY_ID
    return shown


def encode(entry: Entry) -> bytes:
    """Return a message with its marks as bytes; every text survives, lone surrogates too.

    What is no JSON, such as a date in the metadata, becomes the JSON that pydantic makes of it, and where JSON has no
    such thing at all, such as a tuple for a key, a short text.
    """
    msg, marks = entry
    fields = msg.to_dict()
    # Missing in `to_dict`, and in a Msg of the oldest releases.
    invocation = getattr(msg, "invocation_id", None)
    if invocation is not None:
        fields["invocation_id"] = invocation
    value = [fields, [plain_mark(mark) for mark in marks]]
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # a key that is no text, or a value that holds itself
        text = _ENCODER.encode(plain(value))
    return text.encode("utf-8", "surrogatepass")


def decode(body: bytes) -> Entry:
    """Return what `encode` was given."""
    return read_entry(as_json(body))


def as_json(body: bytes) -> object:
    """Return the JSON value that `encode` wrote: `[message, marks]`."""
    value: object = json.loads(body.decode("utf-8", "surrogatepass"))
    return value


def read_entry(item: object) -> Entry:
    """Read an item of a state: `[message, marks]`, or the message alone as older releases saved it.

    Raises:
        ValueError: It is neither.
        KeyError: The message lacks a field.
    """
    fields, marks = item if isinstance(item, list | tuple) and len(item) == 2 else (item, [])
    if not isinstance(fields, Mapping):
        msg = "Invalid item format in state_dict for ReMeMemory."
        raise ValueError(msg)  # noqa: TRY004  # as AgentScope's class
    read = dict(fields)
    msg_read = Msg.from_dict(read)
    # The constructor makes up what it takes for missing.
    for name in ("metadata", "timestamp"):
        if name in read:
            setattr(msg_read, name, read[name])
    return msg_read, read_marks(marks)


def _jsonable(value: object) -> object:
    return to_jsonable_python(value, fallback=str)


# Made once: `json.dumps` makes one for each call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_jsonable)

_PREVIEW_CHARS = 100


def use_of(
    msgs: Sequence[Msg], texts: Sequence[str], counts: Sequence[int], summary: int, max_input_length: int | None
) -> dict[str, Any]:
    """Return figures by name; `context_usage_ratio` is in percent of the window. `summary`: its tokens."""
    details = [
        {"role": msg.role, "name": msg.name, "total_tokens": tokens, "preview": text[:_PREVIEW_CHARS]}
        for msg, text, tokens in zip(msgs, texts, counts, strict=True)
    ]
    tokens = sum(counts) + summary
    return {
        "total_messages": len(details),
        "compressed_summary_tokens": summary,
        "messages_tokens": sum(counts),
        "estimated_tokens": tokens,
        "max_input_length": max_input_length or 0,
        "context_usage_ratio": tokens / max_input_length * 100 if max_input_length else 0.0,
        "messages_detail": details,
    }


def history_of(use: dict[str, Any]) -> str:
    """Return what `use_of` found as a text."""
    head = [
        "**Conversation History**\n",
        f"- Total messages: {use['total_messages']}",
        f"- Estimated tokens: {use['estimated_tokens']}",
        f"- Max input length: {use['max_input_length']}",
        f"- Context usage: {use['context_usage_ratio']:.1f}%",
        f"- Compressed summary tokens: {use['compressed_summary_tokens']}",
    ]
    lines = [
        f"[{number}] **{detail['role']}** (total_tokens={detail['total_tokens']})\n    preview: {detail['preview']}"
        for number, detail in enumerate(use["messages_detail"], 1)
    ]
    return "\n".join(head) + "\n\n" + "\n\n".join(lines)
