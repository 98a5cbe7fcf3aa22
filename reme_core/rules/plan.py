"""Plan of a write of memories, worked out on values before anything is written.

A store reads the memories that a batch touches, asks `plan_batch` what follows, and writes that as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import DeleteMemory, PutMemory, Vector, WriteBatch
from reme_core.rules.chain import check_useless
from reme_core.schema import EventKind, Memory, MemoryType, Scope
from reme_core.text import normalise_content

# Embedders normalise in float32 or float16; what is further from 1 was not normalised at all.
NORM_TOLERANCE = 1e-2


class Claim(NamedTuple):
    """What only one current memory of a scope may have; `content` is that of `claimed_content`."""

    memory_type: MemoryType
    memory_target: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one memory: `before` is None for an add, `after` for a delete.

    Attributes:
        before: The state before.
        after: The state after.
        vector: The vector of the new state, if it brings one.
        keeps_vector: Whether the stored vector, if any, stays.
        wants_vector: Whether it brings none, and waits for one.
        reason: Its own; None: that of the batch.
        run_id: Likewise.
    """

    before: Memory | None
    after: Memory | None
    vector: Vector | None = None
    keeps_vector: bool = False
    wants_vector: bool = False
    reason: str | None = None
    run_id: str | None = None

    @property
    def memory_id(self) -> str:
        """Which memory was changed."""
        state = self.after or self.before
        assert state is not None  # noqa: S101  # a change has one side at least
        return state.memory_id

    @property
    def operation(self) -> EventKind:
        """What the change is called in the events."""
        if self.before is None:
            return EventKind.ADD
        if self.after is None:
            return EventKind.DELETE
        ended = self.before.is_current and not self.after.is_current
        return EventKind.SUPERSEDE if ended else EventKind.UPDATE


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What a batch comes to: the answer to each of its puts, and the changes in order."""

    answers: tuple[Memory, ...]
    changes: tuple[Change, ...]

    @property
    def outcome(self) -> dict[str, Change]:
        """Each memory touched, from its state before the batch to that after it."""
        outcome: dict[str, Change] = {}
        for change in self.changes:
            first = outcome.get(change.memory_id)
            outcome[change.memory_id] = change if first is None else _joined(first, change)
        return outcome


def _joined(first: Change, second: Change) -> Change:
    if not second.keeps_vector:
        return replace(second, before=first.before)
    return replace(
        second,
        before=first.before,
        vector=first.vector,
        keeps_vector=first.keeps_vector,
        wants_vector=first.wants_vector,
    )


def claim_of(memory: Memory) -> Claim | None:
    """Return what a memory claims for itself alone; None for one that was replaced."""
    if not memory.is_current:
        return None
    return Claim(memory.memory_type, memory.memory_target, normalise_content(claimed_content(memory)))


def claimed_content(memory: Memory) -> str:
    """Return the text that no other current memory of the type and target may have: for a block, there is no other."""
    return "" if memory.memory_type is MemoryType.BLOCK else memory.content


def claims_of(batch: WriteBatch) -> set[Claim]:
    """Return everything that the puts of a batch claim."""
    return {claim for put in batch.puts if (claim := claim_of(put.memory)) is not None}


def beside(held: Memory, new: Memory, *, at: datetime) -> tuple[Memory, Memory] | None:
    """Return a current memory and a new one that says the same as they can stand beside each other.

    The one whose own time is over before that of the other begins is superseded by it, and keeps its time. None:
    neither is, so the new one repeats the other.
    """
    if held.is_over_before(new):
        return held.model_copy(update={"superseded_by": new.memory_id, "updated_at": at}), new
    if new.is_over_before(held):
        return held, new.model_copy(update={"superseded_by": held.memory_id})
    return None


def replaced_elsewhere(memory: Memory) -> Memory:
    """Return a memory as one that was replaced, if it was so where it comes from, by what did not come along.

    Up to schema version 5 the load of a library moved the id of such a successor to the memory's origin, and the end
    that was left told that it was not current. Any other memory is returned as it is.
    """
    origin = memory.metadata.get("origin")
    successor = origin.get("superseded_by") if isinstance(origin, dict) else None
    if not (memory.is_current and memory.valid_to is not None and isinstance(successor, str) and successor.strip()):
        return memory
    return memory.model_copy(update={"superseded_by": successor})


def settle_equal(memories: Iterable[Memory]) -> list[Memory]:
    """Return those of a scope's memories that can't be current beside an equal one, as superseded by that one.

    Up to schema version 5 a memory with an end was not current, so that one content could stand there for many times.
    Of such a group one stays: one that has no end, or ends last; of these the one that was said last.
    """
    groups: dict[Claim, list[Memory]] = {}
    for memory in memories:
        claim = claim_of(memory)
        if claim is not None:
            groups.setdefault(claim, []).append(memory)
    settled: list[Memory] = []
    for group in groups.values():
        last = max(group, key=_lasts)
        settled += [item.model_copy(update={"superseded_by": last.memory_id}) for item in group if item is not last]
    return settled


def _lasts(memory: Memory) -> tuple[bool, datetime, datetime, datetime, str]:
    said = (memory.observed_at, memory.created_at, memory.memory_id)
    return memory.valid_to is None, memory.valid_to or memory.valid_from, *said


def repetition(memory: Memory, held: str) -> ConflictError:
    """Say that a memory would say what a current one of the same type and target says, or has a block's label."""
    msg = (
        f"memory {held!r} of the same type and target says the same: update that one, or supersede it "
        f"(wanted to write {memory.memory_id!r})"
    )
    if memory.memory_type is MemoryType.BLOCK:
        msg = (
            f"there is a memory block {memory.memory_target!r} already, {held!r}: delete it, or revoke it where it is "
            f"a shared one (wanted to write {memory.memory_id!r})"
        )
    return ConflictError(msg)


