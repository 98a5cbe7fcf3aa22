"""`ReMeMiddleware`: long-term memory for agents of AgentScope 2.x."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from agentscope.embedding import EmbeddingModelBase
from agentscope.event import ModelCallStartEvent, ReplyEndEvent, ReplyStartEvent
from agentscope.message import Msg
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatModelBase
from agentscope.tool import ToolBase
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from reme_agentscope._shared.recorded_text import query_text
from reme_agentscope.v2._increment import SEARCH_TOOL, added, keys_in, known_after
from reme_agentscope.v2._notes import choose, held_in, note_of, read_ledger, search_memories, write_ledger
from reme_agentscope.v2._opening import OpenedMemory, told, user_of
from reme_agentscope.v2.tools import SearchMemoryTool
from reme_core.adapting import Appends
from reme_core.errors import ReMeError
from reme_core.schema import Message
from reme_core.schema.plain import clean_text, usable_id

if TYPE_CHECKING:
    from agentscope.agent import Agent

    from reme_core import Hit, ReMe

_LOG = logging.getLogger("reme_agentscope")

# A question longer than this is its end: that is where people ask.
_QUERY_CHARS = 4_000
_INSTRUCTIONS = (
    "## Long-term memory\n\n"
    f"Use the `{SEARCH_TOOL}` tool whenever the answer may depend on something said in an earlier conversation: a "
    "name, a preference, a decision. What is said is remembered by itself; there is nothing to save."
)


class ReMeMiddleware(MiddlewareBase):
    """Shows an agent what is known from earlier conversations, and remembers this one.

    `static_control` searches when a reply begins and puts what is found into the context; `agent_control` offers the
    tool `memory_search` instead; `both` does both. Each reply is on disk, and found, when it is over, in all three;
    where that takes longer than a moment it goes on behind the reply.

    Whose memory it is says `parameters.user_name`, never a model or a message; the session is the agent's. One
    middleware may serve any number of agents: what it knows of a talk lies in the agent's state.

    Nothing is opened before the first reply. `flush` waits for everything that is written; `close` also closes what
    was built here. A service that makes middlewares anew for each turn keeps one memory and hands it to all: `reme=`.
    """

    class Parameters(BaseModel):
        """What a user may set; the agent service makes a form of the schema."""

        model_config = ConfigDict(arbitrary_types_allowed=True)

        chat_model: Annotated[ChatModelBase | None, SkipJsonSchema()] = Field(
            default=None,
            title="Chat Model",
            description="Makes memories of what is said. Without one, what was said is found by its words.",
        )
        embedding_model: Annotated[EmbeddingModelBase[str] | None, SkipJsonSchema()] = Field(
            default=None, title="Embedding Model", description="Finds by meaning what was said in other words."
        )
        mode: Literal["static_control", "agent_control", "both"] = Field(
            default="both",
            title="Retrieval Mode",
            description="static_control: memories are shown before each reply. agent_control: the agent searches with "
            "a tool. both: both. What is said is remembered in each mode.",
        )
        top_k: int = Field(default=5, ge=1, title="Top K", description="At most so many memories are shown at once.")
        search_timeout: float = Field(
            default=2.0, ge=0, title="Search Timeout", description="Seconds that a reply waits for its memories."
        )
        await_write: bool = Field(
            default=False,
            title="Await Write",
            description="Whether a reply ends only when memories are made of it, instead of in the background.",
        )
        user_name: str | None = Field(
            default=None, title="User Name", description="Whose memories these are; users never share any."
        )

    def __init__(
        self, *, workspace_dir: str = ".reme", parameters: Parameters | None = None, reme: ReMe | None = None
    ) -> None:
        """Keep the settings.

        Args:
            workspace_dir: The folder of the memory, where none is handed in.
            parameters: What a user may set.
            reme: A memory; it stays open, and brings its own models.

        Raises:
            TypeError: Both a memory and models for one.
            InvalidInputError: A user name that can't be one.
        """
        self._parameters = parameters or self.Parameters()
        chat_model, embedding_model = self._parameters.chat_model, self._parameters.embedding_model
        if reme is not None and (chat_model is not None or embedding_model is not None):
            msg = "reme= brings its own models: leave parameters.chat_model and parameters.embedding_model out"
            raise TypeError(msg)
        self._user_id = user_of(self._parameters.user_name)
        self._memory = OpenedMemory(
            reme, working_dir=workspace_dir, chat_model=chat_model, embedding_model=embedding_model
        )
        self._appends = Appends(type(self).__name__, log=_LOG)

    def __repr__(self) -> str:
        """Name its memory and mode."""
        return f"{type(self).__name__}({self._memory!r}, mode={self._parameters.mode!r})"

    async def __aenter__(self) -> Self:
        """Return it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def get_middleware_key(self) -> str:
        """Return the key of its notes in an agent's state: another user's, or another memory's, are not taken over."""
        return self._key()

    async def list_tools(self) -> list[ToolBase]:
        """Return the tools that go with the mode; pass them to the agent's toolkit, which this never changes."""
        if self._parameters.mode == "static_control":
            return []
        return [SearchMemoryTool(self._memory, user_id=self._user_id, top_k=self._parameters.top_k)]

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:
        """Name the tool, where there is one."""
        if self._parameters.mode == "static_control":
            return current_prompt
        return f"{current_prompt}\n\n{_INSTRUCTIONS}"

    async def on_reply(
        self,
        agent: Agent,
        input_kwargs: dict[str, Any],
        next_handler: Callable[..., AsyncGenerator[Any, None]],
    ) -> AsyncGenerator[Any, None]:
        """Show what is known before the first model call, and record afterwards what the reply added.

        What a reply added before it failed is recorded at once; that of one that is cut off with the next one of the
        same state.
        """
        inputs = input_kwargs.get("inputs")
        is_recorded = inputs is not None and inputs != []
        await self._appends.wait(_session_of(agent), begins_reply=True)  # it finds what was said before
        if is_recorded:
            self._begin(agent)
        search = self._start_search(inputs)
        try:
            async with aclosing(next_handler(**input_kwargs)) as items:
                async for item in items:
                    if search is not None:
                        search = await self._show(agent, search, item)
                    if is_recorded and isinstance(item, ReplyEndEvent):
                        await self._record(agent)  # at once: some callers leave here
                    yield item
        except Exception:
            if is_recorded:
                await self._record(agent)
            raise
        finally:
            if search is not None:
                search.cancel()
        if is_recorded:
            await self._end(agent)

    async def on_compress_context(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[None]]
    ) -> None:
        """Record what is about to leave the context, and let what left be shown again."""
        before = agent.state.context
        try:
            await next_handler(**input_kwargs)
        finally:  # one that is cancelled may have been done all the same
            if agent.state.context is not before:
                self._let_go(agent, before)
                await self._appends.wait(_session_of(agent))

    async def flush(self) -> None:
        """Wait until everything handed in is on disk and memories are made of it; what fails is logged."""
        await self._appends.flush()
        await self._memory.finish_jobs()

    async def close(self) -> None:
        """Do what `flush` does, and close what was built here; the next reply would open it again."""
        await self.flush()
        await self._memory.close()

    def _key(self) -> str:
        return f"reme:{json.dumps([*self._memory.place, self._user_id], ensure_ascii=False)}"

    def _start_search(self, inputs: object) -> asyncio.Task[list[Hit]] | None:
        query = _query_of(inputs)
        if not query or self._parameters.mode == "agent_control":
            return None
        return asyncio.create_task(self._search(query), name="ReMeMiddleware: search")

    async def _search(self, query: str) -> list[Hit]:
        try:
            return await search_memories(self._memory.get(), query, user_id=self._user_id, limit=self._parameters.top_k)
        except Exception as exc:  # noqa: BLE001  # an agent answers without memories, whatever a model or store has
            _LOG.error("no memories were found for this reply: %s", told(exc))
            return []

    async def _show(
        self, agent: Agent, search: asyncio.Task[list[Hit]], item: object
    ) -> asyncio.Task[list[Hit]] | None:
        """Add the note where one is due, and return the search while it is to be asked for again.

        When a reply starts the user's message is in the context and nothing else is; before a model call, no tool call
        waits for its result.
        """
        if isinstance(item, ReplyStartEvent):
            await asyncio.wait({search}, timeout=self._parameters.search_timeout)
        elif not isinstance(item, ModelCallStartEvent):
            return search
        if not search.done():
            return search
        if not search.cancelled():
            try:
                self._add_note(agent, search.result(), reply_id=item.reply_id)
            except ValueError as exc:  # a block that the core can't hold must not cost the reply
                _LOG.error("no memories were shown for this reply: %s", told(exc))
        return None

    def _add_note(self, agent: Agent, hits: Sequence[Hit], *, reply_id: str) -> None:
        if not hits:
            return
        context = agent.state.context
        ledger = read_ledger(agent.state, self._key())
        ledger.forget_gone(context)
        chosen = choose(hits, shown=ledger.shown, held=held_in(context), limit=self._parameters.top_k)
        if chosen:
            note, shown = note_of(chosen)
            # Before what the reply has said: AgentScope goes on with its last message, and counts its tokens there.
            begun = (place for place, message in enumerate(context) if message.id == reply_id)
            context.insert(next(begun, len(context)), note)
            ledger.shown |= shown
        write_ledger(agent.state, self._key(), ledger)

    def _begin(self, agent: Agent) -> None:
        """Note what the context holds, unless an earlier reply was cut off: what that added is recorded with this."""
        ledger = read_ledger(agent.state, self._key())
        if ledger.known is None:
            ledger.known = keys_in(agent.state.context)
            write_ledger(agent.state, self._key(), ledger)

    async def _record(self, agent: Agent) -> None:
        """Append what the reply has added, and wait for it as long as a reply has time."""
        ledger = read_ledger(agent.state, self._key())
        if ledger.known is not None:
            self._hand_in(agent, agent.state.context, ledger.known)
            ledger.known = known_after(ledger.known, agent.state.context)
            write_ledger(agent.state, self._key(), ledger)
        await self._appends.wait(_session_of(agent))

    def _let_go(self, agent: Agent, before: Sequence[Msg]) -> None:
        ledger = read_ledger(agent.state, self._key())
        if ledger.known is not None:
            self._hand_in(agent, before, ledger.known)
            ledger.known = known_after([*ledger.known, *keys_in(before)], agent.state.context)
        ledger.forget_gone(agent.state.context)
        write_ledger(agent.state, self._key(), ledger)

    async def _end(self, agent: Agent) -> None:
        await self._record(agent)
        ledger = read_ledger(agent.state, self._key())
        ledger.known = None
        write_ledger(agent.state, self._key(), ledger)
        if self._parameters.await_write:
            await self.flush()

    def _hand_in(self, agent: Agent, context: Sequence[Msg], known: Sequence[str]) -> None:
        session_id = _session_of(agent)
        try:
            messages = self._past(added(context, known))
        except (ValueError, ReMeError) as exc:  # a block that the core can't hold must not cost the reply
            _LOG.error("a reply of session %r was not recorded: %s", session_id, told(exc))
            return
        if messages:
            self._appends.put(session_id, partial(self._append, session_id, messages))

    def _past(self, messages: Sequence[Message]) -> list[Message]:
        """Date messages now that are said later: another machine's clock may be fast, and the future is refused."""
        now = self._memory.get().clock.now()
        return [
            message if message.created_at <= now else message.model_copy(update={"created_at": now})
            for message in messages
        ]

    async def _append(self, session_id: str, messages: Sequence[Message]) -> None:
        """Put messages into the memory; those it has are left alone.

        Several agents are given the same message, and each has it in its own session, under an id of its own.
        """
        await self._memory.get().summary(
            messages, user_id=self._user_id, session_id=session_id, background=True, on_conflict="rename"
        )


def _session_of(agent: Agent) -> str:
    return usable_id(agent.state.session_id)


def _query_of(inputs: object) -> str:
    """Return what is asked: the text of all messages; `""` for events and for nothing."""
    given = inputs if isinstance(inputs, list) else [inputs]
    texts = [message.get_text_content() for message in given if isinstance(message, Msg)]
    return clean_text(query_text(texts))[-_QUERY_CHARS:].strip()
