"""The first call: typed facts out of a conversation, each with the messages that it was said in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, Strict

from reme_core.ports import ResponseSchema, Target
from reme_core.runtime.asking import PACKAGE, Question, lowered, not_blank, with_problems
from reme_core.runtime.distil import SHOWN_CHARS, DistilTask
from reme_core.runtime.known_targets import KnownTargets, is_same_target
from reme_core.schema import MemoryType, Source, TimePrecision, last_part
from reme_core.schema.checks import Text
from reme_core.schema.times import may_end
from reme_core.text import Language, conversation_lines, fence, json_line, load_prompt, normalise_content
from reme_core.text.said_times import SaidTime

MAX_CONTENT_CHARS = 4000
"""A fact is a sentence or two, a procedure a page; what is longer is a copy of the conversation."""

_OPEN_TYPES = (MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL, MemoryType.IDENTITY)
_MAX_TARGET_CHARS = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Talk holds a fact or two in a message; a document of one message may hold twenty.
_FACTS_ANYWAY, _FACTS_PER_MESSAGE, _MOST_FACTS = 20, 4, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A statement taken from messages.

    Attributes:
        target: What it is about.
        content: What it says.
        when_to_use: When it is of use; may be empty.
        observed_at: When it was said; the last time, if it was said more than once.
        stated_from: Since when it holds, if that was said.
        stated_precision: How much of that was said.
        ended_at: Until when it holds or held (exclusive), if that was said.
        ended_precision: How much of that was said.
        sources: The messages it was said in, by block.
    """

    target: Target
    content: str
    when_to_use: str = ""
    observed_at: datetime
    stated_from: datetime | None = None
    stated_precision: TimePrecision = TimePrecision.EXACT
    ended_at: datetime | None = None
    ended_precision: TimePrecision = TimePrecision.EXACT
    sources: tuple[Source, ...]

    @property
    def valid_from(self) -> datetime:
        """Since when it holds: as stated, else since it was said, but no later than the last day or month it names."""
        if self.stated_from is not None:
            return self.stated_from
        if self.ended_at is None or self.ended_at > self.observed_at:
            return self.observed_at
        return last_part(self.ended_at, self.ended_precision)

    @property
    def valid_from_precision(self) -> TimePrecision:
        """How much of `valid_from` was said."""
        if self.stated_from is not None:
            return self.stated_precision
        return TimePrecision.EXACT if self.valid_from == self.observed_at else self.ended_precision

    @property
    def index_text(self) -> str:
        """The text that a memory of it is found by."""
        return f"{self.when_to_use}\n{self.content}" if self.when_to_use else self.content

    @property
    def key(self) -> tuple[Target, str, datetime | None]:
        """What is the same for two facts that say the same."""
        return self.target, normalise_content(self.content), self.ended_at


def _name(text: str) -> str:
    # A name is one line: it is shown in lists, to models and on terminals.
    return not_blank(_CONTROL.sub(" ", text))


