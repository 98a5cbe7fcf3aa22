"""Life of a memory, worked out on values: its validity in a chain of replacements, and the counts of its uses.

A chain is what replaced what: memories of one type and target that hang together through `superseded_by`. At each time
that one holds which was said last, of those that had begun; so it makes no difference in which order they came in.
What has an end of its own is a chapter by itself: it stays current, and keeps its time, unless a new memory is said to
replace that very one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reme_core.errors import ConflictError, InvalidInputError
from reme_core.ports import Uselessness, UseMemory
from reme_core.schema import Memory, TimePrecision
from reme_core.text import normalise_content


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainUpdate:
    """What a new memory comes to in a chain.

    Attributes:
        memory: The new memory, ended where another one of the chain begins; None if the chain says it already.
        changed: The memories of the chain whose end it moves.
    """

    memory: Memory | None
    changed: tuple[Memory, ...] = ()


def chain_of(memories: Iterable[Memory], seeds: Iterable[str]) -> list[Memory]:
    """Return those of a target's memories that hang together with the ones of these ids, themselves included.

    Links to memories that are gone count as well: two that one memory took the place of belong together without it.
    """
    held = {memory.memory_id: memory for memory in memories}
    neighbours: dict[str, set[str]] = {}
    for memory in held.values():
        if memory.superseded_by is not None:
            neighbours.setdefault(memory.memory_id, set()).add(memory.superseded_by)
            neighbours.setdefault(memory.superseded_by, set()).add(memory.memory_id)
    reached: set[str] = set()
    waiting = list(seeds)
    while waiting:
        memory_id = waiting.pop()
        if memory_id not in reached:
            reached.add(memory_id)
            waiting += neighbours.get(memory_id, ())
    return [memory for memory_id, memory in held.items() if memory_id in reached]


def replaced(memory: Memory, by: Memory) -> Memory:
    """Return a memory as another one replaces it.

    It ends where that one begins, never before it began itself, and no later than by an end of its own. Where that one
    begins is exact: nobody told it as the last month or year of this one.
    """
    end = max(memory.valid_from, by.valid_from)
    changes: dict[str, object] = {"superseded_by": by.memory_id}
    if memory.valid_to is None or end < memory.valid_to:
        changes |= {"valid_to": end, "valid_to_precision": TimePrecision.EXACT}
    return memory.model_copy(update=changes)


def place(chain: Sequence[Memory], new: Memory, *, at: datetime, named: Collection[str] = ()) -> ChainUpdate:
    """Give a new memory its time in a chain; the new one must have begun.

    Of two memories the one said later holds from its beginning on: it ends the other one there, or makes it one that
    never held, if it began no later. What was told with an end of its own keeps that, and stays current; one that is
    `named` is replaced, unless it was over when the new one was said and began: that is history, and true for good.
    What begins only after `at` ends nothing yet. Of what was said at the same time the text decides. One that was
    joined into another takes no part: that one's time is the time of both.

    Args:
        chain: The memories that the new one takes its place among.
        new: The memory; with or without an end of its own.
        at: The time of writing.
        named: Those that the new one was said to replace, by id.
    """
    held = {memory.memory_id: memory for memory in chain if memory.is_current or memory.valid_to is not None}
    placed, changed = new, list[Memory]()
    for old in held.values():
        if _rank(old) < _rank(new):
            if old.memory_id in named and _ends_itself(old) and not _was_over(old, new):
                changed.append(replaced(old, new))
                continue
            ended = _ended(old, new, held.get(old.superseded_by or ""))
            if ended is not None:
                changed.append(ended)
        elif old.valid_from <= at:
            placed = _ended(placed, old, held.get(placed.superseded_by or "")) or placed
    if any(_says(old, placed) for old in held.values()):
        return ChainUpdate(memory=None)
    return ChainUpdate(memory=placed, changed=tuple(changed))


def _rank(memory: Memory) -> tuple[datetime, str, str]:
    return memory.observed_at, normalise_content(memory.content), memory.memory_id


def _ended(memory: Memory, by: Memory, successor: Memory | None) -> Memory | None:
    """Return a memory as one said later ends it; None where that changes nothing.

    `successor` is the one that has ended it so far. Of two that end it at the same time the one said later is named.
    """
    end = max(memory.valid_from, by.valid_from)
    if _ends_itself(memory) or (_ends_itself(by) and by.valid_to is not None and by.valid_to <= memory.valid_from):
        return None
    if memory.valid_to is not None:
        is_nearer = successor is not None and _rank(by) > _rank(successor)
        if end > memory.valid_to or (end == memory.valid_to and not is_nearer):
            return None
    return replaced(memory, by)


def _ends_itself(memory: Memory) -> bool:
    return memory.valid_to is not None and memory.superseded_by is None


def _was_over(memory: Memory, new: Memory) -> bool:
    return memory.is_over_before(new) and memory.valid_to is not None and memory.valid_to <= new.observed_at


def _says(old: Memory, new: Memory) -> bool:
    """Tell whether a memory with an end adds nothing to one that says the same, and held for all of its time.

    What is current is not left out for one that was replaced.
    """
    return (
        new.valid_to is not None
        and (old.is_current or not new.is_current)
        and normalise_content(old.content) == normalise_content(new.content)
        and old.valid_from <= new.valid_from
        and (old.valid_to is None or new.valid_to <= old.valid_to)
    )


MOST_USES = 1 << 53
"""As many as a memory can have; what is added at once to `utility` is bounded too, so that no sum overflows a float."""


def check_uses(uses: Sequence[UseMemory]) -> tuple[UseMemory, ...]:
    """Return the uses, if each of them adds something that can be added.

    Raises:
        InvalidInputError: A count below zero, one that is no number or beyond `MOST_USES`, or none at all.
    """
    for place, use in enumerate(uses):
        if not isinstance(use.uses, int) or isinstance(use.uses, bool) or not 0 <= use.uses <= MOST_USES:
            msg = f"uses[{place}].uses: wanted a whole number from 0 to 2^53, found {use.uses!r:.60}"
            raise InvalidInputError(msg)
        if not _is_number(use.helpful) or not 0 <= use.helpful <= MOST_USES:
            msg = f"uses[{place}].helpful: wanted a number from 0 to 2^53, found {use.helpful!r:.60}"
            raise InvalidInputError(msg)
        if not use.uses and not use.helpful:
            msg = f"uses[{place}]: uses and helpful of memory {use.memory_id!r:.60} are both 0: leave it out"
            raise InvalidInputError(msg)
    return tuple(uses)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def used(memories: Iterable[Memory], uses: Iterable[UseMemory]) -> Mapping[str, Memory]:
    """Return the memories that are used, by their ids, with checked uses added to their counts.

    Plain additions in the order given. Every use names one of the memories.

    Raises:
        InvalidInputError: More uses than a memory can have.
    """
    freq: dict[str, int] = {}
    utility: dict[str, float] = {}
    held = {memory.memory_id: memory for memory in memories}
    for use in uses:
        before = held[use.memory_id]
        freq[use.memory_id] = freq.get(use.memory_id, before.freq) + use.uses
        utility[use.memory_id] = utility.get(use.memory_id, before.utility) + float(use.helpful)
    full = [name for name, count in freq.items() if count > MOST_USES]
    if full:
        msg = f"uses: memory {full[0]!r} would have {freq[full[0]]} of them, at most 2^53 can be kept"
        raise InvalidInputError(msg)
    return {name: held[name].model_copy(update={"freq": freq[name], "utility": utility[name]}) for name in freq}


def is_useless(memory: Memory, limits: Uselessness) -> bool:
    """Tell whether a memory was used often and seldom helped; see `Uselessness`."""
    return memory.freq >= max(limits.min_freq, 1) and memory.utility / memory.freq < limits.max_utility


def check_useless(found: Memory, limits: Uselessness | None) -> None:
    """Refuse to go on where a memory is not useless, or no longer so; None: whatever its counts are (ConflictError)."""
    if limits is None or is_useless(found, limits):
        return
    msg = (
        f"memory {found.memory_id!r} has freq {found.freq} and utility {found.utility}, which is not useless by freq "
        f">= {limits.min_freq} and utility / freq < {limits.max_utility}: read it again, then decide"
    )
    raise ConflictError(msg)


def is_unchanged(then: Memory, now: Memory) -> bool:
    """Tell whether two states of a memory are the same but for counts.

    A change that was undone leaves a revision and nothing else, and a use is no change.
    """
    beside = {"revision": now.revision, "updated_at": now.updated_at, "freq": now.freq, "utility": now.utility}
    return then.model_copy(update=beside) == now
