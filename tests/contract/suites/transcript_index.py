# asserts are what a contract suite is made of
"""Promises of a searchable transcript: ranking messages and blocks, and the vectors they wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from reme_core.errors import DimensionMismatchError, InvalidInputError, StoreClosedError
from reme_core.ports import (
    MessageSearch,
    MessageVector,
    PendingText,
    ScoredMessage,
    Store,
    Vector,
)
from reme_core.schema import Message, Scope
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    DIMENSION,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    at,
    axis,
    bad_vectors,
    leaning,
    message,
)
from tests.contract.suites.transcript_messages import append, put_block

TEXTS_AND_QUERIES = (
    ("She is learning to play the violin", "who has violin lessons?"),
    ("她喜欢在周末打网球", "谁打网球"),
    ("東京で毎朝コーヒーを飲む", "コーヒーはどこで"),
    ("그는 서울에서 기타를 배운다", "서울에서"),
)
NOISE = ("The weather was fine.", "Nothing else happened.", "今日は晴れ", "天气很好", "날씨가 좋다")


async def ranked(store: Store, search: MessageSearch, *, scope: Scope = ALICE) -> list[ScoredMessage]:
    """Search, and check what holds for every answer: limit, falling scores of at most 1, no message twice."""
    hits = await store.search_messages(scope, search)
    scores = [hit.score for hit in hits]
    assert len(hits) <= search.limit
    assert all(first >= second for first, second in pairwise(scores))
    assert all(np.isfinite(score) and score <= 1.0 + 1e-6 for score in scores)
    assert len({hit.stored.message.message_id for hit in hits}) == len(hits)
    return hits


async def texts(store: Store, search: MessageSearch, *, scope: Scope = ALICE) -> list[str]:
    """Search and return the texts found, best first."""
    return [hit.stored.message.text for hit in await ranked(store, search, scope=scope)]


async def apart(store: Store, *said: Message, scope: Scope = ALICE, want_vectors: bool = False) -> None:
    """Append each message to a session of its own, so that none has neighbours."""
    for item in said:
        await append(store, item, session_id=f"of {item.message_id}", scope=scope, want_vectors=want_vectors)


async def give(
    store: Store, vectors: Mapping[str, Vector], *, scope: Scope = ALICE, default: Vector | None = None
) -> None:
    """Answer the pending texts: those that begin with a key get its vector, all others the default."""
    fallback = axis(DIMENSION - 1) if default is None else default
    pending = await store.pending_texts(scope, 1000)
    await store.put_vectors(
        scope,
        [
            MessageVector(
                pending=item,
                vector=next((vector for start, vector in vectors.items() if item.text.startswith(start)), fallback),
            )
            for item in pending
        ],
    )


def shown(pending: Sequence[PendingText]) -> list[str]:
    """Return the texts, sorted."""
    return sorted(item.text for item in pending)


class IndexRanking:
    """Search over messages and blocks."""

    async def test_an_empty_store_has_nothing_to_find(self, store: Store) -> None:
        search = MessageSearch(text="anything", vector=axis(0))
        assert await store.search_messages(ALICE, search) == []
        assert await store.search_blocks(ALICE, search) == []

    @pytest.mark.parametrize(("text", "query"), TEXTS_AND_QUERIES)
    async def test_words_find_the_message_that_holds_them(self, store: Store, text: str, query: str) -> None:
        await apart(store, *(message(noise) for noise in NOISE), message(text))
        assert (await texts(store, MessageSearch(text=query)))[0] == text

    @pytest.mark.parametrize(("text", "query"), TEXTS_AND_QUERIES)
    async def test_words_find_the_block_whose_summary_holds_them(self, store: Store, text: str, query: str) -> None:
        for number, summary in enumerate((*NOISE, text)):
            said = message(f"something {number}", minute=number)
            await append(store, said)
            await put_block(store, said, summary=summary)
        hits = await store.search_blocks(ALICE, MessageSearch(text=query))
        assert hits[0].block.summary == text
        assert all(first.score >= second.score for first, second in pairwise(hits))
        assert all(hit.score <= 1.0 + 1e-6 for hit in hits)
        assert len(await store.search_blocks(ALICE, MessageSearch(text=query, limit=1))) == 1

    async def test_a_message_is_found_by_what_it_stands_next_to(self, store: Store) -> None:
        await append(store, message("Which instrument do you play?", minute=1), message("Mostly that.", minute=2))
        await apart(store, *(message(f"{noise} {n}", minute=n) for n, noise in enumerate(NOISE * 4)))
        found = await texts(store, MessageSearch(text="play an instrument", limit=2))
        assert found == ["Which instrument do you play?", "Mostly that."]

    async def test_messages_of_other_sessions_are_no_neighbours(self, store: Store) -> None:
        await apart(store, message("Which instrument do you play?", minute=1), message("Mostly that.", minute=2))
        await append(store, message("Which instrument do I play?"), message("Mainly this."), session_id="one")
        found = await texts(store, MessageSearch(text="instrument", limit=3))
        assert set(found) == {"Which instrument do you play?", "Which instrument do I play?", "Mainly this."}

    async def test_the_nearest_by_vector_comes_first(self, store: Store) -> None:
        said = [message(f"text {n}") for n in range(5)]
        await apart(store, *said, want_vectors=True)
        await give(store, {f"user: text {n}": leaning(n / 5) for n in range(5)})
        found = await texts(store, MessageSearch(text="", vector=axis(0)))
        assert found == ["text 4", "text 3", "text 2", "text 1", "text 0"]

    async def test_a_message_without_vector_is_found_by_its_words(self, store: Store) -> None:
        await apart(store, *(message(f"noise {n}") for n in range(5)), want_vectors=True)
        await give(store, {}, default=leaning(-0.5))
        await apart(store, message("the zebra"))
        assert (await texts(store, MessageSearch(text="zebra", vector=axis(0))))[0] == "the zebra"

    async def test_words_and_vector_together_beat_either(self, store: Store) -> None:
        await apart(store, message("zebra alpha"), message("zebra beta"), message("horse gamma"), want_vectors=True)
        near = {"user: zebra alpha": leaning(0.9), "user: zebra beta": leaning(-0.9), "user: horse": leaning(0.9)}
        await give(store, near)
        assert (await texts(store, MessageSearch(text="zebra", vector=axis(0))))[0] == "zebra alpha"

    async def test_a_session_is_searched_alone(self, store: Store) -> None:
        for n in range(8):
            await append(store, message(f"zebra zebra {n}"), session_id="loud")
        await append(store, message("a zebra in a much longer text about other things"), session_id="quiet")
        found = await texts(store, MessageSearch(text="zebra", session_id="quiet", limit=1))
        assert found == ["a zebra in a much longer text about other things"]
        assert await texts(store, MessageSearch(text="zebra", session_id="*")) == []

    async def test_a_time_is_searched_alone(self, store: Store) -> None:
        await apart(store, *(message(f"zebra {n}", minute=n) for n in range(6)))
        search = MessageSearch(text="zebra", said_from=at(2), said_to=at(4))
        assert set(await texts(store, search)) == {"zebra 2", "zebra 3"}
        assert set(await texts(store, MessageSearch(text="zebra", said_from=at(5)))) == {"zebra 5"}
        assert set(await texts(store, MessageSearch(text="zebra", said_to=at(1), limit=1))) == {"zebra 0"}

    async def test_a_time_is_listed_without_a_shared_word(self, store: Store) -> None:
        day = 24 * 60
        told = "Paula sold her old boat to the ferry people"
        await apart(
            store,
            message("Where is it?", minute=0),
            message("Fine.", minute=1),
            message(told, minute=2),
            message("rows and rows of numbers that a tool has printed", role="tool", minute=3),
            message("Much was said in another week, and at great length", minute=40 * day),
        )
        search = MessageSearch(text="", said_to=at(2 * day), by_time=True)
        found = await texts(store, search)
        assert found[0] == told
        assert set(found[1:3]) == {"Where is it?", "Fine."}
        assert len(found) == 4
        assert await texts(store, replace(search, limit=2, vector=axis(0))) == found[:2]
        named = replace(search, text=f"what happened on {at(0).date().isoformat()}?", said_to=None)
        assert await texts(store, named) == found
        assert await texts(store, replace(named, session_id="elsewhere")) == []
        assert await texts(store, replace(search, text="yesterday", now=at(day))) == found
        assert await texts(store, replace(search, text="yesterday", now=at(9 * day))) == []
        for n in range(40):
            await append(store, message(f"a line of numbers that a tool printed: {n}", role="tool", minute=4 + n))
        assert await texts(store, replace(search, limit=3)) == found[:3]

    async def test_blocks_are_searched_by_session_and_time(self, store: Store) -> None:
        for n in range(4):
            said = message(f"text {n}", minute=n)
            await append(store, said, session_id=f"session {n}")
            await put_block(store, said, session_id=f"session {n}", summary=f"zebra {n}")

        async def summaries(search: MessageSearch) -> set[str]:
            return {hit.block.summary for hit in await store.search_blocks(ALICE, search)}

        assert await summaries(MessageSearch(text="zebra", session_id="session 2")) == {"zebra 2"}
        assert await summaries(MessageSearch(text="zebra", said_from=at(2))) == {"zebra 2", "zebra 3"}
        assert await summaries(MessageSearch(text="", said_from=at(2), by_time=True)) == {"zebra 2", "zebra 3"}
        assert await summaries(MessageSearch(text="zebra", said_to=at(2), limit=2)) == {"zebra 0", "zebra 1"}

    async def test_a_lift_raises_the_message_it_names(self, store: Store) -> None:
        said = [message(f"zebra {name}", minute=n) for n, name in enumerate(("one", "two", "three"))]
        await apart(store, *said)
        for item in said:
            found = await texts(store, MessageSearch(text="zebra", lifts={item.message_id: 0.5}))
            assert found[0] == item.text
        lifts = {said[0].message_id: 1.0, "no such": 1.0}
        assert len(await texts(store, MessageSearch(text="zebra", lifts=lifts))) == 3

    async def test_equal_scores_come_newest_first(self, store: Store) -> None:
        await apart(store, *(message("the zebra", message_id=f"id {n}", minute=n) for n in (1, 3, 2)))
        hits = await ranked(store, MessageSearch(text="zebra"))
        assert [hit.stored.message.message_id for hit in hits] == ["id 3", "id 2", "id 1"]

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_search_limit_below_one_is_refused(self, store: Store, limit: int) -> None:
        await apart(store, message("zebra"))
        with pytest.raises(InvalidInputError):
            await store.search_messages(ALICE, MessageSearch(text="zebra", limit=limit))
        with pytest.raises(InvalidInputError):
            await store.search_blocks(ALICE, MessageSearch(text="zebra", limit=limit))

    @pytest.mark.parametrize("scope", [BOB, *LOOKALIKES], ids=repr)
    async def test_searches_and_vectors_stay_inside_the_scope(self, store: Store, scope: Scope) -> None:
        said = message("zebra", message_id="id")
        await append(store, said, want_vectors=True)
        await put_block(store, said, summary="zebra")
        search = MessageSearch(text="zebra", vector=axis(0), lifts={"id": 1.0}, session_id="session")
        assert await store.search_messages(scope, search) == []
        assert await store.search_blocks(scope, search) == []
        assert await store.pending_texts(scope, 10) == []
        pending = await store.pending_texts(ALICE, 10)
        await append(store, message("mine", minute=1), scope=scope)
        with suppress(InvalidInputError):
            await store.put_vectors(scope, [MessageVector(pending=item, vector=axis(0)) for item in pending])
        assert await store.pending_texts(ALICE, 10) == pending
        assert (await texts(store, MessageSearch(text="", vector=axis(0)), scope=scope)) in ([], ["mine"])

    async def test_erasing_removes_vectors_and_pending_texts(self, store: Store) -> None:
        await apart(store, message("zebra", message_id="id"), message("horse"), want_vectors=True)
        await give(store, {"user: zebra": axis(0)})
        await append(store, message("waiting"), session_id="more", want_vectors=True)
        await store.erase(ALICE)
        assert await store.pending_texts(ALICE, 10) == []
        assert await store.search_messages(ALICE, MessageSearch(text="zebra", vector=axis(0))) == []
        await append(store, message("zebra again", message_id="id"))
        assert await texts(store, MessageSearch(text="zebra", vector=axis(0))) == ["zebra again"]

    async def test_searching_after_closing_says_that_it_is_closed(self, store: Store) -> None:
        await store.close()
        with pytest.raises(StoreClosedError):
            await store.search_messages(ALICE, MessageSearch(text="zebra"))
        with pytest.raises(StoreClosedError):
            await store.search_blocks(ALICE, MessageSearch(text="zebra"))
        with pytest.raises(StoreClosedError):
            await store.pending_texts(ALICE, 1)
        with pytest.raises(StoreClosedError):
            await store.put_vectors(ALICE, [])


class IndexVectors:
    """Texts that wait for vectors, and the vectors that come."""

    async def test_messages_wait_for_vectors_only_where_asked(self, store: Store) -> None:
        await append(store, message("quiet"))
        assert await store.pending_texts(ALICE, 10) == []

    async def test_a_waiting_text_names_who_said_it(self, store: Store) -> None:
        said = [message("one", name="Ann"), message("two"), message("three", role="assistant")]
        await append(store, *said, want_vectors=True)
        assert shown(await store.pending_texts(ALICE, 10)) == sorted(["Ann: one", "user: two", "assistant: three"])

    async def test_what_was_appended_without_vectors_does_not_start_to_wait(self, store: Store) -> None:
        await append(store, message("quiet"))
        await append(store, message("loud"), want_vectors=True)
        assert shown(await store.pending_texts(ALICE, 10)) == ["user: loud"]

    async def test_pending_texts_come_oldest_first_and_no_more_than_asked(self, store: Store) -> None:
        await apart(store, *(message(f"text {n}") for n in range(5)), want_vectors=True)
        assert [item.text for item in await store.pending_texts(ALICE, 3)] == [
            "user: text 0",
            "user: text 1",
            "user: text 2",
        ]

    async def test_texts_with_vectors_wait_no_longer(self, store: Store) -> None:
        await append(store, message("one"), message("two"), want_vectors=True)
        first, *rest = await store.pending_texts(ALICE, 10)
        await store.put_vectors(ALICE, [MessageVector(pending=first, vector=axis(0))])
        assert await store.pending_texts(ALICE, 10) == rest
        await give(store, {})
        assert await store.pending_texts(ALICE, 10) == []

    async def test_the_same_message_again_does_not_wait_again(self, store: Store) -> None:
        said = message("hello")
        await append(store, said, want_vectors=True)
        await give(store, {})
        await append(store, said, want_vectors=True)
        assert await store.pending_texts(ALICE, 10) == []

    async def test_scopes_that_wait_are_named_within_their_space(self, store: Store) -> None:
        for scope in (ALICE, SHARED, ELSEWHERE):
            await append(store, message("one"), message("two"), scope=scope, want_vectors=True)
        await append(store, message("quiet"), scope=BOB)
        waiting = await store.waiting_scopes(ALICE.memory_space)
        assert sorted(waiting, key=repr) == sorted([ALICE, SHARED], key=repr)
        assert await store.waiting_scopes("elsewhere") == [ELSEWHERE]
        for nobody in ("no such", "*", "", "Space", "spac", "%"):
            assert await store.waiting_scopes(nobody) == []
        await give(store, {})
        assert await store.waiting_scopes(ALICE.memory_space) == [SHARED]
        await store.erase(SHARED)
        assert await store.waiting_scopes(ALICE.memory_space) == []

    async def test_a_vector_of_a_message_that_was_erased_is_passed_over(self, store: Store) -> None:
        await append(store, message("gone"), want_vectors=True)
        late = [MessageVector(pending=item, vector=axis(0)) for item in await store.pending_texts(ALICE, 10)]
        await store.erase(ALICE)
        await append(store, message("new"), want_vectors=True)
        await store.put_vectors(ALICE, late)
        assert shown(await store.pending_texts(ALICE, 10)) == ["user: new"]
        assert await texts(store, MessageSearch(text="gone", vector=axis(0))) in ([], ["new"])

    async def test_the_vector_of_a_neighbour_lifts_a_message(self, store: Store) -> None:
        await append(store, message("near one", minute=1), message("near two", minute=2), want_vectors=True)
        await append(
            store, message("far one", minute=3), message("far two", minute=4), session_id="far", want_vectors=True
        )
        await give(store, {"user: near one": leaning(0.95)}, default=leaning(-0.2))
        found = await texts(store, MessageSearch(text="", vector=axis(0), limit=2))
        assert found == ["near one", "near two"]

    @pytest.mark.parametrize("name", list(bad_vectors()))
    async def test_one_bad_vector_refuses_all(self, store: Store, name: str) -> None:
        await append(store, message("one"), message("two"), want_vectors=True)
        pending = await store.pending_texts(ALICE, 10)
        good = MessageVector(pending=pending[0], vector=axis(0))
        with pytest.raises(InvalidInputError):
            await store.put_vectors(ALICE, [good, MessageVector(pending=pending[1], vector=bad_vectors()[name])])
        assert await store.pending_texts(ALICE, 10) == pending

    async def test_a_vector_of_another_dimension_is_refused(self, store: Store) -> None:
        await append(store, message("one"), message("two"), message("three"), want_vectors=True)
        pending = await store.pending_texts(ALICE, 10)
        await store.put_vectors(ALICE, [MessageVector(pending=pending[0], vector=axis(0))])
        good = MessageVector(pending=pending[1], vector=axis(1))
        bad = MessageVector(pending=pending[2], vector=axis(0, dimension=DIMENSION + 1))
        with pytest.raises(DimensionMismatchError):
            await store.put_vectors(ALICE, [good, bad])
        assert await store.pending_texts(ALICE, 10) == pending[1:]
        with pytest.raises(DimensionMismatchError):
            await store.search_messages(ALICE, MessageSearch(text="", vector=axis(0, dimension=DIMENSION - 1)))

    @pytest.mark.parametrize("key", ["", "x", "*", "{}", "no such"])
    async def test_a_key_that_is_not_ours_is_refused(self, store: Store, key: str) -> None:
        await append(store, message("one"), want_vectors=True)
        [pending] = await store.pending_texts(ALICE, 10)
        strange = PendingText(key=key, text=pending.text)
        with pytest.raises(InvalidInputError):
            await store.put_vectors(ALICE, [MessageVector(pending=strange, vector=axis(0))])
        assert await store.pending_texts(ALICE, 10) == [pending]
