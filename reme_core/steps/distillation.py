"""Values and protocols of distillation, which makes memories of blocks, and the application's guidance for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from reme_core.errors import InvalidInputError, ReMeError
from reme_core.ports import BlockSummary, EventQuery, Store, Target, WriteBatch
from reme_core.schema import (
    Block,
    Event,
    FactPreview,
    Job,
    MemoryType,
    Message,
    RejectedExperience,
    RejectedFact,
    Scope,
    Usage,
    shown,
)
from reme_core.steps.user_input import read_bounded_text, read_instructions, read_list
from reme_core.text import Language, fence, json_line, load_prompt

MAX_EXAMPLES, MAX_EXAMPLE_CHARS = 10, 1000
"""Some pages; they are sent with every extraction."""

EXTRACTED = (MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL, MemoryType.IDENTITY)
"""The types of memory that are made of facts."""

_TYPES = (*EXTRACTED, MemoryType.SUMMARY)
_PACKAGE = "reme_core.steps"


class Guidance(BaseModel):
    """What an application wants of the memories that are made, as it was checked by `read_guidance`.

    Attributes:
        instructions: What to keep and what never to keep, in words; may be empty.
        types: The types of memory to make; None: all of them.
        examples: What is to become of what, each in words or in JSON.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    instructions: str = ""
    types: tuple[MemoryType, ...] | None = None
    examples: tuple[str, ...] = ()

    @property
    def extracted(self) -> tuple[MemoryType, ...]:
        """The types of facts to ask for."""
        return EXTRACTED if self.types is None else tuple(kind for kind in EXTRACTED if kind in self.types)

    @property
    def wants_summaries(self) -> bool:
        """Whether memories of whole conversations are to be made."""
        return self.types is None or MemoryType.SUMMARY in self.types

    def and_for_this_call(self, instructions: str) -> Guidance:
        """Return it with further instructions, which stand behind its own."""
        both = "\n".join(text for text in (self.instructions, instructions) if text)
        return self.model_copy(update={"instructions": both})

    def shown(self, language: Language) -> str:
        """Return it as prompts show it: a fence with JSON lines, which no text of it can close; empty if there is none.

        A line of words beside it says what it is.
        """
        lines = [json_line({"instructions": self.instructions})] if self.instructions else []
        lines += [json_line({"example": text}) for text in self.examples]
        if not lines:
            return ""
        words = load_prompt(_PACKAGE, "guided", language)
        return words.fill({"instructions": fence("instructions", "\n".join(lines))})


def read_guidance(instructions: object, types: object = None, examples: object = ()) -> Guidance:
    """Check what an application wants.

    Raises:
        InvalidInputError: Naming what can't be used, or is too long, and how much may be.
    """
    wanted = None if types is None else tuple(_type(item) for item in read_list(types, "types"))
    if wanted is not None and not set(wanted) & set(EXTRACTED):
        msg = f"types: {shown(types)} holds none of {', '.join(EXTRACTED)}: name one at least"
        raise InvalidInputError(msg)
    return Guidance(instructions=read_instructions(instructions), types=wanted, examples=tuple(_examples(examples)))


def _examples(value: object) -> Sequence[str]:
    items = read_list(value, "examples")
    if len(items) > MAX_EXAMPLES:
        msg = f"examples: {len(items)} of them, at most {MAX_EXAMPLES} are sent with every conversation: keep the best"
        raise InvalidInputError(msg)
    texts = [read_bounded_text(item, f"examples[{place}]", MAX_EXAMPLE_CHARS) for place, item in enumerate(items)]
    return [text for text in texts if text]


def _type(value: object) -> MemoryType:
    if isinstance(value, str) and value in _TYPES:
        return MemoryType(value)
    msg = f"types: {shown(value)} is none of {', '.join(_TYPES)}"
    raise InvalidInputError(msg)


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
        meter: Where a distiller adds what its calls cost, as they happen.
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
        failures: Targets that failed, and why; the batch holds what the others came to.
        rejected: Experiences that were left out, and why.
        rejected_facts: Facts likewise.
        facts: What becomes of each fact, where facts were taken.
        summaries: What the index is to say of the blocks.
        degraded: What failed and was done without, one short sentence each.
    """

    batch: WriteBatch
    failures: tuple[tuple[Target, ReMeError], ...] = ()
    rejected: tuple[RejectedExperience, ...] = ()
    rejected_facts: tuple[RejectedFact, ...] = ()
    facts: tuple[FactPreview, ...] = ()
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
