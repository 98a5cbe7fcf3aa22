"""ReMeLight: the file-based working style of ReMe 0.3 over today's memory, its files and its working memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import JsonValue

from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.facade.parts import UNSET, Settings, Unset
from reme_core.facade.reme import ReMe
from reme_core.facade.strategies import RuntimePorts
from reme_core.files import FileMemory, Folders
from reme_core.files.folder import OUR_FOLDER
from reme_core.files.journal_agent import JournalDistiller
from reme_core.files.record import RETENTION_DAYS
from reme_core.files.search import FileHit, FileText
from reme_core.ports import ChatModel, Clock, Embedder, TokenCounter
from reme_core.schema import Message, SummaryResult, make_scope, new_id
from reme_core.schema.checks import not_among
from reme_core.steps.distillation import Guidance
from reme_core.tools.files import EditFileOp, FileMemoryOp, WriteFileOp, file_tools
from reme_core.working.in_context import InContextMemory
from reme_core.working.messages_to_keep import ContextCheck, ContextLimits

if TYPE_CHECKING:
    from typing import Any

_RENAMED = {"model_name": "model", "dimensions": "dimension"}
T = TypeVar("T")
_WINDOW, _RATIO, _RESERVE = 128_000, 0.7, 10_000
_NO_CUT = 1 << 40  # bytes: a tool result of this length there is not


@dataclass(frozen=True, slots=True)
class _Journal:
    """Settings of the distiller whose memories are the journal's."""

    folders: Folders
    guidance: Guidance = field(default_factory=Guidance)

    def bind_distiller(self, ports: RuntimePorts) -> JournalDistiller:
        """Return the distiller over these ports (ConfigurationError: no chat model)."""
        model = ports.model_for(None, "writing the journal")
        return JournalDistiller(folders=self.folders, store=ports.store, model=model, clock=ports.clock)


