"""Clients are killed and the server is stopped at any moment: what was acknowledged is there, nothing is half there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import psycopg
import pytest

from reme_core.ports import ClaimJob, GetItems, ItemAddress, PutItem, WriteItems
from reme_core.rules import namespace_path
from reme_core.schema import Job
from reme_core.stores import PostgresStore
from reme_core.stores.sql.connection import ItemsWithin, SqlConnection
from reme_core.stores.sql.job_rows import claim_job
from reme_core.testing.store_values import ALICE, NOW
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


@pytest.fixture(scope="module", params=["without fsync", pytest.param("with fsync", marks=MUCH)])
def stoppable(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    with running_server(durable=request.param == "with fsync") as server:
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


@pytest.mark.parametrize("ends", ["before the commit", "never"])
async def test_a_job_whose_claim_loses_its_server_is_leased_once(stoppable: TestServer, ends: str) -> None:
    """The server is lost in the middle of a claim; who claimed has the lease then, alone, and until it is over."""
    store, other = (PostgresStore(url) for url in [stoppable.url_of(stoppable.make_database())] * 2)
    await store.add_jobs(ALICE, [Job(kind="work", payload={}, created_at=NOW, due_at=NOW)])
    tries = 0

    def claim_by(owner: str, minutes: int = 0) -> ClaimJob:
        now, hold = NOW + timedelta(minutes=minutes), timedelta(minutes=5)
        return ClaimJob(owner=owner, now=now, hold=hold, is_gone=lambda _: False, kinds=("work",))

    def claim(connection: SqlConnection) -> Job | None:
        nonlocal tries
        tries += 1
        found = claim_job(connection, ALICE, claim_by("one"))
        if tries == 1 and ends == "before the commit":
            control(stoppable, "restart", "-m", "immediate", "-l", "/dev/null")
        return found

    leased = await store.database.write(claim, within=ALICE)
    assert leased is not None
    assert leased.attempts == 1
    assert tries == (2 if ends == "before the commit" else 1)
    assert await other.claim_job(ALICE, claim_by("other")) is None
    again = await other.claim_job(ALICE, claim_by("other", minutes=6))
    assert again is not None
    assert again.job_id == leased.job_id
    await store.close()
    await other.close()


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


def write_items(url: str, user: str) -> None:
    """Write items of a user, in a process of its own."""

    async def run() -> None:
        store = PostgresStore(url, lock_timeout_s=2)
        for number in range(20):
            put = PutItem(address=ItemAddress(namespace=("cart", user), key=f"k{number % 4}"), value={"n": number})
            await store.write_items("space", WriteItems(writes=[put], at=NOW))
        await store.close()

    asyncio.run(run())


@MUCH
async def test_eight_processes_write_items_of_their_users_while_one_user_s_are_held(url: str) -> None:
    """As long as somebody holds the items of one user, those of eight others are written."""
    store = PostgresStore(url)
    held, let_go = threading.Event(), threading.Event()

    def hold(connection: SqlConnection) -> None:
        connection.execute("SELECT 1").fetchone()  # the transaction begins with its first statement
        held.set()
        let_go.wait(120)

    holding = store.database.submit_write(hold, within=ItemsWithin("space", (namespace_path(("cart", "held")),)))
    await asyncio.to_thread(held.wait, 60)
    users = [f"user{number}" for number in range(8)]
    context = get_context("spawn")
    processes = [context.Process(target=write_items, args=(url, user)) for user in users]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join, 120)
    assert not holding.done()
    let_go.set()
    await asyncio.wrap_future(holding)
    assert [process.exitcode for process in processes] == [0] * 8
    addresses = [ItemAddress(namespace=("cart", user), key="k3") for user in users]
    found = await store.get_items("space", GetItems(addresses=addresses, at=NOW))
    assert [item.value for item in found if item is not None] == [{"n": 19}] * 8
    await store.close()


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
