"""`ReMe` and `InContextMemory` for callers without an event loop: each method runs its namesake and waits for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from reme_core.background_loop import EventLoopThread
from reme_core.facade.parts import log_failed_close
from reme_core.facade.reme import ReMe
from reme_core.working.in_context import InContextMemory
from reme_core.working.messages_to_keep import ContextLimits

P = ParamSpec("P")
T = TypeVar("T")
X = TypeVar("X")


class RunsCalls(Protocol):
    """Runs a call in the loop that serves a `SyncReMe`, and waits for it."""

    def __call__(self, call: Coroutine[object, object, T], /) -> T:
        """Return what the call returns, or raise what it raises."""
        ...


class _Face(Protocol):
    """A blocking object: what it stands for, and the way to run its calls."""

    @property
    def _inner(self) -> object: ...

    @property
    def _run(self) -> RunsCalls: ...


def _through(
    method: Callable[Concatenate[Any, P], X], finish: Callable[[_Face, X], T]
) -> Callable[Concatenate[_Face, P], T]:
    """Return a method of this name, signature and docstring that calls it on what stands behind, and finishes that."""

    def call(self: _Face, /, *args: P.args, **kwargs: P.kwargs) -> T:
        behind: Callable[P, X] = getattr(self._inner, method.__name__)  # a subclass may have one of its own
        return finish(self, behind(*args, **kwargs))

    update_wrapper(call, method)
    return call


def _waiting(
    method: Callable[Concatenate[Any, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[_Face, P], T]:
    """Return the method without await."""
    return _through(method, lambda self, call: self._run(call))


def _passed_on(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[_Face, P], T]:
    """Return a method that has nothing to wait for."""
    return _through(method, lambda _, answer: answer)


def _making_context(
    method: Callable[Concatenate[Any, P], InContextMemory],
) -> Callable[Concatenate[_Face, P], SyncInContextMemory]:
    """Return the method with what it makes wrapped, to run its calls in the same loop."""
    return _through(method, lambda self, context: SyncInContextMemory(context, self._run))


class SyncInContextMemory:
    """An `InContextMemory` whose calls block, made by `SyncReMe.in_context_memory`; they run in that memory's loop."""

    def __init__(self, context: InContextMemory, run: RunsCalls) -> None:
        """Keep the context and the way to run its calls."""
        self._inner = context
        self._run = run

    def __repr__(self) -> str:
        """Name the context."""
        return f"Sync{self._inner!r}"

    @property
    def session_id(self) -> str:
        """See `InContextMemory.session_id`."""
        return self._inner.session_id

    @property
    def limits(self) -> ContextLimits:
        """See `InContextMemory.limits`."""
        return self._inner.limits

    @property
    def compressed_summary(self) -> str:
        """See `InContextMemory.compressed_summary`."""
        return self._inner.compressed_summary

    size = _passed_on(InContextMemory.size)
    add = _passed_on(InContextMemory.add)
    extend = _waiting(InContextMemory.extend)
    messages = _passed_on(InContextMemory.messages)
    marks = _passed_on(InContextMemory.marks)
    update_marks = _passed_on(InContextMemory.update_marks)
    estimate_tokens = _passed_on(InContextMemory.estimate_tokens)
    prepare = _waiting(InContextMemory.prepare)
    set_summary = _waiting(InContextMemory.set_summary)
    delete = _waiting(InContextMemory.delete)
    delete_by_mark = _waiting(InContextMemory.delete_by_mark)
    clear = _waiting(InContextMemory.clear)
    save = _waiting(InContextMemory.save)
    close = _waiting(InContextMemory.close)
    state_dict = _passed_on(InContextMemory.state_dict)
    load_state_dict = _passed_on(InContextMemory.load_state_dict)


