"""Items that importers yield: sessions, memories and what could not be read; and the protocol of what yields them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias

from pydantic import JsonValue

from reme_core.schema import MemoryType, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSession:
    """One conversation of another system.

    Attributes:
        source_id: Its id there, unique among the sessions of the source.
        user: Whose it is there; None where the source doesn't say.
        messages: In order. A message keeps the id that it has there, unique within the session; one without an id is
            told by its place, and one without a time has that of the message before it, or the first one after.
        title: What it is called there.
    """

    source_id: str
    user: str | None
    messages: Sequence[Message]
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMemory:
    """One memory of another system; the writer makes a `Memory` of it, and what can't be one costs this one alone.

    Attributes:
        source_id: Its id there, unique among the memories of the source.
        user: Whose it is there; None where the source doesn't say.
        content: The statement.
        where: Its place in the source, for people.
        memory_type: See `Memory`, like the following ones.
        memory_target: Whom or what it is about; cut to what a target may have.
        when_to_use: What to find it by, beside the content.
        observed_at: When it was said; None: when it was made there.
        valid_from: Since when it holds; None: since it was said.
        valid_to: Until when it holds.
        created_at: When it was made there; None: the time of the import.
        updated_at: When it was last changed there; None: when it was made.
        superseded_by: The source id of the memory that replaced it.
        author: Who wrote it; "": the other system, whose name stands there, and whose memories are trusted as those of
            an assistant. `import` is what a person wrote, and trusted so.
        said_in: The messages that it comes from: the source id of a session, and the ids of messages there. What isn't
            imported is kept as `metadata.origin`.
        metadata: What is told of it there.
        fields: Further fields of `Memory`, as `importance`, `confidence`, `freq` and `utility`.
    """

    source_id: str
    user: str | None
    content: str
    where: str = ""
    memory_type: MemoryType = MemoryType.PERSONAL
    memory_target: str = "self"
    when_to_use: str = ""
    observed_at: datetime | None = None
    valid_from: datetime | str | None = None
    valid_to: datetime | str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    superseded_by: str | None = None
    author: str = ""
    said_in: Sequence[tuple[str, Sequence[str]]] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    fields: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One record that can't be taken over: its place in the source, and why."""

    where: str
    reason: str


ImportedItem: TypeAlias = ImportedSession | ImportedMemory | Unreadable


class ImportSource(Protocol):
    """What another system has written, read lazily; it is never changed.

    It is read twice, once to find whose it is. An iterator is used by one thread at a time, not always the same.
    Memory stays bounded: a session, or a page of memories, is held at once.
    """

    @property
    def name(self) -> str:
        """The other system, in a word; it is part of all ids, so it never changes."""
        ...

    def items(self) -> Iterator[ImportedItem]:
        """Yield all that is there, in an order that stays the same; a record that is wrong costs that record alone.

        Raises:
            InvalidInputError: By the iterator: this is nothing that the source reads; it says what is wanted.
            StoreAccessError: By the iterator: it can't be opened.
        """
        ...
