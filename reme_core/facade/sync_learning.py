"""Blocking counterparts of the facade's methods about tasks and tools."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from reme_core.ports import ToolCallPage, ToolPage
from reme_core.schema import (
    DumpedLibrary,
    Forgotten,
    LoadedLibrary,
    Memory,
    RecordedToolCalls,
    TaskMemories,
    TaskSummary,
    ToolMemories,
    ToolSummary,
)
from reme_core.tasks.task_values import FREQ_THRESHOLD, UTILITY_THRESHOLD, RetrievalFlow, TaskFlow

if TYPE_CHECKING:
    from reme_core.facade.reme import ReMe

T = TypeVar("T")


class SyncHost(Protocol):
    """What the blocking face has besides, and this part of it uses."""

    _memory: ReMe

    def _run(self, call: Coroutine[object, object, T]) -> T: ...


class SyncLearningMethods:
    """The part of `SyncReMe` that is about work; see `LearningMethods`."""

    def summary_task(
        self: SyncHost, trajectories: Sequence[object], *, user_id: str, task_name: str, background: bool = False
    ) -> TaskSummary:
        """See `ReMe.summary_task`."""
        return self._run(
            self._memory.summary_task(trajectories, user_id=user_id, task_name=task_name, background=background)
        )

    def retrieve_task_memory(
        self: SyncHost,
        query: str | None = None,
        *,
        user_id: str,
        messages: Sequence[object] = (),
        task_name: str | None = None,
        limit: int = 5,
        token_budget: int | None = None,
        min_score: float | None = None,
        include_shared: bool = False,
        rerank: bool = False,
        rewrite: bool = False,
    ) -> TaskMemories:
        """See `ReMe.retrieve_task_memory`."""
        return self._run(
            self._memory.retrieve_task_memory(
                query,
                user_id=user_id,
                messages=messages,
                task_name=task_name,
                limit=limit,
                token_budget=token_budget,
                min_score=min_score,
                include_shared=include_shared,
                rerank=rerank,
                rewrite=rewrite,
            )
        )

    def set_task_flow(self: SyncHost, flow: TaskFlow) -> None:
        """See `ReMe.set_task_flow`."""
        self._memory.set_task_flow(flow)

    def set_task_retrieval(self: SyncHost, flow: RetrievalFlow) -> None:
        """See `ReMe.set_task_retrieval`."""
        self._memory.set_task_retrieval(flow)

    def record_use(
        self: SyncHost, memory_ids: str | Sequence[str], *, user_id: str, uses: int = 1, helpful: float = 0
    ) -> list[Memory]:
        """See `ReMe.record_use`."""
        return self._run(self._memory.record_use(memory_ids, user_id=user_id, uses=uses, helpful=helpful))

    def forget_memories(
        self: SyncHost,
        *,
        user_id: str,
        task_name: str | None = None,
        memory_type: str | Sequence[str] = "procedural",
        freq_threshold: int = FREQ_THRESHOLD,
        utility_threshold: float = UTILITY_THRESHOLD,
        dry_run: bool = False,
    ) -> Forgotten:
        """See `ReMe.forget_memories`."""
        return self._run(
            self._memory.forget_memories(
                user_id=user_id,
                task_name=task_name,
                memory_type=memory_type,
                freq_threshold=freq_threshold,
                utility_threshold=utility_threshold,
                dry_run=dry_run,
            )
        )

    def observe(self: SyncHost, feedback: object, *, user_id: str) -> list[Memory]:
        """See `ReMe.observe`."""
        return self._run(self._memory.observe(feedback, user_id=user_id))

    def add_tool_call_results(
        self: SyncHost, tool_call_results: Sequence[object] = (), *, user_id: str, messages: Sequence[object] = ()
    ) -> RecordedToolCalls:
        """See `ReMe.add_tool_call_results`."""
        return self._run(self._memory.add_tool_call_results(tool_call_results, user_id=user_id, messages=messages))

    def summarize_tool_memory(
        self: SyncHost, tool_names: str | Sequence[str], *, user_id: str, background: bool = False
    ) -> ToolSummary:
        """See `ReMe.summarize_tool_memory`."""
        return self._run(self._memory.summarize_tool_memory(tool_names, user_id=user_id, background=background))

    def retrieve_tool_memory(self: SyncHost, tool_names: str | Sequence[str], *, user_id: str) -> ToolMemories:
        """See `ReMe.retrieve_tool_memory`."""
        return self._run(self._memory.retrieve_tool_memory(tool_names, user_id=user_id))

    def list_tool_calls(
        self: SyncHost,
        *,
        user_id: str,
        tool_name: str | None = None,
        success: bool | None = None,
        error: str | None = None,
        limit: int = 100,
        newest_first: bool = True,
        cursor: str | None = None,
    ) -> ToolCallPage:
        """See `ReMe.list_tool_calls`."""
        return self._run(
            self._memory.list_tool_calls(
                user_id=user_id,
                tool_name=tool_name,
                success=success,
                error=error,
                limit=limit,
                newest_first=newest_first,
                cursor=cursor,
            )
        )

    def list_tools(self: SyncHost, *, user_id: str, limit: int = 100, cursor: str | None = None) -> ToolPage:
        """See `ReMe.list_tools`."""
        return self._run(self._memory.list_tools(user_id=user_id, limit=limit, cursor=cursor))

    def dump(
        self: SyncHost,
        path: str | Path,
        *,
        user_id: str,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        include_superseded: bool = False,
    ) -> DumpedLibrary:
        """See `ReMe.dump`."""
        return self._run(
            self._memory.dump(
                path,
                user_id=user_id,
                memory_type=memory_type,
                memory_target=memory_target,
                include_superseded=include_superseded,
            )
        )

    def load(
        self: SyncHost,
        path: str | Path,
        *,
        user_id: str,
        task_name: str | None = None,
        skip_bad_lines: bool = False,
        deduplicate: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> LoadedLibrary:
        """See `ReMe.load`."""
        return self._run(
            self._memory.load(
                path,
                user_id=user_id,
                task_name=task_name,
                skip_bad_lines=skip_bad_lines,
                deduplicate=deduplicate,
                progress=progress,
            )
        )
