"""The two directions between the layers, behind interfaces that can be exchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from reme_core.ports.memory_store import Scalar
from reme_core.ports.transcript import OnConflict
from reme_core.schema import (
    UTC_NAME,
    Layer,
    MemoryType,
    Message,
    RetrieveResult,
    Scope,
    SummaryResult,
    TrustClass,
    bounded_query,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """Messages that are to be summarised.

    Attributes:
        session_id: The session that they continue.
        messages: In order; may be empty, to finish what is left of the session.
        memory_type: The only type of memory to make; None lets the summarizer decide.
        ends_session: Nothing more will come: everything is sliced, a tool call without its result included.
        background: Return once the messages are on disk; what takes a model is left to the next call or to `flush`.
        instructions: What the application wants kept and never kept of these messages; may be empty.
        timezone: Of the user, by its IANA name: days are reckoned in it.
        on_conflict: As in `AppendMessages`.
    """

    session_id: str
    messages: Sequence[Message] = ()
    memory_type: MemoryType | None = None
    ends_session: bool = True
    background: bool = False
    instructions: str = ""
    timezone: str = UTC_NAME
    on_conflict: OnConflict = "raise"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveRequest:
    """A question that is to be answered.

    Attributes:
        query: The question in words; empty where `said_from` or `said_to` is given: what lies in that time.
        limit: At most this many results; None leaves it to the budget (or 10 without one).
        token_budget: At most this many tokens of text in all, without repetition.
        min_score: Leaves out results that score lower, once all are ranked; in [0, 1].
        layers: The layers to look at; None: memories, and messages where the filters apply to them.
        types: Memories of these types.
        targets: Memories about these targets.
        metadata: Memories with these values; see `MemoryFilter`.
        trust: Memories and messages of these classes; see `TrustClass`.
        session_id: Messages and blocks of this session.
        said_from: Said (memories: observed) at this time or later.
        said_to: Said before this time.
        as_of: What held at this time, and was said by then.
        include_superseded: Also memories that were replaced; it takes nothing away.
        include_shared: Look into the shared scope of the space as well.
        now: The time of asking, for "yesterday" in the question.
        explain: Tell how the answer came about, in `RetrieveResult.explanation`.
        why_not: An id of which that is to tell why it is no result.
    """

    query: str
    limit: int | None = None
    token_budget: int | None = None
    min_score: float | None = None
    layers: tuple[Layer, ...] | None = None
    types: tuple[MemoryType, ...] | None = None
    targets: tuple[str, ...] | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    trust: tuple[TrustClass, ...] | None = None
    session_id: str | None = None
    said_from: datetime | None = None
    said_to: datetime | None = None
    as_of: datetime | None = None
    include_superseded: bool = False
    include_shared: bool = False
    now: datetime
    explain: bool = False
    why_not: str | None = None

    def __post_init__(self) -> None:
        """Take the beginning of a pasted text; see `bounded_query`."""
        object.__setattr__(self, "query", bounded_query(self.query))


@runtime_checkable
class Summarizer(Protocol):
    """Turns messages into blocks, index entries and memories."""

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Take over the messages; they are on disk before anything else is tried.

        Raises:
            ConflictError: An id of a message that is taken.
            PartialFailureError: The messages are kept, a later step failed; `done` is the result so far.
        """


@runtime_checkable
class Retriever(Protocol):
    """Finds what answers a question."""

    async def retrieve(self, scope: Scope, request: RetrieveRequest) -> RetrieveResult:
        """Return what was found, best first.

        Raises:
            InvalidInputError: The question is empty, or the filters contradict each other.
            UnsupportedFilterError: A layer was asked for that a filter can't be applied to.
        """
