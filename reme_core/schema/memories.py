"""Memories: the statements of the top layer, the time that each speaks of, and the events that changed them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from reme_core.schema.checks import Id, Metadata, Text, copy_json
from reme_core.schema.mapping import told_fields
from reme_core.schema.memory_blocks import check_block
from reme_core.schema.relations import MAX_RELATIONS, ToldRelation
from reme_core.schema.scope import Scope, new_id
from reme_core.schema.times import (
    PartialTime,
    TimePrecision,
    UtcTime,
    last_part,
    may_end,
    parse_partial_time,
    parse_time,
    shown_time,
    utc_now,
)
from reme_core.schema.trust import TrustClass, trust_of_author

MAX_MEMORY_CHARS = 1 << 18
"""A memory is one statement; 262,144 characters leave room for a long procedure."""


def _stated(value: object) -> object:
    """Read a time that a statement tells (ValueError: naming the forms, parts of a date among them)."""
    try:
        return parse_time(value)
    except ValueError as exc:
        if not isinstance(value, str) or "year" in str(exc):
            raise
        msg = f"not a time: {value[:40]!r}; write 2026, 2026-01, 2026-01-31 or 2026-01-31T09:30:00Z"
        raise ValueError(msg) from exc


StatedTime = Annotated[UtcTime, BeforeValidator(_stated)]

# As many as JSON and every database keep exactly.
_MOST_USES = 1 << 53


class MemoryType(StrEnum):
    """What a memory is about. `history` is a block seen as a memory; `meta` an entry of the routing table.

    A `record` is an instance of a schema of the application's own: its target is the schema's name, its metadata are
    its fields, its content tells them.
    A `meta` memory says that there is a target ("personal/Alice") and what it is about, a `passage` is a piece of a
    file that a person keeps, a `block` a text that stands in prompts under a label; they are no statements, and only
    those who ask for them by name see them. `self` and `task`, older names of identity and procedural, are read as
    these.
    """

    IDENTITY = "identity"
    PERSONAL = "personal"
    PROCEDURAL = "procedural"
    TOOL = "tool"
    SUMMARY = "summary"
    HISTORY = "history"
    META = "meta"
    PASSAGE = "passage"
    RECORD = "record"
    BLOCK = "block"

    @classmethod
    def _missing_(cls, value: object) -> MemoryType | None:
        """Read an older name."""
        return {"self": cls.IDENTITY, "task": cls.PROCEDURAL}.get(value) if isinstance(value, str) else None


NO_STATEMENTS = frozenset({MemoryType.META, MemoryType.PASSAGE, MemoryType.BLOCK})
"""Types that only those see who ask for them by name."""

NO_VECTORS = frozenset({MemoryType.META, MemoryType.BLOCK})
"""Types that are read whole and never searched, so that they get no vector."""

STATEMENTS = tuple(kind for kind in MemoryType if kind not in NO_STATEMENTS)
"""The other types: what `auto` means to those who search or list."""

WATCHED = (*STATEMENTS, MemoryType.BLOCK)
"""Types whose changes are told unless others are asked for: memory blocks with them, which people and models edit."""


class Source(BaseModel):
    """Where a memory comes from: messages, and the block they lie in, if they are in one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    block_id: Id | None = None
    message_ids: tuple[Id, ...] = ()


