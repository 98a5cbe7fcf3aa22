"""Public calls are cancelled at each of their awaits: nothing is half done, the memory goes on working, and closes.

A call is cancelled when it begins to wait for the n-th time, and in another run when what it waited for has just come,
which is after the write where that is a write.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import ModelUnavailableError, PartialFailureError
from reme_core.ports import ChatRequest, ChatResult, Counts
from reme_core.testing import HashedEmbedder
from tests.support.file_checks import problems_of_file
from tests.support.lesson_model import TASK_NAME, LessonModel, attempt
from tests.support.rule_model import RuleModel

MOST_AWAITS = 400


class Model:
    """Answers whatever is asked, by rules; it waits once, as an endpoint does, or is down."""

    def __init__(self) -> None:
        self.is_down = False

    async def chat(self, request: ChatRequest) -> ChatResult:
        await asyncio.sleep(0)
        if self.is_down:
            msg = "no answer from the model"
            raise ModelUnavailableError(msg)
        schema = request.response_schema
        if schema is not None and schema.name not in {"facts", "decisions"}:
            return await LessonModel().chat(request)
        return await RuleModel().chat(request)


class CancelledAt:
    """Awaits a call, and cancels the task at the n-th wait (from 0), as it begins or once it is over."""

    def __init__(self, call: Coroutine[Any, Any, object], place: int, *, is_over: bool) -> None:
        self.call, self.place, self.is_over = call, place, is_over
        self.has_cancelled = False

    def __await__(self) -> Generator[Any, Any, object]:
        for waits in count():
            try:
                waited = self.call.send(None)
            except StopIteration as end:
                return end.value
            if waits == self.place:
                self._cancel(waited)
            try:
                yield waited
            except BaseException as exc:  # noqa: BLE001  # whatever comes is the call's
                return (yield from self._throw(exc))
        raise AssertionError

    def _cancel(self, waited: asyncio.Future[object] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.has_cancelled = True
        if waited is not None and self.is_over:
            waited.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()

    def _throw(self, exc: BaseException) -> Generator[Any, Any, object]:
        """Hand the cancellation to the call, which may wait for something before it ends."""
        while True:
            try:
                waited = self.call.throw(exc) if exc is not None else self.call.send(None)
            except StopIteration as end:
                return end.value
            exc = None  # type: ignore[assignment]
            try:
                yield waited
            except BaseException as again:  # noqa: BLE001
                exc = again


@dataclass
class Bench:
    """A memory, its model, a folder for files, and whose turn it is."""

    memory: ReMe
    model: Model
    folder: Path
    user: str = ""

    def __post_init__(self) -> None:
        self.jobs: list[str] = []
        self.memory_id = self.reference = self.message_id = ""


async def said(bench: Bench) -> None:
    kept = await bench.memory.summary([("user", "Alice lives in Bonn")], user_id=bench.user, session_id="s")
    bench.memory_id, bench.message_id = kept.memories[0].memory_id, kept.message_ids[0]


async def ran(bench: Bench) -> None:
    drafts = [{"content": "a"}, {"content": "b"}]
    await bench.memory.add_memories(drafts, user_id=bench.user, run_id=f"run-{bench.user}")


async def twice(bench: Bench) -> None:
    drafts = [{"content": "Alice rows, often"}, {"content": "Alice rows often"}]
    await bench.memory.add_memories(drafts, user_id=bench.user)


async def offloaded(bench: Bench) -> None:
    await said(bench)
    info = await bench.memory.offload_text("line of a log\n" * 500, user_id=bench.user, session_id="s")
    bench.reference = info.reference


async def waiting(bench: Bench) -> None:
    bench.model.is_down = True
    with pytest.raises(PartialFailureError):
        await bench.memory.summary([("user", "Bea lives in Rome")], user_id=bench.user, session_id="s")
    bench.model.is_down = False
    bench.jobs = [job.job_id for job in await bench.memory.list_jobs(user_id=bench.user)]


async def called(bench: Bench) -> None:
    calls = [
        {"tool_name": "oven", "call_id": f"c{place}", "input": {}, "output": "hot", "success": True}
        for place in range(3)
    ]
    await bench.memory.add_tool_call_results(calls, user_id=bench.user)


async def exported(bench: Bench) -> None:
    source = "source-of-all"
    if not (await bench.memory.stats(user_id=source)).memories:
        await bench.memory.summary([("user", "Alice lives in Bonn")], user_id=source, session_id="s")
    await bench.memory.export(bench.folder / f"{bench.user}.jsonl", user_id=source)
    await bench.memory.dump(bench.folder / f"{bench.user}.dump", user_id=source)


async def nothing(bench: Bench) -> None:
    pass


SAID = [("user", "Cleo lives in Paris"), ("assistant", "So she does."), ("user", "Dan moved to Oslo")]
TURN = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
LONG_TURN: list[object] = [
    {"role": "user", "content": "what does the log say?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "log", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "log", "content": "a line of it\n" * 20_000},
]
# An import is done in pages: one that was broken off is completed by doing it again.
AGAIN = {"import_"}
Prepare, Call = Callable[[Bench], Awaitable[None]], Callable[[Bench], Coroutine[Any, Any, object]]
CALLS: dict[str, tuple[Prepare, Call]] = {
    "summary": (said, lambda b: b.memory.summary(SAID, user_id=b.user, session_id="t")),
    "retrieve": (said, lambda b: b.memory.retrieve("where does Alice live?", user_id=b.user)),
    "chat": (said, lambda b: b.memory.chat("Where does Alice live?", user_id=b.user, session_id="t")),
    "add_memory": (said, lambda b: b.memory.add_memory("Alice plays the cello", user_id=b.user)),
    "add_memories": (said, lambda b: b.memory.add_memories([{"content": "x"}, {"content": "y"}], user_id=b.user)),
    "get_memory": (said, lambda b: b.memory.get_memory(b.memory_id, user_id=b.user)),
    "update_memory": (said, lambda b: b.memory.update_memory(b.memory_id, user_id=b.user, content="changed")),
    "supersede_memory": (said, lambda b: b.memory.supersede_memory(b.memory_id, "moved", user_id=b.user)),
    "delete_memory": (said, lambda b: b.memory.delete_memory(b.memory_id, user_id=b.user)),
    "set_memory_block": (said, lambda b: b.memory.set_memory_block("human", "Alice", user_id=b.user)),
    "list_memories": (said, lambda b: b.memory.list_memories(user_id=b.user)),
    "history": (said, lambda b: b.memory.history(b.memory_id, user_id=b.user)),
    "undo": (ran, lambda b: b.memory.undo(f"run-{b.user}", user_id=b.user)),
    "get_messages": (said, lambda b: b.memory.get_messages([b.message_id], user_id=b.user)),
    "find_messages": (said, lambda b: b.memory.find_messages(user_id=b.user)),
    "list_blocks": (said, lambda b: b.memory.list_blocks(user_id=b.user)),
    "stats": (said, lambda b: b.memory.stats(user_id=b.user)),
    "delete_all_memories": (said, lambda b: b.memory.delete_all_memories(user_id=b.user)),
    "list_offloads": (offloaded, lambda b: b.memory.list_offloads(user_id=b.user)),
    "clean_offloads": (offloaded, lambda b: b.memory.clean_offloads(user_id=b.user, max_bytes=0, idle_days=0)),
    "close_context": (offloaded, lambda b: b.memory.close_context("s", user_id=b.user)),
    "flush": (waiting, lambda b: b.memory.flush()),
    "list_jobs": (waiting, lambda b: b.memory.list_jobs(user_id=b.user)),
    "users_with_jobs": (waiting, lambda b: b.memory.users_with_jobs()),
    "retry_job": (waiting, lambda b: b.memory.retry_job(b.jobs[0], user_id=b.user)),
    "drop_job": (waiting, lambda b: b.memory.drop_job(b.jobs[0], user_id=b.user)),
    "summary_task": (
        nothing,
        lambda b: b.memory.summary_task([attempt("soup", "Tasty.", 1.0, "t1")], user_id=b.user, task_name=TASK_NAME),
    ),
    "retrieve_task_memory": (said, lambda b: b.memory.retrieve_task_memory("cook soup", user_id=b.user)),
    "record_use": (said, lambda b: b.memory.record_use(b.memory_id, user_id=b.user)),
    "forget_memories": (said, lambda b: b.memory.forget_memories(user_id=b.user)),
    "evolve": (twice, lambda b: b.memory.evolve(user_id=b.user, dry_run=False)),
    "add_tool_call_results": (nothing, called),  # type: ignore[dict-item]
    "summarize_tool_memory": (called, lambda b: b.memory.summarize_tool_memory("oven", user_id=b.user)),
    "retrieve_tool_memory": (called, lambda b: b.memory.retrieve_tool_memory("oven", user_id=b.user)),
    "list_tool_calls": (called, lambda b: b.memory.list_tool_calls(user_id=b.user)),
    "export": (said, lambda b: b.memory.export(b.folder / f"out-{b.user}.jsonl", user_id=b.user)),
    "import_": (exported, lambda b: b.memory.import_(b.folder / f"{b.user}.jsonl", user_id=b.user)),
    "dump": (said, lambda b: b.memory.dump(b.folder / f"out-{b.user}.dump", user_id=b.user)),
    "load": (exported, lambda b: b.memory.load(b.folder / f"{b.user}.dump", user_id=b.user)),
    "compact_tool_result": (
        said,
        lambda b: b.memory.compact_tool_result(LONG_TURN, user_id=b.user, session_id="s", max_input_length=8_000),
    ),
    "offload_context": (said, lambda b: b.memory.offload_context(TURN, user_id=b.user, session_id="s")),
    "offload_text": (said, lambda b: b.memory.offload_text("a log\n" * 900, user_id=b.user, session_id="s")),
    "reload_context": (offloaded, lambda b: b.memory.reload_context(user_id=b.user, reference=b.reference)),
}  # fmt: skip


async def counts(bench: Bench) -> Counts:
    """Return what is held once all that was begun has ended, and what was left was done."""
    await bench.memory.flush()
    return await bench.memory.stats(user_id=bench.user)


async def prepared(bench: Bench, prepare: Prepare, user: str) -> None:
    bench.user = user
    await prepare(bench)


async def cancelled_everywhere(bench: Bench, name: str, *, is_over: bool) -> int:
    """Cancel a call at each of its waits; return at how many."""
    prepare, call = CALLS[name]
    await prepared(bench, prepare, f"never-{is_over}")
    before = await counts(bench)
    await prepared(bench, prepare, f"whole-{is_over}")
    await call(bench)
    after = await counts(bench)
    for place in range(MOST_AWAITS):
        await prepared(bench, prepare, f"user-{is_over}-{place}")
        cancelling = CancelledAt(call(bench), place, is_over=is_over)
        task = asyncio.create_task(_awaiting(cancelling))
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # a cancelled call raises nothing else, and one that was over may return
        if not cancelling.has_cancelled:
            return place
        if task.cancelled() and name in AGAIN:
            await call(bench)
        found = await counts(bench)
        assert found in (before, after), f"cancelled at wait {place}, {'over' if is_over else 'begun'}"
        if not task.cancelled():
            assert found == after
    msg = f"more than {MOST_AWAITS} waits"
    raise AssertionError(msg)


async def _awaiting(call: CancelledAt) -> object:
    return await call


_FEW = ("summary", "update_memory", "delete_all_memories")


@pytest.mark.parametrize(
    "name", [name if name in _FEW else pytest.param(name, marks=pytest.mark.torture) for name in CALLS]
)
async def test_a_call_cancelled_at_any_await_leaves_nothing_half_and_the_memory_working(
    tmp_path: Path, name: str
) -> None:
    model = Model()
    memory = ReMe("space", tmp_path, llm=model, embedding=HashedEmbedder(16))
    bench = Bench(memory, model, tmp_path)
    begun = await cancelled_everywhere(bench, name, is_over=False)
    over = await cancelled_everywhere(bench, name, is_over=True)
    assert min(begun, over) >= 1
    assert (await memory.add_memory("It still works.", user_id="after")).content == "It still works."
    await memory.close()
    assert problems_of_file(tmp_path / "memory.db") == []
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]  # noqa: PTH208


def test_at_least_thirty_calls_are_cancelled() -> None:
    assert len(CALLS) >= 30
    assert all(hasattr(ReMe, name) for name in CALLS)
