"""Counting of the uses of memories, worked out on values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reme_core.errors import ConflictError, InvalidInputError
from reme_core.ports import Uselessness, UseMemory
from reme_core.schema import Memory

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
