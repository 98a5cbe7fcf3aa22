"""The same data gives the same answers in PostgreSQL as in the local store: order, ties, scores and pages."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from reme_core.ports import (
    AppendMessages,
    DeleteMemory,
    FindMessages,
    ItemAddress,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    MessageSearch,
    OffloadSearch,
    PutItem,
    PutMemory,
    PutOffloads,
    SearchItems,
    Store,
    WriteBatch,
    WriteItems,
)
from reme_core.recall.changes import ChangesRequest, list_changes, list_known
from reme_core.schema import STATEMENTS, MemoryType, OffloadRecord, Relation
from reme_core.stores import LocalStore, PostgresStore
from reme_core.testing.store_values import ALICE, NOW, at, batch, block, changed, closed, memory, message, random_unit

T = TypeVar("T")

WORDS = [
    "walrus",
    "tennis",
    "green",
    "tea",
    "Lisbon",
    "Tuesday",
    "report",
    "budget",
    "海象",
    "网球",
    "会议",
    "周二",
    "crème",
    "東京",
    "0042",
    "error",
]
NAMES = (None, "ada", "bob")


class Both(NamedTuple):
    """A local store and PostgreSQL with the same content."""

    local: Store
    server: Store

    async def do(self, work: Callable[[Store], Awaitable[T]]) -> tuple[T, T]:
        return await work(self.local), await work(self.server)


@pytest.fixture
async def both(tmp_path: Path, shared_url: str) -> AsyncIterator[Both]:
    stores = Both(LocalStore(tmp_path / "memory.db", synchronous="NORMAL"), PostgresStore(shared_url))
    yield stores
    for store in stores:
        await store.close()


def said(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))


async def fill(store: Store, seed: int) -> None:
    """Write what a seed says: few words and few times, so that many rows tie; long texts; edits and deletions."""
    chance = random.Random(seed)  # no secret
    for session in ("s", "t"):
        texts = [said(chance) for _ in range(30)] + [". ".join(said(chance) for _ in range(300))]
        messages = [
            message(text, message_id=f"{session}{n}", name=chance.choice(NAMES), minute=n // 4)
            for n, text in enumerate(texts)
        ]
        await store.append(ALICE, AppendMessages(session_id=session, messages=messages, want_vectors=True))
        parts = [messages[n : n + 10] for n in range(0, 30, 10)]
        blocks = [
            block(session, *part, summary=said(chance), block_id=f"{session}-{n}") for n, part in enumerate(parts)
        ]
        await store.put_blocks(ALICE, blocks)
    memories = [
        memory(
            f"{said(chance)} {n}",
            memory_id=f"m{n:03}",
            minute=n // 5,
            memory_type=chance.choice((MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.META)),
            target=chance.choice(("self", "walrus")),
            metadata={"n": chance.choice((1, 1.0, True, "1", None)), "x": n},
        )
        for n in range(60)
    ]
    puts = [PutMemory(memory=item, vector=random_unit(n % 7) if n % 3 else None) for n, item in enumerate(memories)]
    await store.put(ALICE, batch(*puts))
    gone = tuple(DeleteMemory(memory_id=f"m{n:03}", erase=bool(n % 2)) for n in chance.sample(range(60), 6))
    await store.put(ALICE, batch(deletes=gone))
    offloads = [
        OffloadRecord(
            reference=f"ref{n}",
            session_id="s",
            kind="tool_result",
            text="\n".join(said(chance) for _ in range(200)),
            created_at=at(n),
        )
        for n in range(6)
    ]
    await store.put_offloads(ALICE, PutOffloads(offloads=offloads))
    items = [
        PutItem(
            address=ItemAddress(namespace=("n", chance.choice("ab")), key=f"k{n}"),
            value={"text": said(chance), "n": n},
            vectors=None if n % 3 == 0 else random_unit(n % 5)[None, :],
        )
        for n in range(40)
    ]
    await store.write_items("space", WriteItems(writes=items, at=NOW))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.postgres) for seed in (1, 2))])
async def test_what_is_found_is_equal_with_scores_and_ties(both: Both, seed: int) -> None:
    await both.do(lambda store: fill(store, seed))
    chance = random.Random(seed)  # no secret
    for n in range(25):
        text, vector = said(chance) if n % 5 else "", random_unit(n) if n % 2 or not n % 5 else None
        limit, later = chance.randint(1, 20), NOW + timedelta(minutes=chance.randint(0, 9))
        wanted = MemoryFilter(
            types=chance.choice((None, (MemoryType.PERSONAL,), (MemoryType.META,))),
            targets=chance.choice((None, ("walrus",))),
            observed_from=chance.choice((None, later)),
            metadata=chance.choice(({}, {}, {"n": 1}, {"n": True}, {"n": "1"}, {"n": None})),
            keyword=chance.choice((None, None, "walrus", "海象")),
        )
        memories = MemorySearch(text=text, vector=vector, limit=limit, filter=wanted)
        messages = MessageSearch(
            text=text,
            vector=vector,
            limit=limit,
            session_id=chance.choice((None, "s")),
            said_from=chance.choice((None, later)),
            by_time=n % 6 == 0,
            now=NOW,
        )
        for local, server in (
            await both.do(lambda store, search=memories: store.search(ALICE, search)),
            await both.do(lambda store, search=messages: store.search_messages(ALICE, search)),
            await both.do(lambda store, search=messages: store.search_blocks(ALICE, search))
            if text or messages.by_time
            else ([], []),
            await both.do(
                lambda store, text=text, limit=limit: store.search_offloads(
                    ALICE, OffloadSearch(text=text, limit=limit)
                )
            ),
            await both.do(
                lambda store, text=text, vector=vector, limit=limit: store.search_items(
                    "space", SearchItems(prefix=("n",), text=text, vector=vector, limit=limit, at=NOW)
                )
            ),
        ):
            assert server == local


async def test_lists_words_and_counts_are_equal(both: Both) -> None:
    await both.do(lambda store: fill(store, 7))
    for keyword in (None, *WORDS, "walrus tennis", "the", "!!"):
        find = FindMessages(keyword=keyword, limit=7, newest_first=keyword == "walrus")
        local, server = await both.do(lambda store, find=find: store.find_messages(ALICE, find))
        assert (server.messages, server.next_cursor is None) == (local.messages, local.next_cursor is None)
    query = ListMemories(limit=50, filter=MemoryFilter(include_superseded=True))
    local_page, server_page = await both.do(lambda store: store.list_memories(ALICE, query))
    assert server_page == local_page
    for local_all, server_all in (
        await both.do(lambda store: store.count(ALICE)),
        await both.do(lambda store: store.count_targets(ALICE)),
    ):
        assert server_all == local_all


async def test_changes_and_what_was_known_are_equal(both: Both) -> None:
    async def told(store: Store) -> list[object]:
        await fill(store, 3)
        odd = memory("odd \x01", memory_id="odd", target="walrus \x01")
        await store.put(ALICE, WriteBatch(puts=[PutMemory(memory=odd)], at=at(1.5)))
        found: list[object] = []
        for since, until, targets, every in (
            (None, None, None, False),
            (NOW, at(1), ("walrus",), True),
            (at(1), None, ("walrus \x01",), False),
        ):
            request = ChangesRequest(
                since=since, until=until, types=STATEMENTS, targets=targets, every=every, limit=7, cursor=None
            )
            while True:
                page = await list_changes(store, ALICE, request)
                found += page.changes
                if page.next_cursor is None:
                    break
                request = replace(request, cursor=page.next_cursor)
        known = MemoryFilter(types=STATEMENTS, targets=("walrus", "walrus \x01"))
        found += (await list_known(store, ALICE, known, at=at(2), limit=100, cursor=None)).memories
        return found

    local, server = await both.do(told)
    assert len(local) > 60
    assert server == local


async def test_what_relations_lead_to_is_found_alike(both: Both) -> None:
    chance = random.Random(5)
    names = ["Lea", "Ann", "Tom", "Kim", "小莉", "user"]
    told = []
    for number in range(60):
        first, second = chance.sample(names, 2)
        relation = Relation(
            subject=first, relation=chance.choice(["sister of", "boss of", "works with"]), object=second
        )
        has_it = {"relations": (relation,)} if number % 2 else {}
        one = memory(f"{first} {said(chance)}", memory_id=f"m{number:02}", minute=number)
        told.append(changed(one, has_it))

    async def fill(store: Store) -> int:
        await store.put(ALICE, batch(*told[:30]))
        await store.search(ALICE, MemorySearch(text="tea"))
        await store.put(ALICE, batch(*told[30:], closed(told[1], minute=70)))  # the loaded partition follows
        return len(await store.put(ALICE, batch(changed(told[3], {"relations": (), "content": "Lea likes tea"}))))

    async def found(store: Store) -> list[object]:
        asked = (
            "Which tea does Ann's sister like?",
            "Where is my boss on Tuesday?",
            "小莉 sister 会议",
            "Kim's boss's sister",
        )
        searches = [MemorySearch(text=text, limit=8, filter=MemoryFilter(types=STATEMENTS)) for text in asked]
        hits = [hit for search in searches for hit in await store.search(ALICE, search)]
        listed = await store.list_memories(ALICE, ListMemories(filter=MemoryFilter(telling_relations=True)))
        return [listed.memories, [(hit.memory, round(hit.score, 9), hit.told) for hit in hits]]

    await both.do(fill)
    here, there = await both.do(found)
    assert here == there
    assert any(told for *_, told in here[1])  # type: ignore[misc, attr-defined]
