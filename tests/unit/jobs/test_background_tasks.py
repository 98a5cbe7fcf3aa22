import asyncio
import threading

import pytest

from reme_core.jobs.job_service import BackgroundTasks
from reme_core.schema import make_scope

ALICE, BOB = make_scope("space", "alice"), make_scope("space", "bob")


async def test_work_begun_while_a_task_runs_is_done_by_that_task_once_more():
    done, gate = [], asyncio.Event()

    async def work(scope):
        done.append(scope)
        await gate.wait()

    background = BackgroundTasks(work)
    background.start(ALICE)
    await asyncio.sleep(0)
    background.start(ALICE)
    background.start(ALICE)
    gate.set()
    await background.join()
    assert done == [ALICE, ALICE]


async def test_scopes_are_worked_on_side_by_side():
    both = asyncio.Barrier(2)

    async def work(scope):
        await both.wait()

    background = BackgroundTasks(work)
    background.start(ALICE)
    background.start(BOB)
    await background.join()
    assert both.n_waiting == 0


async def test_a_task_that_fails_is_logged_and_does_not_stop_the_next(caplog):
    calls = []

    async def work(scope):
        calls.append(scope)
        if len(calls) == 1:
            raise RuntimeError("a bug")

    background = BackgroundTasks(work)
    background.start(ALICE)
    await background.join()
    background.start(ALICE)
    await background.join()
    assert len(calls) == 2
    assert "background work has failed" in caplog.text


async def test_join_waits_for_a_task_of_another_running_loop():
    release, ended = threading.Event(), []

    async def work(scope):
        await asyncio.to_thread(release.wait)
        ended.append(scope)

    background = BackgroundTasks(work)
    begun = threading.Event()

    async def elsewhere():
        background.start(ALICE)
        begun.set()
        await background.join()

    thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    thread.start()
    await asyncio.to_thread(begun.wait)
    release.set()
    await background.join()
    await asyncio.to_thread(thread.join)
    assert ended == [ALICE]


def test_tasks_of_a_loop_that_was_torn_down_are_forgotten():
    async def work(scope):
        await asyncio.Event().wait()

    background = BackgroundTasks(work)

    async def begin():
        background.start(ALICE)
        await asyncio.sleep(0)

    asyncio.run(begin())  # cancels the task
    asyncio.run(asyncio.wait_for(background.join(), 10))


async def test_a_task_that_was_cancelled_before_it_came_to_run_is_not_waited_for():
    async def work(scope):
        raise AssertionError

    background = BackgroundTasks(work)
    background.start(ALICE)
    await background.cancel()
    await asyncio.wait_for(background.join(), 10)


async def test_cancelling_waits_until_tasks_have_put_away_what_they_held():
    begun, put_away = asyncio.Event(), []

    async def work(scope):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            put_away.append(scope)

    background = BackgroundTasks(work)
    background.start(ALICE)
    await begun.wait()
    await background.cancel()
    assert put_away == [ALICE]


async def test_who_stops_waiting_stops_nothing_but_the_waiting():
    let_go, done = asyncio.Event(), []

    async def work(scope):
        await let_go.wait()
        done.append(scope)

    background = BackgroundTasks(work)
    background.start(ALICE)
    waiting = asyncio.create_task(background.join())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    let_go.set()
    await background.join()
    assert done == [ALICE]
