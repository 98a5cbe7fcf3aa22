# asserts are what a contract suite is made of
"""Promises of a memory store about relations: they are kept with the memory, and those that tell any can be listed."""

from __future__ import annotations

from reme_core.ports import ListMemories, MemoryFilter, Store
from reme_core.schema import Memory, Relation, Scope
from reme_core.testing._memory_writes import add
from reme_core.testing.store_values import ALICE, BOB, changed, closed, memory


def telling(content: str, *, scope: Scope = ALICE) -> Memory:
    """Build a memory that tells a relation, whose texts are awkward."""
    relation = Relation(subject='Lea "L" 雷亚', relation="sister of", object="Ann's cat 🐈")
    return changed(memory(content, scope=scope), {"relations": (relation,)})


async def listed(store: Store, scope: Scope, *, include_superseded: bool = False) -> set[str]:
    """Return what memories that tell relations say, page by page."""
    wanted = MemoryFilter(telling_relations=True, include_superseded=include_superseded)
    found: set[str] = set()
    cursor: str | None = None
    while True:
        page = await store.list_memories(scope, ListMemories(filter=wanted, limit=1, cursor=cursor))
        found |= {item.content for item in page.memories}
        cursor = page.next_cursor
        if cursor is None:
            return found


class MemoryRelations:
    """Relations are a field of the memory that tells them."""

    async def test_memories_that_tell_relations_are_kept_with_them_and_listed(self, store: Store) -> None:
        lea, plain = telling("Lea has a cat"), memory('a text with "relations":[{"subject":"x"}] in it')
        old = telling("Lea had a dog")
        await add(store, lea, plain, closed(old, minute=1, by=lea.memory_id))
        await add(store, telling("Bob's own", scope=BOB), scope=BOB)
        assert await store.get(ALICE, [lea.memory_id]) == [lea]
        assert await listed(store, ALICE) == {lea.content}
        assert await listed(store, ALICE, include_superseded=True) == {lea.content, old.content}
        assert await listed(store, BOB) == {"Bob's own"}

    async def test_a_memory_that_tells_none_any_more_is_listed_no_more(self, store: Store) -> None:
        lea = telling("Lea has a cat")
        await add(store, lea)
        await add(store, changed(lea, {"relations": ()}))
        assert await listed(store, ALICE) == set()
        await add(store, lea)
        assert await listed(store, ALICE) == {lea.content}
