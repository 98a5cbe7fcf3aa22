"""Jobs in the local store's file: what is counted, what a damaged row gives, and what a removed job leaves behind."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reme_core.errors import CorruptDataError, StoreUnavailableError
from reme_core.ports import SettleJob
from reme_core.schema import JobState
from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE, BOB, batch, memory
from tests.contract.suites.job_values import asks, claimed, job, settle
from tests.support.file_checks import bytes_on_disk, problems_of_file


async def test_jobs_are_counted_and_dead_ones_apart(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    await store.add_jobs(ALICE, [job("a"), job("b"), job("c")])
    await store.add_jobs(BOB, [job("a")])
    await claimed(store)
    await settle(store, "b", "dead", owner=None)
    counts = await store.count(ALICE)
    assert (counts.jobs, counts.dead_jobs) == (3, 1)
    assert (await store.count(BOB)).jobs == 1
    await store.close()
    assert problems_of_file(tmp_path / "memory.db") == []


async def test_a_job_that_cannot_be_read_is_named_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    await store.add_jobs(ALICE, [job("a")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE jobs SET body = '{}'")
        connection.commit()
    for call in (store.list_jobs, lambda scope: store.claim_job(scope, asks())):
        with pytest.raises(CorruptDataError, match=r"memory.db"):
            await call(ALICE)
    await store.close()


async def test_a_locked_file_lets_neither_memories_nor_job_through(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path, busy_timeout_s=0.05)
    await store.add_jobs(ALICE, [job("a")])
    taken = await claimed(store)
    done = SettleJob(job_id="a", owner="worker", outcome="done")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError):
            await store.put_and_settle(ALICE, batch(memory("fact")), done)
        other.execute("ROLLBACK")
    assert await store.list_jobs(ALICE) == [taken]
    assert len(await store.put_and_settle(ALICE, batch(memory("fact")), done)) == 1
    await store.close()


async def test_what_a_scope_promised_is_not_left_in_the_bytes_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    store = LocalStore(path)
    await store.add_jobs(ALICE, [job("secret job", payload={"of": "secret payload"})])
    await claimed(store, asks("secret owner"))
    failure = SettleJob(job_id="secret job", owner="secret owner", outcome="dead", error="secret", raw="secret " * 9000)
    await store.settle_job(ALICE, failure)
    assert b"secret" in bytes_on_disk(path)
    assert (await store.erase(ALICE)).jobs == 1
    assert b"secret" not in bytes_on_disk(path)
    await store.close()


async def test_jobs_wait_for_each_other_by_state_and_not_by_the_order_of_their_rows(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "memory.db")
    await store.add_jobs(ALICE, [job(f"{n}", minute=-n) for n in range(5)])
    for name in ("4", "3"):
        await settle(store, name, "dead", owner=None)
    assert (await claimed(store)).job_id == "2"
    await settle(store, "4", "revive", owner=None)
    await settle(store, "2", "release")
    assert (await claimed(store)).job_id == "4"
    assert [item.job_id for item in await store.list_jobs(ALICE, (JobState.PENDING,))] == ["2", "1", "0"]
    await store.close()