class Memory(BaseModel):
    """One distilled statement.

    Two things are kept apart. `valid_from` and `valid_to` are the statement's own time: a trip in June, an opening
    night next week, a job held until 2019. `superseded_by` says that another statement has taken its place. What is
    over is not outdated: a memory is current until it is replaced or deleted.

    Attributes:
        memory_id: Random, unique within the scope; kept when the text is edited. That of a record which is the one of
            its schema says that schema's name.
        memory_space: See `Scope`.
        user_id: See `Scope`.
        memory_type: See `MemoryType`.
        memory_target: Whom or what it is about inside the scope.
        content: The statement; of a `block` its text, which may be empty.
        when_to_use: What to match a query on, beside the content; empty means the content alone.
        observed_at: When it was said; the creation time unless given.
        valid_from: Since when it holds. A text such as `2023`, `2023-01` or `2023-01-05` is the first moment of that
            year, month or day, and sets the precision. Unless given it is `observed_at`, or the last day, month or year
            before `valid_to`, if it was over when it was said.
        valid_from_precision: How much of `valid_from` was told, so that it is shown as it was.
        valid_to: Until when it holds, or held (exclusive); None where that is not known. A text such as `2023-01` is a
            time until the end of that month, so the first moment after it; a year and a day likewise.
        valid_to_precision: How much of `valid_to` was told.
        superseded_by: The memory that replaced it, or that it was joined into, and then it has no end; None for the
            current ones.
        created_at: When it was stored first; kept by updates.
        updated_at: When it was last changed.
        revision: 1 for a new one; the store adds 1 with each change.
        author: Who wrote it: `user`, `import`, or the name of an agent.
        trust: See `TrustClass`: that of the least trusted message it comes from, which the store sees to; unless given
            and without messages `assistant` for what an agent wrote, else `user`.
        importance: In [0, 1].
        confidence: In [0, 1].
        freq: How often it was used.
        utility: How often that helped.
        sources: The messages and blocks it comes from.
        relations: What it tells of persons, organisations, places and things to each other, each a `Relation` or its
            three texts; at most eight.
        metadata: A JSON object.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_id: Id = Field(default_factory=new_id)
    memory_space: str
    user_id: str
    memory_type: MemoryType = MemoryType.PERSONAL
    memory_target: Annotated[Text, Field(min_length=1, max_length=512)] = "self"
    content: Annotated[Text, Field(max_length=MAX_MEMORY_CHARS)]
    when_to_use: Annotated[Text, Field(max_length=MAX_MEMORY_CHARS)] = ""
    observed_at: UtcTime
    valid_from: StatedTime
    valid_from_precision: TimePrecision = TimePrecision.EXACT
    valid_to: StatedTime | None = None
    valid_to_precision: TimePrecision = TimePrecision.EXACT
    superseded_by: Id | None = None
    created_at: UtcTime = Field(default_factory=utc_now)
    updated_at: UtcTime
    revision: Annotated[int, Field(ge=1)] = 1
    author: Annotated[Text, Field(min_length=1, max_length=128)] = "user"
    trust: TrustClass = TrustClass.USER
    importance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    freq: Annotated[int, Field(ge=0, le=_MOST_USES)] = 0
    utility: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    sources: tuple[Source, ...] = ()
    relations: Annotated[tuple[ToldRelation, ...], Field(max_length=MAX_RELATIONS)] = ()
    metadata: Metadata = Field(default_factory=dict)

    __repr__ = told_fields

    def __str__(self) -> str:
        """Tell type, target and statement."""
        return f"{self.memory_type}({self.memory_target}): {self.content}"

    @model_validator(mode="before")
    @classmethod
    def _default_times(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        fields = {**data, **_told(data, "valid_from"), **_told(data, "valid_to")}
        created = fields.get("created_at") or utc_now()
        fields["created_at"] = created
        fields["updated_at"] = fields.get("updated_at") or created
        fields["observed_at"] = fields.get("observed_at") or created
        fields["trust"] = fields.get("trust") or trust_of_author(fields.get("author", "user"))
        return fields if fields.get("valid_from") else {**fields, **_untold_beginning(fields)}

    @model_validator(mode="after")
    def _meaningful(self) -> Memory:
        Scope(memory_space=self.memory_space, user_id=self.user_id)
        if self.memory_type is MemoryType.BLOCK:
            check_block(self.memory_target, self.metadata)
        elif not self.content.strip():
            msg = "content is empty: a memory is a statement"
            raise ValueError(msg)
        if self.valid_to is not None and not may_end(self.valid_from, self.valid_to, self.valid_to_precision):
            end = shown_time(last_part(self.valid_to, self.valid_to_precision), self.valid_to_precision)
            begin = shown_time(self.valid_from, self.valid_from_precision)
            msg = f"valid_to, {end}, lies before valid_from, {begin}"
            raise ValueError(msg)
        return self

    @property
    def scope(self) -> Scope:
        """Whose it is."""
        return Scope(memory_space=self.memory_space, user_id=self.user_id)

    def detached(self) -> Memory:
        """Return a copy whose metadata, the one part that can be changed, is its own."""
        return self.model_copy(update={"metadata": copy_json(self.metadata)})

    @property
    def is_current(self) -> bool:
        """Whether nothing has replaced it; one whose time is over, or lies ahead, is as current as any."""
        return self.superseded_by is None

    def holds_at(self, moment: datetime) -> bool:
        """Tell whether it held, or will hold, at a time; one that was joined into another never did."""
        if moment < self.valid_from or (self.valid_to is None and not self.is_current):
            return False
        return self.valid_to is None or moment < self.valid_to

    def is_over_before(self, other: Memory) -> bool:
        """Tell whether its own time ends before that of another memory begins."""
        return self.valid_to is not None and self.valid_to <= other.valid_from

    @property
    def index_text(self) -> str:
        """The text that is searched and embedded: when to use it, and what it says."""
        return f"{self.when_to_use}\n{self.content}" if self.when_to_use else self.content


def _untold_beginning(fields: Mapping[str, object]) -> dict[str, object]:
    """Return since when something holds of which nobody told it: since it was said, if it was not over by then."""
    try:
        said = parse_time(fields["observed_at"])
        if fields.get("valid_to") is None:
            return {"valid_from": said}
        end, precision = parse_time(fields["valid_to"]), TimePrecision(str(fields["valid_to_precision"]))
    except ValueError:
        return {"valid_from": utc_now()}  # the field that was given says what is wrong with it, and no other one
    if end > said:
        return {"valid_from": said}
    return {"valid_from": last_part(end, precision), "valid_from_precision": precision}


def _told(fields: Mapping[str, object], name: str) -> dict[str, object]:
    """Return a time with its precision, where a part of a date was told (ValueError: another precision is given)."""
    value, own = fields.get(name), f"{name}_precision"
    given = fields.get(own) or TimePrecision.EXACT
    # Those that are stored end with "Z", and are whole.
    told = _part(value) if isinstance(value, str) and not value.endswith("Z") else None
    if told is None:
        return {own: given}
    if given not in (TimePrecision.EXACT, told.precision):
        msg = f"{own} is {given!s:.20}, and {name} {value!r} is a {told.precision}: leave one of the two out"
        raise ValueError(msg)
    return {name: told.end if name == "valid_to" else told.start, own: told.precision}


def _part(text: str) -> PartialTime | None:
    try:
        told = parse_partial_time(text)
    except ValueError:
        return None  # the field says what is wrong
    return None if told.precision is TimePrecision.EXACT else told


class EventKind(StrEnum):
    """What happened to a memory."""

    ADD = "add"
    UPDATE = "update"
    SUPERSEDE = "supersede"
    DELETE = "delete"


class Event(BaseModel):
    """One change of one memory. `before` is None for an add, `after` is None for a delete."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sequence: int
    operation: EventKind
    memory_id: Id
    before: Memory | None
    after: Memory | None
    reason: str = ""
    run_id: str | None = None
    actor: str = "user"
    at: UtcTime

    def detached(self) -> Event:
        """Return a copy whose memories are its own."""
        states = {"before": self.before, "after": self.after}
        own = {name: None if memory is None else memory.detached() for name, memory in states.items()}
        return self.model_copy(update=own)