class WrittenFact(BaseModel):
    """A fact as the model writes it. Keys of its own, which endpoints without schemas let through, say nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Annotated[MemoryType, BeforeValidator(lowered)]
    target: Annotated[Text, AfterValidator(_name), Field(max_length=_MAX_TARGET_CHARS)]
    content: Annotated[Text, AfterValidator(not_blank), Field(max_length=MAX_CONTENT_CHARS)]
    when_to_use: Annotated[Text, AfterValidator(str.strip), Field(max_length=MAX_CONTENT_CHARS)] | None = None
    valid_from: SaidTime = None
    valid_to: SaidTime = None
    messages: Annotated[tuple[Annotated[int, Strict()], ...], Field(min_length=1)]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    facts: tuple[WrittenFact, ...]


def wanted_types(task: DistilTask) -> tuple[MemoryType, ...]:
    """Return the types of memory that a task asks for."""
    if task.memory_type is not None:
        return (task.memory_type,)
    if task.targets is None:
        return _OPEN_TYPES
    return tuple(kind for kind in MemoryType if any(kind == target.memory_type for target in task.targets))


def extraction_question(
    task: DistilTask, known: KnownTargets, language: Language, problems: Sequence[str]
) -> Question[tuple[WrittenFact, ...]]:
    """Return what the model is asked; `problems` are those of an earlier attempt."""
    types = wanted_types(task)
    # Where any type will do, the schema's list of them is enough.
    wanted: dict[str, JsonValue] = {} if types == _OPEN_TYPES else {"types": [kind.value for kind in types]}
    names = _asked(task.targets) if task.targets is not None else known.shown(types)
    if names:
        wanted["targets"] = names
    lines = conversation_lines(task.messages, max_chars=SHOWN_CHARS)
    parts = [fence("request", json_line(wanted)), fence("conversation", lines)]
    return Question(
        system=load_prompt(PACKAGE, "extract", language).fill({}),
        user=with_problems("\n".join(parts), problems, language),
        schema=_schema(types),
        language=language,
        read=lambda value: read_facts(value, types=types, messages=len(task.messages)),
    )


def _asked(targets: Sequence[Target]) -> dict[str, JsonValue]:
    names: dict[str, list[JsonValue]] = {}
    for target in targets:
        names.setdefault(target.memory_type.value, []).append(target.memory_target)
    return dict(names)


def _schema(types: Sequence[MemoryType]) -> ResponseSchema:
    text: JsonValue = {"type": "string"}
    fields: dict[str, JsonValue] = {
        "type": {"type": "string", "enum": [kind.value for kind in types]},
        "target": text,
        "content": text,
        "when_to_use": text,
        "valid_from": text,
        "valid_to": text,
        "messages": {"type": "array", "items": {"type": "integer"}},
    }
    return ResponseSchema(
        name="facts", schema=list_schema("facts", fields, required=("type", "target", "content", "messages"))
    )


def list_schema(name: str, fields: Mapping[str, JsonValue], *, required: Sequence[str]) -> dict[str, JsonValue]:
    """Return the schema of an object with one list of objects.

    Not one for strict modes, which want every field written: fields left out save tokens in schema and answer.
    """
    item: dict[str, JsonValue] = {"type": "object", "properties": dict(fields), "required": list(required)}
    return {"type": "object", "properties": {name: {"type": "array", "items": item}}, "required": [name]}


def read_facts(value: JsonValue, *, types: Sequence[MemoryType], messages: int) -> tuple[WrittenFact, ...]:
    """Read an answer about so many messages.

    Raises:
        ValueError: Saying what is wrong; a ValidationError for what is wrong with its form.
    """
    most = min(_MOST_FACTS, _FACTS_ANYWAY + _FACTS_PER_MESSAGE * messages)
    listed = value.get("facts") if isinstance(value, dict) else None
    if isinstance(listed, list) and len(listed) > most:
        msg = f"facts: {len(listed)} of them for {messages} messages, at most {most}: only what is worth remembering"
        raise ValueError(msg)
    facts = _Answer.model_validate(value).facts
    for place, fact in enumerate(facts):
        _check(fact, f"facts[{place}]", types, messages)
    return facts


def _check(fact: WrittenFact, where: str, types: Sequence[MemoryType], messages: int) -> None:
    if fact.type not in types:
        msg = f"{where}.type: {fact.type.value!r} is none of {', '.join(types)}"
        raise ValueError(msg)
    beyond = [number for number in fact.messages if not 1 <= number <= messages]
    if beyond:
        msg = f"{where}.messages: there is no message {str(beyond[0])[:20]}, they are numbered 1 to {messages}"
        raise ValueError(msg)
    since, until = fact.valid_from, fact.valid_to
    if since is not None and until is not None and not may_end(since.start, until.end, until.precision):
        msg = f"{where}: valid_to lies before valid_from"
        raise ValueError(msg)


def facts_of(written: Sequence[WrittenFact], task: DistilTask, known: KnownTargets) -> list[Fact]:
    """Return the facts that a task is about, in order; what was written twice is one fact with the sources of both."""
    spelling = known
    facts: dict[tuple[Target, str, datetime | None], Fact] = {}
    for item in written:
        name = "self" if item.type == MemoryType.IDENTITY else item.target
        target = spelling.spelled(Target(item.type, name))
        if task.targets is not None and not any(is_same_target(target, asked) for asked in task.targets):
            continue
        spelling = KnownTargets({target: 0, **spelling.counts})
        fact = _fact(item, target, task)
        same = facts.get(fact.key)
        facts[fact.key] = fact if same is None else _joined(same, fact)
    return list(facts.values())


def _fact(written: WrittenFact, target: Target, task: DistilTask) -> Fact:
    numbers = sorted(set(written.messages))
    said = [task.messages[number - 1] for number in numbers]
    since, until = written.valid_from, written.valid_to
    return Fact(
        target=target,
        content=written.content,
        when_to_use=written.when_to_use or "",
        observed_at=max(message.created_at for message in said),
        stated_from=None if since is None else since.start,
        stated_precision=TimePrecision.EXACT if since is None else since.precision,
        ended_at=None if until is None else until.end,
        ended_precision=TimePrecision.EXACT if until is None else until.precision,
        sources=_sources([message.message_id for message in said], task),
    )


def _joined(one: Fact, other: Fact) -> Fact:
    return replace(
        one,
        when_to_use=one.when_to_use or other.when_to_use,
        observed_at=max(one.observed_at, other.observed_at),
        stated_from=one.stated_from or other.stated_from,
        stated_precision=one.stated_precision if one.stated_from is not None else other.stated_precision,
        ended_at=one.ended_at,
        sources=join_sources(one.sources, other.sources),
    )


def _sources(message_ids: Sequence[str], task: DistilTask) -> tuple[Source, ...]:
    """Return the messages by the block that each lies in; one that a later block repeats lies in the first."""
    homes: dict[str, str] = {}
    for block in task.blocks:
        for message_id in block.message_ids:
            homes.setdefault(message_id, block.block_id)
    sources: tuple[Source, ...] = ()
    for message_id in message_ids:
        sources = join_sources(sources, (Source(block_id=homes.get(message_id), message_ids=(message_id,)),))
    return sources


def join_sources(one: Sequence[Source], other: Sequence[Source]) -> tuple[Source, ...]:
    """Return the sources of both: each block once, each of its messages once, in the order of their coming."""
    joined: dict[str | None, dict[str, None]] = {}
    for source in (*one, *other):
        joined.setdefault(source.block_id, {}).update(dict.fromkeys(source.message_ids))
    return tuple(Source(block_id=block_id, message_ids=tuple(ids)) for block_id, ids in joined.items())