class SyncReMe:
    """A `ReMe` whose calls block: one event loop in one thread serves them all, from the first one to `close`.

    It works inside a running event loop (a notebook, say), and from several threads at once.
    """

    def __init__(self, memory: ReMe) -> None:
        """Keep the memory, which is closed with this object."""
        self._inner = memory
        self._loop = EventLoopThread(self)
        self._run: RunsCalls = self._loop.run

    def __repr__(self) -> str:
        """Name the memory."""
        return f"Sync{self._inner!r}"

    def __enter__(self) -> Self:
        """Return the memory; it opens with its first call."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the memory and end the thread; an error on its way is not replaced.

        One that stops the program, such as Ctrl-C, stops the jobs and the calls of other threads as well.
        """
        is_stopped = error is not None and not isinstance(error, Exception)
        try:
            self._loop.end(self._inner.close(finish_jobs=not is_stopped), cut_off=is_stopped)
        except Exception as exc:  # the program's own error goes on
            if error is None:
                raise
            log_failed_close(exc)

    def close(self, *, finish_jobs: bool = True) -> None:
        """Close the memory and end the thread; see `ReMe.close`. Closing twice is harmless."""
        self._loop.end(self._inner.close(finish_jobs=finish_jobs))

    set_summarizer = _passed_on(ReMe.set_summarizer)
    set_retriever = _passed_on(ReMe.set_retriever)
    tool_context = _passed_on(ReMe.tool_context)
    summary = _waiting(ReMe.summary)
    preview_summary = _waiting(ReMe.preview_summary)
    retrieve = _waiting(ReMe.retrieve)
    chat = _waiting(ReMe.chat)
    add_memory = _waiting(ReMe.add_memory)
    add_memories = _waiting(ReMe.add_memories)
    get_memory = _waiting(ReMe.get_memory)
    update_memory = _waiting(ReMe.update_memory)
    supersede_memory = _waiting(ReMe.supersede_memory)
    delete_memory = _waiting(ReMe.delete_memory)
    list_memories = _waiting(ReMe.list_memories)
    put_record = _waiting(ReMe.put_record)
    patch_record = _waiting(ReMe.patch_record)
    records = _waiting(ReMe.records)
    changes = _waiting(ReMe.changes)
    neighbours = _waiting(ReMe.neighbours)
    path = _waiting(ReMe.path)
    evolve = _waiting(ReMe.evolve)
    history = _waiting(ReMe.history)
    undo = _waiting(ReMe.undo)
    memory_blocks = _waiting(ReMe.memory_blocks)
    memory_block_text = _waiting(ReMe.memory_block_text)
    get_memory_block = _waiting(ReMe.get_memory_block)
    set_memory_block = _waiting(ReMe.set_memory_block)
    delete_memory_block = _waiting(ReMe.delete_memory_block)
    grant_memory_block = _waiting(ReMe.grant_memory_block)
    revoke_memory_block = _waiting(ReMe.revoke_memory_block)
    get_messages = _waiting(ReMe.get_messages)
    find_messages = _waiting(ReMe.find_messages)
    read_blob = _waiting(ReMe.read_blob)
    get_block = _waiting(ReMe.get_block)
    list_blocks = _waiting(ReMe.list_blocks)
    stats = _waiting(ReMe.stats)
    costs = _waiting(ReMe.costs)
    delete_all_memories = _waiting(ReMe.delete_all_memories)
    flush = _waiting(ReMe.flush)
    list_jobs = _waiting(ReMe.list_jobs)
    users_with_jobs = _waiting(ReMe.users_with_jobs)
    retry_job = _waiting(ReMe.retry_job)
    drop_job = _waiting(ReMe.drop_job)
    summary_task = _waiting(ReMe.summary_task)
    retrieve_task_memory = _waiting(ReMe.retrieve_task_memory)
    set_task_flow = _passed_on(ReMe.set_task_flow)
    set_task_retrieval = _passed_on(ReMe.set_task_retrieval)
    record_use = _waiting(ReMe.record_use)
    forget_memories = _waiting(ReMe.forget_memories)
    observe = _waiting(ReMe.observe)
    add_tool_call_results = _waiting(ReMe.add_tool_call_results)
    summarize_tool_memory = _waiting(ReMe.summarize_tool_memory)
    retrieve_tool_memory = _waiting(ReMe.retrieve_tool_memory)
    list_tool_calls = _waiting(ReMe.list_tool_calls)
    list_tools = _waiting(ReMe.list_tools)
    backup = _waiting(ReMe.backup)
    check = _waiting(ReMe.check)
    export = _waiting(ReMe.export)
    import_ = _waiting(ReMe.import_)
    import_from = _waiting(ReMe.import_from)
    dump = _waiting(ReMe.dump)
    load = _waiting(ReMe.load)
    reembed = _waiting(ReMe.reembed)
    abandon_reembedding = _waiting(ReMe.abandon_reembedding)
    check_context = _waiting(ReMe.check_context)
    pre_reasoning_hook = _waiting(ReMe.pre_reasoning_hook)
    compact_tool_result = _waiting(ReMe.compact_tool_result)
    compact_memory = _waiting(ReMe.compact_memory)
    offload_context = _waiting(ReMe.offload_context)
    offload_text = _waiting(ReMe.offload_text)
    reload_context = _waiting(ReMe.reload_context)
    in_context_memory = _making_context(ReMe.in_context_memory)
    list_offloads = _waiting(ReMe.list_offloads)
    clean_offloads = _waiting(ReMe.clean_offloads)
    close_context = _waiting(ReMe.close_context)
