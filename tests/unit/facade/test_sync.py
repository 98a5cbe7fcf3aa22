"""The blocking face: the same signatures, inside a running loop, from threads, and never left hanging."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import assert_type

import pytest

from reme_core import InContextMemory, LocalStore, ReMe, SyncInContextMemory, SyncReMe
from reme_core.errors import MemoryNotFoundError, ModelUnavailableError, StoreAccessError, StoreClosedError
from reme_core.ports import Matrix
from reme_core.schema import SummaryResult
from reme_core.testing import HashedEmbedder

METHODS = [
    name
    for kind in (ReMe, *ReMe.__bases__)
    for name, value in vars(kind).items()
    if not name.startswith("_") and inspect.isfunction(value) and name != "close"
]


@pytest.mark.parametrize("name", METHODS)
def test_the_blocking_method_has_the_signature_of_the_other(name: str) -> None:
    ours, theirs = inspect.signature(getattr(SyncReMe, name)), inspect.signature(getattr(ReMe, name))
    assert list(ours.parameters.values())[1:] == list(theirs.parameters.values())[1:]  # without self
    assert ours.return_annotation.removeprefix("Sync") == theirs.return_annotation
    assert not inspect.iscoroutinefunction(getattr(SyncReMe, name))


def test_there_is_no_other_method() -> None:
    ours = {name for name, value in vars(SyncReMe).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert ours == {*METHODS, "close"}


@pytest.mark.parametrize("name", METHODS)
def test_the_blocking_method_has_the_docstring_of_the_other(name: str) -> None:
    assert inspect.getdoc(getattr(SyncReMe, name)) == inspect.getdoc(getattr(ReMe, name))


def test_type_checkers_see_the_signatures(tmp_path: Path) -> None:
    with ReMe.sync("space", working_dir=tmp_path, llm=None, embedding=None) as memory:
        assert_type(memory, SyncReMe)
        assert_type(memory.summary([("user", "tea")], user_id="alice"), SummaryResult)
        assert_type(memory.in_context_memory(user_id="alice"), SyncInContextMemory)
        with pytest.raises(TypeError):
            memory.stats(user="alice")  # type: ignore[call-arg]  # no such argument


def test_a_method_of_a_subclass_is_the_one_that_runs(tmp_path: Path) -> None:
    class Counted(ReMe):
        async def users_with_jobs(self) -> list[str]:
            return ["nobody"]

    with Counted.sync("space", tmp_path, llm=None, embedding=None) as memory:
        assert memory.users_with_jobs() == ["nobody"]


CONTEXT_METHODS = [
    name for name, _ in inspect.getmembers(InContextMemory, inspect.isfunction) if not name.startswith("_")
]


@pytest.mark.parametrize("name", CONTEXT_METHODS)
def test_the_blocking_context_has_the_same_methods(name: str) -> None:
    ours = inspect.signature(getattr(SyncInContextMemory, name))
    theirs = inspect.signature(getattr(InContextMemory, name))
    assert ours == theirs
    assert not inspect.iscoroutinefunction(getattr(SyncInContextMemory, name))


def test_a_context_is_kept_and_compacted_without_await(tmp_path: Path) -> None:
    with memory_in(tmp_path) as memory:
        context = memory.in_context_memory(user_id="alice", session_id="talk", max_input_length=2_000)
        context.add([("user", f"number {number} was said here. " * 30) for number in range(10)])
        prepared = context.prepare()
        assert prepared.tokens <= prepared.threshold
        assert context.estimate_tokens().tokens == prepared.tokens
        assert context.compressed_summary == prepared.compressed_summary
        assert context.session_id == "talk"
        assert context.clear() == len(prepared.messages)
        assert memory.stats(user_id="alice").messages == 10


def memory_in(folder: Path) -> SyncReMe:
    return ReMe.sync("space", folder, llm=None, embedding=None)


async def test_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    with memory_in(tmp_path) as memory:
        stored = memory.add_memory("drinks tea", user_id="alice")
        assert memory.retrieve("tea", user_id="alice").results[0].memory_id == stored.memory_id


async def test_it_can_be_closed_inside_a_running_loop_before_any_call(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    memory.close()
    memory.close()
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240


def test_errors_come_through_and_a_closed_one_says_so(tmp_path: Path) -> None:
    with memory_in(tmp_path) as memory, pytest.raises(MemoryNotFoundError):
        memory.get_memory("nope", user_id="alice")
    with pytest.raises(StoreClosedError, match="make a new one"):
        memory.stats(user_id="alice")


class Gate:
    """An embedder that waits until it is let through."""

    dimension = 16

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    async def embed(self, texts: Sequence[str]) -> Matrix:
        self.reached.set()
        await asyncio.to_thread(self.open.wait)
        return await HashedEmbedder(16).embed(texts)


def test_closing_waits_for_the_calls_of_other_threads(tmp_path: Path) -> None:
    gate = Gate()
    memory = ReMe.sync("space", tmp_path, llm=None, embedding=gate)
    with ThreadPoolExecutor(2) as threads:
        adding = threads.submit(memory.add_memory, "drinks tea", user_id="alice")
        assert gate.reached.wait(20)
        closing = threads.submit(memory.close)
        while not memory._loop.ended:
            pass
        with pytest.raises(StoreClosedError):
            memory.stats(user_id="alice")
        gate.open.set()
        assert adding.result(timeout=20).content == "drinks tea"
        closing.result(timeout=20)


def test_no_thread_is_left_after_closing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with memory_in(tmp_path) as memory:
        memory.add_memory("drinks tea", user_id="alice")
    assert set(threading.enumerate()) <= before


def test_an_open_memory_can_be_wrapped(tmp_path: Path) -> None:
    with ReMe("space", tmp_path, llm=None, embedding=None).sync() as memory:
        assert memory.stats(user_id="alice").memories == 0
        assert repr(memory).startswith("SyncReMe(")


def test_leaving_with_an_error_keeps_that_error(tmp_path):
    class Out:
        async def chat(self, request):
            raise ModelUnavailableError("out")

    def work():
        with ReMe.sync("space", tmp_path, llm=Out(), embedding=None) as memory:
            memory.summary([("user", "Alice lives in Berlin")], user_id="u", background=True)
            raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        work()


class Hangs:
    """A chat model that never answers, and tells when it is asked."""

    def __init__(self, when_asked=lambda: None):
        self.when_asked, self.cancelled = when_asked, 0

    async def chat(self, request):
        self.when_asked()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def is_within(frame, name):
    """Say whether a function of this name has been called, and has not returned."""
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame is not None


def waits_in_close(thread):
    """Say whether a thread waits for the last call of a memory, the one that closes it."""
    frame = sys._current_frames()[thread.ident]
    called = []
    while frame is not None:
        called.append(frame.f_code.co_name)
        frame = frame.f_back
    return ("_result", "_finish") in pairwise(called)


SAID = [("user", "Alice lives in Berlin")]


@pytest.mark.parametrize("background", [False, True])
def test_ctrl_c_ends_a_call_whose_model_hangs(tmp_path, ctrl_c, background):
    model = Hangs(when_asked=ctrl_c)

    def work():
        with ReMe.sync("space", tmp_path, llm=model, embedding=None) as memory:
            memory.summary(SAID, user_id="u", background=background)
            memory.flush()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert model.cancelled == 1
    with memory_in(tmp_path) as memory:
        assert [job.state for job in memory.list_jobs(user_id="u")] == ["pending"]


def test_ctrl_c_ends_a_close_that_waits_for_a_model(tmp_path, ctrl_c):
    def press_once_it_closes():
        if waits_in_close(threading.main_thread()):
            ctrl_c()
        else:
            asyncio.get_running_loop().call_later(0.01, press_once_it_closes)

    model = Hangs(when_asked=press_once_it_closes)

    def work():
        with ReMe.sync("space", tmp_path, llm=model, embedding=None) as memory:
            memory.summary(SAID, user_id="u", background=True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert model.cancelled == 1


FACTS = [{"content": "Alice drinks tea"}, {"content": "Alice lives in Berlin"}]


def kept_after_a_second_call(tmp_path):
    """What the first call has kept, which was cut off, and what is there after the same call again."""
    with memory_in(tmp_path) as memory:
        first = memory.list_memories(user_id="u").memories
        again = memory.add_memories(FACTS, user_id="u")
        assert [item.content for item in again] == [fact["content"] for fact in FACTS]
        return first, memory.list_memories(user_id="u").memories


def test_a_write_that_has_begun_before_ctrl_c_is_kept_whole(tmp_path, ctrl_c):
    def press_once_it_writes():
        while not any(is_within(frame, "_transact") for frame in sys._current_frames().values()):
            pass
        ctrl_c()

    with memory_in(tmp_path) as memory, closing(sqlite3.connect(tmp_path / "memory.db")) as other:
        memory.stats(user_id="u")
        other.execute("BEGIN IMMEDIATE")
        threading.Thread(target=press_once_it_writes).start()
        with pytest.raises(KeyboardInterrupt):
            memory.add_memories(FACTS, user_id="u")
        other.rollback()
    first, second = kept_after_a_second_call(tmp_path)
    assert len(first) == len(FACTS)
    assert second == first


def test_a_write_that_has_not_begun_before_ctrl_c_never_begins(tmp_path, ctrl_c):
    class HangsAtFirst(HashedEmbedder):
        async def embed(self, texts):
            ctrl_c()
            await asyncio.Event().wait()

    def work():
        with ReMe.sync("space", tmp_path, llm=None, embedding=HangsAtFirst()) as memory:
            memory.add_memories(FACTS, user_id="u")

    with pytest.raises(KeyboardInterrupt):
        work()
    first, second = kept_after_a_second_call(tmp_path)
    assert first == ()
    assert len(second) == len(FACTS)


def test_ctrl_c_ends_the_calls_of_other_threads_as_well(tmp_path):
    begun = threading.Event()
    model = Hangs(when_asked=begun.set)

    def work(threads):
        with ReMe.sync("space", tmp_path, llm=model, embedding=None) as memory:
            other = threads.submit(memory.summary, SAID, user_id="u")
            assert begun.wait(20)
            raise KeyboardInterrupt(other)

    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(KeyboardInterrupt) as stopped:
            work(threads)
        with pytest.raises(StoreClosedError):
            stopped.value.args[0].result(timeout=20)


class Broken(Hangs):
    """A chat model that fails as soon as it is asked."""

    async def chat(self, request):
        raise ModelUnavailableError("out")


class Cracked(LocalStore):
    """A store that can't be closed."""

    async def close(self):
        await super().close()
        raise StoreAccessError("the disk is gone")


@pytest.mark.parametrize("error", [KeyError("of the caller"), KeyboardInterrupt(), SystemExit(3)])
def test_what_fails_while_closing_is_not_raised_over_the_error_of_the_program(tmp_path, caplog, error):
    def work():
        with ReMe.sync("space", tmp_path, llm=Broken(), embedding=None) as memory:
            memory._inner._ports = replace(memory._inner._ports, owned=(Cracked(tmp_path / "other.db"),))
            memory.summary(SAID, user_id="u", background=True)
            raise error

    with pytest.raises(type(error)) as raised:
        work()
    assert raised.value is error
    assert "closing the memory failed as well: StoreAccessError: the disk is gone" in caplog.text


@pytest.mark.parametrize("error", [KeyError("of the caller"), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_in_the_async_form_neither(tmp_path, caplog, error):
    async def work():
        async with ReMe("space", tmp_path, llm=Broken(), embedding=None) as memory:
            memory._ports = replace(memory._ports, owned=(Cracked(tmp_path / "other.db"),))
            await memory.summary(SAID, user_id="u", background=True)
            raise error

    with pytest.raises(type(error)) as raised:
        await work()
    assert raised.value is error
    assert "closing the memory failed as well: StoreAccessError: the disk is gone" in caplog.text
