"""What a summary reads of the store below does not grow with what is known about a target."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.agents import AgentOptions, ReMeSummaryAgentV1Op
from reme_core.ports import (
    ListMemories,
    MemorySearch,
    PutMemory,
    ScoredMemory,
    Target,
    WriteBatch,
)
from reme_core.schema import Memory, MemoryPage, MemoryType, Scope, parse_time
from reme_core.stores import LocalStore
from reme_core.testing.store_values import NOW, memory
from reme_core.tools import DraftStore
from tests.support.rule_model import RuleModel
from tests.support.temporary_store import TemporaryStore
from tests.unit.agents.acting import ALICE, context_over, message

EMMA = Target(MemoryType.PERSONAL, "Emma")


class Counting(TemporaryStore):
    """Counts the memories that are read from it."""

    read = 0

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        page = await super().list_memories(scope, query)
        self.read += len(page.memories)
        return page

    async def search(self, scope: Scope, search: MemorySearch) -> list[ScoredMemory]:
        found = await super().search(scope, search)
        self.read += len(found)
        return found

    async def get(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        found = await super().get(scope, memory_ids)
        self.read += len(found)
        return found


async def read_by_a_summary(store: LocalStore, known: int) -> int:
    memories = Counting()
    many = [
        memory(f"Emma has thing number {n}", scope=ALICE, memory_id=f"m-{n:05}", target="Emma") for n in range(known)
    ]
    earlier = {"observed_at": parse_time("2023-01-01"), "valid_from": parse_time("2023-01-01")}
    lives = memory("Emma lives in Berlin", scope=ALICE, memory_id="lives", target="Emma").model_copy(update=earlier)
    await memories.put(ALICE, WriteBatch(puts=[PutMemory(memory=item) for item in [*many, lives]], at=NOW))
    draft = DraftStore(memories)
    context = context_over(draft)
    said = [message("Emma moved to Lisbon", name="Emma"), message("Emma drinks tea", name="Emma")]
    agent = ReMeSummaryAgentV1Op(AgentOptions(model=RuleModel()))
    await agent({"workspace_id": ALICE.memory_space, "messages": said}, context)
    assert context.trace.done == [EMMA]
    added = [change.after.content for change in draft.changes if change.after and change.before is None]
    assert {"Emma moved to Lisbon", "Emma drinks tea"} <= set(added)
    return memories.read


async def test_a_summary_reads_no_more_of_a_target_of_2000_memories_than_of_one_of_100(store: LocalStore) -> None:
    assert await read_by_a_summary(store, 100) < 100
    assert await read_by_a_summary(store, 2000) < 100
