"""Names of ReMe 0.3 over today's memory: its facade for vectors, that for files, and the stages of its flows.

`from reme_core.compat import ReMe` keeps a program of that version running while it moves; docs/coming_from.md has the
table from its names to ours. A `user_name` is our user id, and nothing crosses it; there it was a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

from pydantic import JsonValue

from reme_core.compat.light import ReMeInMemoryMemory as ReMeInMemoryMemory
from reme_core.compat.light import ReMeLight as ReMeLight
from reme_core.compat.light import renamed
from reme_core.errors import InvalidInputError, MemoryNotFoundError
from reme_core.facade.parts import UNSET, Settings, Unset
from reme_core.facade.reme import ReMe as Memories
from reme_core.ports import ChatModel, Embedder
from reme_core.schema import Memory, RetrieveResult, SummaryResult
from reme_core.schema.checks import not_among
from reme_core.tasks import (
    build_query,
    comparison,
    deduplication,
    failure_extraction,
    preprocess,
    rerank,
    rewrite,
    search,
    segmentation,
    success_extraction,
    validation,
)

T = TypeVar("T")


def _factory(made: T) -> Callable[[], T]:
    """Return a function that gives the same stage each time: the older flows called theirs."""
    return lambda: made


TrajectoryPreprocess = preprocess
TrajectorySegmentation = segmentation
SuccessExtraction = success_extraction
FailureExtraction = failure_extraction
ComparativeExtraction = comparison
MemoryValidation = validation
MemoryDeduplication = deduplication
BuildQuery = _factory(build_query)
MemoryRetrieval = _factory(search)
RerankMemory = _factory(rerank)
RewriteMemory = _factory(rewrite)

_SORT_KEYS: Mapping[str, Callable[[Memory], datetime]] = {
    "time_created": lambda memory: memory.created_at,
    "time_modified": lambda memory: memory.updated_at,
    "message_time": lambda memory: memory.observed_at,
}
_PAGE = 1000

Model: TypeAlias = ChatModel | Settings | Unset | None


class CompatReMe:
    """The facade of ReMe 0.3 for vectors: each call is one of `reme_core.ReMe`, which `memory` is."""

    def __init__(
        self,
        *,
        working_dir: str | Path = ".reme",
        default_llm_config: Model = UNSET,
        default_embedding_model_config: Embedder | Settings | Unset | None = UNSET,
        default_vector_store_config: Settings | None = None,
        memory_space: str = "default",
    ) -> None:
        """Keep the settings; `model_name` and `dimensions` are read as `model` and `dimension`.

        Raises:
            ConfigurationError: Settings that can't be used, or a store that there is none of any more.
        """
        self.memory = Memories(
            memory_space,
            working_dir,
            llm=renamed(default_llm_config),
            embedding=renamed(default_embedding_model_config),
            vector_store=renamed(default_vector_store_config),
        )
        self._users: dict[str, None] = {}

    async def start(self) -> None:
        """Go on with what an earlier process left undone; the file itself opens with the first call."""
        await self.memory.__aenter__()

    async def close(self) -> None:
        """Finish the jobs that are due, and close; see `reme_core.ReMe.close`."""
        await self.memory.close()

    async def summarize_memory(
        self,
        messages: Sequence[object],
        *,
        user_name: str,
        task_name: str | None = None,
        tool_name: str | None = None,
    ) -> SummaryResult:
        """Keep messages and, with a model, make memories of them: of the task or tool alone that is named."""
        kind, target = _about(task_name, tool_name)
        wish = None if target is None else f"The memory_target of every memory is {target!r}."
        with self._noted(user_name):
            return await self.memory.summary(messages, user_id=user_name, memory_type=kind, instructions=wish)

    async def retrieve_memory(
        self,
        query: str,
        *,
        user_name: str,
        task_name: str | None = None,
        tool_name: str | None = None,
        retrieve_top_k: int = 20,
    ) -> RetrieveResult:
        """Find what answers a question; `.text` of the answer is the text that 0.3 returned."""
        kind, target = _about(task_name, tool_name)
        with self._noted(user_name):
            return await self.memory.retrieve(
                query, user_id=user_name, limit=retrieve_top_k, memory_type=kind, memory_target=target
            )

    async def add_memory(
        self,
        memory_content: str,
        *,
        user_name: str,
        task_name: str | None = None,
        tool_name: str | None = None,
        when_to_use: str = "",
        message_time: datetime | str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> Memory:
        """Add one memory, about the user unless a task or a tool is named."""
        kind, target = _about(task_name, tool_name)
        with self._noted(user_name):
            return await self.memory.add_memory(
                memory_content,
                user_id=user_name,
                memory_type="personal" if target is None else kind,
                memory_target=user_name if target is None else target,
                when_to_use=when_to_use,
                observed_at=message_time,
                metadata=metadata,
            )

    async def get_memory(self, memory_id: str, *, user_name: str | None = None) -> Memory:
        """Return a memory of a user or, where none is named, of those whom this object was called with."""
        return (await self._find(memory_id, user_name))[1]

    async def update_memory(
        self,
        memory_id: str,
        *,
        user_name: str | None = None,
        memory_content: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> Memory:
        """Change what is given; whose memory it is: as for `get_memory`."""
        user, _ = await self._find(memory_id, user_name)
        return await self.memory.update_memory(memory_id, user_id=user, content=memory_content, metadata=metadata)

    async def delete_memory(self, memory_id: str, *, user_name: str | None = None) -> None:
        """Remove a memory; whose it is: as for `get_memory`."""
        user, _ = await self._find(memory_id, user_name)
        await self.memory.delete_memory(memory_id, user_id=user)

    async def delete_all(self, *, user_name: str) -> None:
        """Erase everything of one user; whom to erase is never guessed."""
        with self._noted(user_name):
            await self.memory.delete_all_memories(user_id=user_name)

    async def list_memory(
        self, *, user_name: str, limit: int | None = None, sort_key: str | None = None, reverse: bool = True
    ) -> list[Memory]:
        """Return memories, newest first, or by `time_created`, `time_modified` or `message_time`.

        Raises:
            InvalidInputError: An unknown `sort_key`.
        """
        if sort_key is not None and sort_key not in _SORT_KEYS:
            raise InvalidInputError(not_among("sort_key", sort_key, sorted(_SORT_KEYS)))
        found, cursor = list[Memory](), None
        with self._noted(user_name):
            while True:
                page = await self.memory.list_memories(user_id=user_name, limit=_PAGE, cursor=cursor)
                found += page.memories
                cursor = page.next_cursor
                if cursor is None:
                    break
        found.sort(key=_SORT_KEYS[sort_key or "time_created"], reverse=reverse)
        return found[:limit]

    @contextmanager
    def _noted(self, user_name: str) -> Iterator[None]:
        """Note a user once the call within has succeeded: what it was refused for is never looked up."""
        yield
        if isinstance(user_name, str):
            self._users[user_name] = None

    async def _find(self, memory_id: str, user_name: str | None) -> tuple[str, Memory]:
        for user in tuple(self._users) if user_name is None else (user_name,):
            try:
                with self._noted(user):
                    return user, await self.memory.get_memory(memory_id, user_id=user)
            except MemoryNotFoundError:
                continue
        raise MemoryNotFoundError([memory_id], advice="name its user by user_name=")


ReMe = CompatReMe


def _about(task_name: str | None, tool_name: str | None) -> tuple[str, str | None]:
    if task_name is not None and tool_name is not None:
        msg = "task_name and tool_name: a call is about one of them: give one"
        raise InvalidInputError(msg)
    if task_name is not None:
        return "procedural", task_name
    return ("auto", None) if tool_name is None else ("tool", tool_name)
