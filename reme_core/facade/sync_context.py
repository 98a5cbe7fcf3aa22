"""Blocking counterpart of `InContextMemory`."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import Protocol, TypeVar

from pydantic import JsonValue

from reme_core.schema import ContextUse, Message, OffloadedContext, PreparedContext
from reme_core.working.in_context import InContextMemory
from reme_core.working.limits import ContextLimits

T = TypeVar("T")


class RunsCalls(Protocol):
    """Runs a call in the loop that serves a `SyncReMe`, and waits for it."""

    def __call__(self, call: Coroutine[object, object, T], /) -> T:
        """Return what the call returns, or raise what it raises."""
        ...


class SyncInContextMemory:
    """An `InContextMemory` whose calls block; made by `SyncReMe.in_context_memory`."""

    def __init__(self, context: InContextMemory, run: RunsCalls) -> None:
        """Keep the context and the way to run its calls."""
        self._context = context
        self._run = run

    def __repr__(self) -> str:
        """Name the context."""
        return f"Sync{self._context!r}"

    @property
    def session_id(self) -> str:
        """See `InContextMemory.session_id`."""
        return self._context.session_id

    @property
    def limits(self) -> ContextLimits:
        """See `InContextMemory.limits`."""
        return self._context.limits

    @property
    def compressed_summary(self) -> str:
        """See `InContextMemory.compressed_summary`."""
        return self._context.compressed_summary

    def size(self) -> int:
        """See `InContextMemory.size`."""
        return self._context.size()

    def add(self, messages: object, *, marks: object = ()) -> int:
        """See `InContextMemory.add`."""
        return self._context.add(messages, marks=marks)

    def messages(
        self, *, mark: str | None = None, exclude_mark: str | None = None, include_summary: bool = True
    ) -> list[Message]:
        """See `InContextMemory.messages`."""
        return self._context.messages(mark=mark, exclude_mark=exclude_mark, include_summary=include_summary)

    def marks(self, message_id: str) -> tuple[str, ...]:
        """See `InContextMemory.marks`."""
        return self._context.marks(message_id)

    def update_marks(
        self, new_mark: str | None, *, old_mark: str | None = None, message_ids: Iterable[str] | None = None
    ) -> int:
        """See `InContextMemory.update_marks`."""
        return self._context.update_marks(new_mark, old_mark=old_mark, message_ids=message_ids)

    def estimate_tokens(self) -> ContextUse:
        """See `InContextMemory.estimate_tokens`."""
        return self._context.estimate_tokens()

    def prepare(self) -> PreparedContext:
        """See `InContextMemory.prepare`."""
        return self._run(self._context.prepare())

    def set_summary(self, summary: str) -> None:
        """See `InContextMemory.set_summary`."""
        self._run(self._context.set_summary(summary))

    def delete(self, message_ids: Iterable[str]) -> int:
        """See `InContextMemory.delete`."""
        return self._run(self._context.delete(message_ids))

    def delete_by_mark(self, marks: object) -> int:
        """See `InContextMemory.delete_by_mark`."""
        return self._run(self._context.delete_by_mark(marks))

    def clear(self) -> int:
        """See `InContextMemory.clear`."""
        return self._run(self._context.clear())

    def save(self) -> OffloadedContext:
        """See `InContextMemory.save`."""
        return self._run(self._context.save())

    def close(self) -> None:
        """See `InContextMemory.close`."""
        self._run(self._context.close())

    def state_dict(self) -> dict[str, JsonValue]:
        """See `InContextMemory.state_dict`."""
        return self._context.state_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """See `InContextMemory.load_state_dict`."""
        self._context.load_state_dict(state)