def ids_of(batch: WriteBatch) -> set[str]:
    """Return the ids of all memories that a batch names."""
    return {put.memory.memory_id for put in batch.puts} | {item.memory_id for item in batch.deletes}


def check_vector(vector: npt.NDArray[np.generic], what: str) -> Vector:
    """Return a vector as contiguous float32 of its own memory, if it is one of unit norm.

    Raises:
        InvalidInputError: It is not an array of floats of shape (d,), not finite, or not of unit norm.
    """
    if not isinstance(vector, np.ndarray) or vector.ndim != 1 or vector.dtype.kind != "f" or not len(vector):
        found = f"{vector.dtype} of shape {vector.shape}" if isinstance(vector, np.ndarray) else type(vector).__name__
        msg = f"{what}: wanted a float array of shape (d,), found {found}"
        raise InvalidInputError(msg)
    checked: Vector = np.array(vector, "<f4", order="C")
    norm = float(np.linalg.norm(checked))
    if not np.isfinite(norm):
        msg = f"{what}: holds NaN or infinity; check the embedding model's answer"
        raise InvalidInputError(msg)
    if abs(norm - 1.0) > NORM_TOLERANCE:
        msg = f"{what}: has norm {norm:.4g}, wanted 1: divide it by its norm (a vector of zeros can't be searched)"
        raise InvalidInputError(msg)
    return checked


def check_batch(scope: Scope, batch: WriteBatch) -> WriteBatch:
    """Return the batch with its vectors checked, if all its memories belong to the scope.

    Raises:
        InvalidInputError: A memory of another scope, or a vector that is none; nothing was written.
    """
    for place, put in enumerate(batch.puts):
        if put.memory.scope != scope:
            msg = f"puts[{place}]: the memory belongs to {put.memory.scope!r} and not to {scope!r}"
            raise InvalidInputError(msg)
    puts = [_checked(put, f"puts[{place}].vector") for place, put in enumerate(batch.puts)]
    return replace(batch, puts=puts)


def _checked(put: PutMemory, what: str) -> PutMemory:
    vector = None if put.vector is None else check_vector(put.vector, what)
    return replace(put, memory=put.memory.detached(), vector=vector)


