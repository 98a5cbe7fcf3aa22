"""Clients are killed and the server is stopped at any moment: what was acknowledged is there, nothing is half there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import psycopg
import pytest

from reme_core.stores import PostgresStore
from tests.support import writing_child
from tests.support.acknowledged import Acknowledged, held_in
from tests.support.postgres_server import TestServer, control, running_server

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

MUCH = pytest.mark.postgres


def started(url: str, seed: int) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=writing_child.run_on_postgres, args=(url, seed, sender))
    child.start()
    sender.close()
    return child, receiver


def killed(child: BaseProcess, receiver: Connection) -> Iterator[bytes]:
    """Kill a writer; yield what it had said until then."""
    child.kill()
    while True:
        try:
            yield receiver.recv_bytes()
        except (EOFError, OSError):  # the end, or a line that was cut
            break
    receiver.close()
    child.join()
    child.close()


def broken(url: str, said: Acknowledged) -> list[str]:
    return said.broken(asyncio.run(held_in(PostgresStore(url))), None)


@pytest.mark.parametrize("kills", [3, pytest.param(60, marks=MUCH)])
def test_a_killed_client_loses_nothing_acknowledged(url: str, kills: int) -> None:
    chance, said = random.Random(kills), Acknowledged()
    for kill in range(kills):
        child, receiver = started(url, kill)
        lines = [receiver.recv_bytes() for _ in range(chance.randint(1, 60))]
        for _ in range(chance.randint(0, 100_000)):  # so that it dies between two lines as well
            pass
        said.take([*lines, *killed(child, receiver)])
    assert broken(url, said) == []
    assert said.kinds["memories"]
    assert said.kinds["messages"]


@pytest.fixture(scope="module")
def stoppable() -> Iterator[TestServer]:
    with running_server() as server:
        yield server


@pytest.mark.parametrize("stops", [pytest.param(1), pytest.param(25, marks=MUCH)])
def test_a_server_that_is_stopped_at_once_loses_nothing_acknowledged(stoppable: TestServer, stops: int) -> None:
    """The writer goes on by itself when the server is back, and what it says then is as true."""
    chance, said = random.Random(stops), Acknowledged()
    url = stoppable.url_of(stoppable.make_database())
    child, receiver = started(url, 1000 + stops)
    lines = [receiver.recv_bytes() for _ in range(20)]
    for _ in range(stops):
        lines += [receiver.recv_bytes() for _ in range(chance.randint(1, 40))]
        for _ in range(chance.randint(0, 100_000)):
            pass
        control(stoppable, "restart", "-m", "immediate", "-l", "/dev/null")
        lines += [receiver.recv_bytes() for _ in range(20)]
    said.take([*lines, *killed(child, receiver)])
    assert broken(url, said) == []


@MUCH
def test_sixteen_processes_write_for_a_minute_without_a_failure(server: TestServer, url: str) -> None:
    seconds = float(os.environ.get("REME_POSTGRES_SECONDS", "60"))
    asyncio.run(held_in(PostgresStore(url)))  # which makes the tables
    writers = [started(url, seed) for seed in range(16)]
    said = [Acknowledged() for _ in writers]
    lines: list[list[bytes]] = [[] for _ in writers]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for place, (child, receiver) in enumerate(writers):
            while receiver.poll(0.001):
                lines[place].append(receiver.recv_bytes())  # EOFError: one has failed
            assert child.is_alive()
    every = Acknowledged()
    for place, (child, receiver) in enumerate(writers):
        said[place].take([*lines[place], *killed(child, receiver)])
        every.take([*lines[place]])
    whole = asyncio.run(held_in(PostgresStore(url)))
    for one in said:
        own = {key: text for key, text in one.contents.items() if key not in one.deleted | one.unsure}
        assert [key for key in own if key not in whole.memories] == []
        assert [key for key in one.messages if key not in whole.messages] == []
        assert [key for key in one.deleted - one.unsure if key in whole.memories] == []
    with psycopg.connect(server.url, autocommit=True) as admin:
        row = admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = %s", (url_name(url),)).fetchone()
    assert row == (0,)
    print(sum(every.kinds.values()), "acknowledged", dict(every.kinds))


def url_name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]
