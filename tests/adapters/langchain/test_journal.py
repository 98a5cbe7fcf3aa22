"""The journal: what is handed in is delivered, in order, whatever happens in between."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from sqlite3 import Connection

import pytest

from reme_core import Database, ReMe, holder
from reme_core.errors import StoreClosedError
from reme_core.schema import Scope
from reme_core.testing import FixedClock
from reme_langchain import _journal_rows
from reme_langchain._journal import Entry, Journal, Retrying, wait_for_ring
from reme_langchain._loop_end import finish_tasks

WAIT_S = 20.0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    memory = ReMe("space", tmp_path_factory.mktemp("journal"), llm=None, embedding=None)
    yield memory.database
    asyncio.run(memory.close())


class Receiver:
    """Takes what is delivered; queues named in `broken` fail."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, bytes]] = []
        self.broken: set[str] = set()
        self.tries = 0

    async def __call__(self, entry: Entry) -> None:
        self.tries += 1
        if entry.queue in self.broken:
            raise ValueError(f"{entry.queue} is broken")
        self.got.append((entry.queue, entry.entry_id, entry.payload))


def open_journal(database: Database, name: str, deliver: Receiver, **settings: object) -> Journal:
    return Journal(database, name=name, deliver=deliver, **{"clock": FixedClock(), **settings})


@pytest.mark.requirement("LC-MW-09")
def test_entries_arrive_in_the_order_of_their_queue(database: Database) -> None:
    receiver = Receiver()
    journal = open_journal(database, "order", receiver)
    for number in range(20):
        journal.submit(f"q{number % 2}", [(f"e{number}", b"x%d" % number)]).result(WAIT_S)
    assert journal.drain(WAIT_S)
    for queue in (0, 1):
        assert [int(item[1:]) for name, item, _ in receiver.got if name == f"q{queue}"] == list(range(queue, 20, 2))
    assert journal.close()


