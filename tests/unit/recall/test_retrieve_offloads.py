"""Passages of offloaded tool results among what is retrieved."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.models import CharacterTokenCounter
from reme_core.ports import AppendMessages, PutOffloads, RetrieveRequest
from reme_core.recall.simple_retriever import SimpleRetriever
from reme_core.retrieval.hits import MessageMatch, passage_score, passage_scores
from reme_core.schema import Hit, Message, OffloadKind, OffloadRecord, TextBlock
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, BOB, NOW, at
from tests.support.toolbox import EMMA, held, put

LOG = "".join(f"step {n}: {'checksum mismatch in sector' if n == 400 else 'went well'} {n}\n" for n in range(800))
SHARES = st.floats(0, 1)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalStore]:
    store = LocalStore(tmp_path / "memory.db", synchronous="NORMAL")
    yield store
    await store.close()


async def keep(store: LocalStore, scope: Any = ALICE, **fields: Any) -> str:
    given = {
        "session_id": "talk",
        "kind": OffloadKind.TOOL_RESULT,
        "text": LOG,
        "name": "fsck",
        "message_id": "tell-1",
        "place": 0,
        "created_at": NOW,
    }
    [reference] = await store.put_offloads(scope, PutOffloads(offloads=[OffloadRecord(**{**given, **fields})]))
    return reference


async def say(store: LocalStore, *texts: str, session: str = "talk", minute: float = -10) -> list[str]:
    messages = [
        Message(role="user", name="Emma", content=(TextBlock(text=text),), created_at=at(minute)) for text in texts
    ]
    await store.append(ALICE, AppendMessages(session_id=session, messages=messages))
    return [message.message_id for message in messages]


async def found(store: LocalStore, query: str, **fields: Any) -> list[Hit]:
    retriever = SimpleRetriever(
        store=store,
        embedder=None,
        counter=CharacterTokenCounter(),
    )
    return list((await retriever.retrieve(ALICE, RetrieveRequest(query=query, now=at(120), **fields))).results)


async def test_a_passage_names_its_reference_tool_and_message(store: LocalStore) -> None:
    reference = await keep(store)
    await say(store, "Hello there.", "The weather is fine.")
    [hit] = await found(store, "Where was the checksum mismatch?")
    assert "step 400: checksum mismatch in sector 400\n" in hit.memory
    assert hit.memory.endswith(f"\n[… reload {reference}]")
    assert (hit.layer, hit.reference, hit.message_ids, hit.name, hit.role, hit.session_id, hit.created_at) == (
        "message", reference, ("tell-1",), "fsck", "tool", "talk", NOW,
    )  # fmt: skip
    assert 0 < hit.score <= 0.5


async def test_a_message_that_answers_as_well_comes_first(store: LocalStore) -> None:
    reference = await keep(store)
    [name] = await say(store, "The checksum mismatch was in sector nine.")
    hits = await found(store, "checksum mismatch sector")
    assert [hit.message_ids[0] for hit in hits[:2]] == [name, "tell-1"]
    assert hits[1].reference == reference
    assert hits[0].score > hits[1].score


async def test_a_passage_that_answers_better_comes_before_messages_and_behind_memories(store: LocalStore) -> None:
    await keep(store)
    await say(store, "A sector is part of a disk.", "Sales in the sector are up.")
    hits = await found(store, "checksum mismatch sector")
    assert hits[0].reference is not None
    await put(store, held("emma-1", "Emma saw the checksum mismatch in a sector.", EMMA))
    hits = await found(store, "checksum mismatch sector")
    assert [hit.layer for hit in hits[:2]] == ["memory", "message"]
    assert hits[1].reference is not None


async def test_a_passage_with_one_of_many_words_comes_last(store: LocalStore) -> None:
    await keep(store, text="the sector\n")
    names = await say(store, "My garden has roses and tulips.", "Roses need water in a dry sector of the garden.")
    hits = await found(store, "roses tulips garden water sector")
    assert {hit.message_ids[0] for hit in hits[:2]} == set(names)
    assert hits[-1].reference is not None


async def test_session_and_times_hold_for_passages(store: LocalStore) -> None:
    reference = await keep(store)
    other = await keep(store, session_id="other", created_at=at(60))
    query = "checksum mismatch"

    async def references(**fields: Any) -> set[str | None]:
        return {hit.reference for hit in await found(store, query, **fields)}

    same = {reference} | {other}
    assert (await references(limit=50)) <= same
    assert await references(session_id="other") == {other}
    assert await references(said_from=at(30)) == {other}
    assert await references(said_to=at(30)) == {reference}
    assert await references(as_of=NOW) == {reference}
    assert await references(as_of=NOW - timedelta(minutes=1)) == set()
    assert await references(layers=("memory",)) == set()
    assert await references(targets=("Emma",)) == set()


async def test_passages_of_another_scope_are_not_found(store: LocalStore) -> None:
    await keep(store, BOB)
    assert await found(store, "checksum mismatch") == []


async def test_replaced_summaries_are_not_found(store: LocalStore) -> None:
    await keep(store, kind=OffloadKind.TEXT, name="summary", message_id=None, place=None)
    assert await found(store, "checksum mismatch") == []


async def test_a_passage_without_a_message_is_found_too(store: LocalStore) -> None:
    await keep(store, message_id=None, place=None)
    await put(store, held("emma-1", "Emma saw the checksum mismatch.", EMMA))
    hits = await found(store, "checksum mismatch")
    assert [hit.message_ids for hit in hits if hit.reference is not None] == [()]


async def test_what_a_message_says_already_is_not_shown_again(store: LocalStore) -> None:
    await keep(store, text="checksum mismatch in sector 400\n")
    await say(store, "fsck says: checksum mismatch in sector 400\nThat is bad.")
    hits = await found(store, "checksum mismatch sector")
    assert [hit.reference for hit in hits] == [None]


async def test_a_budget_of_tokens_counts_the_passages(store: LocalStore) -> None:
    await keep(store)
    [hit] = await found(store, "checksum mismatch", token_budget=2000)
    assert hit.reference is not None
    assert await found(store, "checksum mismatch", token_budget=20) == []


async def test_many_hits_are_compared_and_counted_beside_the_event_loop(store: LocalStore) -> None:
    threads: set[int] = set()

    class Noted(CharacterTokenCounter):
        def count(self, text: str) -> int:
            threads.add(threading.get_ident())
            return super().count(text)

    for number in range(60):
        await keep(store, session_id=f"log-{number}", text=f"checksum mismatch in sector {number}")
    retriever = SimpleRetriever(
        store=store,
        embedder=None,
        counter=Noted(),
    )
    await retriever.retrieve(ALICE, RetrieveRequest(query="checksum mismatch", token_budget=2000, now=NOW))
    assert threads
    assert threading.get_ident() not in threads


async def test_with_an_embedder_passages_are_found_by_their_words(store: LocalStore) -> None:
    reference = await keep(store)
    await say(store, "A sector is part of a disk.")
    retriever = SimpleRetriever(
        store=store,
        embedder=HashedEmbedder(16),
        counter=CharacterTokenCounter(),
    )
    result = await retriever.retrieve(ALICE, RetrieveRequest(query="checksum mismatch", now=NOW))
    assert reference in {hit.reference for hit in result.results}


async def test_passages_do_not_crowd_out_the_message_that_answers(store: LocalStore) -> None:
    await say(store, "And what is the door code of the garage again?", "It is 4711, since Monday.", "Thanks.")
    for n in range(20):
        await keep(store, session_id=f"log-{n}", text=f"2024-01-{n + 1:02} garage door code check ok, sensor {n}\n")
    hits = await found(store, "What is the door code of the garage?", limit=10)
    assert "It is 4711, since Monday." in [hit.memory for hit in hits[:4]]
    assert sum(hit.reference is not None for hit in hits) >= 5
    better = await found(store, "Was the garage door code check ok?", limit=10)
    assert better[0].reference is not None
    assert "It is 4711, since Monday." in [hit.memory for hit in better[:5]]


async def test_a_passage_is_of_the_time_at_which_it_was_said(store: LocalStore) -> None:
    reference = await keep(store, said_at=at(-600))
    ranges: list[dict[str, Any]] = [{}, {"said_to": at(-60)}, {"as_of": at(-60)}]
    for fields in ranges:
        [hit] = await found(store, "checksum mismatch", **fields)
        assert (hit.reference, hit.created_at, hit.observed_at) == (reference, at(-600), at(-600))
    assert await found(store, "checksum mismatch", said_from=at(-60)) == []


@given(st.lists(SHARES, max_size=8), st.lists(st.tuples(SHARES, st.floats(0, 0.5)), max_size=6))
def test_each_further_passage_stands_behind_one_message_more(
    shares: list[float], told: list[tuple[float, float]]
) -> None:
    messages = [MessageMatch(*item) for item in told]
    scores = passage_scores(shares, messages)
    assert all(score <= passage_score(share, messages) for score, share in zip(scores, shares, strict=True))
    ladder = sorted((item.score for item in messages), reverse=True)
    for place, score in enumerate(sorted(scores, reverse=True)):
        if place and ladder:
            assert score <= ladder[min(place, len(ladder) - 1)]


@given(SHARES, st.lists(st.tuples(SHARES, st.floats(0, 0.5)), max_size=6))
def test_a_passage_stands_behind_every_message_with_as_many_words(
    share: float, told: list[tuple[float, float]]
) -> None:
    score = passage_score(share, [MessageMatch(*item) for item in told])
    assert 0 <= score <= 0.5
    for other, beside in told:
        if other >= share:
            assert score <= beside
        elif share >= 0.5 and all(each < share for each, _ in told):
            assert score >= beside
