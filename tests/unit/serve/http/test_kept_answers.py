"""`Idempotency-Key`: the same request again gets the same answer and does nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from starlette.responses import Response

from reme_core import ReMe
from reme_core.errors import StorageFullError, StoreUnavailableError
from reme_core.ports import SearchItems
from reme_core.ports.wrapped_store import WrappedStore
from reme_core.schema import make_scope
from reme_core.serve.access import Principal
from reme_core.serve.http.kept_answers import KeptAnswers, KeyReusedError
from reme_core.steps.costs import SERVICE_SPACE
from reme_core.testing import FixedClock

ANA = Principal(scope=make_scope("space", "ana"), key_id="k1")
BOB = Principal(scope=make_scope("space", "bob"), key_id="k2")
SAID = {"messages": [{"role": "user", "content": "I moved to Lisbon"}]}


def test_a_request_that_comes_again_is_done_once(client):
    first = client.post("/v1/summary", json=SAID, headers={"Idempotency-Key": "a"})
    again = client.post("/v1/summary", json=SAID, headers={"Idempotency-Key": "a"})
    assert again.content == first.content
    assert (again.headers["idempotency-replayed"], "idempotency-replayed" in first.headers) == ("true", False)
    assert client.get("/v1/stats").json()["messages"] == 1
    assert client.post("/v1/summary", json=SAID, headers={"Idempotency-Key": "b"}).content != first.content
    events = client.post("/v1/summary", json=SAID, headers={"Idempotency-Key": "a", "Accept": "text/event-stream"})
    assert first.text in events.text


def test_an_answer_without_a_body_comes_again_as_it_was(client):
    memory_id = client.post("/v1/memories", json={"content": "x"}).json()["memory_id"]
    answers = [client.delete(f"/v1/memories/{memory_id}", headers={"Idempotency-Key": "a"}) for _ in range(2)]
    assert [(answer.status_code, answer.content) for answer in answers] == [(204, b""), (204, b"")]


def test_a_key_with_another_request_is_refused(client):
    client.post("/v1/memories", json={"content": "x"}, headers={"Idempotency-Key": "a"})
    for path, body in (("/v1/memories", {"content": "y"}), ("/v1/summary", {"content": "x"})):
        answer = client.post(path, json=body, headers={"Idempotency-Key": "a"})
        assert answer.status_code == 422, answer.text
    assert client.get("/v1/stats").json()["memories"] == 1


@pytest.mark.parametrize("key", ["", " ", "x" * 256])
def test_a_key_that_cant_be_one_is_refused(client, key):
    answer = client.post("/v1/memories", json={"content": "x"}, headers={"Idempotency-Key": key})
    assert (answer.status_code, "Idempotency-Key" in answer.json()["detail"]) == (422, True)


def test_what_failed_is_done_again_and_reads_keep_nothing(client):
    for _ in range(2):
        answer = client.post("/v1/memories", json={"content": ""}, headers={"Idempotency-Key": "a"})
        assert answer.status_code == 422
        assert "idempotency-replayed" not in answer.headers
    assert client.post("/v1/memories", json={"content": "x"}, headers={"Idempotency-Key": "a"}).status_code == 200
    for _ in range(2):
        found = client.post("/v1/retrieve", json={"query": "x"}, headers={"Idempotency-Key": "r"})
        assert "idempotency-replayed" not in found.headers


async def test_two_at_once_are_done_once_and_keys_of_others_are_no_matter(home):
    done = []

    async def work():
        done.append(len(done))
        await asyncio.sleep(0)
        return Response(f"answer {len(done)}", media_type="text/plain")

    async with home:
        kept = KeptAnswers(home.store, home.clock)
        answers = await asyncio.gather(*(kept.once(ANA, "k", b"request", work) for _ in range(8)))
        assert {answer.body for answer in answers} == {b"answer 1"}
        assert (await kept.once(BOB, "k", b"request", work)).body == b"answer 2"
        with pytest.raises(KeyReusedError):
            await kept.once(ANA, "k", b"another request", work)


async def test_a_failure_keeps_nothing_and_an_answer_outlives_the_process_but_not_the_day(tmp_path):
    clock = FixedClock()

    async def fails():
        raise StoreUnavailableError("busy")

    async def work():
        return Response("done", 200)

    async def never():
        raise AssertionError

    async with ReMe("space", tmp_path, llm=None, embedding=None, clock=clock) as memory:
        kept = KeptAnswers(memory.store, clock)
        with pytest.raises(StoreUnavailableError):
            await kept.once(ANA, "k", b"request", fails)
        await kept.once(ANA, "k", b"request", work)
    async with ReMe("space", tmp_path, llm=None, embedding=None, clock=clock) as memory:
        kept = KeptAnswers(memory.store, clock)
        assert (await kept.once(ANA, "k", b"request", never)).body == b"done"
        clock.advance(timedelta(hours=24, seconds=1))
        assert (await kept.once(ANA, "k", b"another request", work)).body == b"done"


async def test_an_answer_that_cant_be_kept_is_still_given(home, caplog):
    class Full(WrappedStore):
        async def write_items(self, memory_space, write):
            raise StorageFullError("full")

    async def work():
        return Response("done")

    async with home:
        kept = KeptAnswers(Full(home.store), home.clock)
        assert (await kept.once(ANA, "k", b"request", work)).body == b"done"
    assert "not kept" in caplog.text


async def test_an_erased_text_is_nowhere_in_the_file_and_a_deleted_user_leaves_no_answers(home, client_as, tmp_path):
    client = client_as()
    text = "the pelican sleeps at noon"
    headers = {"Idempotency-Key": "a"}
    memory_id = client.post("/v1/memories", json={"content": text}, headers=headers).json()["memory_id"]
    assert client.delete(f"/v1/memories/{memory_id}?erase=true").status_code == 204
    assert text in client.post("/v1/memories", json={"content": text}, headers=headers).text  # sealed, not gone
    for file in tmp_path.iterdir():
        assert b"pelican" not in file.read_bytes(), file
    erased = client.delete("/v1/users/me", headers=headers).json()
    assert erased["store_items"] == 1
    search = SearchItems(prefix=("kept-answers",), at=home.clock.now())
    assert await home.store.search_items(SERVICE_SPACE, search) == []


async def test_what_was_begun_for_a_caller_who_leaves_is_there_when_it_is_sent_again(home):
    begun, may_end, count = asyncio.Event(), asyncio.Event(), 0

    async def work():
        nonlocal count
        count += 1
        begun.set()
        await may_end.wait()
        return Response("done")

    async with home:
        kept = KeptAnswers(home.store, home.clock)
        first = asyncio.create_task(kept.once(ANA, "k", b"request", work))
        await begun.wait()
        first.cancel()
        again = asyncio.create_task(kept.once(ANA, "k", b"request", work))
        may_end.set()
        assert (await again).body == b"done"
        with pytest.raises(asyncio.CancelledError):
            await first
    assert count == 1
