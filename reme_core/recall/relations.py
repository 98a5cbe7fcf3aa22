"""Relations between persons and things that the memories of a scope tell: those of one, and a chain between two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from reme_core.ports import MemoryFilter, Store
from reme_core.rules import Edge, RelationGraph
from reme_core.rules.relation_graph import Names
from reme_core.schema import STATEMENTS, Memory, Neighbours, RelationPath, RelationStep, Scope
from reme_core.steps.targets import all_memories


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelations:
    """The relations of a scope at one time, with the memories that tell them, by id.

    A name that is in most relations is put together once.
    """

    graph: RelationGraph[str]
    memories: Mapping[str, Memory]
    _same: dict[str, Names] = field(default_factory=dict)
    _spelled: dict[Names, str] = field(default_factory=dict)

    @classmethod
    def of(cls, memories: Iterable[Memory]) -> KnownRelations:
        """Take over what memories tell."""
        known = cls(graph=RelationGraph(), memories={memory.memory_id: memory for memory in memories})
        for key, memory in known.memories.items():
            known.graph.add(key, memory.relations)
        return known

    def neighbours(self, name: str, *, hops: int, limit: int) -> Neighbours:
        """Return the relations of a name, and of those that it leads to in fewer than `hops` steps."""
        names = self.graph.find(name, _any)
        return Neighbours(
            name=self._name(names) or name,
            also_called=self.graph.others_of(names) if names else (),
            steps=tuple(self._step(start, edge) for start, edge in islice(self._around(names, hops), limit)),
            near_names=() if names else self.graph.near_names(name),
        )

    def _around(self, names: Names, hops: int) -> Iterator[tuple[Names, Edge[str]]]:
        """Give each relation once, with the end that led to it; those of one name from the last one said on."""
        told = set[tuple[str, str]]()
        level, seen = [names], set(names)
        for _ in range(hops):
            further: list[Names] = []
            for start in level:
                for edge in sorted(self.graph.edges(start, _any), key=self._told_last):
                    if (edge.key, str(edge.relation)) not in told:
                        told.add((edge.key, str(edge.relation)))
                        yield start, edge
                    if edge.other not in seen:
                        others = self._names(edge.other)
                        seen |= others
                        further.append(others)
            if not further:
                return
            level = further

    def path(self, first: str, second: str, *, max_hops: int) -> RelationPath:
        """Return the shortest chain from a name to another one, or an empty one."""
        begin, end = self.graph.find(first, _any), self.graph.find(second, _any)
        steps: list[RelationStep] = []
        names = begin
        if begin and end and begin.isdisjoint(end):
            for edge in self.graph.path(begin, end, _any, most=max_hops) or ():
                steps.append(self._step(names, edge))
                names = self._names(edge.other)
        unknown = [name for name, found in ((first, begin), (second, end)) if not found]
        return RelationPath(
            first=self._name(begin) or first,
            second=self._name(end) or second,
            steps=tuple(steps),
            near_names=tuple(near for name in unknown for near in self.graph.near_names(name)),
        )

    def _names(self, name: str) -> Names:
        if name not in self._same:
            self._same[name] = self.graph.names_of(name, _any)
        return self._same[name]

    def _name(self, names: Names) -> str:
        if names not in self._spelled:
            self._spelled[names] = self.graph.spelled(names) if names else ""
        return self._spelled[names]

    def _step(self, names: Names, edge: Edge[str]) -> RelationStep:
        return RelationStep(
            start=self._name(names),
            end=self._name(self._names(edge.other)),
            relation=edge.relation,
            is_forward=edge.is_forward,
            memory=self.memories[edge.key],
        )

    def _told_last(self, edge: Edge[str]) -> tuple[float, str]:
        return -self.memories[edge.key].observed_at.timestamp(), edge.key


def _any(key: str) -> bool:
    del key
    return True  # what was read holds


async def read_relations(store: Store, scope: Scope, *, as_of: datetime | None) -> KnownRelations:
    """Read the relations that hold at a time, or those of the current memories."""
    wanted = MemoryFilter(types=STATEMENTS, as_of=as_of, telling_relations=True)
    held = await all_memories(store, scope, wanted)
    return await asyncio.to_thread(KnownRelations.of, held)
