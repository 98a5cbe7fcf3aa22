"""The process that serves: which callers it waits for, and which it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

import pytest

from reme_core import ReMe
from reme_core.errors import ConfigurationError
from reme_core.schema import make_scope
from reme_core.serve import guard, process
from reme_core.serve.access import Principal
from reme_core.serve.doors import make_served
from reme_core.serve.guard import GuardRules
from reme_core.serve.service import make_service


@contextlib.asynccontextmanager
async def serving(tmp_path):
    service = make_service(ReMe("space", tmp_path, llm=None, embedding=None))
    app = make_served(service, GuardRules(anonymous=Principal(scope=make_scope("space", "ana"))))
    async with process.opened(app):
        listening = process.listen("127.0.0.1", 0)
        server = process.make_server(app)
        running = asyncio.create_task(server.serve(sockets=[listening.socket]))
        try:
            yield "127.0.0.1", int(listening.address.rpartition(":")[2])
        finally:
            server.should_exit = True
            await running


async def exchange(address, *pieces):
    reader, writer = await asyncio.open_connection(*address)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"])
async def test_who_never_ends_the_headers_is_left(tmp_path, monkeypatch, begun):
    async with serving(tmp_path) as address:
        monkeypatch.setattr(process, "HEADERS_S", 0.05)
        assert await exchange(address, begun) == b""  # the server hangs up


async def test_who_never_ends_the_headers_of_a_second_request_is_left(tmp_path, monkeypatch):
    async with serving(tmp_path) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(GET + b"\r\n")
        await reader.readuntil(b'"ok"}')
        monkeypatch.setattr(process, "HEADERS_S", 0.05)
        writer.write(GET)
        assert await reader.read() == b""
        writer.close()


async def test_who_never_ends_the_body_is_told_and_left(tmp_path, monkeypatch):
    async with serving(tmp_path) as address:
        monkeypatch.setattr(guard, "RECEIVE_S", 0.05)
        head = b"POST /v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{"
        answer = await exchange(address, head)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"did not come within" in answer


async def test_who_never_takes_the_answer_is_left(tmp_path, monkeypatch):
    async with serving(tmp_path) as address:
        monkeypatch.setattr(process, "TAKEN_S", 0.05)
        left, lost = asyncio.Event(), process._PatientProtocol.connection_lost

        def connection_lost(self, exc):
            lost(self, exc)
            left.set()

        monkeypatch.setattr(process._PatientProtocol, "connection_lost", connection_lost)
        async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
            for letter in "abc":
                await memory.offload_text(letter * (6 << 20), user_id="ana", session_id="s")
        with contextlib.closing(socket.socket()) as rude:
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            rude.connect(address)
            rude.sendall(b"GET /v1/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await left.wait()


def test_bodies_at_once_have_room_for_so_many():
    room = guard._Room(10)
    room.take(8)
    with pytest.raises(guard.TooManyRequestsError):
        room.take(3)
    room.take(2)


def test_a_port_that_is_taken_and_an_address_of_elsewhere_are_told_in_a_line():
    taken = process.listen("127.0.0.1", 0)
    with contextlib.closing(taken.socket):
        port = int(taken.address.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match=f"can't listen on port {port} of '127.0.0.1'"):
            process.listen("127.0.0.1", port)
    with pytest.raises(ConfigurationError, match=r"can't listen on port 0 of '192\.0\.2\.1'"):
        process.listen("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("192.0.2.1", False), ("::", False), ("me.local", False)],
)
def test_which_addresses_only_this_machine_reaches(host, is_loopback):
    assert guard.is_loopback(host) is is_loopback


async def test_jobs_that_take_too_long_are_left_to_the_next_start(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(process, "CLOSE_S", 0.01)
    service = make_service(ReMe("space", tmp_path, llm=None, embedding=None))

    @contextlib.asynccontextmanager
    async def slow():
        yield
        await asyncio.Event().wait()

    app = guard_free_app(service, slow())
    with caplog.at_level(logging.WARNING):
        async with process.opened(app):
            pass
    assert "the next start goes on with them" in caplog.text


def guard_free_app(service, part):
    from reme_core.serve.service import make_app

    return make_app(service, GuardRules(), [], [part])
