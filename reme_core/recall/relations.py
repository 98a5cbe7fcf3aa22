"""Relations between persons and things that the memories of a scope tell: those of one, and a chain between two."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reme_core.ports import ListMemories, MemoryFilter, Store
from reme_core.rules import Edge, RelationGraph
from reme_core.rules.relation_graph import Names
from reme_core.schema import STATEMENTS, Memory, Neighbours, RelationPath, RelationStep, Scope

_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelations:
    """The relations of a scope at one time, with the memories that tell them, by id."""

    graph: RelationGraph[str]
    memories: dict[str, Memory]

    def neighbours(self, name: str, *, hops: int, limit: int) -> Neighbours:
        """Return the relations of a name, and of those that it leads to in fewer than `hops` steps."""
        names = self.graph.find(name, _any)
        steps: dict[tuple[str, str], RelationStep] = {}
        level, seen = [names], set(names)
        for _ in range(hops):
            further: list[Names] = []
            for one in level:
                edges = sorted(self.graph.edges(one, _any), key=self._told_last)
                for edge in edges:
                    steps.setdefault((edge.key, str(edge.relation)), self._step(one, edge))
                    if edge.other not in seen:
                        others = self.graph.find(edge.other, _any)
                        seen |= others
                        further.append(others)
            level = further
        return Neighbours(
            name=self._name(names) or name,
            also_called=self.graph.others_of(names) if names else (),
            steps=tuple(steps.values())[:limit],
            near_names=() if names else self.graph.near_names(name),
        )

    def path(self, first: str, second: str, *, max_hops: int) -> RelationPath:
        """Return the shortest chain from a name to another one, or an empty one."""
        begin, end = self.graph.find(first, _any), self.graph.find(second, _any)
        steps: list[RelationStep] = []
        names = begin
        if begin and end and begin.isdisjoint(end):
            for edge in self.graph.path(begin, end, _any, most=max_hops) or ():
                steps.append(self._step(names, edge))
                names = self.graph.find(edge.other, _any)
        unknown = [name for name, found in ((first, begin), (second, end)) if not found]
        return RelationPath(
            first=self._name(begin) or first,
            second=self._name(end) or second,
            steps=tuple(steps),
            near_names=tuple(near for name in unknown for near in self.graph.near_names(name)),
        )

    def _name(self, names: Names) -> str:
        return self.graph.spelled(names) if names else ""

    def _step(self, names: Names, edge: Edge[str]) -> RelationStep:
        return RelationStep(
            start=self._name(names),
            end=self._name(self.graph.find(edge.other, _any)),
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
    known = KnownRelations(graph=RelationGraph(), memories={})
    cursor: str | None = None
    while True:
        page = await store.list_memories(scope, ListMemories(filter=wanted, limit=_PAGE, cursor=cursor))
        for memory in page.memories:
            known.memories[memory.memory_id] = memory
            known.graph.add(memory.memory_id, memory.relations)
        cursor = page.next_cursor
        if cursor is None:
            return known
