"""Resolution of written records into the batch of a run, beside what becomes of its facts."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.ports import Store
from reme_core.remember.fact_extraction import join_sources, sources_of
from reme_core.remember.fact_resolution import AUTHOR, MemoryChanges
from reme_core.remember.written_records import WrittenRecord
from reme_core.rules import Claim
from reme_core.schema import Memory, RejectedFact, Scope
from reme_core.steps.distillation import DistilTask
from reme_core.steps.records import record_memory
from reme_core.steps.similar_memories import find_equal_memories
from reme_core.steps.targets import claim_on, target_of


async def keep_records(
    store: Store, scope: Scope, task: DistilTask, records: Sequence[WrittenRecord], changes: MemoryChanges
) -> list[RejectedFact]:
    """Add records to the changes of a run; return the changes that would repeat another record.

    A new record that says what one says already is that one.
    """
    made = [(_memory(scope, task, record, changes), record.held) for record in records if _says_something(record)]
    claims = [_claim(memory) for memory, _ in made]
    taken = await find_equal_memories(store, scope, claims)
    rejected: list[RejectedFact] = []
    for (memory, held), claim in zip(made, claims, strict=True):
        if taken.setdefault(claim, memory).memory_id != memory.memory_id:
            if held is not None:
                rejected.append(RejectedFact(content=memory.content[:300], reason="another record says the same"))
        elif held is None:
            changes.adds.append(memory)
        else:
            changes.retell(memory)
    return rejected


def _says_something(record: WrittenRecord) -> bool:
    return record.fields is not None and (record.held is None or record.held.metadata != record.fields)


def _claim(memory: Memory) -> Claim:
    return claim_on(target_of(memory), memory.content)


def _memory(scope: Scope, task: DistilTask, record: WrittenRecord, changes: MemoryChanges) -> Memory:
    assert record.schema is not None and record.fields is not None  # noqa: S101, PT018  # it says something
    said = [task.messages[number - 1] for number in record.messages] or list(task.messages)
    sources = sources_of([message.message_id for message in said], task)
    return record_memory(
        scope,
        record.schema,
        record.fields,
        record.held,
        sources=sources if record.held is None else join_sources(record.held.sources, sources),
        said_at=max(message.created_at for message in said),
        at=changes.now,
        author=AUTHOR,
    )