@pytest.mark.requirement("LC-MW-08")
def test_a_delivery_begins_when_nothing_new_has_come_for_a_while(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_langchain._journal._QUIET_S", WAIT_S)
    monkeypatch.setattr("reme_langchain._journal._MOST_QUIET_S", WAIT_S)
    receiver = Receiver()
    journal = open_journal(database, "quiet", receiver)
    assert journal.drain(WAIT_S)
    for number in range(20):
        journal.submit("q", [(f"e{number}", b"x")]).result(WAIT_S)
        assert journal.pending() == number + 1
    assert receiver.got == []
    assert journal.drain(WAIT_S)
    assert len(receiver.got) == 20
    journal.close()


@pytest.mark.requirement("LC-MW-09")
def test_an_entry_that_waits_is_not_taken_twice_and_never_replaced(database: Database) -> None:
    receiver = Receiver()
    receiver.broken = {"q"}
    journal = open_journal(database, "twice", receiver)
    journal.submit("q", [("a", b"first"), ("b", b"second")]).result(WAIT_S)
    journal.submit("q", [("a", b"changed")]).result(WAIT_S)
    assert not journal.drain(WAIT_S)
    assert journal.pending() == 2
    receiver.broken = set()
    assert journal.drain(WAIT_S)
    assert receiver.got == [("q", "a", b"first"), ("q", "b", b"second")]
    journal.close()


async def test_deleting_a_user_takes_what_still_waits_of_theirs_and_nothing_else(tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.broken = {"ann", "bob"}
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        with closing(open_journal(memory.database, "erased", receiver)) as journal:
            for user in ("ann", "bob"):
                scope = Scope(memory_space="space", user_id=user)
                journal.submit(user, [("e", f"secret of {user}".encode())], scope=scope).result(WAIT_S)
            assert not journal.drain(WAIT_S)
            await memory.delete_all_memories(user_id="ann")
            receiver.broken = set()
            assert journal.drain(WAIT_S)
    assert [queue for queue, _, _ in receiver.got] == ["bob"]
    assert b"secret of ann" not in (tmp_path / "memory.db").read_bytes()


def test_what_was_delivered_is_known_where_that_is_remembered(database: Database) -> None:
    receiver = Receiver()
    journal = open_journal(database, "known", receiver, remember=True)
    for _ in range(2):
        journal.submit("q", [("a", b"1")]).result(WAIT_S)
        assert journal.drain(WAIT_S)
    assert len(receiver.got) == 1
    journal.close()


@pytest.mark.requirement("LC-MW-09")
def test_a_queue_that_fails_stops_no_other_one_and_is_seen(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    receiver.broken = {"bad"}
    journal = open_journal(database, "failing", receiver)
    journal.submit("bad", [("a", b"1"), ("b", b"2")]).result(WAIT_S)
    journal.submit("good", [("c", b"3")]).result(WAIT_S)
    assert not journal.drain(WAIT_S)
    assert receiver.got == [("good", "c", b"3")]
    assert "bad is broken" in str(journal.last_error)
    assert "bad is broken" in caplog.text
    receiver.broken = set()
    assert journal.drain(WAIT_S)
    assert [item for queue, item, _ in receiver.got if queue == "bad"] == ["a", "b"]
    assert journal.last_error is None
    journal.close()


@pytest.mark.requirement("LC-MW-09")
def test_failures_are_retried_with_growing_pauses(database: Database) -> None:
    clock, pauses, done = FixedClock(), list[float | None](), threading.Event()

    async def pause(bell: asyncio.Event, seconds: float | None) -> None:
        if not bell.is_set() and seconds is not None:
            pauses.append(seconds)
            clock.advance(seconds=seconds)
        else:
            await bell.wait()

    class Failing(Receiver):
        async def __call__(self, entry: Entry) -> None:
            self.tries += 1
            if self.tries < 6:
                raise ConnectionError("no network")
            done.set()

    receiver = Failing()
    retrying = Retrying(first_s=1, longest_s=6)
    journal = open_journal(database, "pauses", receiver, clock=clock, pause=pause, retrying=retrying)
    journal.submit("q", [("a", b"1")]).result(WAIT_S)
    assert done.wait(WAIT_S)
    assert pauses[:5] == [1, 2, 4, 6, 6]
    assert journal.drain(WAIT_S)
    journal.close()


@pytest.mark.requirement("LC-MW-09")
def test_two_holders_never_deliver_the_same_entry_at_once(database: Database) -> None:
    clock, begun, go_on = FixedClock(), threading.Event(), threading.Event()
    first, second = Receiver(), Receiver()

    async def slow(entry: Entry) -> None:
        begun.set()
        await asyncio.to_thread(go_on.wait, WAIT_S)
        await first(entry)

    one = Journal(database, name="lease", deliver=slow, clock=clock)
    two = Journal(database, name="lease", deliver=second, clock=clock)
    one.submit("q", [("a", b"1"), ("b", b"2")]).result(WAIT_S)
    assert begun.wait(WAIT_S)
    assert not two.drain(0.1)
    assert second.tries == 0
    go_on.set()
    assert two.drain(WAIT_S)  # the second entry is delivered by either
    assert [item for _, item, _ in first.got + second.got] == ["a", "b"]
    one.close()
    two.close()


def test_a_delivery_that_was_killed_is_made_again_when_its_lease_ends(database: Database) -> None:
    clock, stuck, receiver = FixedClock(), threading.Event(), Receiver()

    async def hang(entry: Entry) -> None:
        stuck.set()
        await asyncio.Event().wait()

    one = Journal(database, name="killed", deliver=hang, clock=clock)
    one.submit("q", [("a", b"1")]).result(WAIT_S)
    assert stuck.wait(WAIT_S)
    two = Journal(database, name="killed", deliver=receiver, clock=clock)
    assert not two.drain(0.1)
    clock.advance(seconds=61)
    assert two.drain(WAIT_S)
    assert len(receiver.got) == 1
    two.close()
    assert one.close(0.01) or one.pending() == 0


def test_what_a_process_that_has_ended_held_is_delivered_at_once(database: Database) -> None:
    clock, receiver = FixedClock(), Receiver()
    with holder() as ended:

        def held(connection: Connection) -> None:
            _journal_rows.create(connection)
            _journal_rows.insert(connection, name="left", queue="q", entries=[("a", b"1")])
            now = clock.now().timestamp()
            _journal_rows.claim(connection, name="left", holder=ended, now=now, until=now + 60.0, but=(), limit=1)

        database.submit_write(held).result(WAIT_S)
        journal = Journal(database, name="left", deliver=receiver, clock=clock)
        assert not journal.drain(0.05)
    assert journal.drain(WAIT_S)
    assert len(receiver.got) == 1
    journal.close()


@pytest.mark.requirement("LC-MW-09")
def test_a_journal_that_nobody_has_any_more_has_delivered_all_and_goes_quietly(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_langchain._journal._QUIET_S", 0.0)
    receiver = Receiver()
    journal = open_journal(database, "dropped", receiver)
    for number in range(3):
        journal.submit("q", [(f"e{number}", b"1")]).result(WAIT_S)
        assert journal.drain(WAIT_S)
        for _ in range(3):  # until it rests; what comes after that is delivered as well
            journal._loop.run(finish_tasks(WAIT_S))
    left = weakref.ref(journal)
    del journal
    gc.collect()  # a task that is destroyed while it waits would be a warning, and so an error
    assert left() is None
    assert len(receiver.got) == 3


@pytest.mark.requirement("LC-MW-09")
def test_while_one_waits_for_what_another_holds_it_looks_whether_that_one_has_ended(database: Database) -> None:
    clock, receiver, pauses = FixedClock(), Receiver(), list[float | None]()
    with ExitStack() as life:
        another = life.enter_context(holder())

        def held(connection: Connection) -> None:
            _journal_rows.create(connection)
            _journal_rows.insert(connection, name="watched", queue="q", entries=[("a", b"1")])
            now = clock.now().timestamp()
            _journal_rows.claim(connection, name="watched", holder=another, now=now, until=now + 60.0, but=(), limit=1)

        async def pause(bell: asyncio.Event, seconds: float | None) -> None:
            pauses.append(seconds)
            if len(pauses) > 2:
                await wait_for_ring(bell, seconds)
            elif len(pauses) == 2:
                life.close()

        database.submit_write(held).result(WAIT_S)
        journal = open_journal(database, "watched", receiver, clock=clock, pause=pause)
        journal.begin()
        for _ in range(3):  # until it rests
            journal._loop.run(finish_tasks(WAIT_S))
    assert len(receiver.got) == 1
    assert pauses[:2] == [5.0, 5.0]
    journal.close()


def test_while_all_places_are_taken_it_rests_until_one_is_free(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reme_langchain._journal._AT_ONCE", 1)
    got, pauses, resting = list[str](), list[float | None](), asyncio.Event()

    async def deliver(entry: Entry) -> None:
        await resting.wait()
        got.append(entry.queue)

    async def pause(bell: asyncio.Event, seconds: float | None) -> None:
        pauses.append(seconds)
        resting.set()
        await wait_for_ring(bell, seconds)

    journal = Journal(database, name="places", deliver=deliver, clock=FixedClock(), pause=pause)
    for queue in ("a", "b"):
        journal.submit(queue, [("e", b"1")]).result(WAIT_S)
    assert journal.drain(WAIT_S)
    assert sorted(got) == ["a", "b"]
    assert set(pauses) == {None}
    journal.close()


def test_closing_from_several_threads_at_once_is_closing_once(database: Database) -> None:
    for number in range(5):
        receiver = Receiver()
        journal = open_journal(database, f"closed {number}", receiver)
        journal.submit("q", [("a", b"1")]).result(WAIT_S)
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(lambda _: journal.close(), range(4)))  # noqa: B023  # ended before the next one
        assert len(receiver.got) == 1


async def test_a_memory_that_was_closed_first_is_told_by_the_result_and_not_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        journal = open_journal(memory.database, "closed", Receiver())
        journal.submit("q", [("a", b"1")]).result(WAIT_S)
        assert journal.drain(WAIT_S)
    assert not journal.close()
    assert isinstance(journal.last_error, StoreClosedError)
    assert caplog.records == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_that_has_not_used_it_leaves_what_waits_to_its_parent(database: Database) -> None:
    receiver = Receiver()
    receiver.broken = {"q"}
    journal = open_journal(database, "forked", receiver)
    journal.submit("q", [("a", b"1")]).result(WAIT_S)
    assert not journal.drain(WAIT_S)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            receiver.broken = set()
            journal.close()  # as the end of the process does
            status = 2 if receiver.got else 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    receiver.broken = set()
    assert journal.close()
    assert receiver.got == [("q", "a", b"1")]


def test_closing_stops_a_delivery_and_lets_go_of_the_entry(database: Database) -> None:
    clock, stuck, receiver = FixedClock(), threading.Event(), Receiver()

    async def hang(entry: Entry) -> None:
        stuck.set()
        await asyncio.Event().wait()

    one = Journal(database, name="closed", deliver=hang, clock=clock)
    one.submit("q", [("a", b"1")]).result(WAIT_S)
    assert stuck.wait(WAIT_S)
    assert not one.close(0.01)
    two = Journal(database, name="closed", deliver=receiver, clock=clock)
    two.begin()
    assert two.drain(WAIT_S)
    assert len(receiver.got) == 1
    two.close()


def test_it_works_from_many_loops_and_threads(database: Database) -> None:
    receiver = Receiver()
    journal = open_journal(database, "loops", receiver)

    async def turn(number: int) -> None:
        await asyncio.wrap_future(journal.submit("q", [(str(number), b"x")]))

    threads = [threading.Thread(target=lambda n=n: asyncio.run(turn(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.drain(WAIT_S)
    assert len(receiver.got) == 8
    journal.close()


SCRIPT = """
import sys
from reme_core import ReMe
from reme_langchain._journal import Journal
memory = ReMe("space", sys.argv[1], llm=None, embedding=None)
async def deliver(entry):
    print(entry.entry_id, flush=True)
Journal(memory.database, name="capture", deliver=deliver, clock=memory.clock).submit("q", [("a", b"1"), ("b", b"2")])
"""


@pytest.mark.requirement("LC-MW-09")
def test_the_end_of_the_process_waits_for_deliveries_and_then_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["a", "b"]
    assert done.stderr == ""
