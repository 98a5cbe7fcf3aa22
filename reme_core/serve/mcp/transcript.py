"""A pasted conversation, read into messages: a speaker and a colon begin each."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from reme_core.errors import InvalidInputError

_ROLES = {
    "user": "user",
    "human": "user",
    "me": "user",
    "you": "user",
    "用户": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "claude": "assistant",
    "chatgpt": "assistant",
    "助手": "assistant",
    "system": "system",
    "tool": "tool",
}
# A line such as `Ana: hi`, `**User:** hi`, `## Assistant: hi` or `用户：你好`.
_SPEAKER = re.compile(r"[#>*\s]*([^\W\d_][^:：*]{0,39}?)\s*\**\s*(?::(?=[\s*]|$)|：)\**\s*")
_SPEAKER_CHARS = 80  # of a line that are looked at: the time that this takes is bounded, whatever is pasted


@dataclass(slots=True)
class _Turn:
    name: str
    lines: list[str] = field(default_factory=list)


def read_transcript(text: str) -> list[dict[str, object]]:
    """Return the messages of a pasted conversation.

    A line begins one if it is that of a role ("User: ..."), of who speaks first, or of a name that begins two lines at
    least; so "Note: ..." within what somebody says begins none. A text without speakers is one message of the user.

    Raises:
        InvalidInputError: Nobody says anything.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    begun = [_SPEAKER.match(line[:_SPEAKER_CHARS]) for line in lines]
    speakers = _speakers(lines, [None if match is None else match[1] for match in begun])
    turns = [_Turn("")]
    for line, match in zip(lines, begun, strict=True):
        if match is not None and match[1] in speakers:
            turns.append(_Turn(match[1], [line[match.end() :]]))
        else:
            turns[-1].lines.append(line)
    messages = [message for turn in turns if (message := _message(turn)) is not None]
    if not messages:
        msg = "transcript: nobody says anything in it: paste lines such as 'User: I moved to Lisbon'"
        raise InvalidInputError(msg)
    return messages


def _speakers(lines: list[str], names: list[str | None]) -> set[str]:
    """Return the names that are speakers'; other names than roles are, where the text begins with one."""
    first = next((name for line, name in zip(lines, names, strict=True) if line.strip()), None)
    told = Counter(name for name in names if name is not None)
    others = {name for name, count in told.items() if name == first or count > 1} if first else set()
    return others | {name for name in told if name.lower() in _ROLES}


def _message(turn: _Turn) -> dict[str, object] | None:
    said = "\n".join(turn.lines).strip()
    if not said:
        return None
    role = _ROLES.get(turn.name.lower())
    named: dict[str, object] = {} if role or not turn.name else {"name": turn.name}
    return {"role": role or "user", "content": said, **named}
