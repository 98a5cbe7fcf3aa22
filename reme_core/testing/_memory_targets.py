# asserts are what a contract suite is made of
"""Promises of a memory store about the routing table: its own entries, and the targets that there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from reme_core.ports import (
    DeleteMemory,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    PutMemory,
    Store,
    Target,
)
from reme_core.schema import STATEMENTS, Memory, MemoryType, Scope
from reme_core.testing._memory_writes import add
from reme_core.testing.store_values import ALICE, BOB, at, axis, batch, changed, closed, lasting, memory

META = (MemoryType.META,)


def entry(target: str, *, scope: Scope = ALICE) -> Memory:
    """Build an entry of the routing table."""
    content = f"fact: memories about {target}"
    return memory(content, scope=scope, memory_type=MemoryType.META, target=target)


async def contents(store: Store, types: tuple[MemoryType, ...] | None) -> list[set[str]]:
    """Return what a list, and a search by words, show of these types."""
    wanted = MemoryFilter(types=types)
    page = await store.list_memories(ALICE, ListMemories(filter=wanted))
    by_words = await store.search(ALICE, MemorySearch(text="fact", filter=wanted))
    return [{item.content for item in page.memories}, {item.memory.content for item in by_words}]


async def recounted(store: Store, scope: Scope) -> dict[Target, int]:
    """Count the current statements of each target by reading all of them."""
    page = await store.list_memories(scope, ListMemories(filter=MemoryFilter(types=STATEMENTS), limit=1000))
    return Counter(Target(item.memory_type, item.memory_target) for item in page.memories)


class MemoryTargets:
    """Entries of the routing table are memories like others, which only those see who ask for them."""

    async def test_an_entry_of_the_routing_table_is_kept_and_found_by_its_type(self, store: Store) -> None:
        wanted = entry("personal/Ann 安")
        statement = memory("fact: Ann rows", target="Ann 安")
        assert await add(store, wanted, PutMemory(memory=statement, vector=axis(0))) == [wanted, statement]
        assert await store.get(ALICE, [wanted.memory_id]) == [wanted]
        assert await contents(store, META) == [{wanted.content}] * 2
        assert await contents(store, STATEMENTS) == [{statement.content}] * 2
        assert await contents(store, None) == [{wanted.content, statement.content}] * 2
        found = await store.list_memories(ALICE, ListMemories(filter=MemoryFilter(targets=("personal/Ann 安",))))
        assert found.memories == (wanted,)

    async def test_an_entry_can_be_changed_repeated_and_deleted(self, store: Store) -> None:
        [first] = await add(store, entry("personal/Ann"))
        same, other = await add(store, entry("personal/Ann"), entry("tool/Ann"))
        assert same == first
        assert other.memory_id != first.memory_id
        [second] = await add(store, changed(first, {"content": "fact: what Ann likes"}))
        assert (second.memory_id, second.revision) == (first.memory_id, 2)
        await store.put(ALICE, batch(deletes=(DeleteMemory(memory_id=first.memory_id),)))
        assert await contents(store, META) == [{"fact: memories about tool/Ann"}] * 2

    async def test_an_entry_is_no_statement_at_any_time(self, store: Store) -> None:
        ended, now = entry("personal/Ann"), entry("tool/hammer")
        statements = (memory("fact: old"), memory("fact: new", minute=5))
        await add(store, *(PutMemory(memory=item, vector=axis(n)) for n, item in enumerate((ended, now, *statements))))
        await add(store, closed(ended, minute=5), closed(statements[0], minute=5))
        wanted = {
            "now": (MemoryFilter(), {now.content}, {"fact: new"}),
            "then": (MemoryFilter(as_of=at(1)), {ended.content, now.content}, {"fact: old"}),
            "ever": (
                MemoryFilter(include_superseded=True),
                {ended.content, now.content},
                {"fact: old", "fact: new"},
            ),
        }
        for when, entries, others in wanted.values():
            for types, expected in ((META, entries), (STATEMENTS, others), (None, entries | others)):
                narrowed = replace(when, types=types)
                page = await store.list_memories(ALICE, ListMemories(filter=narrowed))
                assert {item.content for item in page.memories} == expected
                for search in (
                    MemorySearch(text="fact", filter=narrowed),
                    MemorySearch(vector=axis(0), filter=narrowed),
                ):
                    assert {item.memory.content for item in await store.search(ALICE, search)} == expected

    async def test_entries_are_counted_by_their_type(self, store: Store) -> None:
        await add(store, entry("personal/Ann"), entry("tool/Ann"), memory("fact"))
        counts = await store.count(ALICE)
        assert counts.current_memories == {MemoryType.META: 2, MemoryType.PERSONAL: 1}
        assert counts.memories == 3

    async def test_targets_are_counted_as_reading_all_memories_would(self, store: Store) -> None:
        assert await store.count_targets(ALICE) == {}
        kinds = (MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.TOOL)
        for scope, count in ((ALICE, 30), (BOB, 7)):
            targets = ("Ann", "ann", "安", "100%")
            await add(
                store,
                *(
                    memory(f"fact {n}", scope=scope, memory_type=kinds[n % 3], target=targets[n * n % 4])
                    for n in range(count)
                ),
                entry("personal/Ann", scope=scope),
                scope=scope,
            )
        some = ListMemories(filter=MemoryFilter(types=STATEMENTS), limit=4)
        past, moved, gone, back = (await store.list_memories(ALICE, some)).memories
        await add(store, closed(past, minute=9), closed(back, minute=9), changed(moved, {"memory_target": "moved"}))
        [kept] = (await store.list_memories(ALICE, ListMemories(limit=1))).memories
        await add(store, lasting(kept, minute=0, until=1))
        await store.put(ALICE, batch(back, deletes=(DeleteMemory(memory_id=gone.memory_id),)))
        for scope, total in ((ALICE, 28), (BOB, 7)):
            targets_found = await store.count_targets(scope)
            assert targets_found == await recounted(store, scope)
            assert sum(targets_found.values()) == total
            assert Target(MemoryType.META, "personal/Ann") not in targets_found
        await store.erase(ALICE)
        assert await store.count_targets(ALICE) == {}
        assert sum((await store.count_targets(BOB)).values()) == 7
