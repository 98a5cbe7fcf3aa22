"""Whatever is called in whatever order, PostgreSQL answers and refuses as the local file does."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import InvalidInputError, ReMeError
from reme_core.ports import (
    AppendMessages,
    BlockSummary,
    ChangesQuery,
    ClaimJob,
    CleanOffloads,
    DeleteMemory,
    EventQuery,
    FilterOperator,
    FindMessages,
    GetItems,
    HoldOffloads,
    ItemAddress,
    ItemCondition,
    ItemRecord,
    ListBlocks,
    ListItemNamespaces,
    ListMemories,
    ListOffloads,
    ListToolCalls,
    ListTools,
    MemoryFilter,
    MemorySearch,
    MessageSearch,
    MessageVector,
    OffloadSearch,
    PutItem,
    PutMemory,
    PutOffloads,
    RecordPlace,
    SearchItems,
    SettleJob,
    Store,
    UseMemory,
    WriteBatch,
    WriteItems,
)
from reme_core.schema import Job, MemoryType, OffloadRecord, Scope, ToolCallResult
from reme_core.stores import LocalStore, PostgresStore
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    NOW,
    SHARED,
    at,
    block,
    changed,
    closed,
    lasting,
    memory,
    message,
    random_unit,
)
from tests.support.postgres_server import TestServer, empty_database

CASES = max(25, int(os.environ.get("REME_POSTGRES_CASES", "0")) // 10)

Call: TypeAlias = Callable[[Store], Awaitable[object]]
Steps: TypeAlias = list[tuple[str, Call]]

# Few of each, so that calls meet; what SQL, patterns, sorting and encodings could trip over is among them.
names = st.sampled_from(["a", "b", "B", "ä", "a%", "a_", "a'", "\U0001f600", "\uffee", "a b"])
few = st.sampled_from(["a", "ä"])
words = st.sampled_from(["walrus", "Walrus's", "tea", "海象", "crème", "100%", "a_b", "\x01x", "\x00", "", "\n"])
texts = st.lists(words, min_size=1, max_size=5).map(" ".join)
said = texts.map(lambda text: text.replace("\x00", "") + " said")
minutes = st.integers(0, 6)
times = minutes.map(at)
perhaps_times = st.none() | times
limits = st.sampled_from([1, 2, 3, 50, 0, -1])
vectors = st.none() | st.integers(0, 5).map(random_unit)
scopes = st.sampled_from([ALICE] * 8 + [BOB, SHARED])
numbers = st.sampled_from([1, 1.0, True, "1", None, 2**53, 0.1, -0.0, 1e300])
types = st.sampled_from([MemoryType.PERSONAL, MemoryType.PROCEDURAL, MemoryType.META, MemoryType.TOOL])
revisions = st.sampled_from([None] * 8 + [0, 1, 2])


def perhaps(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


memories = st.builds(
    lambda scope, text, number, minute, kind, target, value: memory(
        text,
        scope=scope,
        memory_id=number,
        minute=minute,
        memory_type=kind,
        target=target,
        metadata={"n": value, "x y": "z"},
    ),
    scopes,
    said,
    names,
    minutes,
    types,
    names,
    numbers,
)
changed_memories = st.one_of(
    memories,
    st.builds(lambda value, minute, by: closed(value, minute=minute + 7, by=by), memories, minutes, names),
    st.builds(
        lambda value, minute, lasts: lasting(value, minute=minute, until=minute + lasts),
        memories,
        minutes,
        st.integers(1, 3),
    ),
    st.builds(lambda value, text: changed(value, {"when_to_use": text}), memories, said),
)
filters = st.builds(
    MemoryFilter,
    types=perhaps(st.tuples(types)),
    targets=perhaps(st.tuples(names)),
    as_of=perhaps_times,
    include_superseded=st.booleans(),
    observed_from=perhaps_times,
    observed_to=perhaps_times,
    during_from=perhaps_times,
    during_to=perhaps_times,
    metadata=st.dictionaries(st.sampled_from(["n", "x y", "no", "n'", "$.n"]), numbers, max_size=1),
    keyword=perhaps(texts),
)
puts = st.builds(
    PutMemory,
    memory=changed_memories,
    vector=vectors,
    wants_vector=st.booleans(),
    expected_revision=revisions,
    on_duplicate=st.sampled_from(["existing", "raise"]),
    run_id=perhaps(names),
)
deletes = st.builds(DeleteMemory, memory_id=names, expected_revision=revisions, erase=st.booleans())
batches = st.builds(
    WriteBatch,
    puts=st.lists(puts, max_size=2),
    deletes=st.lists(deletes, max_size=1),
    reason=texts,
    run_id=perhaps(names),
    at=times,
)
messages = st.builds(
    lambda text, name, role, number, minute: message(text, name=name, role=role, message_id=number, minute=minute),
    said,
    perhaps(names),
    st.sampled_from(["user", "assistant"]),
    names,
    minutes,
)
namespaces = st.sampled_from([("a",), ("a", "b"), ("a", "%"), ("ab",), ("a", "b", "c"), ("\x01",)])
records = st.none() | st.builds(
    ItemRecord, scope=st.sampled_from([ALICE, BOB]), memory_type=types, topic=st.sampled_from([(), ("t",)])
)
addresses = st.builds(
    lambda namespace, key, record, refresh: ItemAddress(namespace=namespace, key=key, record=record, refresh=refresh),
    namespaces,
    names | words,
    records,
    st.booleans(),
)
values = st.dictionaries(
    st.sampled_from(["content", "n", "text", "x'y", ""]),
    numbers | texts | st.sampled_from([[1], {"a": None}, 2**70, float("inf")]),
    max_size=3,
)
item_puts = st.builds(
    lambda address, value, vector, ttl, owner: PutItem(
        address=address,
        value=value,
        vectors=None if vector is None else vector[None, :],
        ttl_s=ttl,
        owner=None if address.record else owner,
    ),
    addresses,
    values,
    vectors,
    st.sampled_from([None, None, 60, 0, 1e11]),
    st.none() | scopes,
)
conditions = st.builds(
    ItemCondition,
    field=st.sampled_from(["content", "n", "x'y"]),
    operator=st.sampled_from(list(FilterOperator)),
    operand=numbers | texts,
)
places = st.lists(
    st.builds(
        RecordPlace,
        memory_space=st.just("space"),
        user_id=st.sampled_from(["alice", None]),
        memory_types=st.just(tuple(MemoryType)),
    ),
    max_size=1,
)
jobs = st.builds(
    lambda number, kind, text, created, due: Job(
        job_id=number, kind=kind, payload={"x": text}, run_id="r", created_at=at(created), due_at=at(due)
    ),
    few,
    st.sampled_from("kl"),
    said,
    minutes,
    minutes,
)
settles = st.builds(
    SettleJob,
    job_id=st.just("a"),
    owner=st.sampled_from([None, "o"]),
    outcome=st.sampled_from(["done", "drop", "retry", "release", "renew", "dead", "revive"]),
    due_at=times,
    held_until=times.map(lambda time: time + timedelta(minutes=2)),
    error=texts,
    summaries=st.lists(st.builds(BlockSummary, block_id=names.map(str), summary=said, author=st.just("m")), max_size=1),
)
offloads = st.builds(
    lambda reference, session, text, name, number, minute, said_at: OffloadRecord(
        reference=reference,
        session_id=session,
        kind="text",
        text=text * 40,
        name=name,
        message_id=number,
        created_at=at(minute),
        said_at=said_at,
    ),
    names,
    names,
    said,
    perhaps(said),
    perhaps(names),
    minutes,
    perhaps_times,
)
tool_calls = st.builds(
    lambda number, name, text, success, seconds, tokens, minute: ToolCallResult(
        call_id=number,
        tool_name=name,
        output=text,
        success=success,
        time_cost=seconds,
        token_cost=tokens,
        create_time=at(minute),
        input={"x": text},
    ),
    names,
    names,
    said,
    st.booleans(),
    st.sampled_from([None, 0.1, 0.2, 0.3, 1e-9, 1e9]),
    st.sampled_from([None, 0, 1 << 53]),
    minutes,
)


def searches_of_messages(text: str, vector: object, limit: int, session: str | None, *within: datetime | None) -> Call:
    said_from, said_to, by_time = within
    search = MessageSearch(
        text=text,
        vector=vector,  # type: ignore[arg-type]
        limit=limit,
        session_id=session,
        said_from=said_from,
        said_to=said_to,
        by_time=bool(by_time),
        now=NOW,
    )

    async def both(store: Store) -> object:
        return await store.search_messages(ALICE, search), await store.search_blocks(ALICE, search)

    return both


async def all_pages(turn: Callable[[str | None], Awaitable[tuple[object, str | None]]]) -> list[object]:
    """Follow the cursors of a list; their texts hold numbers of rows, which each store gives for itself."""
    pages, cursor = list[object](), None
    while len(pages) < 30:
        page, cursor = await turn(cursor)
        pages.append(page)
        if cursor is None:
            break
    return pages


def listed(within: MemoryFilter, limit: int) -> Call:
    async def turn(store: Store, cursor: str | None) -> tuple[object, str | None]:
        page = await store.list_memories(ALICE, ListMemories(filter=within, limit=limit, cursor=cursor))
        return page.memories, page.next_cursor

    return lambda store: all_pages(lambda cursor: turn(store, cursor))


def found_messages(keyword: str | None, session: str | None, limit: int, *, unsliced: bool, newest: bool) -> Call:
    async def turn(store: Store, cursor: str | None) -> tuple[object, str | None]:
        find = FindMessages(
            keyword=keyword, session_id=session, limit=limit, unsliced=unsliced, newest_first=newest, cursor=cursor
        )
        page = await store.find_messages(ALICE, find)
        return page.messages, page.next_cursor

    return lambda store: all_pages(lambda cursor: turn(store, cursor))


def listed_calls(tool: str | None, limit: int, *, newest: bool) -> Call:
    async def turn(store: Store, cursor: str | None) -> tuple[object, str | None]:
        query = ListToolCalls(tool_name=tool, limit=limit, newest_first=newest, cursor=cursor)
        page = await store.list_tool_calls(ALICE, query)
        return page.calls, page.next_cursor

    return lambda store: all_pages(lambda cursor: turn(store, cursor))


def vectors_come(count: int) -> Call:
    async def embed(store: Store) -> object:
        pending = await store.pending_texts(ALICE, count)
        await store.put_vectors(
            ALICE, [MessageVector(pending=one, vector=random_unit(len(one.text))) for one in pending]
        )
        return [one.text for one in pending]

    return embed


def changes_of(limit: int) -> Call:
    async def changes(store: Store) -> object:
        page = await store.memory_changes(ALICE, ChangesQuery(limit=limit, with_total=True))
        return sorted(entry.memory.memory_id for entry in page.entries), page.is_last, page.total

    return changes


async def counted(store: Store, *_: object) -> object:
    return [await store.count(scope) for scope in (ALICE, BOB, SHARED)], await store.count_targets(ALICE)


def erasing(scope: Scope) -> Call:
    async def erase(store: Store) -> object:
        erased = await store.erase(scope)
        return erased.model_dump(exclude={"pages_cleared", "left_to_operator"})  # what each engine says of itself

    return erase


def sliced(session: str, count: int, number: str, summary: str) -> Call:
    async def put(store: Store) -> object:
        found = await store.find_messages(ALICE, FindMessages(session_id=session, unsliced=True, limit=count))
        if not found.messages:
            return None
        made = block(session, *(item.message for item in found.messages), summary=summary, block_id=number)
        await store.put_blocks(ALICE, [made])
        return made

    return put


def settled(settle: SettleJob, batch: WriteBatch | None, *, claims: bool) -> Call:
    """Settle a job, one that was just taken where there is one and `claims` says so."""
    claim = ClaimJob(
        owner="o", now=NOW, hold=timedelta(minutes=9), is_gone=lambda _: True, kinds=("k", "l"), waiting=True
    )

    async def work(store: Store) -> object:
        job = await store.claim_job(ALICE, claim) if claims else None
        ready = settle if job is None else replace(settle, job_id=job.job_id, owner="o")
        if batch is not None:
            return await store.put_and_settle(ALICE, batch, ready)
        await store.settle_job(ALICE, ready)
        return await store.list_jobs(ALICE)

    return work


calls: st.SearchStrategy[tuple[str, Call]] = st.one_of(
    *(
        st.tuples(st.just(name), strategy)
        for name, strategy in {
            "put": st.builds(lambda scope, batch: lambda s: s.put(scope, batch), scopes, batches),
            "put 2": st.builds(lambda batch: lambda s: s.put(ALICE, batch), batches),
            "use": st.builds(
                lambda ids, n: (
                    lambda s: s.record_uses(ALICE, [UseMemory(memory_id=i, uses=n, helpful=0.5) for i in ids])
                ),
                st.lists(names, max_size=3),
                st.sampled_from([1, 0, -1, 1 << 53]),
            ),
            "get": st.builds(lambda ids: lambda s: s.get(ALICE, ids), st.lists(names, max_size=3)),
            "search": st.builds(
                lambda text, vector, limit, within, low: (
                    lambda s: s.search(
                        ALICE, MemorySearch(text=text, vector=vector, limit=limit, filter=within, min_score=low)
                    )
                ),
                texts,
                vectors,
                limits,
                filters,
                st.sampled_from([None, 0.1, 0.9]),
            ),
            "list": st.builds(listed, filters, limits),
            "events": st.builds(
                lambda scope, number, run, limit: (
                    lambda s: s.events(scope, EventQuery(memory_id=number, run_id=run, limit=limit))
                ),
                scopes,
                perhaps(names),
                perhaps(names),
                limits,
            ),
            "changes": st.builds(changes_of, st.sampled_from([1, 100])),
            "count": st.builds(lambda: counted),
            "append": st.builds(
                lambda scope, session, new, wants, rename: (
                    lambda s: s.append(
                        scope,
                        AppendMessages(
                            session_id=session,
                            messages=new,
                            want_vectors=wants,
                            on_conflict="rename" if rename else "raise",
                        ),
                    )
                ),
                scopes,
                few,
                st.lists(messages, max_size=4),
                st.booleans(),
                st.booleans(),
            ),
            "find": st.builds(
                lambda keyword, session, limit, unsliced, newest: found_messages(
                    keyword, session, limit, unsliced=unsliced, newest=newest
                ),
                perhaps(texts),
                perhaps(names),
                limits,
                st.booleans(),
                st.booleans(),
            ),
            "search messages": st.builds(
                searches_of_messages,
                texts,
                vectors,
                limits,
                perhaps(names),
                perhaps_times,
                perhaps_times,
                st.sampled_from([None, NOW]),
            ),
            "slice": st.builds(sliced, few, st.integers(1, 3), names, said),
            "blocks": st.builds(
                lambda session, start: lambda s: s.list_blocks(ALICE, ListBlocks(session_id=session, said_from=start)),
                perhaps(names),
                perhaps_times,
            ),
            "embed": st.builds(vectors_come, st.integers(1, 5)),
            "add jobs": st.builds(
                lambda scope, new: lambda s: s.add_jobs(scope, new), scopes, st.lists(jobs, max_size=2)
            ),
            "claim": st.builds(
                lambda owner, now, hold, waiting, gone, skip: (
                    lambda s: s.claim_job(
                        ALICE,
                        ClaimJob(
                            owner=owner,
                            now=now,
                            hold=timedelta(minutes=hold),
                            is_gone=lambda _: gone,
                            kinds=("k", "l"),
                            waiting=waiting,
                            skip=skip,
                        ),
                    )
                ),
                st.sampled_from("oop"),
                times,
                minutes,
                st.booleans(),
                st.booleans(),
                st.frozensets(names, max_size=2),
            ),
            "settle": st.builds(settled, settles, st.none() | batches, claims=st.booleans()),
            "jobs": st.builds(lambda: lambda s: s.list_jobs(ALICE)),
            "offload": st.builds(
                lambda new, hold, exact: (
                    lambda s: s.put_offloads(ALICE, PutOffloads(offloads=new, hold=hold, exact=exact))
                ),
                st.lists(offloads, max_size=2),
                st.booleans(),
                st.booleans(),
            ),
            "offloads": st.builds(
                lambda session, start, newest: (
                    lambda s: s.list_offloads(
                        ALICE, ListOffloads(session_id=session, made_from=start, newest_first=newest)
                    )
                ),
                perhaps(names),
                perhaps_times,
                st.booleans(),
            ),
            "search offloads": st.builds(
                lambda text, limit, session: (
                    lambda s: s.search_offloads(ALICE, OffloadSearch(text=text, limit=limit, session_id=session))
                ),
                texts,
                limits,
                perhaps(names),
            ),
            "hold": st.builds(
                lambda session, references, now, since: (
                    lambda s: s.hold_offloads(
                        ALICE,
                        HoldOffloads(session_id=session, references=frozenset(references), now=now, keep_since=since),
                    )
                ),
                names,
                st.lists(names, max_size=2),
                times,
                perhaps_times,
            ),
            "clean": st.builds(
                lambda older, most, idle, dry: (
                    lambda s: s.clean_offloads(
                        ALICE, CleanOffloads(older_than=older, max_bytes=most, idle_since=idle, dry_run=dry)
                    )
                ),
                perhaps_times,
                st.sampled_from([None, 0, 500]),
                times,
                st.booleans(),
            ),
            "add calls": st.builds(
                lambda new: lambda s: s.add_tool_calls(ALICE, new), st.lists(tool_calls, max_size=3)
            ),
            "calls": st.builds(
                lambda tool, limit, newest: listed_calls(tool, limit, newest=newest),
                perhaps(names),
                limits,
                st.booleans(),
            ),
            "tool": st.builds(lambda tool: lambda s: s.tool_statistics(ALICE, tool), names),
            "tools": st.builds(lambda limit: lambda s: s.list_tools(ALICE, ListTools(limit=limit)), limits),
            "write items": st.builds(
                lambda new, now, omit: (
                    lambda s: s.write_items("space", WriteItems(writes=new, at=now, omit_expired=omit))
                ),
                st.lists(item_puts | addresses, max_size=4),
                times,
                st.booleans(),
            ),
            "get items": st.builds(
                lambda some, now, omit: (
                    lambda s: s.get_items("space", GetItems(addresses=some, at=now, omit_expired=omit))
                ),
                st.lists(addresses, max_size=3),
                times,
                st.booleans(),
            ),
            "search items": st.builds(
                lambda prefix, of, having, vector, text, limit, offset, now: (
                    lambda s: s.search_items(
                        "space",
                        SearchItems(
                            prefix=prefix,
                            records=of,
                            conditions=having,
                            vector=vector,
                            text=text,
                            limit=limit,
                            offset=offset,
                            at=now,
                            omit_expired=True,
                        ),
                    )
                ),
                namespaces | st.just(()),
                places,
                st.lists(conditions, max_size=1),
                vectors,
                st.just("") | texts,
                limits,
                st.sampled_from([0, 0, 1]),
                times,
            ),
            "namespaces": st.builds(
                lambda prefix, of: (
                    lambda s: s.list_item_namespaces("space", ListItemNamespaces(prefix=prefix, records=of, at=NOW))
                ),
                namespaces | st.just(()),
                places,
            ),
            "sweep": st.builds(lambda now: lambda s: s.sweep_items("space", now), times),
            "scopes": st.builds(lambda: lambda s: s.waiting_scopes("space")),
            "scopes with jobs": st.builds(lambda: lambda s: s.job_scopes("space")),
            "erase": st.builds(erasing, st.sampled_from([BOB, SHARED, BOB, ALICE])),
        }.items()
    )
)

# Numbers of rows, and the like.
_OWN = re.compile(r"[0-9a-f]{32}|'?(sequence|next_cursor)'?[=:] ?('[^']*'|\w+)|key='\d+'")


def told(value: object) -> str:
    """Return an answer in full, without the numbers and random names that each store makes for itself."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return f"[{', '.join(map(told, value))}]"
    dump = getattr(value, "model_dump", None)
    text = repr(dump()) if dump is not None else repr(value)
    return _OWN.sub("", text)


