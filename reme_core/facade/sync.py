"""Blocking counterpart of `ReMe`, for scripts and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, overload

from pydantic import JsonValue

from reme_core.background_loop import EventLoopThread
from reme_core.errors import PartialFailureError
from reme_core.facade.sync_context import SyncInContextMemory
from reme_core.facade.sync_learning import SyncLearningMethods
from reme_core.facade.working_memory import IDLE_DAYS, RETENTION_DAYS
from reme_core.ports import (
    ChatModel,
    Clock,
    Counts,
    Embedder,
    MessagePage,
    Retriever,
    Store,
    Summarizer,
    TokenCounter,
    ToolContext,
)
from reme_core.schema import (
    UTC_NAME,
    Block,
    ChatReply,
    CleanedOffloads,
    CompactedContext,
    Erased,
    Event,
    Job,
    Memory,
    MemoryPage,
    Message,
    OffloadedContext,
    OffloadInfo,
    PreparedContext,
    ReloadResult,
    RetrieveResult,
    StoredMessage,
    SummaryResult,
    UndoResult,
    Usage,
)
from reme_core.steps.slicing import Slicing
from reme_core.transfer.scope_export import TransferCounts

if TYPE_CHECKING:
    from reme_core.facade.config import Settings, Unset
    from reme_core.facade.reme import ReMe
    from reme_core.facade.strategies import BindsDistiller, BindsRetriever
    from reme_core.jobs.retry_policy import RetryPolicy
    from reme_core.text import Language
    from reme_core.working.check import ContextCheck
    from reme_core.working.limits import ContextLimits

T = TypeVar("T")


class SyncReMe(SyncLearningMethods):
    """A `ReMe` whose calls block. One event loop in one thread serves them all, from the first call to `close`.

    It works inside a running event loop (a notebook, say), and from several threads at once.
    """

    def __init__(self, memory: ReMe) -> None:
        """Keep the memory, which is closed with this face."""
        self._memory = memory
        self._loop = EventLoopThread(self, thread_name="reme-sync")

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

    def set_summarizer(self, summarizer: Summarizer | BindsDistiller) -> None:
        """See `ReMe.set_summarizer`."""
        self._memory.set_summarizer(summarizer)

    def set_retriever(self, retriever: Retriever | BindsRetriever) -> None:
        """See `ReMe.set_retriever`."""
        self._memory.set_retriever(retriever)

    def tool_context(self, *, user_id: str) -> ToolContext:
        """See `ReMe.tool_context`."""
        return self._memory.tool_context(user_id=user_id)

    def summary(
        self,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str | None = None,
        memory_type: str = "auto",
        end_session: bool | None = None,
        background: bool = False,
        instructions: str | None = None,
        timezone: str | None = None,
    ) -> SummaryResult:
        """See `ReMe.summary`."""
        return self._run(
            self._memory.summary(
                messages,
                user_id=user_id,
                session_id=session_id,
                memory_type=memory_type,
                end_session=end_session,
                background=background,
                instructions=instructions,
                timezone=timezone,
            )
        )

    def retrieve(
        self,
        query: str | None = None,
        *,
        user_id: str,
        limit: int | None = None,
        top_k: int | None = None,
        token_budget: int | None = None,
        min_score: float | None = None,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        session_id: str | None = None,
        layers: Sequence[str] | None = None,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        as_of: datetime | str | None = None,
        include_superseded: bool = False,
        include_shared: bool = False,
    ) -> RetrieveResult:
        """See `ReMe.retrieve`."""
        return self._run(
            self._memory.retrieve(
                query,
                user_id=user_id,
                limit=limit,
                top_k=top_k,
                token_budget=token_budget,
                min_score=min_score,
                memory_type=memory_type,
                memory_target=memory_target,
                session_id=session_id,
                layers=layers,
                metadata=metadata,
                start_time=start_time,
                end_time=end_time,
                as_of=as_of,
                include_superseded=include_superseded,
                include_shared=include_shared,
            )
        )

    def check_context(
        self,
        messages: Sequence[object],
        *,
        system_prompt: str = "",
        compressed_summary: str = "",
        overhead_tokens: int = 0,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
    ) -> ContextCheck:
        """See `ReMe.check_context`."""
        return self._run(
            self._memory.check_context(
                messages,
                system_prompt=system_prompt,
                compressed_summary=compressed_summary,
                overhead_tokens=overhead_tokens,
                max_input_length=max_input_length,
                limits=limits,
            )
        )

    def pre_reasoning_hook(
        self,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str,
        system_prompt: str = "",
        compressed_summary: str = "",
        overhead_tokens: int = 0,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
        language: Language | None = None,
    ) -> PreparedContext:
        """See `ReMe.pre_reasoning_hook`."""
        return self._run(
            self._memory.pre_reasoning_hook(
                messages,
                user_id=user_id,
                session_id=session_id,
                system_prompt=system_prompt,
                compressed_summary=compressed_summary,
                overhead_tokens=overhead_tokens,
                max_input_length=max_input_length,
                limits=limits,
                language=language,
            )
        )

    def compact_tool_result(
        self,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
    ) -> list[Message]:
        """See `ReMe.compact_tool_result`."""
        return self._run(
            self._memory.compact_tool_result(
                messages, user_id=user_id, session_id=session_id, max_input_length=max_input_length, limits=limits
            )
        )

    def compact_memory(
        self,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str,
        previous_summary: str = "",
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
        language: Language | None = None,
    ) -> CompactedContext:
        """See `ReMe.compact_memory`."""
        return self._run(
            self._memory.compact_memory(
                messages,
                user_id=user_id,
                session_id=session_id,
                previous_summary=previous_summary,
                max_input_length=max_input_length,
                limits=limits,
                language=language,
            )
        )

    def offload_context(
        self, messages: Sequence[object], *, user_id: str, session_id: str | None = None
    ) -> OffloadedContext:
        """See `ReMe.offload_context`."""
        return self._run(self._memory.offload_context(messages, user_id=user_id, session_id=session_id))

    def offload_text(self, text: str, *, user_id: str, session_id: str, name: str | None = None) -> OffloadInfo:
        """See `ReMe.offload_text`."""
        return self._run(self._memory.offload_text(text, user_id=user_id, session_id=session_id, name=name))

    def reload_context(
        self,
        *,
        user_id: str,
        reference: str | None = None,
        query: str | None = None,
        session_id: str | None = None,
        start_line: int | None = None,
        end_line: int | None = None,
        offset: int | None = None,
        limit_chars: int = 4000,
        limit: int = 5,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
    ) -> ReloadResult:
        """See `ReMe.reload_context`."""
        return self._run(
            self._memory.reload_context(
                user_id=user_id,
                reference=reference,
                query=query,
                session_id=session_id,
                start_line=start_line,
                end_line=end_line,
                offset=offset,
                limit_chars=limit_chars,
                limit=limit,
                start_time=start_time,
                end_time=end_time,
            )
        )

    def list_offloads(
        self,
        *,
        user_id: str,
        session_id: str | None = None,
        limit: int = 100,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> tuple[Sequence[OffloadInfo], str | None]:
        """See `ReMe.list_offloads`."""
        return self._run(
            self._memory.list_offloads(
                user_id=user_id, session_id=session_id, limit=limit, newest_first=newest_first, cursor=cursor
            )
        )

    def clean_offloads(
        self,
        *,
        user_id: str,
        older_than_days: float | None = RETENTION_DAYS,
        max_bytes: int | None = None,
        idle_days: float = IDLE_DAYS,
        dry_run: bool = False,
    ) -> CleanedOffloads:
        """See `ReMe.clean_offloads`."""
        return self._run(
            self._memory.clean_offloads(
                user_id=user_id,
                older_than_days=older_than_days,
                max_bytes=max_bytes,
                idle_days=idle_days,
                dry_run=dry_run,
            )
        )

    def close_context(self, session_id: str, *, user_id: str) -> None:
        """See `ReMe.close_context`."""
        return self._run(self._memory.close_context(session_id, user_id=user_id))

    def in_context_memory(
        self,
        *,
        user_id: str,
        session_id: str | None = None,
        system_prompt: str = "",
        overhead_tokens: int = 0,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
        language: Language | None = None,
        unrecorded_marks: Iterable[str] = (),
    ) -> SyncInContextMemory:
        """See `ReMe.in_context_memory`."""
        return SyncInContextMemory(
            self._memory.in_context_memory(
                user_id=user_id,
                session_id=session_id,
                system_prompt=system_prompt,
                overhead_tokens=overhead_tokens,
                max_input_length=max_input_length,
                limits=limits,
                language=language,
                unrecorded_marks=unrecorded_marks,
            ),
            self._run,
        )

    def chat(
        self,
        message: str,
        *,
        user_id: str,
        session_id: str | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> ChatReply:
        """See `ReMe.chat`; `on_text` is called in the thread of the loop."""
        return self._run(self._memory.chat(message, user_id=user_id, session_id=session_id, on_text=on_text))

    def list_jobs(self, *, user_id: str) -> list[Job]:
        """See `ReMe.list_jobs`."""
        return self._run(self._memory.list_jobs(user_id=user_id))

    def users_with_jobs(self) -> list[str]:
        """See `ReMe.users_with_jobs`."""
        return self._run(self._memory.users_with_jobs())

    def retry_job(self, job_id: str, *, user_id: str) -> None:
        """See `ReMe.retry_job`."""
        self._run(self._memory.retry_job(job_id, user_id=user_id))

    def drop_job(self, job_id: str, *, user_id: str) -> None:
        """See `ReMe.drop_job`."""
        self._run(self._memory.drop_job(job_id, user_id=user_id))

    def add_memory(
        self,
        content: str,
        *,
        user_id: str,
        memory_type: str = "personal",
        memory_target: str = "self",
        when_to_use: str = "",
        metadata: Mapping[str, JsonValue] | None = None,
        observed_at: datetime | str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        importance: float = 0.5,
        confidence: float = 1.0,
        reason: str = "",
    ) -> Memory:
        """See `ReMe.add_memory`."""
        return self._run(
            self._memory.add_memory(
                content,
                user_id=user_id,
                memory_type=memory_type,
                memory_target=memory_target,
                when_to_use=when_to_use,
                metadata=metadata,
                observed_at=observed_at,
                valid_from=valid_from,
                valid_to=valid_to,
                importance=importance,
                confidence=confidence,
                reason=reason,
            )
        )

    def add_memories(
        self, memories: Sequence[Mapping[str, object]], *, user_id: str, run_id: str | None = None, reason: str = ""
    ) -> list[Memory]:
        """See `ReMe.add_memories`."""
        return self._run(self._memory.add_memories(memories, user_id=user_id, run_id=run_id, reason=reason))

    def get_memory(self, memory_id: str, *, user_id: str) -> Memory:
        """See `ReMe.get_memory`."""
        return self._run(self._memory.get_memory(memory_id, user_id=user_id))

    def update_memory(
        self,
        memory_id: str,
        *,
        user_id: str,
        content: str | None = None,
        when_to_use: str | None = None,
        memory_type: str | None = None,
        memory_target: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        expected_revision: int | None = None,
        reason: str = "",
    ) -> Memory:
        """See `ReMe.update_memory`."""
        return self._run(
            self._memory.update_memory(
                memory_id,
                user_id=user_id,
                content=content,
                when_to_use=when_to_use,
                memory_type=memory_type,
                memory_target=memory_target,
                metadata=metadata,
                valid_from=valid_from,
                valid_to=valid_to,
                importance=importance,
                confidence=confidence,
                expected_revision=expected_revision,
                reason=reason,
            )
        )

    def supersede_memory(
        self,
        memory_id: str,
        content: str,
        *,
        user_id: str,
        when_to_use: str = "",
        metadata: Mapping[str, JsonValue] | None = None,
        observed_at: datetime | str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        reason: str = "",
    ) -> Memory:
        """See `ReMe.supersede_memory`."""
        return self._run(
            self._memory.supersede_memory(
                memory_id,
                content,
                user_id=user_id,
                when_to_use=when_to_use,
                metadata=metadata,
                observed_at=observed_at,
                valid_from=valid_from,
                valid_to=valid_to,
                reason=reason,
            )
        )

    def delete_memory(self, memory_id: str, *, user_id: str, reason: str = "") -> None:
        """See `ReMe.delete_memory`."""
        return self._run(self._memory.delete_memory(memory_id, user_id=user_id, reason=reason))

    def list_memories(
        self,
        *,
        user_id: str,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        keyword: str | None = None,
        as_of: datetime | str | None = None,
        include_superseded: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> MemoryPage:
        """See `ReMe.list_memories`."""
        return self._run(
            self._memory.list_memories(
                user_id=user_id,
                memory_type=memory_type,
                memory_target=memory_target,
                metadata=metadata,
                keyword=keyword,
                as_of=as_of,
                include_superseded=include_superseded,
                limit=limit,
                cursor=cursor,
            )
        )

    def delete_all_memories(self, *, user_id: str) -> Erased:
        """See `ReMe.delete_all_memories`."""
        return self._run(self._memory.delete_all_memories(user_id=user_id))

    def history(self, memory_id: str, *, user_id: str) -> list[Event]:
        """See `ReMe.history`."""
        return self._run(self._memory.history(memory_id, user_id=user_id))

    def undo(self, run_id: str, *, user_id: str) -> UndoResult:
        """See `ReMe.undo`."""
        return self._run(self._memory.undo(run_id, user_id=user_id))

    def get_messages(self, message_ids: Sequence[str], *, user_id: str) -> list[StoredMessage]:
        """See `ReMe.get_messages`."""
        return self._run(self._memory.get_messages(message_ids, user_id=user_id))

    def find_messages(
        self,
        *,
        user_id: str,
        keyword: str | None = None,
        session_id: str | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        limit: int = 50,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> MessagePage:
        """See `ReMe.find_messages`."""
        return self._run(
            self._memory.find_messages(
                user_id=user_id,
                keyword=keyword,
                session_id=session_id,
                start_time=start_time,
                end_time=end_time,
                limit=limit,
                newest_first=newest_first,
                cursor=cursor,
            )
        )

    def get_block(self, block_id: str, *, user_id: str) -> Block:
        """See `ReMe.get_block`."""
        return self._run(self._memory.get_block(block_id, user_id=user_id))

    def list_blocks(
        self, *, user_id: str, session_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> tuple[Sequence[Block], str | None]:
        """See `ReMe.list_blocks`."""
        return self._run(self._memory.list_blocks(user_id=user_id, session_id=session_id, limit=limit, cursor=cursor))

    def flush(self) -> Usage:
        """See `ReMe.flush`."""
        return self._run(self._memory.flush())

    def export(self, path: str | Path, *, user_id: str) -> TransferCounts:
        """See `ReMe.export`."""
        return self._run(self._memory.export(path, user_id=user_id))

    def import_(
        self, path: str | Path, *, user_id: str, progress: Callable[[int], None] | None = None
    ) -> TransferCounts:
        """See `ReMe.import_`."""
        return self._run(self._memory.import_(path, user_id=user_id, progress=progress))

    def stats(self, *, user_id: str) -> Counts:
        """See `ReMe.stats`."""
        return self._run(self._memory.stats(user_id=user_id))


class _MakeSync(Protocol):
    """The signature of `ReMe.sync` on the class: that of `ReMe` itself."""

    def __call__(
        self,
        memory_space: str = "default",
        working_dir: str | Path = ".reme",
        *,
        llm: ChatModel | Settings | Unset | None = ...,
        embedding: Embedder | Settings | Unset | None = ...,
        vector_store: Store | Settings | None = None,
        use_agentic_mode: bool = False,
        use_reviser: bool = False,
        language: Language | None = None,
        embed_messages: bool = True,
        slicing: Slicing | None = None,
        trying: RetryPolicy | None = None,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
        timezone: str = UTC_NAME,
    ) -> SyncReMe:
        """Make a memory whose calls block."""
        ...


class SyncDescriptor:
    """`ReMe.sync(...)` takes the arguments of `ReMe` and makes a blocking memory; `memory.sync()` wraps an open one."""

    @overload
    def __get__(self, memory: None, kind: type[ReMe]) -> _MakeSync: ...

    @overload
    def __get__(self, memory: ReMe, kind: type[ReMe]) -> Callable[[], SyncReMe]: ...

    def __get__(self, memory: ReMe | None, kind: type[ReMe]) -> _MakeSync | Callable[[], SyncReMe]:
        """Return what makes the face, for the class or for one memory."""
        if memory is None:
            return _sync_of(kind)
        return lambda: SyncReMe(memory)


def _sync_of(kind: type[ReMe]) -> _MakeSync:
    def make(*arguments: object, **settings: object) -> SyncReMe:  # the signature is that of _MakeSync
        return SyncReMe(kind(*arguments, **settings))  # type: ignore[arg-type]  # checked by _MakeSync

    return make
