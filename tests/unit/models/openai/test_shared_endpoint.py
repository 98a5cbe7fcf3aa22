"""One object for many tasks, event loops and threads."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from reme_core.models import OpenAIChat
from reme_core.models.call_slots import CallSlots
from reme_core.models.endpoint_failures import trusted_certificates
from tests.support.openai_server import Hold, OpenAIServer
from tests.unit.models.chatting import ask, chat_at, embedder_at


async def test_no_more_requests_are_under_way_than_allowed(server: OpenAIServer) -> None:
    chat = chat_at(server, max_concurrency=3)
    holds = [Hold() for _ in range(10)]
    server.replies(*holds)
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(chat.chat(ask()))
        await asyncio.to_thread(server.wait_for_requests, 3, at_once=True)
        for hold in holds:
            hold.release()
    assert len(server.requests) == 10
    assert server.most_at_once == 3


def test_the_limit_holds_over_threads_with_event_loops_of_their_own(server: OpenAIServer) -> None:
    chat = chat_at(server, max_concurrency=2)
    holds = [Hold() for _ in range(12)]
    server.replies(*holds)

    async def some() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(chat.chat(ask())) for _ in range(3)]
        return sum(task.result().usage.model_calls for task in tasks)

    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(lambda: asyncio.run(some())) for _ in range(4)]
        server.wait_for_requests(2, at_once=True)
        for hold in holds:
            hold.release()
        assert sum(future.result() for future in futures) == 12
    assert server.most_at_once == 2
    assert chat.usage.model_calls == 12


def test_runs_one_after_the_other_use_one_object(server: OpenAIServer) -> None:
    chat = chat_at(server)
    for number in range(3):
        result = asyncio.run(chat.chat(ask(("user", f"Run {number}"))))
        assert result.message.text == f"You said: Run {number}"
    gc.collect()


def test_what_the_machine_trusts_is_read_once_for_all_objects_and_loops(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted_certificates.cache_clear()
    read = list[str]()
    load = ssl.SSLContext.load_verify_locations

    def counted(context: ssl.SSLContext, cafile: str | None = None, *rest: str | None) -> None:
        read.append(str(cafile))
        load(context, cafile, *rest)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", counted)
    for _ in range(2):
        asyncio.run(chat_at(server).chat(ask()))
    assert len(read) == 1
    assert trusted_certificates().verify_mode is ssl.CERT_REQUIRED
    assert trusted_certificates().check_hostname


def test_an_object_dropped_at_the_end_of_a_run_leaves_no_connection(server: OpenAIServer) -> None:
    async def main() -> None:
        chat = chat_at(server)
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(chat.chat(ask()))

    asyncio.run(main())
    gc.collect()


async def test_calls_one_after_the_other_share_a_connection(server: OpenAIServer) -> None:
    chat = chat_at(server)
    for _ in range(3):
        await chat.chat(ask())
    assert len(server._connections) == 1


async def test_a_closed_model_opens_again(server: OpenAIServer) -> None:
    async with chat_at(server) as chat, embedder_at(server) as embedder:
        await chat.chat(ask())
        await embedder.embed(["a"])
    assert (await chat.chat(ask(("user", "Hello")))).message.text == "You said: Hello"
    assert (await embedder.embed(["a"])).shape == (1, 64)
    await chat.close()
    await chat.close()


async def test_closing_from_a_loop_that_never_called_is_harmless() -> None:
    await OpenAIChat("a-model").close()


async def test_a_cancelled_wait_for_a_slot_gives_up_its_place() -> None:
    slots = CallSlots(1)
    order: list[int] = []

    async def hold(number: int) -> None:
        async with slots.hold():
            order.append(number)

    async with slots.hold():
        tasks = [asyncio.ensure_future(hold(number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait([tasks[1]])
    await asyncio.gather(tasks[0], tasks[2])
    assert order == [0, 2]


async def test_a_slot_granted_to_a_task_that_is_cancelled_goes_on() -> None:
    slots = CallSlots(1)
    done = asyncio.Event()

    async def hold() -> None:
        async with slots.hold():
            done.set()

    async with slots.hold():
        first, second = asyncio.ensure_future(hold()), asyncio.ensure_future(hold())
        await asyncio.sleep(0)
    first.cancel()  # the slot is on its way to it
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert done.is_set()


async def test_a_waiter_whose_loop_is_closed_is_passed_over() -> None:
    slots = CallSlots(1)
    waiting = threading.Event()

    def die_waiting() -> None:
        loop = asyncio.new_event_loop()

        async def wait() -> None:
            loop.call_soon(loop.stop)
            waiting.set()
            async with slots.hold():
                raise AssertionError

        task = loop.create_task(wait())
        loop.run_forever()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # the loop dies on purpose
        loop.close()

    async with slots.hold():
        await asyncio.to_thread(die_waiting)
        assert waiting.is_set()
    async with slots.hold():
        pass
    gc.collect()
