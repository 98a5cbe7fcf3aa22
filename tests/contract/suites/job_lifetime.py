# asserts are what a contract suite is made of
"""Promises of a job queue about scopes, threads, processes and its own end."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from reme_core.errors import StoreClosedError
from reme_core.ports import Store
from reme_core.schema import Job, JobState, Scope
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    Opener,
    StoreCapabilities,
    at_once,
    in_new_process,
    in_threads,
    opened,
    require,
)
from tests.contract.suites.job_values import asks, claimed, ids, job, settle

OTHERS = (BOB, SHARED, ELSEWHERE, *LOOKALIKES)
WORKERS = 8
JOBS = 12


class JobIsolation:
    """Two scopes never meet, and two spaces don't know of each other."""

    async def test_the_same_id_in_two_scopes_is_two_jobs(self, store: Store) -> None:
        for number, scope in enumerate((ALICE, *OTHERS)):
            await store.add_jobs(scope, [job("same", payload={"number": number})])
        await claimed(store)
        await settle(store, "same", "done")
        await settle(store, "same", "drop", owner=None, scope=BOB)
        assert await ids(store) == await ids(store, scope=BOB) == []
        for number, scope in enumerate(OTHERS[1:], start=2):
            [item] = await store.list_jobs(scope)
            assert (item.payload, item.state) == ({"number": number}, JobState.PENDING)

    async def test_another_scope_sees_and_gets_no_job(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        for scope in OTHERS:
            assert await store.list_jobs(scope) == [], scope
            assert await store.claim_job(scope, asks()) is None, scope
            assert (await store.erase(scope)).jobs == 0, scope
        assert (await claimed(store)).job_id == "a"

    async def test_the_scopes_with_jobs_are_those_of_the_space_alone(self, store: Store) -> None:
        scopes = (ALICE, *OTHERS)
        for scope in scopes:
            await store.add_jobs(scope, [job("a"), job("b")])
        await store.add_jobs(Scope(memory_space="third", user_id="x"), [job("a")])
        await claimed(store)
        await settle(store, "a", "dead", owner=None, scope=BOB)
        await settle(store, "b", "drop", owner=None, scope=BOB)
        for space in {scope.memory_space for scope in scopes}:
            found = await store.job_scopes(space)
            assert len(found) == len(set(found))
            assert set(found) == {scope for scope in scopes if scope.memory_space == space}
        assert await store.job_scopes("no such") == []

    async def test_a_scope_whose_jobs_are_done_has_none(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await store.add_jobs(BOB, [job("a")])
        await claimed(store)
        await settle(store, "a", "done")
        assert await store.job_scopes(ALICE.memory_space) == [BOB]

    async def test_erasing_a_scope_removes_its_jobs_and_no_others(self, store: Store) -> None:
        for scope in (ALICE, BOB):
            await store.add_jobs(scope, [job("a"), job("b"), job("c")])
        await claimed(store)
        await settle(store, "c", "dead", owner=None)
        assert (await store.erase(ALICE)).jobs == 3
        assert await ids(store) == []
        assert await store.claim_job(ALICE, asks(minute=999, waiting=True)) is None
        assert await store.job_scopes(ALICE.memory_space) == [BOB]
        assert await ids(store, scope=BOB) == ["a", "b", "c"]
        assert (await store.erase(ALICE)).jobs == 0
        await store.add_jobs(ALICE, [job("a", payload={"another": "job"})])
        assert (await claimed(store)).payload == {"another": "job"}


class JobConcurrency:
    """Many workers at once, and closing."""

    async def test_of_many_that_ask_at_once_one_gets_the_job(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a"), job("b")])
        answers = await at_once(*(store.claim_job(ALICE, asks(f"worker {n}")) for n in range(50)))
        assert [item.job_id for item in answers if item is not None] == ["a"]
        [running] = await store.list_jobs(ALICE, (JobState.RUNNING,))
        assert running.attempts == 1

    async def test_threads_that_work_at_once_do_each_job_exactly_once(self, store: Store) -> None:
        scopes = (ALICE, BOB, ELSEWHERE)
        for scope in scopes:
            await store.add_jobs(scope, [job(f"job {n}", minute=n) for n in range(JOBS)])

        async def work(number: int) -> list[tuple[Scope, str]]:
            return await _work_off(store, f"worker {number}", scopes)

        done = [item for part in await in_threads(work, count=WORKERS) for item in part]
        assert Counter(done) == {(scope, f"job {n}"): 1 for scope in scopes for n in range(JOBS)}
        for scope in scopes:
            assert await ids(store, scope=scope) == []

    async def test_a_job_added_by_many_at_once_is_there_once(self, store: Store) -> None:
        await at_once(*(store.add_jobs(ALICE, [job("a"), job(f"own {n}")]) for n in range(20)))
        assert Counter(await ids(store)) == {"a": 1, **{f"own {n}": 1 for n in range(20)}}

    async def test_a_claim_cancelled_at_any_moment_holds_one_job_or_none(self, store: Store) -> None:
        for steps in range(8):
            scope = Scope(memory_space="space", user_id=f"user {steps}")
            await store.add_jobs(scope, [job("a"), job("b")])
            task = asyncio.create_task(store.claim_job(scope, asks()))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await store.add_jobs(scope, [job("c")])  # goes through the same lock as the cancelled claim
            running = await store.list_jobs(scope, (JobState.RUNNING,))
            assert [item.job_id for item in running] in ([], ["a"])
            heir = asks("heir", minute=999)
            assert (await claimed(store, heir, scope=scope)).job_id == "a"

    async def test_every_call_on_jobs_after_closing_says_that_it_is_closed(self, store: Store) -> None:
        await store.add_jobs(ALICE, [job("a")])
        await store.close()
        with pytest.raises(StoreClosedError):
            await store.add_jobs(ALICE, [job("b")])
        with pytest.raises(StoreClosedError):
            await store.claim_job(ALICE, asks())
        with pytest.raises(StoreClosedError):
            await settle(store, "a", "drop", owner=None)
        with pytest.raises(StoreClosedError):
            await store.list_jobs(ALICE)
        with pytest.raises(StoreClosedError):
            await store.job_scopes(ALICE.memory_space)
        await store.close()


class JobDurability:
    """What a new process finds, and several processes at once. Declared by `capabilities`."""

    capabilities = StoreCapabilities()

    @pytest.fixture
    def opener(self) -> Opener[Store]:
        """Return what opens the same queue again; to be overridden by a backend that declares a capability."""
        pytest.fail("this backend declares a capability that needs the fixture `opener`")

    async def test_a_new_process_finds_every_job_and_goes_on(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        opener: Opener[Store] = request.getfixturevalue("opener")
        await store.add_jobs(ALICE, [job(name, payload={"块": name}) for name in ("a", "b", "c", "d")])
        await store.add_jobs(ELSEWHERE, [job("e")])
        await claimed(store)
        await settle(store, "a", "done")
        await settle(store, "b", "dead", owner=None)
        await claimed(store, asks("dead worker"))
        here = (await store.list_jobs(ALICE), await store.job_scopes(ALICE.memory_space))
        await store.close()
        jobs, scopes, early, heirs = await in_new_process(_look, opener)
        assert (jobs, scopes) == here
        assert [item.job_id for item in jobs] == ["b", "c", "d"]
        assert early is None
        assert heirs is not None
        assert (heirs.job_id, heirs.attempts, heirs.payload) == ("c", 2, {"块": "c"})

    async def test_processes_that_work_at_once_do_each_job_exactly_once(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.shared, capability="shared")
        opener: Opener[Store] = request.getfixturevalue("opener")
        scopes = (ALICE, BOB)
        for scope in scopes:
            await store.add_jobs(scope, [job(f"job {n}", minute=n) for n in range(JOBS)])
        parts = await at_once(*(in_new_process(_work, opener, name, scopes) for name in ("one", "two", "three")))
        done = Counter(item for part in parts for item in part)
        assert done == {(scope, f"job {n}"): 1 for scope in scopes for n in range(JOBS)}
        assert await ids(store) == await ids(store, scope=BOB) == []


async def _work_off(store: Store, owner: str, scopes: tuple[Scope, ...]) -> list[tuple[Scope, str]]:
    """Claim and do jobs until no scope has any; return what was done."""
    done = []
    while any([await store.list_jobs(scope) for scope in scopes]):
        for scope in scopes:
            taken = await store.claim_job(scope, asks(owner))
            if taken is not None:
                assert taken.attempts == 1
                await settle(store, taken.job_id, "done", owner=owner, scope=scope)
                done.append((scope, taken.job_id))
    return done


async def _looked(opener: Opener[Store]) -> tuple[list[Job], list[Scope], Job | None, Job | None]:
    store = await opened(opener)
    jobs, scopes = await store.list_jobs(ALICE), await store.job_scopes(ALICE.memory_space)
    early = await store.claim_job(ALICE, asks("heir"))
    heirs = await store.claim_job(ALICE, asks("heir", minute=999))
    await store.close()
    return jobs, scopes, early, heirs


def _look(opener: Opener[Store]) -> tuple[list[Job], list[Scope], Job | None, Job | None]:
    return asyncio.run(_looked(opener))


async def _worked(opener: Opener[Store], owner: str, scopes: tuple[Scope, ...]) -> list[tuple[Scope, str]]:
    store = await opened(opener)
    done = await _work_off(store, owner, scopes)
    await store.close()
    return done


def _work(opener: Opener[Store], owner: str, scopes: tuple[Scope, ...]) -> list[tuple[Scope, str]]:
    return asyncio.run(_worked(opener, owner, scopes))
