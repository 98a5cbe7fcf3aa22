"""Write of a consolidation: one batch of what still is as it was seen, together or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from reme_core.errors import ConflictError, MemoryNotFoundError
from reme_core.evolve.evolution_plan import (
    USELESS,
    plan_evolution,
    read_memories,
    tidied_links,
)
from reme_core.evolve.merged_memory import merge
from reme_core.ports import DeleteMemory, PutMemory, WriteBatch
from reme_core.rules import Claim, claim_of, is_useless
from reme_core.schema import Evolution, Job, Memory, MemoryGroup, MergedMemories, Scope, TidiedLink, TimePrecision
from reme_core.schema.changes import EVOLVE
from reme_core.steps.distillation import Distilled, UsageCounter
from reme_core.steps.flow import FlowContext

_REASONS = {"words": "says the same in another form", "model": "says the same in other words"}
_OVERTAKEN = "was changed, or is gone, since it was seen"
# A write that somebody has overtaken is worked out anew: each time what they changed is left out.
_TIMES = 5


@dataclass(slots=True)
class _PlannedWrite:
    """The part of a plan that can be written, as memories are now."""

    held: Mapping[str, Memory]
    at: datetime
    merges: list[MergedMemories] = field(default_factory=list)
    changed: list[MemoryGroup] = field(default_factory=list)
    rejected: list[MemoryGroup] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    claims: dict[Claim | None, str] = field(init=False)

    def __post_init__(self) -> None:
        """Note what each memory alone may say."""
        self.claims = {claim_of(memory): name for name, memory in self.held.items() if memory.is_current}

    def take(self, seen: Iterable[MergedMemories]) -> None:
        """Take over the groups that are as they were seen, each made anew of what there is and checked again."""
        for item in seen:
            parts = [memory for part in item.before if (memory := self._unchanged(part)) is not None]
            if len(parts) < len(item.before) or not all(part.is_current for part in parts):
                self.changed.append(MemoryGroup(memories=item.before, reason=_OVERTAKEN))
                continue
            try:
                self._add(parts, item)
            except ValueError as exc:
                self.rejected.append(MemoryGroup(memories=item.before, reason=str(exc)))

    def _add(self, parts: Sequence[Memory], item: MergedMemories) -> None:
        """Join memories (ValueError: that can't be, or not any more)."""
        names = {part.memory_id for part in parts}
        if self.touched & names or len(names) < len(parts):
            msg = "a memory is in two groups"
            raise ValueError(msg)
        made = merge(parts, item.after.content, item.by, at=self.at)
        claim, stays = claim_of(made.after), made.after.memory_id
        if self.claims.get(claim, stays) not in names:
            msg = "another memory says that already"
            raise ValueError(msg)
        self.claims[claim] = stays
        self.touched |= names
        self.merges.append(made)

    def useless(self, seen: Iterable[Memory]) -> list[Memory]:
        """Return what still is of as little use as when it was seen."""
        found = [memory for item in seen if (memory := self._unchanged(item)) is not None]
        return [
            item
            for item in found
            if item.is_current and is_useless(item, USELESS) and item.memory_id not in self.touched
        ]

    def _unchanged(self, seen: Memory) -> Memory | None:
        memory = self.held.get(seen.memory_id)
        return memory if memory is not None and memory.revision == seen.revision else None


def _planned(held: Mapping[str, Memory], at: datetime, merges: Iterable[MergedMemories]) -> _PlannedWrite:
    write = _PlannedWrite(held, at)
    write.take(merges)
    return write


async def evolution_batch(context: FlowContext, plan: Evolution, *, forget: bool) -> tuple[WriteBatch, Evolution]:
    """Return the one write that a plan comes to by now, and what is done by it.

    Of the plan count the ids, the revisions, and what the joined memories are to say; the rest is made anew.
    """
    held, now = await read_memories(context.store, context.scope), context.clock.now()
    write = await asyncio.to_thread(_planned, held, now, plan.merges)
    wanted = {link.before.memory_id for link in plan.links}
    links = tuple(link for link in tidied_links(held, write.merges) if link.before.memory_id in wanted)
    useless = tuple(write.useless(plan.forgettable)) if forget else ()
    batch = WriteBatch(
        puts=[*await _merge_puts(context, write.merges, now), *(_link_put(link, now) for link in links)],
        deletes=[
            DeleteMemory(memory_id=item.memory_id, expected_revision=item.revision, only_if_useless=USELESS)
            for item in useless
        ],
        reason="consolidation",
        run_id=context.run_id,
        actor=EVOLVE,
        at=now,
    )
    done = {
        "merges": tuple(write.merges),
        "links": links,
        "forgettable": useless if forget else plan.forgettable,
        "rejected": (*plan.rejected, *write.rejected),
        "changed": tuple(write.changed),
        "forgets": forget,
        "dry_run": False,
        "run_id": context.run_id if batch.puts or batch.deletes else None,
    }
    return batch, plan.model_copy(update=done)


async def _merge_puts(context: FlowContext, merges: Iterable[MergedMemories], now: datetime) -> list[PutMemory]:
    """Return the puts that end what goes, and then change what stays: which may say what another one said so far."""
    told = [item.after.index_text for item in merges if item.before[0].index_text != item.after.index_text]
    vectors = await context.vectors(told)
    puts: list[PutMemory] = []
    for item in merges:
        stays, *others = item.before
        gone = {"superseded_by": item.after.memory_id, "valid_to": None, "valid_to_precision": TimePrecision.EXACT}
        ended = [part.model_copy(update={**gone, "updated_at": now}) for part in others]
        puts += [
            PutMemory(
                memory=memory,
                vector=vectors.get(memory.index_text) if seen is stays else None,
                wants_vector=context.embedder is not None,
                expected_revision=seen.revision,
                on_duplicate="raise",
                reason=_REASONS[item.by],
            )
            for seen, memory in zip((*others, stays), (*ended, item.after), strict=True)
        ]
    return puts


def _link_put(link: TidiedLink, now: datetime) -> PutMemory:
    moved = link.before.model_copy(update={"superseded_by": link.superseded_by, "updated_at": now})
    return PutMemory(memory=moved, expected_revision=link.before.revision, reason="names the end of its chain")


async def apply_evolution(context: FlowContext, plan: Evolution, *, forget: bool) -> Evolution:
    """Write what of a plan can still be written, in one write that `undo` takes back; the answer tells what that was.

    Raises:
        ConflictError: Others changed memories of it again and again; nothing was written.
    """
    for left in reversed(range(_TIMES)):
        batch, done = await evolution_batch(context, plan, forget=forget)
        try:
            if done.run_id is not None:
                await context.store.put(context.scope, batch)
        except (ConflictError, MemoryNotFoundError):
            if not left:
                raise
        else:
            return done
    raise AssertionError  # the last round returns or raises


@dataclass(frozen=True, slots=True)
class EvolveWorker:
    """A `Worker` that consolidates a scope, in a context that is made for each run. It forgets nothing."""

    make_context: Callable[[Scope, str], FlowContext]

    async def work(self, scope: Scope, job: Job, meter: UsageCounter) -> Distilled:
        """Work out what a consolidation changes; see `Worker.work`."""
        context = self.make_context(scope, job.run_id)
        try:
            plan = await plan_evolution(context)
        finally:
            meter.usage += context.trace.usage
        batch, _ = await evolution_batch(context, plan, forget=False)
        return Distilled(batch=batch, degraded=plan.degraded)
