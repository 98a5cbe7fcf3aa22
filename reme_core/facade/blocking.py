"""Running of calls for those without an event loop: what the generated faces in `sync.py` stand on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, overload

from reme_core.errors import PartialFailureError

if TYPE_CHECKING:
    from reme_core.facade.reme import ReMe
    from reme_core.facade.sync import MakeSync, SyncReMe
    from reme_core.working.in_context import InContextMemory

T = TypeVar("T")


class RunsCalls(Protocol):
    """Runs a call in the loop that serves a `SyncReMe`, and waits for it."""

    def __call__(self, call: Coroutine[object, object, T], /) -> T:
        """Return what the call returns, or raise what it raises."""
        ...


class BlockingReMe:
    """A memory with one event loop in one thread, which serves all its calls, from the first one to `close`.

    It works inside a running event loop (a notebook, say), and from several threads at once.
    """

    def __init__(self, memory: ReMe) -> None:
        """Keep the memory, which is closed with this face."""
        from reme_core.background_loop import EventLoopThread

        self._memory = memory
        self._loop = EventLoopThread(self)

    def __repr__(self) -> str:
        """Name the memory."""
        return f"Sync{self._memory!r}"

    def __enter__(self) -> Self:
        """Return the face; it opens with its first call."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the memory and end the thread; an error on its way is not replaced, and Ctrl-C stops the jobs."""
        try:
            self.close(finish_jobs=error is None or isinstance(error, Exception))
        except PartialFailureError:
            if error is None:
                raise

    def close(self, *, finish_jobs: bool = True) -> None:
        """Close the memory and end the thread; see `ReMe.close`. Closing twice is harmless."""
        self._loop.end(self._memory.close(finish_jobs=finish_jobs))

    def _run(self, call: Coroutine[object, object, T]) -> T:
        return self._loop.run(call)


class BlockingInContextMemory:
    """The context of one session, made by `SyncReMe.in_context_memory`; calls run in the loop of that memory."""

    def __init__(self, context: InContextMemory, run: RunsCalls) -> None:
        """Keep the context and the way to run its calls."""
        self._context = context
        self._run = run

    def __repr__(self) -> str:
        """Name the context."""
        return f"Sync{self._context!r}"


class SyncDescriptor:
    """`ReMe.sync(...)` takes the arguments of `ReMe` and makes a blocking memory; `memory.sync()` wraps an open one."""

    @overload
    def __get__(self, memory: None, kind: type[ReMe]) -> MakeSync: ...

    @overload
    def __get__(self, memory: ReMe, kind: type[ReMe]) -> Callable[[], SyncReMe]: ...

    def __get__(self, memory: ReMe | None, kind: type[ReMe]) -> MakeSync | Callable[[], SyncReMe]:
        """Return what makes the face, for the class or for one memory."""
        from reme_core.facade.sync import SyncReMe  # generated from ReMe, so not above it

        def make(*arguments: object, **settings: object) -> SyncReMe:  # the signature is that of MakeSync
            return SyncReMe(kind(*arguments, **settings))  # type: ignore[arg-type]  # checked by MakeSync

        return make if memory is None else lambda: SyncReMe(memory)
