"""Prompts as files, one per language; and conversations in them, inside fences that no text can close or forge."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from importlib import resources
from typing import get_args

from pydantic import JsonValue

from reme_core.errors import ConfigurationError
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    Role,
    TextBlock,
    can_be_kept,
    is_embedded,
    trust_field,
)
from reme_core.schema.hits import HIDDEN, with_hidden_shown

_VARIABLE = re.compile(r"\{\{([a-z_]+)\}\}")
_FIELDS = frozenset({"name", "version", "variables"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A text with places for its variables, written `{{name}}`."""

    name: str
    version: str
    language: str
    variables: frozenset[str]
    text: str

    @property
    def label(self) -> str:
        """Name, language and version, as transcripts record them."""
        return f"{self.name}.{self.language}@{self.version}"

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with the variables in their places; a value is never read for places again.

        Raises:
            ConfigurationError: A variable is missing, or is none of this prompt's.
        """
        if values.keys() != self.variables:
            missing, unknown = self.variables - values.keys(), values.keys() - self.variables
            msg = f"prompt {self.label}: missing {sorted(missing)}, unknown {sorted(unknown)}"
            raise ConfigurationError(msg)
        return _VARIABLE.sub(lambda match: values[match[1]], self.text)


def parse_prompt(source: str, language: str, where: str) -> Prompt:
    """Read a prompt.

    Raises:
        ConfigurationError: There is no front matter, a field is missing or unknown, or the variables named there are
            not those of the text.
    """
    parts = source.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        msg = f"{where}: wanted front matter between two lines of '---', then the text"
        raise ConfigurationError(msg)
    fields = dict(_field(line, where) for line in parts[1].splitlines() if line.strip())
    if fields.keys() != _FIELDS:
        msg = f"{where}: front matter has {sorted(fields)}, wanted {sorted(_FIELDS)}"
        raise ConfigurationError(msg)
    named = frozenset(name.strip() for name in fields["variables"].split(",") if name.strip())
    used = frozenset(_VARIABLE.findall(parts[2]))
    if named != used:
        msg = f"{where}: declares the variables {sorted(named)}, its text uses {sorted(used)}"
        raise ConfigurationError(msg)
    return Prompt(
        name=fields["name"], version=fields["version"], language=language, variables=named, text=parts[2].strip()
    )


@cache
def load_prompt(package: str, name: str, language: str) -> Prompt:
    """Read `prompts/<name>.<language>.md` of a package; once per process.

    Raises:
        ConfigurationError: There is no such file, or it is no prompt.
    """
    file = resources.files(package).joinpath("prompts", f"{name}.{language}.md")
    try:
        source = file.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        msg = f"there is no prompt {name!r} in {language!r} in {package}"
        raise ConfigurationError(msg) from exc
    return parse_prompt(source, language, f"{package}/prompts/{name}.{language}.md")


def _field(line: str, where: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        msg = f"{where}: {line!r} in the front matter is not 'name: value'"
        raise ConfigurationError(msg)
    return name.strip(), value.strip()


# What ends a line for some reader and is not escaped by JSON; and the character that every fence begins with.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<\x7f\x85\u2028\u2029"}
_ROLES = get_args(Role)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Of a text that is cut, this share is its head; what a message is about is mostly said first.
_HEAD_SHARE = 2 / 3


def conversation_lines(
    messages: Sequence[Message], *, first: int = 1, max_chars: int = 8000, zone: tzinfo = UTC, terse: bool = False
) -> str:
    r"""Write messages as JSON lines, numbered from `first`: `{"n":1,"at":"2023-05-08 Mon 13:56","by":"Alice",...}`.

    Each message is one line, whatever its text holds: breaks are escaped, and every "<" is written `\u003c`, so that a
    text can neither forge a line nor close the fence around them. `role` is left out where `by` is the role, and for
    users with a name that is no role; `trust` stands where it is less than the role says. Tool calls and results stand
    as text. A text of more than `max_chars` characters is shown as its head and its tail, with the number of
    characters left out between them.

    `terse` leaves out what a line above says: `at`, on the same day within the hour, and that a speaker is an
    assistant. What comes from tools is marked in each line.
    """
    shown: datetime | None = None
    roles: dict[str, str] = {}
    lines: list[str] = []
    for number, message in enumerate(messages, first):
        is_known = shown is not None and _is_close(shown, message.created_at, zone)
        at = None if is_known else prompt_time(message.created_at, zone)
        lines.append(_line(message, number, at, roles.get(message.speaker), max_chars))
        if terse:
            shown = shown if is_known else message.created_at
            if message.role in {"user", "assistant"}:
                roles[message.speaker] = message.role
    return "\n".join(lines)


def with_media_told(message: Message) -> Message:
    """Return a message whose images and files stand in its text, marked as such: `[image: a red door]`."""
    if all(block.type not in {"image", "file"} for block in message.content):
        return message
    told = (TextBlock(text=_told(block)) if block.type in {"image", "file"} else block for block in message.content)
    return message.model_copy(update={"content": tuple(told)})


def with_broken_media_told(message: Message, *, known: Collection[str] = ()) -> Message:
    """Return a message with words in place of images and files that no store takes: broken, too large, or made up.

    What is referred to by one of the `known` references is none of these.
    """
    is_whole = [_is_whole(block, known) for block in message.content]
    if all(is_whole):
        return message
    told = (
        block if whole else TextBlock(text=_told(block)) for block, whole in zip(message.content, is_whole, strict=True)
    )
    return message.model_copy(update={"content": tuple(told)})


def _is_whole(block: ContentBlock, known: Collection[str]) -> bool:
    return not isinstance(block, (ImageBlock, FileBlock)) or block.url in known or can_be_kept(block.url)


def _told(block: ContentBlock) -> str:
    match block:
        case ImageBlock() | FileBlock():
            said = block.said or block.url
        case _:
            return ""
    return f"[{block.type}]" if is_embedded(said) else f"[{block.type}: {said}]"


def json_line(value: Mapping[str, JsonValue]) -> str:
    """Write an object as one line of JSON that stays one line in a fence, whatever its texts hold."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
    return HIDDEN.sub(lambda found: json.dumps(found.group())[1:-1], line)