async def outcome(store: Store, call: Call) -> str:
    try:
        return told(await call(store))
    except ReMeError as exc:
        return f"{type(exc).__name__}: {_OWN.sub('', str(exc))}"


def as_set(name: str, answer: str) -> object:
    return sorted(answer) if name == "namespaces" else answer  # these are in no order


async def compare(file: Path, url: str, steps: list[tuple[str, Call]]) -> None:
    local, server = LocalStore(file, synchronous="NORMAL"), PostgresStore(url)
    try:
        for name, call in [*steps, ("count", counted)]:
            answers = [await outcome(store, call) for store in (local, server)]
            assert as_set(name, answers[1]) == as_set(name, answers[0]), name
    finally:
        await local.close()
        await server.close()


@pytest.mark.timeout(3600)
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(calls, min_size=5, max_size=30))
def test_random_calls_are_answered_alike(server: TestServer, shared_url: str, steps: Steps) -> None:
    empty_database(server.url_of(str(ServerSettings(url=shared_url).parameters()["dbname"]), admin=True))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder) / "memory.db", shared_url, steps))


async def test_limits_that_can_not_be_are_told_alike(tmp_path: Path, shared_url: str) -> None:
    item = PutItem(address=ItemAddress(namespace=("a",), key="k"), value={})
    for store in (LocalStore(tmp_path / "memory.db", synchronous="NORMAL"), PostgresStore(shared_url)):
        await store.put(ALICE, WriteBatch(puts=[PutMemory(memory=memory("walrus"))], at=NOW))
        for limit in (0, -1):
            with pytest.raises(InvalidInputError, match="limit"):
                await store.events(ALICE, EventQuery(limit=limit))
        await store.write_items("space", WriteItems(writes=[item], at=NOW))
        for offset, limit, found in ((0, 2**70, 1), (2**63 - 1, 1, 0)):
            search = SearchItems(prefix=("a",), offset=offset, limit=limit, at=NOW)
            assert len(await store.search_items("space", search)) == found
        await store.close()
