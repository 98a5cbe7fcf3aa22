"""Messages of a conversation that another program has exported, as they are found: what is wrong costs itself alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue, ValidationError

from reme_core.schema import Message, describe
from reme_core.schema.times import parse_time
from reme_core.transfer.importers.items import ImportedItem, ImportedSession, Unreadable

_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""What is told as earlier, 0 seconds since 1970 say, stands for no time: no such conversation is that old."""

Blocks = list[dict[str, JsonValue]]


def read_moment(value: JsonValue) -> datetime | None:
    """Return a time told as seconds since 1970 or as a text; None for none (ValueError: it can't be one)."""
    if value is None or value == "":
        return None
    try:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        at = datetime.fromtimestamp(float(value), UTC) if is_number else parse_time(value)  # type: ignore[arg-type]
    except (OverflowError, OSError) as exc:
        raise ValueError(str(exc)) from exc
    if at < _EARLIEST:
        msg = f"{value!r} lies before {_EARLIEST:%Y}"
        raise ValueError(msg)
    return at


def text_of(value: Mapping[str, JsonValue], *names: str) -> str:
    """Return the first of some fields that is a text and not blank, "" for none."""
    texts = (found for name in names if isinstance(found := value.get(name), str))
    return next((text for text in texts if text.strip()), "")


def objects_of(value: Mapping[str, JsonValue], name: str) -> list[dict[str, JsonValue]]:
    """Return the objects in a field that is a list."""
    found = value.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def object_of(value: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue]:
    """Return a field that is an object; an empty one for none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def text_block(text: JsonValue) -> Blocks:
    """Return a text as a block, none where it is blank."""
    return [{"type": "text", "text": text}] if isinstance(text, str) and text.strip() else []


def other_block(kind: str, data: JsonValue) -> Blocks:
    """Return what is kept, but neither searched nor shown."""
    return [{"type": "other", "kind": kind or "part", "data": data}]


def file_block(url: str, name: str, media_type: str = "") -> Blocks:
    """Return a reference to a file, none where nothing names it."""
    told: dict[str, JsonValue] = {"name": name or None, "media_type": media_type or None}
    return [{"type": "file", "url": url, **told}] if url else []


def branch_to(last: str, parents: Mapping[str, str | None]) -> list[str]:
    """Return the ids from the first message to the last one, by the message that each answers.

    Raises:
        ValueError: They answer each other in a ring.
    """
    branch: dict[str, None] = {}
    here: str | None = last
    while here is not None and here in parents:
        if here in branch:
            msg = "its messages answer each other in a ring"
            raise ValueError(msg)
        branch[here] = None
        here = parents[here]
    return [*reversed(branch)]


@dataclass(slots=True)
class SessionDraft:
    """One conversation: where it stands, and what was found so far."""

    where: str
    messages: list[Message] = field(default_factory=list)
    problems: list[Unreadable] = field(default_factory=list)

    def add(
        self,
        message_id: str,
        role: str,
        blocks: Sequence[Mapping[str, JsonValue]],
        at: JsonValue,
        *,
        name: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Add a message; one without blocks says nothing. A time that can't be is that of the message before it."""
        if not blocks:
            return
        where = f"{self.where}, message {message_id[:80]!r}"
        fields: dict[str, object] = {"role": role, "name": name, "content": [*blocks], "metadata": metadata or {}}
        if message_id:
            fields["message_id"] = message_id
        try:
            moment = read_moment(at)
        except ValueError as exc:
            moment = None
            self.problems.append(Unreadable(where, f"its time is none ({exc}): it has that of the message before it"))
        if moment is not None:
            fields["created_at"] = moment
        try:
            self.messages.append(Message.model_validate(fields))
        except ValidationError as exc:
            self.problems.append(Unreadable(where, describe(exc, "message")))

    def items(self, source_id: str, user: str | None, title: str) -> Iterator[ImportedItem]:
        """Yield what was wrong, and the session, if anything was said in it."""
        yield from self.problems
        if self.messages:
            yield ImportedSession(source_id=source_id, user=user, messages=self.messages, title=title)