def plan_batch(batch: WriteBatch, memories: Iterable[Memory]) -> WritePlan:
    """Work out what a checked batch does to a scope.

    `memories` are those of the scope that the batch touches: by `ids_of`, and the current ones by `claims_of`; more do
    no harm.

    Raises:
        MemoryNotFoundError: A delete names an id that is not there.
        ConflictError: See `Store.put`.
    """
    draft = _PlannedScope(held={memory.memory_id: memory for memory in memories}, at=batch.at)
    draft.claims = {claim: held.memory_id for held in draft.held.values() if (claim := claim_of(held)) is not None}
    draft.delete(batch.deletes)
    answers = tuple(draft.put(put) for put in batch.puts)
    return WritePlan(answers=answers, changes=tuple(draft.changes))


@dataclass(slots=True, kw_only=True)
class _PlannedScope:
    """The scope as it will be, while a batch is gone through."""

    held: dict[str, Memory]
    at: datetime
    claims: dict[Claim, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def delete(self, items: Iterable[DeleteMemory]) -> None:
        items = tuple(items)
        missing = [item.memory_id for item in items if item.memory_id not in self.held]
        if missing:
            raise MemoryNotFoundError(missing)
        for item in items:
            before = self.held.get(item.memory_id)
            if before is None:
                raise MemoryNotFoundError([item.memory_id])  # named twice: gone by now
            _expect(item.expected_revision, before, item.memory_id)
            check_useless(before, item.only_if_useless)
            self._replace(Change(before=before, after=None, reason=item.reason))

    def put(self, put: PutMemory) -> Memory:
        before = self.held.get(put.memory.memory_id)
        _expect(put.expected_revision, before, put.memory.memory_id)
        claim = claim_of(put.memory)
        equal = self.claims.get(claim) if claim is not None else None
        wanted = put.memory
        if equal is not None and equal != wanted.memory_id:
            if before is not None or put.on_duplicate == "raise":
                raise repetition(wanted, equal)
            held = self.held[equal]
            settled = beside(held, wanted, at=self.at)
            if settled is None:
                return held
            displaced, wanted = settled
            if displaced is not held:
                after = _next_state(held, displaced)
                way = Change(before=held, after=after, keeps_vector=True, reason=put.reason, run_id=put.run_id)
                self._replace(way)
        after = _next_state(before, wanted)
        keeps = put.vector is None and before is not None and before.index_text == after.index_text
        wants = put.wants_vector and put.vector is None and not keeps
        self._replace(
            Change(
                before=before,
                after=after,
                vector=put.vector,
                keeps_vector=keeps,
                wants_vector=wants,
                reason=put.reason,
                run_id=put.run_id,
            )
        )
        return after

    def _replace(self, change: Change) -> None:
        if change.before is not None:
            self.claims.pop(claim_of(change.before) or _NOTHING, None)
            del self.held[change.before.memory_id]
        if change.after is not None:
            self.held[change.after.memory_id] = change.after
            claim = claim_of(change.after)
            if claim is not None:
                self.claims[claim] = change.after.memory_id
        self.changes.append(change)


_NOTHING = Claim(MemoryType.HISTORY, "", "")  # no memory claims it: a target has one character at least


def _expect(revision: int | None, found: Memory | None, memory_id: str) -> None:
    actual = 0 if found is None else found.revision
    if revision is not None and revision != actual:
        there = f"has revision {actual}" if actual else "is not there"
        msg = f"memory {memory_id!r} {there}, revision {revision} was expected: read it again, then decide"
        raise ConflictError(msg)


def reason_for(own: str | None, batch: WriteBatch) -> str:
    """Return the reason that an event tells: that of the change itself, where it has one."""
    return batch.reason if own is None else own


def run_for(own: str | None, batch: WriteBatch) -> str | None:
    """Return the run that an event is part of: that of the change itself, where it has one."""
    return batch.run_id if own is None else own


def kept_by_updates(before: Memory) -> dict[str, object]:
    """Return what an update leaves as it is stored, and the next revision: counts are the store's own."""
    return {
        "revision": before.revision + 1,
        "created_at": before.created_at,
        "freq": before.freq,
        "utility": before.utility,
    }


def _next_state(before: Memory | None, wanted: Memory) -> Memory:
    kept: Mapping[str, object] = {"revision": 1} if before is None else kept_by_updates(before)
    return wanted.detached().model_copy(update=kept)