class ReMeLight:
    """A folder as the memory of one person: each call is one of `memory`, a `reme_core.ReMe`, or of `files`.

    The store lies in the folder `.reme` of the working folder, and everything else is files that a person may edit. One
    object is for one session.
    """

    def __init__(
        self,
        *,
        working_dir: str | Path = ".reme",
        default_as_llm_config: ChatModel | Settings | Unset | None = UNSET,
        default_embedding_model_config: Embedder | Settings | Unset | None = UNSET,
        default_file_store_config: Mapping[str, object] | None = None,
        enable_load_env: bool = True,
        user_name: str = "user",
        session_id: str | None = None,
        retention_days: float = RETENTION_DAYS,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Keep the settings; nothing is touched before `start` or the first call.

        Args:
            working_dir: The folder.
            default_as_llm_config: The chat model; `model_name` is read as `model`.
            default_embedding_model_config: The embedding model; `model_name` and `dimensions` are read.
            default_file_store_config: `vector_enabled=False` leaves the search to words, which it has in any case
                (`fts_enabled`).
            enable_load_env: Whether the environment names the models that are left out.
            user_name: Whose folder it is.
            session_id: The session; by default a new one.
            retention_days: How long files in `tool_result` stay.
            token_counter: As for `ReMe`.
            clock: As for `ReMe`.

        Raises:
            ConfigurationError: Settings that can't be used.
        """
        root = Path(working_dir).expanduser()
        llm, embedding = renamed(default_as_llm_config), renamed(default_embedding_model_config)
        if not enable_load_env:
            llm, embedding = None if llm is UNSET else llm, None if embedding is UNSET else embedding
        self.session_id = session_id or new_id()
        self.user_name = user_name
        folders = Folders(users={user_name: root}, retention_days=retention_days)
        self.memory = ReMe(
            working_dir=root / OUR_FOLDER,
            llm=llm,
            embedding=embedding if _wants_vectors(default_file_store_config) else None,
            files=folders,
            token_counter=token_counter,
            clock=clock,
        )
        if self.memory.llm is not None:
            self.memory.set_summarizer(_Journal(folders))
        self._scope = make_scope(self.memory.memory_space, user_name)
        self.files = FileMemory(root, user_id=user_name, memory=self.memory)
        self._adding: list[asyncio.Task[SummaryResult]] = []

    async def start(self) -> None:
        """Take over what changed in the folder, remove old files of tool results, go on with what was left undone."""
        await self.memory.__aenter__()
        await self._look()

    async def close(self) -> None:
        """Finish what goes on in the background and remove old files of tool results; see `ReMe.close`."""
        try:
            await self._added()
        finally:
            if self.memory.folders is not None:
                self.memory.folders.start(self._scope)
            await self.memory.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def check_context(
        self, messages: Sequence[object], memory_compact_threshold: int = 90_000, memory_compact_reserve: int = _RESERVE
    ) -> ContextCheck:
        """Count a context; the answer unpacks into messages to compact, messages to keep, and whether that is valid."""
        limits = ContextLimits(max_tokens=memory_compact_threshold, reserve_tokens=memory_compact_reserve)
        return await self.memory.check_context(messages, limits=limits)

    async def compact_memory(
        self,
        messages: Sequence[object],
        previous_summary: str = "",
        max_input_length: int = _WINDOW,
        compact_ratio: float = _RATIO,
        language: str = "",
    ) -> str:
        """Summarise messages together with the summary so far: the messages are in `dialog`, that in `tool_result`."""
        compacted = await self.memory.compact_memory(
            messages,
            user_id=self.user_name,
            session_id=self.session_id,
            previous_summary=previous_summary,
            limits=ContextLimits(max_input_length=max_input_length, compact_ratio=compact_ratio),
            language="zh" if language == "zh" else "en" if language == "en" else None,
        )
        await self._follow()
        return compacted.compressed_summary

    async def compact_tool_result(
        self,
        messages: Sequence[object],
        recent_n: int = 1,
        recent_max_bytes: int = 102_400,
        old_max_bytes: int = 3_000,
    ) -> list[Message]:
        """Cut long tool results; each whole is `tool_result/<id>.txt`, under the id that the cut one names."""
        limits = ContextLimits(recent_n=recent_n, recent_max_bytes=recent_max_bytes, old_max_bytes=old_max_bytes)
        cut = await self.memory.compact_tool_result(
            messages, user_id=self.user_name, session_id=self.session_id, limits=limits
        )
        await self._follow()
        return cut

    async def pre_reasoning_hook(
        self,
        messages: Sequence[object],
        system_prompt: str = "",
        compressed_summary: str = "",
        max_input_length: int = _WINDOW,
        compact_ratio: float = _RATIO,
        memory_compact_reserve: int = _RESERVE,
        enable_tool_result_compact: bool = True,  # noqa: FBT001, FBT002  # the older signature
        tool_result_compact_keep_n: int = 3,
    ) -> tuple[list[Message], str]:
        """Bring a context below its limit: return the messages that stay, and the summary; the journal follows."""
        limits = ContextLimits(
            max_input_length=max_input_length,
            compact_ratio=compact_ratio,
            reserve_tokens=memory_compact_reserve,
            recent_n=tool_result_compact_keep_n,
        )
        if not enable_tool_result_compact:
            limits = replace(limits, recent_max_bytes=_NO_CUT, old_max_bytes=_NO_CUT)
        prepared = await self.memory.pre_reasoning_hook(
            messages,
            user_id=self.user_name,
            session_id=self.session_id,
            system_prompt=system_prompt,
            compressed_summary=compressed_summary,
            limits=limits,
        )
        await self._follow()
        return list(prepared.messages), prepared.compressed_summary

    async def summary_memory(
        self, messages: Sequence[object], language: str = "", *, background: bool = False
    ) -> SummaryResult:
        """Write what messages leave to be looked up into the journal: a small agent with the file tools does.

        The messages are on disk first. Without a model the journal quotes them.

        Args:
            messages: In the forms that `ReMe.summary` takes.
            language: Of what is written; by default that of the conversation.
            background: Return once the messages are on disk; `await_summary_tasks` waits for the rest.

        Raises:
            PartialFailureError: The messages are on disk; the journal is tried again later.
        """
        wish = f"Write the journal in the language {language!r}." if language and self.memory.llm is not None else None
        result = await self.memory.summary(
            messages,
            user_id=self.user_name,
            session_id=self.session_id,
            background=background,
            instructions=wish,
        )
        await self._follow()
        return result

    def add_async_summary_task(self, messages: Sequence[object], language: str = "") -> asyncio.Task[SummaryResult]:
        """Write the journal in the background; needs a running event loop.

        Once the task that is returned is done, a job on disk outlives the process. Who doesn't await it is told what
        failed by `await_summary_tasks` or `close`.
        """
        task = asyncio.ensure_future(self.summary_memory(list(messages), language, background=True))
        self._adding.append(task)
        return task

    async def await_summary_tasks(self) -> str:
        """Wait until the journal is written; say so (PartialFailureError: some of it failed, and waits)."""
        await self._added()
        await self.memory.flush()
        return "The journal is written."

    async def _added(self) -> None:
        """Wait until what was begun is on disk; the first failure is raised, behind the others' end."""
        adding, self._adding = self._adding, []
        ended = await asyncio.gather(*adding, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, BaseException):
                raise failure

    async def memory_search(self, query: str, max_results: int = 5, min_score: float = 0.1) -> list[FileHit]:
        """Return the best lines and passages of the files, each with its file, lines, score and text, best first."""
        await self._look()
        return await self.files.memory_search(query, max_results=max_results, min_score=min_score)

    async def memory_get(self, path: str, offset: int = 1, limit: int | None = None) -> FileText:
        """Return lines of a file from line `offset` on, `limit` of them; see `FileMemory.memory_get`."""
        if limit is not None and limit < 1:
            msg = f"limit: wanted at least one line, found {limit!r}"
            raise InvalidInputError(msg)
        return await self.files.memory_get(path, offset, None if limit is None else offset + limit - 1)

    async def read(self, path: str) -> str:
        """Return the text of a file, at most 65,536 characters."""
        return (await self.memory_get(path)).text

    async def write(self, path: str, content: str) -> str:
        """Write a file, over what is there."""
        return await self._do(WriteFileOp(root=self.files.root), path=path, content=content, mode="overwrite")

    async def append(self, path: str, content: str) -> str:
        """Add to the end of a file."""
        return await self._do(WriteFileOp(root=self.files.root), path=path, content=content, mode="append")

    async def edit(self, path: str, old_text: str, new_text: str) -> str:
        """Replace a text that stands once in a file."""
        return await self._do(EditFileOp(root=self.files.root), path=path, old_text=old_text, new_text=new_text)

    def file_tools(self) -> list[FileMemoryOp[Any]]:
        """Return the tools for an agent of yours; see `reme_core.tools.files`."""
        return file_tools(self.files.root, scope=self._scope)

    def get_in_memory_memory(self) -> ReMeInMemoryMemory:
        """Return an object that holds the context of the session; what leaves it goes to `dialog`."""
        context = self.memory.in_context_memory(user_id=self.user_name, session_id=self.session_id)
        return ReMeInMemoryMemory(context)

    async def _do(self, tool: FileMemoryOp[Any], **arguments: str) -> str:
        told = await tool(arguments, self.memory.tool_context(user_id=self.user_name))
        await self._look()
        return told

    async def _look(self) -> None:
        if self.memory.folders is not None:
            await self.memory.folders.look(self._scope)

    async def _follow(self) -> None:
        if self.memory.folders is not None:
            await self.memory.folders.join()


class ReMeInMemoryMemory:
    """The context of a session under its older names, over an `InContextMemory`, which `context` is."""

    def __init__(self, context: InContextMemory) -> None:
        """Keep the context."""
        self.context = context

    async def add(self, messages: object, marks: object = ()) -> None:
        """Add a message or several at the end."""
        self.context.add(messages, marks=marks)

    async def get_memory(
        self, mark: str | None = None, exclude_mark: str | None = None, *, prepend_summary: bool = True
    ) -> list[Message]:
        """Return the messages, those with a mark or without one, behind the summary of what has left."""
        return self.context.messages(mark=mark, exclude_mark=exclude_mark, include_summary=prepend_summary)

    async def estimate_tokens(self, max_input_length: int = _WINDOW) -> dict[str, float]:
        """Return how full a window is: `messages_tokens`, `estimated_tokens`, and `context_usage_ratio` in percent."""
        use = self.context.estimate_tokens()
        return {
            "messages_tokens": use.messages,
            "estimated_tokens": use.tokens,
            "max_input_length": max_input_length,
            "context_usage_ratio": 100 * use.tokens / max_input_length,
        }

    async def mark_messages_compressed(self, messages: Sequence[Message]) -> int:
        """Take messages out, which are in `dialog` then; return how many."""
        return await self.context.delete([message.message_id for message in messages])

    async def clear_content(self) -> None:
        """Take all messages out, which are in `dialog` then."""
        await self.context.clear()

    def state_dict(self) -> dict[str, JsonValue]:
        """Return messages, marks and summary as JSON."""
        return self.context.state_dict()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Put back what `state_dict` gave (InvalidInputError)."""
        self.context.load_state_dict(state)


def _wants_vectors(settings: Mapping[str, object] | None) -> bool:
    for name in settings or {}:
        if name not in {"fts_enabled", "vector_enabled"}:
            raise ConfigurationError(not_among("default_file_store_config", name, ("fts_enabled", "vector_enabled")))
    return bool((settings or {}).get("vector_enabled", True))


def renamed(settings: T | Settings) -> T | Settings:
    """Return settings with the names of today; what is no dictionary of settings comes back as it is."""
    if not isinstance(settings, Mapping):
        return settings
    return {_RENAMED.get(name, name): value for name, value in settings.items()}
