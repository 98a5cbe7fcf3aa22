"""Streams of events: comments while it takes long, then the answer or the problem."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.responses import JSONResponse

from reme_core.errors import StoreUnavailableError
from reme_core.serve.http import event_stream
from reme_core.serve.http.event_stream import EventStream

EVENTS = {"Accept": "application/json;q=0.5, text/event-stream; charset=utf-8"}


def test_a_long_call_answers_as_an_event_where_that_is_asked_for(client):
    plain = client.post("/v1/retrieve", json={"query": "x"})
    assert plain.headers["content-type"] == "application/json"
    stream = client.post("/v1/retrieve", json={"query": "x"}, headers=EVENTS)
    assert stream.headers["content-type"] == "text/event-stream"
    head, event = stream.text.split("\n\n")[:2]
    assert head == ": working"
    name, data = event.split("\n")
    assert name == "event: result"
    assert json.loads(data.removeprefix("data: "))["results"] == []
    assert client.get("/v1/stats", headers=EVENTS).headers["content-type"] == "application/json"


def test_what_is_refused_before_it_begins_is_a_problem_and_later_an_event(client):
    assert client.post("/v1/retrieve", json={"quer": "x"}, headers=EVENTS).status_code == 422
    stream = client.post("/v1/retrieve", json={"query": " "}, headers=EVENTS)
    assert stream.status_code == 200
    assert "event: error\ndata: {" in stream.text
    assert "query: is empty" in stream.text


class Caller:
    """Takes what is sent, and leaves when told."""

    def __init__(self):
        self.sent = []
        self.leaves = asyncio.Event()
        self.heard = asyncio.Event()

    async def send(self, message):
        self.sent.append(message)
        if self.text.count(": keep-alive") == 3:
            self.heard.set()

    async def receive(self):
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    @property
    def text(self):
        return b"".join(message.get("body", b"") for message in self.sent).decode()


async def test_comments_keep_the_connection_open_until_the_answer_comes(monkeypatch):
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.001)
    caller = Caller()

    async def work():
        await caller.heard.wait()
        return JSONResponse({"n": 1})

    await EventStream("/v1/summary", work)({}, caller.receive, caller.send)
    assert caller.text.endswith('event: result\ndata: {"n":1}\n\n')
    assert caller.sent[-1]["more_body"] is False


async def test_a_failure_is_an_event():
    caller = Caller()

    async def work():
        raise StoreUnavailableError("locked")

    await EventStream("/v1/summary", work)({}, caller.receive, caller.send)
    problem = json.loads(caller.text.partition("data: ")[2])
    assert (problem["title"], problem["retryable"]) == ("StoreUnavailableError", True)


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_who_leaves_ends_the_waiting(leaves_first):
    caller, ended = Caller(), []

    async def work():
        caller.leaves.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    if leaves_first:
        caller.leaves.set()
    await EventStream("/v1/summary", work)({}, caller.receive, caller.send)
    assert ended == [True]
    assert "event:" not in caller.text
