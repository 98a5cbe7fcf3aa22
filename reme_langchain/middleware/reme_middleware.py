"""`ReMeMiddleware`: an agent that remembers, with a context that fits."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TypeVar

from langchain.agents.middleware.internal_call_transformer import InternalCallTransformer
from langchain.agents.middleware.types import (
    AgentMiddleware,
    ContextT,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ResponseT,
)
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from reme_core import ContextLimits, EventLoopThread
from reme_core.adapting import RELOAD_TOOL, Appends
from reme_core.errors import ConfigurationError, StoreClosedError, StoreError
from reme_core.schema import Message, shown
from reme_core.tools.prompt_blocks import PromptBlocks
from reme_langchain._block_tools import BlockEditor, revision_note
from reme_langchain._opening import ClosedOnExit, MemoryOrPath, open_memory
from reme_langchain._owner import Owner, check_owner
from reme_langchain._place import (
    BLOCK,
    CAPTURED,
    OWNER,
    SESSION,
    HookContext,
    ReMeState,
    find_hook_context,
    internal_calls,
)
from reme_langchain.middleware._capture import append, as_said, behind, deliver_old, find_left, note_left, session_of
from reme_langchain.middleware._compaction import CompactedRequest, ContextCompactor, ModelContext, with_update
from reme_langchain.middleware._offloading import create_reload_tool, shorten_result
from reme_langchain.middleware._own_messages import OurMessagesTransformer
from reme_langchain.middleware._recall import recall, with_block
from reme_langchain.middleware._settings import Capture, Compact, Offload, Recall
from reme_langchain.tools import create_memory_tools

__all__ = ["Capture", "Compact", "Offload", "ReMeMiddleware", "Recall"]

T = TypeVar("T")

_LOG = logging.getLogger("reme")

_DEFAULT_RECALL, _DEFAULT_CAPTURE, _DEFAULT_OFFLOAD = Recall(), Capture(), Offload()
_CLOSE_S = 5.0
_MEMORY_TOOLS = ("search_memory", "save_memory", "update_memory", "forget_memory")


class ReMeMiddleware(ClosedOnExit, AgentMiddleware[ReMeState[ResponseT], ContextT, ResponseT]):
    """Recalls what helps, keeps what is said, compacts long contexts and puts long tool results on disk.

    Each of the four can be set, or left out by None. Whose memory it is is asked for in every call: `owner`, else
    `user_id` of the run's context, else `user_id` of its configuration; a run without one is a ValueError.

    Sync and async calls, event loops and threads may share one. Nothing is opened before the first call. What is said
    in a turn is on disk, and found, when the turn is over; where that takes longer than a moment it goes on behind the
    reply, and `close`, or the end of the process, waits for it.
    """

    transformers = (InternalCallTransformer, OurMessagesTransformer)

    def __init__(
        self,
        memory: MemoryOrPath = None,
        *,
        owner: Owner = None,
        recall: Recall | None = _DEFAULT_RECALL,
        capture: Capture | None = _DEFAULT_CAPTURE,
        compact: Compact | None = None,
        offload: Offload | None = _DEFAULT_OFFLOAD,
        tools: Collection[str] = ("search_memory", RELOAD_TOOL),
        memory_blocks: bool | Sequence[str] = False,
        name: str | None = None,
    ) -> None:
        """Keep the settings.

        Args:
            memory: A `ReMe`, the path of one, or None for the default folder.
            owner: Whose memory: a user id, or a function of the runtime that says it.
            recall: What is recalled when a run begins; None: nothing.
            capture: How what was said becomes memory; None: it does not.
            compact: When a context is compacted; None: never.
            offload: Which tool results are put on disk; None: none.
            tools: What the model may call: `search_memory`, `save_memory`, `update_memory`, `forget_memory`,
                `reload_context`.
            memory_blocks: Show the model the user's memory blocks at the end of the system prompt, as they are at each
                call, and let it edit them by `memory_insert`, `memory_replace` and `memory_rethink`: True for all, or
                the labels of some.
            name: Tells several of one agent apart.

        Raises:
            ConfigurationError: Something that can't be used, naming it.
            ValueError: `owner` is no user id.
        """
        super().__init__()
        _check_settings({"recall": recall, "capture": capture, "compact": compact, "offload": offload, "name": name})
        check_owner(owner)
        self._memory, self._owns = open_memory(memory)
        self._owner = owner
        self._name = name or type(self).__name__
        self._recall, self._capture, self._offload = recall, capture, offload
        self._has_begun = False
        self._loop = EventLoopThread(self)
        self._blocks = PromptBlocks(memory_blocks)
        self._compaction = None if compact is None else ContextCompactor(self._memory, compact)
        self._appends = Appends(self._name, end_s=_CLOSE_S if capture is None else capture.close_s)
        self.state_schema = ReMeState
        self.tools: Sequence[BaseTool] = self._make_tools(tools)

    def __repr__(self) -> str:
        """Name it and its memory."""
        return f"{type(self).__name__}({self._memory!r}, name={self._name!r})"

    @property
    def name(self) -> str:
        """What LangChain tells it by."""
        return self._name

    @property
    def last_error(self) -> Exception | None:
        """Why turns are not on disk yet; None while all is well."""
        return self._appends.last_error

    def pending(self) -> int:
        """Return how many pieces of turns are not on disk yet."""
        return self._appends.pending

    def drain(self, timeout_s: float = 5.0) -> bool:
        """Put on disk what is not there yet, and return whether nothing is left. Blocks for at most so long."""
        if not self._appends.pending or self._loop.ended:
            return not self._appends.pending
        return self._submitted(self._appends.flush(timeout_s)).result()

    def close(self) -> None:
        """Wait for what is not on disk yet, for a bounded time, and end the thread; a memory handed in stays open."""
        self.drain(_CLOSE_S if self._capture is None else self._capture.close_s)
        self._loop.end(self._close_memory())

    async def aclose(self) -> None:
        """Do what `close` does."""
        await asyncio.to_thread(self.close)

    def before_agent(self, state: ReMeState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, object] | None:
        """Capture what an earlier run left, and recall what helps with what the user says."""
        place = self._place(state, runtime)
        with internal_calls():
            return self._loop.run(self._begin(state, place))

    async def abefore_agent(self, state: ReMeState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, object] | None:
        """Do what `before_agent` does."""
        place = self._place(state, runtime)
        with internal_calls():
            return await self._begin(state, place)

    def after_agent(self, state: ReMeState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, object] | None:
        """Put on disk what was said; memories follow in the background."""
        if self._capture is None:
            return None
        place = self._place(state, runtime)
        return self._loop.run(self._end(self._capture, state, place))

    async def aafter_agent(self, state: ReMeState[ResponseT], runtime: Runtime[ContextT]) -> dict[str, object] | None:
        """Do what `after_agent` does."""
        if self._capture is None:
            return None
        return await self._end(self._capture, state, self._place(state, runtime))

    def wrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]],
    ) -> ModelResponse[ResponseT] | AIMessage | ExtendedModelResponse[ResponseT]:
        """Show the memory blocks; compact the context where it is over its budget, in the request and in the thread."""
        place = self._place(request.state, request.runtime)
        request = with_block(request, place.notes.get(BLOCK))
        if self._compaction is None and not self._blocks:
            return handler(request)
        with internal_calls():
            request, update, notes = self._loop.run(self._prepare(request, place))
        answer = handler(request)
        return with_update(answer, update, notes) if update or notes else answer

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelResponse[ResponseT] | AIMessage | ExtendedModelResponse[ResponseT]:
        """Do what `wrap_model_call` does."""
        place = self._place(request.state, request.runtime)
        request = with_block(request, place.notes.get(BLOCK))
        with internal_calls():
            request, update, notes = await self._prepare(request, place)
        answer = await handler(request)
        return with_update(answer, update, notes) if update or notes else answer

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[object]]
    ) -> ToolMessage | Command[object]:
        """Put a long result on disk, and hand on its beginning and end."""
        if self._offload is None:
            return handler(request)
        place = self._place(request.state, request.runtime)
        result = handler(request)
        tool = request.tool_call["name"]
        return self._loop.run(shorten_result(self._memory, self._offload, place, result, tool=tool))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[object]]]
    ) -> ToolMessage | Command[object]:
        """Do what `wrap_tool_call` does."""
        if self._offload is None:
            return await handler(request)
        place = self._place(request.state, request.runtime)
        result = await handler(request)
        return await shorten_result(self._memory, self._offload, place, result, tool=request.tool_call["name"])

    def _place(self, state: object, runtime: object) -> HookContext:
        if self._loop.ended:
            msg = f"{self!r} was closed: make a new one"
            raise StoreClosedError(msg)
        return find_hook_context(self._owner, self._name, state, runtime)

    def _place_of_tool(self, runtime: ToolRuntime | None) -> HookContext:
        return self._place(None if runtime is None else runtime.state, runtime)

    def _make_tools(self, names: Collection[str]) -> list[BaseTool]:
        if isinstance(names, str) or not set(names) <= {*_MEMORY_TOOLS, RELOAD_TOOL}:
            msg = f"tools: wanted some of {', '.join((*_MEMORY_TOOLS, RELOAD_TOOL))}, found {shown(names)}"
            raise ConfigurationError(msg)
        wanted = tuple(name for name in _MEMORY_TOOLS if name in names)
        made = create_memory_tools(self._memory, owner=self._owner, names=wanted) if wanted else []
        if RELOAD_TOOL in names and (self._offload is not None or self._compaction is not None):
            limits = ContextLimits() if self._compaction is None else self._compaction.limits
            made.append(create_reload_tool(self._memory, self._loop, self._place_of_tool, limits))
        if self._blocks:
            editor = BlockEditor(
                memory=self._memory,
                blocks=self._blocks,
                loop=self._loop,
                owner=self._owner,
                find_place=self._place_of_tool,
            )
            made += editor.tools()
        return made

    async def _close_memory(self) -> None:
        if self._owns:
            await self._memory.close()

    async def _begin(self, state: ReMeState[ResponseT], place: HookContext) -> dict[str, object] | None:
        messages = state["messages"]
        notes: dict[str, str] = {}
        update: dict[str, object] = {}
        if not place.has_thread:
            notes[SESSION] = place.session_id
        if self._capture is not None:
            notes |= await self._capture_left(self._capture, place, messages)
        is_frozen = BLOCK in place.notes and place.notes.get(OWNER, place.user_id) == place.user_id
        if self._recall is not None and (self._recall.where == "message" or not is_frozen):
            frozen = self._recall.where == "system"
            found = await recall(self._memory, self._recall, place, messages, again=frozen)
            if frozen:
                notes[BLOCK] = "" if found is None else found.text
            elif found is not None:
                update["messages"] = [found.as_message()]
        if notes:
            update |= self._update(notes)
        return update or None

    async def _capture_left(self, capture: Capture, place: HookContext, messages: list[AnyMessage]) -> dict[str, str]:
        """Capture what an earlier run of the thread left, for the user whose run it was.

        Behind the last answer words may be of either: they are nobody's. What another user left is noted until it is
        on disk, since the cursor goes past it.
        """
        owner = place.notes.get(OWNER, place.user_id)
        left, others = find_left(messages, place, owner)
        waiting = []
        for other in others:
            theirs = other.within(messages)
            if theirs and not await self._capture_now(
                capture, replace(place, user_id=other.user_id), theirs, begins=True
            ):
                waiting.append(other)
        notes = (note_left(waiting) if others else {}) | ({OWNER: place.user_id} if place.has_thread else {})
        is_mine = owner == place.user_id
        noted = await self._capture_now(capture, place, left if is_mine else [], begins=True)
        return notes | (noted if is_mine or not left else _cursor_at(left[-1]))

    async def _end(self, capture: Capture, state: ReMeState[ResponseT], place: HookContext) -> dict[str, object] | None:
        notes = await self._capture_now(capture, place, behind(state["messages"], place.notes.get(CAPTURED)))
        return self._update(notes) if notes else None

    async def _prepare(
        self, request: ModelRequest[ContextT], place: HookContext
    ) -> tuple[ModelRequest[ContextT], list[BaseMessage], dict[str, object]]:
        """Return what is sent, and what the thread is told with the answer: messages, and what is noted."""
        notes: dict[str, str] = {}
        update: list[BaseMessage] = []
        if self._blocks:
            shown = await self._blocks.read(self._memory, place.user_id)
            request = with_block(request, shown.text)
            notes = revision_note(shown, place)
        if self._compaction is not None:
            fitted, captured = await self._fit(self._compaction, request, place)
            if fitted is not None:
                request, update = request.override(messages=fitted.messages), fitted.update
            notes |= captured
        return request, update, self._update(notes) if notes else {}

    async def _fit(
        self, compaction: ContextCompactor, request: ModelRequest[ContextT], place: HookContext
    ) -> tuple[CompactedRequest | None, dict[str, str]]:
        """Return what is sent instead, if anything, and what is noted with it."""
        context = ModelContext(messages=request.messages, system=request.system_message, tools=request.tools)
        messages = request.state.get("messages", request.messages)
        notes: dict[str, str] = {}

        async def capture_whole(capture: Capture, leaving: Sequence[Message]) -> None:
            """Have messages captured as they were said, before they are cut."""
            if leaving:
                return  # they are captured by now
            notes.update(await self._capture_now(capture, place, behind(messages, place.notes.get(CAPTURED))))

        before = None if self._capture is None else partial(capture_whole, self._capture)
        fitted = await compaction.fit(context, messages, place, before)
        return fitted, notes

    async def _capture_now(
        self, capture: Capture, place: HookContext, messages: Sequence[AnyMessage], *, begins: bool = False
    ) -> dict[str, str]:
        """Put messages on disk; return what to note: nothing where that takes longer than a reply has time.

        Raises:
            StoreError: They are not on disk, and there is no thread of which the next run would capture them.
        """
        session = session_of(place)
        if not self._has_begun:
            self._has_begun = True
            self._appends.put(session, partial(deliver_old, self._memory))
        if messages:
            said = as_said(messages, self._memory.clock.now())
            write = partial(append, self._memory, place, said, memory_type=capture.memory_type, begins=begins)
            self._appends.put(session, write)
        is_done = await asyncio.wrap_future(self._submitted(self._appends.wait(session, begins_reply=begins)))
        if is_done:
            return _cursor_at(messages[-1]) if messages else {}
        error = self._appends.error_of(session)
        if error is not None and not (place.has_thread and isinstance(error, StoreError)):
            self._appends.drop(session)
            raise error
        return {}

    def _submitted(self, call: Coroutine[object, object, T]) -> Future[T]:
        # In a context of its own: that of the caller, a run of a graph, ends long before what follows from a turn does.
        return contextvars.Context().run(self._loop.submit, call)

    def _update(self, notes: dict[str, str]) -> dict[str, object]:
        return {"reme": {self._name: notes}}


def _cursor_at(message: AnyMessage) -> dict[str, str]:
    """Note that all is captured up to a message; one without an id, which only a graph gives, can't be found again."""
    return {} if message.id is None else {CAPTURED: message.id}


def _check_settings(given: Mapping[str, object]) -> None:
    """Refuse what is no setting (ConfigurationError): it would be seen in the middle of a run."""
    wanted: dict[str, type] = {
        "recall": Recall,
        "capture": Capture,
        "compact": Compact,
        "offload": Offload,
        "name": str,
    }
    for setting, value in given.items():
        if value is not None and not isinstance(value, wanted[setting]):
            msg = f"{setting}: wanted {wanted[setting].__name__} or None, found {shown(value)}"
            raise ConfigurationError(msg)
