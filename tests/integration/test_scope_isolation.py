"""No call of one scope shows, changes or deletes anything of another one, whatever names and ids it is given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from reme_core import ReMe
from reme_core.errors import InvalidInputError, MemoryNotFoundError, ReMeError
from reme_core.ports import (
    AppendMessages,
    DeleteMemory,
    EventQuery,
    FindMessages,
    ListBlocks,
    ListMemories,
    MemoryFilter,
    MemorySearch,
    MessageSearch,
    MessageVector,
    PendingText,
    PutMemory,
    WriteBatch,
)
from reme_core.schema import Block, Memory, Message, Scope, Source, TextBlock
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, LOOKALIKES, NOW, axis, memory
from tests.support.file_checks import problems_of_file
from tests.support.snapshots import snapshot

MARK = "zqxsecret"
"""Stands in every text of the guarded scope, and in nothing that the calls of others are given."""

SESSION, RUN, TARGET = "session-of-alice", "run-of-alice", "target-of-alice"
DIMENSION = 8


@dataclass
class Guarded:
    """One scope with something of everything, its ids, and the cursors of its pages."""

    store: LocalStore
    content: dict[str, JsonValue]
    ids: list[str]
    cursors: list[str]
    rows: list[str]
    folder: Path

    def facade(self, space: str) -> ReMe:
        return ReMe(space, self.folder, llm=None, embedding=HashedEmbedder(DIMENSION), vector_store=self.store)


async def fill(store: LocalStore, folder: Path) -> Guarded:
    owner = ReMe("space", folder, llm=None, embedding=HashedEmbedder(DIMENSION), vector_store=store)
    messages = [
        {"role": "user", "name": f"{MARK} name", "content": f"{MARK} tea number {place}", "id": f"message-{place}"}
        for place in range(4)
    ]
    await owner.summary(messages, user_id="alice", session_id=SESSION, end_session=True)
    await owner.summary([("user", f"{MARK} not sliced yet")], user_id="alice", session_id=SESSION, end_session=False)
    drafts = [
        {"content": f"{MARK} drinks tea {place}", "memory_target": TARGET, "metadata": {"k": MARK, "n": place}}
        for place in range(3)
    ]
    stored = await owner.add_memories(drafts, user_id="alice", run_id=RUN, reason=f"{MARK} reason")
    await owner.update_memory(stored[0].memory_id, user_id="alice", content=f"{MARK} drinks coffee")
    await owner.update_memory(stored[1].memory_id, user_id="alice", valid_to=stored[1].valid_from + timedelta(days=1))
    await owner.delete_memory(stored[2].memory_id, user_id="alice")
    await owner.add_memory(f"{MARK} last", user_id="alice")
    blocks, block_cursor = await owner.list_blocks(user_id="alice", limit=1)
    pages = [
        (await owner.list_memories(user_id="alice", limit=1)).next_cursor,
        (await owner.find_messages(user_id="alice", limit=1)).next_cursor,
        block_cursor,
    ]
    ids = [item["id"] for item in messages] + [item.memory_id for item in stored] + [item.block_id for item in blocks]
    return Guarded(
        store=store,
        content=await snapshot(store, ALICE),
        ids=[*ids, SESSION, RUN, TARGET],
        cursors=[cursor for cursor in pages if cursor is not None],
        rows=["1", "2", "3"],
        folder=folder,
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("isolation")
    store = LocalStore(folder / "memory.db", synchronous="NORMAL")
    yield asyncio.run(fill(store, folder))
    assert problems_of_file(folder / "memory.db") == []
    asyncio.run(store.close())


HOSTILE = [
    "*", "%", "_", "", " ", "?", "null", "None", "alice", "ALICE", "ａｌｉｃｅ", "alic\u00e9", "alice\u0301", "../alice",  # noqa: E501
    '{"user_id": "alice"}', '{"$ne": ""}', "' OR '1'='1", "x'; DROP TABLE memories; --", '"', "message-%", "message-_",
    "space/alice", "s1", "scope : s1", "1", "-1", "tea", "NOT tea", "tea OR secret", "words:tea", "NEAR(tea)", "t*",
]  # fmt: skip
HOSTILE_FILTERS: list[Any] = [
    {"$ne": "x"}, {"k": {"$ne": None}}, {"k": ["x"]}, {"user_id": "alice"}, {"k": "%"}, {"n": 0}, {"n": True},
    {"$.k": "x"}, {"": None}, {"k') OR 1=1 --": 1}, "alice", 5,
]  # fmt: skip
QUERIES = ["tea", "What does alice drink?", "session-of-alice", "secret drinks tea last name", "*", "NOT xyz"]

scopes = st.sampled_from([scope for scope in LOOKALIKES if scope != ALICE])
Call = Callable[[Guarded], Awaitable[object]]


def answers_without_secrets(answer: object) -> None:
    assert MARK not in repr(answer)


async def run_calls(guarded: Guarded, calls: list[Callable[[], Coroutine[object, object, object]]]) -> None:
    for call in calls:
        try:
            answer = await call()
        except ReMeError as exc:
            error: BaseException | None = exc
            while error is not None:
                answers_without_secrets((str(error), error.__dict__))
                error = error.__cause__ or error.__context__
        else:
            answers_without_secrets(answer)
    assert await snapshot(guarded.store, ALICE) == guarded.content


def facade_call(draw: st.DrawFn, guarded: Guarded, scope: Scope) -> Callable[[], Coroutine[object, object, object]]:
    reme, user = guarded.facade(scope.memory_space), scope.user_id
    ids = st.sampled_from(guarded.ids + HOSTILE)
    one, other = draw(ids), draw(ids)
    cursor = draw(st.sampled_from([None, *guarded.cursors, "*", "WyJtZXNzYWdlcyIsIDBd"]))
    filters = draw(st.sampled_from(HOSTILE_FILTERS))
    query = draw(st.sampled_from(QUERIES + HOSTILE))
    path = guarded.folder / "moved.jsonl"
    message = {"role": "user", "content": "tea of somebody else", "id": one}
    draft = {"content": "somebody else", "memory_id": one, "sources": [{"block_id": other, "message_ids": [one]}]}

    async def move() -> object:
        await reme.export(path, user_id=user)
        assert MARK not in path.read_text(encoding="utf-8")
        return await reme.import_(path, user_id=user)

    calls: dict[str, Callable[[], Coroutine[object, object, object]]] = {
        "get_memory": lambda: reme.get_memory(one, user_id=user),
        "update_memory": lambda: reme.update_memory(one, user_id=user, content="mine now"),
        "delete_memory": lambda: reme.delete_memory(one, user_id=user),
        "history": lambda: reme.history(one, user_id=user),
        "undo": lambda: reme.undo(one, user_id=user),
        "get_messages": lambda: reme.get_messages([one, other], user_id=user),
        "get_block": lambda: reme.get_block(one, user_id=user),
        "find_messages": lambda: reme.find_messages(user_id=user, keyword=query, cursor=cursor),
        "find_in_session": lambda: reme.find_messages(user_id=user, session_id=one, cursor=cursor),
        "list_blocks": lambda: reme.list_blocks(user_id=user, session_id=one, cursor=cursor),
        "list_all_blocks": lambda: reme.list_blocks(user_id=user, cursor=cursor),
        "list_memories": lambda: reme.list_memories(
            user_id=user,
            metadata=filters,
            memory_target=[one, other],
            include_superseded=True,
            cursor=cursor,
        ),
        "list_all": lambda: reme.list_memories(user_id=user, keyword=query, include_superseded=True, cursor=cursor),
        "retrieve": lambda: reme.retrieve(query, user_id=user, limit=100, include_superseded=True),
        "retrieve_session": lambda: reme.retrieve(query, user_id=user, session_id=one),
        "retrieve_filtered": lambda: reme.retrieve(query, user_id=user, metadata=filters, memory_target=one),
        "retrieve_shared": lambda: reme.retrieve(query, user_id=user, include_shared=True, layers=["summary"]),
        "retrieve_budget": lambda: reme.retrieve(query, user_id=user, token_budget=5000, as_of=NOW.isoformat()),
        "summary": lambda: reme.summary([message], user_id=user, session_id=other, end_session=True),
        "summary_open": lambda: reme.summary([message], user_id=user, session_id=SESSION, end_session=False),
        "summary_end": lambda: reme.summary([], user_id=user, session_id=SESSION, end_session=True),
        "add_memories": lambda: reme.add_memories([draft], user_id=user, run_id=other),
        "add_in_run": lambda: reme.add_memories([{"content": f"mine {one}"}], user_id=user, run_id=RUN),
        "delete_all": lambda: reme.delete_all_memories(user_id=user),
        "stats": lambda: reme.stats(user_id=user),
        "flush": reme.flush,
        "move": move,
    }
    return calls[draw(st.sampled_from(sorted(calls)))]


def port_call(draw: st.DrawFn, guarded: Guarded, scope: Scope) -> Callable[[], Coroutine[object, object, object]]:
    store, ids = guarded.store, st.sampled_from(guarded.ids + [name for name in HOSTILE if name.strip()])
    one, other, row = draw(ids), draw(ids), draw(st.sampled_from(guarded.rows))
    cursor = draw(st.sampled_from([None, *guarded.cursors]))
    theirs = memory("taken over", scope=ALICE, memory_id=one)
    mine = memory(f"mine {other}", scope=scope, memory_id=one)
    message = Message(message_id=one, role="user", content=(TextBlock(text="hello"),), created_at=NOW)
    block = Block(block_id=other, session_id=SESSION, message_ids=(one,), started_at=NOW, ended_at=NOW, created_at=NOW)
    search = MessageSearch(text="tea", vector=axis(0), limit=100, lifts={one: 1.0, other: 1.0})
    vectors = [MessageVector(pending=PendingText(key=row, text=""), vector=axis(1))]
    wanted = MemoryFilter(include_superseded=True, metadata=draw(st.sampled_from([{}, {"k": "%"}, {"n": 0}])))
    puts = [PutMemory(memory=theirs, vector=axis(2))]
    mine_too = [PutMemory(memory=mine.model_copy(update={"sources": (Source(block_id=other),)}), vector=axis(2))]
    calls: dict[str, Callable[[], Coroutine[object, object, object]]] = {
        "put_theirs": lambda: store.put(scope, WriteBatch(puts=puts, at=NOW)),
        "put_mine": lambda: store.put(scope, WriteBatch(puts=mine_too, at=NOW, run_id=RUN)),
        "delete": lambda: store.put(scope, WriteBatch(deletes=[DeleteMemory(memory_id=one)], at=NOW)),
        "get": lambda: store.get(scope, [one, other]),
        "search": lambda: store.search(scope, MemorySearch(text="tea", vector=axis(0), limit=100, filter=wanted)),
        "search_words": lambda: store.search(scope, MemorySearch(text="secret drinks tea", filter=wanted)),
        "list": lambda: store.list_memories(scope, ListMemories(filter=wanted, cursor=cursor)),
        "events": lambda: store.events(scope, EventQuery()),
        "events_of": lambda: store.events(scope, EventQuery(memory_id=one, run_id=None, after=-1)),
        "events_of_run": lambda: store.events(scope, EventQuery(run_id=RUN)),
        "append": lambda: store.append(scope, AppendMessages(session_id=SESSION, messages=[message])),
        "get_messages": lambda: store.get_messages(scope, [one]),
        "find": lambda: store.find_messages(scope, FindMessages(keyword="tea", cursor=cursor, newest_first=True)),
        "find_unsliced": lambda: store.find_messages(scope, FindMessages(session_id=SESSION, unsliced=True)),
        "put_blocks": lambda: store.put_blocks(scope, [block]),
        "get_blocks": lambda: store.get_blocks(scope, [one]),
        "list_blocks": lambda: store.list_blocks(scope, ListBlocks(session_id=SESSION, cursor=cursor)),
        "search_messages": lambda: store.search_messages(scope, search),
        "search_blocks": lambda: store.search_blocks(scope, search),
        "pending": lambda: store.pending_texts(scope, 100),
        "put_vectors": lambda: store.put_vectors(scope, vectors),
        "erase": lambda: store.erase(scope),
        "count": lambda: store.count(scope),
        "waiting": lambda: store.waiting_scopes(scope.memory_space),
    }
    return calls[draw(st.sampled_from(sorted(calls)))]


relaxed = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@relaxed
@given(data=st.data(), scope=scopes)
def test_no_call_of_the_facade_touches_another_scope(guarded: Guarded, data: st.DataObject, scope: Scope) -> None:
    @st.composite
    def calls(draw: st.DrawFn) -> list[Callable[[], Coroutine[object, object, object]]]:
        return [facade_call(draw, guarded, scope) for _ in range(draw(st.integers(1, 8)))]

    asyncio.run(run_calls(guarded, data.draw(calls())))


@relaxed
@given(data=st.data(), scope=scopes)
def test_no_call_of_a_port_touches_another_scope(guarded: Guarded, data: st.DataObject, scope: Scope) -> None:
    @st.composite
    def calls(draw: st.DrawFn) -> list[Callable[[], Coroutine[object, object, object]]]:
        return [port_call(draw, guarded, scope) for _ in range(draw(st.integers(1, 8)))]

    asyncio.run(run_calls(guarded, data.draw(calls())))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.text("ab/:|,\u0301\u00e9", min_size=1, max_size=4), second=st.text("ab/:|,\u0301\u00e9", max_size=4))
def test_names_that_join_to_the_same_text_stay_apart(guarded: Guarded, first: str, second: str) -> None:
    whole = first + second
    pairs = {(whole[:cut], whole[cut:]) for cut in range(1, len(whole) + 1)}

    async def work() -> None:
        valid = []
        for space, user in sorted(pairs):
            try:
                valid.append(Scope(memory_space=space, user_id=user))
            except ValueError:
                continue
        for scope in valid:
            await guarded.store.erase(scope)
        for place, scope in enumerate(valid):
            value = memory(f"of {place}", scope=scope, memory_id="same")
            await guarded.store.put(scope, WriteBatch(puts=[PutMemory(memory=value)], at=NOW))
        for place, scope in enumerate(valid):
            [found] = await guarded.store.get(scope, ["same"])
            assert found.content == f"of {place}"

    asyncio.run(work())


async def test_unicode_forms_of_a_name_are_different_users(tmp_path: Path) -> None:
    names = ["caf\u00e9", "cafe\u0301", "ｃａｆé", "CAFÉ", "café\u200b", "cafe"]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as reme:
        for name in names:
            await reme.add_memory(f"I am {json.dumps(name)}", user_id=name)
        for name in names:
            page = await reme.list_memories(user_id=name)
            assert [item.content for item in page.memories] == [f"I am {json.dumps(name)}"]


async def test_the_shared_scope_is_read_only_when_asked_for_and_never_sees_a_user(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as reme:
        await reme.add_memory("Tea is served at four.", shared=True)
        await reme.add_memory("Alice takes tea with milk.", user_id="alice")
        await reme.summary([("user", "tea for everybody")], shared=True)
        await reme.summary([("user", "tea for alice")], user_id="alice")
        own = await reme.retrieve("tea", user_id="alice")
        both = await reme.retrieve("tea", user_id="alice", include_shared=True)
        shared = await reme.retrieve("tea", shared=True, include_shared=True)
        elsewhere = ReMe("elsewhere", tmp_path, llm=None, embedding=None)
        other = await elsewhere.retrieve("tea", user_id="alice", include_shared=True)
        await elsewhere.close()
    assert {hit.user_id for hit in own.results} == {"alice"}
    assert {hit.user_id for hit in both.results} == {"alice", ""}
    assert {hit.user_id for hit in shared.results} == {""}
    assert other.results == ()


async def test_a_memory_of_another_scope_cannot_be_put(guarded: Guarded) -> None:
    theirs: Memory = memory("of alice", scope=ALICE)
    bob = Scope(memory_space="space", user_id="bob")
    with pytest.raises(InvalidInputError, match="another scope"):
        await guarded.store.put(bob, WriteBatch(puts=[PutMemory(memory=theirs)], at=NOW))
    with pytest.raises(MemoryNotFoundError):
        await guarded.store.get(ALICE, [theirs.memory_id])
