"""Utility of memories: counts of uses, feedback that moves them, and forgetting of those that never helped."""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from pydantic import ValidationError

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import (
    DeleteMemory,
    MemoryFilter,
    PutMemory,
    Store,
    Uselessness,
    UseMemory,
    WriteBatch,
)
from reme_core.rules import is_useless
from reme_core.schema import (
    STATEMENTS,
    Feedback,
    Forgotten,
    Memory,
    MemoryType,
    Scope,
    Verdict,
    describe,
    new_id,
    shown,
)
from reme_core.schema.checks import checked_again, kind_of
from reme_core.steps.targets import all_memories
from reme_core.steps.user_input import read_ids
from reme_core.text import shortened

MAX_COUNT = 1_000_000
"""A call adds no more than this to a count; more is a mistake of the caller."""

FORGETTER = "forgetting"
"""The actor of events that forgetting makes."""

OBSERVER = "feedback"
"""The actor of events that feedback makes."""

PATIENCE_S = 10.0
"""So long feedback is tried again while others write to the same memories: of 300 at once in one local file the last is
through after 3 s."""

# A selection is made anew when a memory of it has become useful, was edited or is gone: each time they are fewer.
_SELECTIONS = 10
# Of writers that meet on a memory one gets through each time, in a few milliseconds; the others wait at random, up to a
# bound that doubles, so that they meet less. Source of the manner: Brooker, "Exponential Backoff And Jitter", 2015.
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5
# Every event of a write carries its reason.
_MOST_REASON_CHARS = 8192


async def record_use(
    store: Store, scope: Scope, memory_ids: Sequence[str], *, uses: int, helpful: float
) -> list[Memory]:
    """Add `uses` to the `freq` and `helpful` to the `utility` of memories, all or none; see `Store`.

    Raises:
        InvalidInputError: No ids, counts below 0 or above `MAX_COUNT`, or both of them 0.
        MemoryNotFoundError: Naming every id that this scope doesn't hold.
    """
    wanted = read_ids(memory_ids, "memory_ids")
    if not wanted:
        msg = "memory_ids: is empty; name the memories that were used"
        raise InvalidInputError(msg)
    if isinstance(uses, bool) or not isinstance(uses, int) or not 0 <= uses <= MAX_COUNT:
        msg = f"uses: wanted a whole number from 0 to {MAX_COUNT}, found {shown(uses)}"
        raise InvalidInputError(msg)
    if not _is_finite(helpful) or not 0 <= helpful <= MAX_COUNT:
        msg = f"helpful: wanted a number from 0 to {MAX_COUNT}, found {shown(helpful)}"
        raise InvalidInputError(msg)
    if not uses and not helpful:
        msg = "uses and helpful: both are 0; there is nothing to count"
        raise InvalidInputError(msg)
    counted = [UseMemory(memory_id=name, uses=uses, helpful=float(helpful)) for name in wanted]
    return await store.record_uses(scope, counted)


async def forget(
    store: Store,
    scope: Scope,
    *,
    types: tuple[MemoryType, ...] | None,
    targets: tuple[str, ...] | None,
    min_freq: int,
    max_utility: float,
    dry_run: bool,
    at: datetime,
    reason: str = "",
) -> Forgotten:
    """Remove the current memories that were used often and helped little; one that was never used stays.

    That is those with `freq >= min_freq` and `utility / freq < max_utility`. All are removed in one write with a run id
    of its own, for `undo`, and the store looks at the counts once more in that write: what is used meanwhile and still
    useless goes. Where one became useful or was changed, the selection is made anew, so that the others go.

    Args:
        store: Where they are.
        scope: Whose.
        types: Only of these types; None: of any but `meta`.
        targets: Only about these targets; None: any.
        min_freq: At least 1.
        max_utility: Above 0, at most 1: from this share of helpful uses on a memory stays.
        dry_run: Select, and remove nothing.
        at: The time of the removal.
        reason: Kept in the history; the thresholds unless given.

    Returns:
        The memories as they were selected, newest first.

    Raises:
        InvalidInputError: `min_freq` below 1, or `max_utility` not in (0, 1].
        ConflictError: Memories changed between selection and write each of ten times; nothing was removed.
        MemoryNotFoundError: Likewise, and one of them was removed by someone else.
    """
    _check_thresholds(min_freq, max_utility)
    wanted = MemoryFilter(types=STATEMENTS if types is None else types, targets=targets)
    limits = Uselessness(min_freq=min_freq, max_utility=max_utility)
    why = reason or f"used {min_freq} times or more, helped in less than {max_utility:g} of the uses"
    attempt = 1
    while True:
        chosen = await _useless(store, scope, wanted, limits)
        if dry_run or not chosen:
            return Forgotten(memories=chosen, dry_run=dry_run)
        deletes = [
            DeleteMemory(memory_id=memory.memory_id, expected_revision=memory.revision, only_if_useless=limits)
            for memory in chosen
        ]
        batch = WriteBatch(deletes=deletes, reason=why, run_id=new_id(), actor=FORGETTER, at=at)
        try:
            await store.put(scope, batch)
        except (ConflictError, MemoryNotFoundError):
            if attempt == _SELECTIONS:
                raise
            attempt += 1
        else:
            return Forgotten(memories=chosen, run_id=batch.run_id)


