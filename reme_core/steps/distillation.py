"""Values and protocols of distillation, which makes memories of blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Protocol

from reme_core.errors import ReMeError
from reme_core.ports import BlockSummary, EventQuery, Store, Target, WriteBatch
from reme_core.schema import Block, Event, Job, MemoryType, Message, RejectedExperience, RejectedFact, Scope, Usage
from reme_core.steps.guidance import Guidance

SHOWN_CHARS = 16_000
"""Of one message a model is shown this much, head and tail; some 4,000 tokens, which leave room in a small window."""

_EVENTS = 1000


@dataclass(slots=True)
class UsageCounter:
    """Counts what an attempt costs as it goes on, so that an attempt that fails has a cost, too.

    Attributes:
        usage: What it has cost so far.
    """

    usage: Usage = field(default_factory=Usage)

    def add(self, usage: Usage) -> None:
        """Count something more."""
        self.usage += usage


@dataclass(frozen=True, slots=True, kw_only=True)
class DistilTask:
    """Blocks that memories are to be made of.

    Attributes:
        run_id: The run that the writes carry.
        session_id: The session of the blocks.
        blocks: The blocks, in order.
        messages: Their messages in order, each once.
        before: What was said in the session just before them, for their understanding; nothing is made of it.
        thread: What the index says of the block before them, where a model has written it; may be empty.
        memory_type: The only type of memory to make; None leaves it open.
        guidance: What the application wants of the memories.
        zone: Where the user is: their days are reckoned in it.
        targets: Only for these targets: what an earlier attempt left. None: all.
        meter: Where a distiller adds what its calls cost, as they happen; in the end as much as `Distilled.usage`.
    """

    run_id: str
    session_id: str
    blocks: tuple[Block, ...]
    messages: tuple[Message, ...]
    before: tuple[Message, ...] = ()
    thread: str = ""
    memory_type: MemoryType | None = None
    guidance: Guidance = field(default_factory=Guidance)
    zone: tzinfo = UTC
    targets: tuple[Target, ...] | None = None
    meter: UsageCounter = field(default_factory=UsageCounter, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """What distilling came to; nothing of it is written yet.

    Attributes:
        batch: The changes, to be written at once with the run id of the task; may be empty.
        usage: What it cost.
        failures: Targets that failed, and why; the batch holds what the others came to.
        rejected: Experiences that were left out, and why.
        rejected_facts: Facts likewise.
        summaries: What the index is to say of the blocks.
        degraded: What failed and was done without, one short sentence each.
    """

    batch: WriteBatch
    usage: Usage = field(default_factory=Usage)
    failures: tuple[tuple[Target, ReMeError], ...] = ()
    rejected: tuple[RejectedExperience, ...] = ()
    rejected_facts: tuple[RejectedFact, ...] = ()
    summaries: tuple[BlockSummary, ...] = ()
    degraded: tuple[str, ...] = ()


class Distiller(Protocol):
    """Makes memories of blocks."""

    @property
    def name(self) -> str:
        """Who writes."""
        ...

    async def distil(self, scope: Scope, task: DistilTask) -> Distilled:
        """Work out what a task changes. It may be called again for the same task after a failure or a crash.

        Raises:
            ModelError: The model failed, or answered twice what can't be used.
            RunError: A run used up what it was given.
            StoreError: Reading failed.
        """
        ...


class Worker(Protocol):
    """Works out what the jobs of one kind come to; what it answers is written by who runs it."""

    async def work(self, scope: Scope, job: Job, meter: UsageCounter) -> Distilled:
        """Work out what a job changes. It may be called again for the same job after a failure or a crash.

        `meter` is told what calls cost as they happen. Raises what `Distiller.distil` raises.
        """
        ...


async def run_events(store: Store, scope: Scope, run_id: str) -> list[Event]:
    """Return everything that a run has written."""
    events: list[Event] = []
    while True:
        after = events[-1].sequence if events else 0
        page = await store.events(scope, EventQuery(run_id=run_id, after=after, limit=_EVENTS))
        events += page
        if len(page) < _EVENTS:
            return events
