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
from tests.support.acknowledged import Acknowledged, Held, held_in
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


@pytest.mark.parametrize(("stops", "writers"), [(1, 1), pytest.param(25, 6, marks=MUCH)])
def test_a_server_that_is_stopped_at_once_loses_nothing_acknowledged(
    stoppable: TestServer, stops: int, writers: int
) -> None:
    """The writers go on by themselves when the server is back, and what they say then is as true."""
    chance = random.Random(stops)
    url = stoppable.url_of(stoppable.make_database())
    asyncio.run(held_in(PostgresStore(url)))  # which makes the tables
    several = [Writer(url, 1000 + seed) for seed in range(writers)]
    several[0].listen(20)
    for _ in range(stops):
        several[0].listen(chance.randint(1, 40))
        for _ in range(chance.randint(0, 100_000)):
            pass
        control(stoppable, "restart", "-m", "immediate", "-l", "/dev/null")
        for writer in several:
            writer.listen(5)
    assert broken_promises(url, several) == []


@MUCH
def test_sixteen_processes_write_for_a_minute_without_a_failure(server: TestServer, url: str) -> None:
    asyncio.run(held_in(PostgresStore(url)))  # which makes the tables
    several = [Writer(url, seed) for seed in range(16)]
    end = time.monotonic() + float(os.environ.get("REME_POSTGRES_SECONDS", "60"))
    while time.monotonic() < end:
        for writer in several:
            writer.listen_now()
    assert broken_promises(url, several) == []
    with psycopg.connect(server.url, autocommit=True) as admin:
        row = admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = %s", (url_name(url),)).fetchone()
    assert row == (0,)


class Writer:
    """A process that writes, and what it has said; one that fails ends its lines (EOFError)."""

    def __init__(self, url: str, seed: int) -> None:
        self.child, self.receiver = started(url, seed)
        self.lines: list[bytes] = []

    def listen(self, lines: int) -> None:
        self.lines += [self.receiver.recv_bytes() for _ in range(lines)]

    def listen_now(self) -> None:
        while self.receiver.poll(0.001):
            self.listen(1)

    def end(self) -> Acknowledged:
        said = Acknowledged()
        said.take([*self.lines, *killed(self.child, self.receiver)])
        return said


def broken_promises(url: str, writers: list[Writer]) -> list[str]:
    """Kill the writers, and return what each had said that is not so."""
    said = [writer.end() for writer in writers]
    whole = asyncio.run(held_in(PostgresStore(url)))
    told: list[str] = []
    for one in said:
        own = {memory for group in one.groups for memory in group} | set(one.contents) | one.deleted
        memories = {key: memory for key, memory in whole.memories.items() if key in own}
        told += one.broken(Held(memories, whole.messages, whole.offloads), None)
    assert sum(one.kinds["memories"] for one in said) > len(writers)
    return told


def url_name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]