def _check_thresholds(min_freq: int, max_utility: float) -> None:
    if isinstance(min_freq, bool) or not isinstance(min_freq, int) or min_freq < 1:
        msg = f"min_freq: wanted a whole number from 1 on, found {shown(min_freq)}"
        raise InvalidInputError(msg)
    if isinstance(max_utility, bool) or not _is_finite(max_utility) or not 0 < max_utility <= 1:
        msg = f"max_utility: wanted a share of the uses, above 0 and up to 1, found {shown(max_utility)}"
        raise InvalidInputError(msg)


async def _useless(store: Store, scope: Scope, wanted: MemoryFilter, limits: Uselessness) -> tuple[Memory, ...]:
    return tuple(item for item in await all_memories(store, scope, wanted) if is_useless(item, limits))


async def observe(
    store: Store, scope: Scope, feedback: Sequence[Feedback], *, at: datetime, patience_s: float = PATIENCE_S
) -> list[Memory]:
    """Let feedback move the importance and the confidence of memories, all or none; see `Verdict`.

    A value v moves by the weight w to v + w (1 - v) or to v (1 - w), so it stays in [0, 1]; several items about one
    memory count in their order. One write with a run id of its own; a memory that someone else changed meanwhile is
    read and moved again, after a pause, for `patience_s` seconds, so that no feedback is lost. Each memory's history
    tells the reasons given about it. Texts stay, and with them vectors: no embedder is needed.

    Returns:
        Each memory once, in the order in which they are named first.

    Raises:
        MemoryNotFoundError: Naming every id that this scope doesn't hold; nothing was changed.
        InvalidInputError: About a memory block, which only its own methods change.
        ConflictError: Others changed the memories all that time; nothing was changed.
    """
    if not feedback:
        return []
    about: defaultdict[str, list[Feedback]] = defaultdict(list)
    for item in feedback:
        about[item.memory_id].append(item)
    loop = asyncio.get_running_loop()
    end, pause = loop.time() + patience_s, _FIRST_PAUSE_S
    while True:
        held = await store.get(scope, list(about))
        if blocks := [memory.memory_id for memory in held if memory.memory_type is MemoryType.BLOCK]:
            msg = f"feedback: {', '.join(map(repr, blocks))}: feedback moves memories, and not memory blocks"
            raise InvalidInputError(msg)
        puts = await asyncio.to_thread(_moves, held, about, at)  # 5,000 of them take 50 ms and more
        batch = WriteBatch(puts=puts, reason="feedback", run_id=new_id(), actor=OBSERVER, at=at)
        try:
            return await store.put(scope, batch)
        except ConflictError:
            if loop.time() >= end:
                raise
        await asyncio.sleep(random.uniform(0, pause))  # noqa: S311  # spreads writers, guards nothing
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _moves(held: Sequence[Memory], about: Mapping[str, Sequence[Feedback]], at: datetime) -> list[PutMemory]:
    return [
        PutMemory(
            memory=_moved(memory, about[memory.memory_id], at),
            expected_revision=memory.revision,
            reason=_reason(about[memory.memory_id]),
        )
        for memory in held
    ]


def _moved(memory: Memory, feedback: Sequence[Feedback], at: datetime) -> Memory:
    importance, confidence = memory.importance, memory.confidence
    for item in feedback:
        match item.verdict:
            case Verdict.HELPFUL:
                importance = _up(importance, item.weight)
            case Verdict.UNHELPFUL:
                importance = _down(importance, item.weight)
            case Verdict.CONFIRMED:
                confidence = _up(confidence, item.weight)
            case Verdict.REFUTED:
                confidence = _down(confidence, item.weight)
            case _:
                assert_never(item.verdict)
    return memory.model_copy(update={"importance": importance, "confidence": confidence, "updated_at": at})


def _up(value: float, weight: float) -> float:
    return value + weight * (1.0 - value)


def _down(value: float, weight: float) -> float:
    return value * (1.0 - weight)


def _reason(feedback: Sequence[Feedback]) -> str:
    said = dict.fromkeys(item.reason.strip() or str(item.verdict) for item in feedback)
    return shortened("; ".join(said), _MOST_REASON_CHARS)


def parse_feedback(items: object) -> tuple[Feedback, ...]:
    """Read feedback from `Feedback` objects and dictionaries; several may be about one memory.

    Raises:
        InvalidInputError: Naming the place (`feedback[1].weight`) and the reason; one bad item refuses all.
    """
    if isinstance(items, (str, bytes, Mapping, Feedback)) or not isinstance(items, Iterable):
        msg = f"feedback: wanted a list of feedback, found {kind_of(items)}"
        raise InvalidInputError(msg)
    return tuple(_parse_one(item, f"feedback[{index}]") for index, item in enumerate(items))


def _parse_one(item: object, where: str) -> Feedback:
    if isinstance(item, Feedback):
        return checked_again(item, Feedback, where)
    if not isinstance(item, Mapping):
        msg = f"{where}: wanted a Feedback or a dictionary, found {kind_of(item)}"
        raise InvalidInputError(msg)
    try:
        return Feedback.model_validate({name: value for name, value in item.items() if value is not None})
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, where, form=Feedback)) from exc


def _is_finite(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
