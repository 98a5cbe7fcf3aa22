"""`ReMeMiddleware`: long-term memory for agents of AgentScope 2.x."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from agentscope.event import ModelCallStartEvent, ReplyEndEvent, ReplyStartEvent
from agentscope.message import Msg
from agentscope.middleware import MiddlewareBase
from agentscope.tool import ToolBase

from reme_agentscope._shared.memory_blocks import UserBlocks
from reme_agentscope._shared.memory_kind import LOG, CallScope, MemoryKind
from reme_agentscope._shared.opening import ClosedAtEnd, OpenedMemory, check_kept, failing_note, logged, told, user_of
from reme_agentscope._shared.recorded_text import choose, digest_of, fitting, query_text, said_in
from reme_agentscope._shared.task_memory import TaskKind
from reme_agentscope._shared.tool_memory import ToolKind
from reme_agentscope.v2 import _parameters
from reme_agentscope.v2._notes import (
    ADD_TOOL,
    SEARCH_TOOL,
    added,
    keys_in,
    known_after,
    note_of,
    note_text,
    read_ledger,
    search_memories,
    write_ledger,
)
from reme_agentscope.v2.tools import AddMemoryTool, BlockTool, SearchMemoryTool
from reme_core.adapting import Appends
from reme_core.errors import ReMeError
from reme_core.schema import Message
from reme_core.schema.plain import clean_text, usable_id

if TYPE_CHECKING:
    from agentscope.agent import Agent

    from reme_core import Hit, ReMe

# A question longer than this is its end: that is where people ask.
_QUERY_CHARS = 4_000
# Of the talk of a context, which is left out of what is found, so much may be found instead of memories.
_MOST_SPARE = 500
_INSTRUCTIONS = (
    "## Long-term memory\n\n"
    f"Use the `{SEARCH_TOOL}` tool whenever the answer may depend on something said in an earlier conversation: a "
    "name, a preference, a decision. What is said is remembered by itself; use "
    f"`{ADD_TOOL}` where the user asks to remember something or corrects what is known."
)
_KINDS: Mapping[str, MemoryKind] = MappingProxyType({"task": TaskKind(), "tool": ToolKind()})
Found: TypeAlias = Sequence[Sequence["Hit"]]


class ReMeMiddleware(ClosedAtEnd, MiddlewareBase):
    """Shows an agent what is known from earlier conversations, and remembers this one.

    `static_control` searches when a reply begins and puts what is found into the context; `agent_control` offers the
    tool `memory_search` instead; `both` does both. Each reply is on disk, and found, when it is over, in all three;
    where that takes longer than a moment it goes on behind the reply.

    Whose memory it is says `parameters.user_name`, never a model or a message; the session is the agent's. One
    middleware may serve any number of agents: what it knows of a talk lies in the agent's state.

    Nothing is opened before the first reply. `flush` waits for everything that is written; `close` also closes what
    was built here. A service that makes middlewares anew for each turn keeps one memory and hands it to all: `reme=`.
    """

    Parameters: TypeAlias = _parameters.Parameters

    def __init__(
        self,
        *,
        workspace_dir: str = ".reme",
        parameters: _parameters.Parameters | None = None,
        reme: ReMe | None = None,
        appends: Appends | None = None,
    ) -> None:
        """Keep the settings.

        Args:
            workspace_dir: The folder of the memory, where none is handed in.
            parameters: What a user may set.
            reme: A memory; it stays open, and brings its own models.
            appends: Writes that are also those of others, and outlive it.

        Raises:
            TypeError: Both a memory and models for one.
            ConfigurationError: Something else than a `ReMe`, a folder whose name can't be one, or no labels of blocks.
            InvalidInputError: A user name that can't be one, such as a blank one.
        """
        self._parameters = parameters or self.Parameters()
        chat_model, embedding_model = self._parameters.chat_model, self._parameters.embedding_model
        if reme is not None and (chat_model is not None or embedding_model is not None):
            msg = "reme= brings its own models: leave parameters.chat_model and parameters.embedding_model out"
            raise TypeError(msg)
        self._user_id = user_of(
            self._parameters.user_name, agent=self._parameters.agent_name, session=self._parameters.session_name
        )
        self._memory = OpenedMemory(
            reme, working_dir=workspace_dir, chat_model=chat_model, embedding_model=embedding_model
        )
        self._blocks = UserBlocks(self._parameters.memory_blocks, self._memory, user_id=self._user_id)
        self._appends = Appends(type(self).__name__, log=LOG) if appends is None else appends

    def __repr__(self) -> str:
        """Name its memory and mode."""
        return f"{type(self).__name__}({self._memory!r}, mode={self._parameters.mode!r})"

    async def get_middleware_key(self) -> str:
        """Return the key of its notes in an agent's state: another user's, or another memory's, are not taken over."""
        return self._key()

    async def list_tools(self) -> list[ToolBase]:
        """Return the tools that go with the mode; pass them to the agent's toolkit, which this never changes."""
        if self._parameters.mode == "static_control":
            return []
        given = self._parameters
        search = SearchMemoryTool(
            self._memory,
            user_id=self._user_id,
            top_k=given.top_k,
            min_score=given.min_score,
            note=lambda: failing_note(self._appends),
        )
        editing = [BlockTool(self._blocks, tool, key=self._key()) for tool in self._blocks.tools()]
        return [search, AddMemoryTool(self._memory, user_id=self._user_id), *editing]

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:
        """Name the tool, where there is one; then the memory blocks, the one part that changes."""
        told = [] if self._parameters.mode == "static_control" else [_INSTRUCTIONS]
        shown = await self._blocks.read()
        if shown is not None:
            ledger = read_ledger(agent.state, self._key())
            ledger.blocks = dict(shown.revisions)
            write_ledger(agent.state, self._key(), ledger)
            told += [shown.text] if shown.text else []
        return "\n\n".join([current_prompt, *told])

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
        search = self._start_search(agent, inputs)
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
        await logged(self._memory.flush())

    async def close(self) -> None:
        """Do what `flush` does, and close what was built here; the next reply would open it again.

        Raises:
            StoreError: Something that was said is not on disk. The memory is closed all the same.
        """
        await self.flush()
        await logged(self._memory.close())
        check_kept(self._appends)

    def _key(self) -> str:
        return f"reme:{json.dumps([*self._memory.place, self._user_id], ensure_ascii=False)}"

    def _start_search(self, agent: Agent, inputs: object) -> asyncio.Task[Found] | None:
        query = _query_of(inputs)
        if not query or self._parameters.mode == "agent_control":
            return None
        return asyncio.create_task(self._search(agent, query), name="ReMeMiddleware: search")

    async def _search(self, agent: Agent, query: str) -> Found:
        """Return what each kind of memory finds, and as much besides as the context may say already."""
        given, spare = self._parameters, min(len(agent.state.context), _MOST_SPARE)
        searches = [partial(self._search_kind, kind, agent, query, given.top_k + spare) for kind in self._kinds]
        if "personal" in given.memory_types:
            searches.insert(0, partial(self._search_personal, query, spare))
        found: list[Sequence[Hit]] = []
        for search in searches:
            try:
                found.append(await search())
            except Exception as exc:  # noqa: BLE001  # an agent answers without memories, whatever a model or store has
                LOG.error("not all memories were found for this reply: %s", told(exc))
        return found

    async def _search_personal(self, query: str, spare: int) -> Sequence[Hit]:
        given = self._parameters
        return await search_memories(
            self._memory.get(),
            query,
            user_id=self._user_id,
            limit=given.top_k,
            spare=spare,
            min_score=given.min_score,
        )

    async def _search_kind(self, kind: MemoryKind, agent: Agent, query: str, limit: int) -> Sequence[Hit]:
        hits = await kind.search(self._place(agent), query, limit)
        return [hit for hit in hits if hit.score >= (self._parameters.min_score or 0.0)]

    @property
    def _kinds(self) -> list[MemoryKind]:
        return [_KINDS[name] for name in _KINDS if name in self._parameters.memory_types]

    def _place(self, agent: Agent) -> CallScope:
        return CallScope(
            memory=self._memory.get(), user_id=self._user_id, session_id=_session_of(agent), agent_name=agent.name
        )

    async def _show(self, agent: Agent, search: asyncio.Task[Found], item: object) -> asyncio.Task[Found] | None:
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
                LOG.error("no memories were shown for this reply: %s", told(exc))
        return None

    def _add_note(self, agent: Agent, found: Found, *, reply_id: str) -> None:
        if not any(found):
            return
        context, given = agent.state.context, self._parameters
        ledger = read_ledger(agent.state, self._key())
        ledger.forget_gone(context)
        said, chosen = said_in(added(context, ())), list["Hit"]()
        for hits in found:
            shown = {*ledger.shown, *(digest_of(hit.memory) for hit in chosen)}
            chosen += choose(hits, shown=shown, said=said, limit=given.top_k)
        counter = self._memory.get().token_counter
        chosen = fitting(chosen, text=note_text, counter=counter, budget=given.token_budget)
        if chosen:
            note, blocks = note_of(chosen)
            # Before what the reply has said: AgentScope goes on with its last message, and counts its tokens there.
            begun = (place for place, message in enumerate(context) if message.id == reply_id)
            context.insert(next(begun, len(context)), note)
            ledger.shown |= blocks
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
            LOG.error("a reply of session %r was not recorded: %s", session_id, told(exc))
            return
        if messages:
            self._appends.put(session_id, partial(self._append, self._place(agent), messages))

    def _past(self, messages: Sequence[Message]) -> list[Message]:
        """Date messages now that are said later: another machine's clock may be fast, and the future is refused."""
        now = self._memory.get().clock.now()
        return [
            message if message.created_at <= now else message.model_copy(update={"created_at": now})
            for message in messages
        ]

    async def _append(self, place: CallScope, messages: Sequence[Message]) -> None:
        """Put messages into the memory; those it has are left alone.

        Several agents are given the same message, and each has it in its own session, under an id of its own.
        """
        place = replace(place, memory=self._memory.get())  # it may have been closed since
        if "personal" in self._parameters.memory_types:
            await place.memory.summary(
                messages, user_id=place.user_id, session_id=place.session_id, background=True, on_conflict="rename"
            )
        for kind in self._kinds:
            await kind.keep(place, messages, {})


def _session_of(agent: Agent) -> str:
    return usable_id(agent.state.session_id)


def _query_of(inputs: object) -> str:
    """Return what is asked: the text of all messages; `""` for events and for nothing."""
    given = inputs if isinstance(inputs, list) else [inputs]
    texts = [message.get_text_content() for message in given if isinstance(message, Msg)]
    return clean_text(query_text(texts))[-_QUERY_CHARS:].strip()