def fence(name: str, body: str) -> str:
    r"""Put a body between `<name>` and `</name>`.

    Tags of this name inside the body lose their "<" to `\u003c`; JSON lines hold none anyway. Characters that nobody
    sees, and those that turn the order of what is read, stand as their escapes.
    """
    tag = re.compile(rf"<(?=\s*/?\s*{re.escape(name)}\b)", re.IGNORECASE)
    return f"<{name}>\n{tag.sub(lambda _: _ESCAPES[ord('<')], with_hidden_shown(body))}\n</{name}>"


def prompt_time(moment: datetime, zone: tzinfo = UTC) -> str:
    """Write a time as prompts show it: `2023-05-08 Mon 13:56`, in other zones than UTC with the offset behind it."""
    moment = moment.astimezone(zone)
    offset = "" if zone is UTC else moment.isoformat(timespec="minutes")[len("2023-05-08T13:56") :]
    return f"{moment:%Y-%m-%d} {_WEEKDAYS[moment.weekday()]} {moment:%H:%M}{offset}"


def shortened(text: str, max_chars: int) -> str:
    """Return a text, or its head and tail of `max_chars` characters together, and how many were left out."""
    if len(text) <= max_chars:
        return text
    head = int(max_chars * _HEAD_SHARE)
    tail = max_chars - head
    left_out = len(text) - max_chars
    return f"{text[:head]} [… {left_out} characters left out …] {text[len(text) - tail :]}"


def _is_close(shown: datetime, moment: datetime, zone: tzinfo) -> bool:
    """Tell whether a time is nearly the one shown above it, and of the same day."""
    is_same_day = shown.astimezone(zone).date() == moment.astimezone(zone).date()
    return is_same_day and timedelta(0) <= moment - shown < timedelta(hours=1)


def _line(message: Message, number: int, at: str | None, role: str | None, max_chars: int) -> str:
    """Write a message; `role` is the one that its speaker has so far, None where that is not known yet."""
    fields: dict[str, JsonValue] = {"n": number} if at is None else {"n": number, "at": at}
    fields["by"] = message.speaker
    known = role or (message.speaker if message.speaker in _ROLES else "user")
    if message.role != known:
        fields["role"] = message.role
    fields |= trust_field(message.trust, message.role)
    fields["text"] = shortened(message.full_text, max_chars)
    return json_line(fields)
