"""Lines of a pipe: what is no message costs its line, and memory is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.serve.mcp import McpOptions, make_server
from reme_core.serve.mcp.stdio import message_streams
from reme_core.serve.mcp.wire import RefusalError, read_message, split_lines
from tests.unit.serve.mcp.conftest import principal


@settings(deadline=None)
@given(st.binary(max_size=60).filter(lambda data: b"\r" not in data), st.integers(1, 7), st.integers(1, 20))
def test_lines_are_the_same_however_they_are_read(data, step, bound):
    pieces = iter([data[place : place + step] for place in range(0, len(data), step)] + [b""])
    wanted = data.split(b"\n")
    wanted = wanted[:-1] if wanted[-1] == b"" else wanted
    found = list(split_lines(lambda: next(pieces), bound))
    assert found == [line if len(line) <= bound else None for line in wanted]


@pytest.mark.parametrize(
    ("line", "own_id", "code"),
    [
        (b"no JSON", None, -32700),
        (b"\xff\xfe", None, -32700),
        (b"[" * 100_000, None, -32700),
        (b"[1, 2]", None, -32600),
        (b"7", None, -32600),
        (b'{"jsonrpc": "1.0", "id": 3, "method": "ping"}', 3, -32600),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 4}', "a", -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": 4}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "x", "params": {"q": "\\ud83d"}}', 5, -32600),
        (None, None, -32600),
    ],
)
def test_what_is_no_message_is_answered_with_its_id_where_it_has_one(line, own_id, code):
    refusal = read_message(line)
    assert isinstance(refusal, RefusalError)
    assert (refusal.id, refusal.error.code) == (own_id, code)
    assert json.loads(refusal.model_dump_json(by_alias=True, exclude_unset=True))["id"] == own_id


def request(own_id: object, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": own_id, "method": method, "params": params}).encode() + b"\n"


HELLO = request(
    0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"}
)
BEGIN = HELLO + b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'


@contextlib.contextmanager
def pipes():
    to_server, from_server = os.pipe(), os.pipe()
    try:
        yield to_server, from_server
    finally:
        for end in (*to_server, *from_server):
            with contextlib.suppress(OSError):
                os.close(end)


async def answers_to(service, sent: bytes) -> dict[object, dict[str, object]]:
    """Serve what is sent until its end, and return what was answered, by id."""
    with pipes() as (to_server, from_server):
        server = make_server(service, McpOptions(), lambda _: principal())

        def send() -> None:
            with os.fdopen(os.dup(to_server[1]), "wb") as file:
                file.write(sent)
            os.close(to_server[1])

        def receive() -> bytes:
            with os.fdopen(os.dup(from_server[0]), "rb") as file:
                return file.read()

        sending, receiving = asyncio.to_thread(send), asyncio.create_task(asyncio.to_thread(receive))
        sending = asyncio.create_task(sending)
        async with message_streams(to_server[0], from_server[1]) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        os.close(from_server[1])
        await sending
        lines = (await receiving).splitlines()
    return {answer.get("id"): answer for answer in map(json.loads, lines)}


async def test_what_was_asked_before_the_input_ended_is_answered(service):
    calls = b"".join(
        request(number, "tools/call", name="remember", arguments={"content": f"Fact {number}."})
        for number in range(1, 21)
    )
    answers = await answers_to(service, BEGIN + calls)
    assert set(answers) == set(range(21))
    assert not any(answers[number]["result"]["isError"] for number in range(1, 21))


async def test_a_hostile_line_costs_that_line_only(service, monkeypatch):
    monkeypatch.setattr("reme_core.serve.mcp.wire.MAX_LINE_BYTES", 1000)
    hostile = b"no JSON\n\n[]\n" + b"x" * 100_000 + b"\n" + b'{"jsonrpc": "2.0", "id": 8}\n\xff\n'
    sent = BEGIN + hostile + request(9, "tools/call", name="status", arguments={}).replace(b"\n", b"\r\n")
    answers = await answers_to(service, sent)
    assert answers[9]["result"]["isError"] is False
    assert answers[8]["error"]["code"] == -32600
    assert answers[None]["error"]["code"] in {-32600, -32700}


async def test_an_answer_that_nobody_wants_any_more_is_not_waited_for(service):
    gone = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}\n'
    answers = await answers_to(service, BEGIN + request(3, "tools/call", name="status", arguments={}) + gone)
    assert 0 in answers


async def test_a_client_that_is_gone_ends_the_server(service):
    with pipes() as (to_server, from_server):
        os.close(from_server[0])
        os.write(to_server[1], BEGIN)
        os.close(to_server[1])
        server = make_server(service, McpOptions(), lambda _: principal())
        async with message_streams(to_server[0], from_server[1]) as (read, write):
            await server.run(read, write, server.create_initialization_options())


async def test_an_answer_that_never_comes_holds_the_end_up_for_a_bounded_time(service, monkeypatch):
    async def hangs(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("reme_core.serve.mcp.stdio.ANSWER_WAIT_S", 0.05)
    monkeypatch.setattr(type(service.memories.home), "stats", hangs)
    answers = await answers_to(service, BEGIN + request(3, "tools/call", name="status", arguments={}))
    assert answers[3]["error"]["message"] == "Connection closed"
