"""Targets that a scope has, and the spelling of their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reme_core.ports import Store, Target
from reme_core.schema import MemoryType, Scope
from reme_core.tools import read_meta

# Names are shown to the model to be used again: those with the most memories, and none so long that it is no name.
_MOST_SHOWN = 40
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class KnownTargets:
    """The targets of a scope with the number of their current memories."""

    counts: Mapping[Target, int]

    def spelled(self, target: Target) -> Target:
        """Return the target as it is known: the same letters, else those that differ in case; else as it is."""
        name = target.memory_target.strip()
        wanted = Target(target.memory_type, name)
        if wanted in self.counts:
            return wanted
        alike = [known for known in self.counts if is_same_target(known, wanted)]
        return max(alike, key=lambda known: (self.counts[known], known.memory_target), default=wanted)

    def shown(self, types: Sequence[MemoryType]) -> dict[str, JsonValue]:
        """Return the names by type, those with the most memories first."""
        known = [
            target
            for target in self.counts
            if target.memory_type in types and len(target.memory_target) <= _LONGEST_SHOWN
        ]
        known.sort(key=lambda target: (-self.counts[target], target.memory_target))
        names: dict[str, JsonValue] = {}
        for kind in types:
            listed: list[JsonValue] = [item.memory_target for item in known[:_MOST_SHOWN] if item.memory_type == kind]
            if listed:
                names[kind.value] = listed
        return names


def is_same_target(one: Target, other: Target) -> bool:
    """Tell whether two targets are the same, whatever the case and the blanks at the ends of their names."""
    return one.memory_type == other.memory_type and _folded(one) == _folded(other)


def _folded(target: Target) -> str:
    return target.memory_target.strip().casefold()


async def read_known_targets(store: Store, scope: Scope) -> KnownTargets:
    """Read the targets of a scope: those of its current memories, and those that its routing table names."""
    return KnownTargets({entry.target: entry.memories for entry in await read_meta(store, scope)})
