"""Agents that recall: one searches and reads on as far as a question needs, one talks and remembers the turn."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from reme_core.agents import AgentOptions, ReMyAgentV1Op
from reme_core.ports import (
    AgentTask,
    ChatModel,
    ChatRequest,
    ChatResult,
    Clock,
    Embedder,
    FindMessages,
    MemoryAgent,
    Retriever,
    RetrieveRequest,
    RunTrace,
    Store,
    StreamingChatModel,
    Summarizer,
    SummaryRequest,
    Target,
    TokenCounter,
    ToolContext,
)
from reme_core.recall.cut import cut_hits, scoring, with_trust
from reme_core.recall.simple_retriever import SimpleRetriever
from reme_core.remember.summarizer import since
from reme_core.schema import ChatReply, Hit, Message, RetrieveResult, Scope, TextBlock
from reme_core.schema.hits import found_text
from reme_core.steps.memory_blocks import MemoryBlocks, blocks_text
from reme_core.steps.targets import read_meta


@dataclass(frozen=True, slots=True, kw_only=True)
class AgenticRetrieval:
    """A `Retriever` around an agent. What the agent has found comes first; the simple search fills up the rest.

    The agent is held to types and targets. To times, sessions, layers, trust and metadata it can't be, since it reads
    on as it sees fit: a question with such a filter is answered by the simple search alone, and has no `answer`.
    """

    agent: MemoryAgent
    model: ChatModel
    store: Store
    embedder: Embedder | None
    clock: Clock
    counter: TokenCounter
    simple: SimpleRetriever
    zone: tzinfo = UTC

    async def retrieve(self, scope: Scope, request: RetrieveRequest) -> RetrieveResult:
        """Return what was found and the agent's answer; see `Retriever.retrieve`."""
        begun = time.perf_counter()
        if _is_narrow(request):
            return await self.simple.retrieve(scope, request)
        filled = await self.simple.retrieve(scope, request)  # first: it checks the request
        trace = RunTrace()
        context = ToolContext(
            scope=scope,
            store=self.store,
            embedder=self.embedder,
            model=self.model,
            clock=self.clock,
            author=self.agent.name,
            targets=await self._targets(scope, request),
            zone=self.zone,
            trace=trace,
        )
        result = await self.agent.run(AgentTask(workspace_id=scope.memory_space, query=request.query), context)
        hits = _joined([*(hit for hit in trace.hits if _is_asked(hit, request)), *filled.results])
        usage = trace.usage + result.usage + filled.usage
        results = cut_hits(hits, self.counter, limit=request.limit, token_budget=request.token_budget)
        return RetrieveResult(
            results=await with_trust(
                self.store, scope.memory_space, scoring(results, request.min_score), self.simple.web_tools
            ),
            answer=result.answer,
            usage=usage.model_copy(update={"milliseconds": since(begun)}),
            degraded=tuple(dict.fromkeys([*filled.degraded, *trace.degraded])),
        )

    async def _targets(self, scope: Scope, request: RetrieveRequest) -> frozenset[Target] | None:
        """Return the targets that the request allows; None for all."""
        if request.types is None and request.targets is None:
            return None
        known = [entry.target for entry in await read_meta(self.store, scope)]
        return frozenset(
            target
            for target in known
            if (request.types is None or target.memory_type in request.types)
            and (request.targets is None or target.memory_target in request.targets)
        )


def _joined(hits: list[Hit]) -> list[Hit]:
    """Return each thing found once, the first time it was."""
    seen: dict[tuple[str, ...], Hit] = {}
    for hit in hits:
        name = hit.memory_id or hit.reference or hit.block_id or ""
        seen.setdefault((hit.layer, hit.user_id, name, *(hit.message_ids if hit.layer == "message" else ())), hit)
    return list(seen.values())


def _is_narrow(request: RetrieveRequest) -> bool:
    given = (request.layers, request.trust, request.session_id, request.said_from, request.said_to, request.as_of)
    return any(value is not None for value in given) or bool(request.metadata) or request.include_superseded


def _is_asked(hit: Hit, request: RetrieveRequest) -> bool:
    if request.targets is not None and hit.memory_target not in request.targets:
        return False
    return request.types is None or hit.memory_type in request.types


# What is found for what the person says: a page, as the measure of memories by answers has it.
_NOTES_TOKENS = 1024
# Earlier turns of the session that the agent sees; what lies further back it can look up.
_HISTORY = 20


@dataclass(frozen=True, slots=True)
class ModelWithBlocks:
    """A chat model that is shown memory blocks behind the system prompt, as they are at each call.

    There they stay what an endpoint has cached of the prompt, until one is edited.

    Attributes:
        model: The model.
        read: Returns the blocks as a text; empty for none.
    """

    model: ChatModel
    read: Callable[[], Awaitable[str]]

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer a request; see `ChatModel.chat`."""
        return await self.model.chat(await self._with_blocks(request))

    async def stream(self, request: ChatRequest) -> AsyncGenerator[str | ChatResult, None]:
        """Answer in pieces, or at once where the model can't stream; see `StreamingChatModel.stream`."""
        request = await self._with_blocks(request)
        if isinstance(self.model, StreamingChatModel):
            async with aclosing(self.model.stream(request)) as pieces:
                async for piece in pieces:
                    yield piece
        else:
            result = await self.model.chat(request)
            yield result.message.text
            yield result

    async def _with_blocks(self, request: ChatRequest) -> ChatRequest:
        text = await self.read()
        if not text:
            return request
        [system, *rest] = request.messages
        blocks = Message(role="user", content=(TextBlock(text=text),))
        return replace(request, messages=(system, blocks, *rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Talks with a user.

    Attributes:
        options: Of the agent that talks.
        model: Its model.
        store: What it knows, what was said, and what left contexts.
        embedder: Embeds its searches; None searches by words.
        clock: Tells the time.
        summarizer: Keeps the turn.
        retriever: Finds what the person speaks of before the agent is asked; calls no model.
        blocks: The memory blocks that stand in its prompts.
        zone: Where the person is: times are shown in it.
    """

    options: AgentOptions
    model: ChatModel
    store: Store
    embedder: Embedder | None
    clock: Clock
    summarizer: Summarizer
    retriever: Retriever
    blocks: MemoryBlocks
    zone: tzinfo = UTC

    async def turn(self, scope: Scope, text: str, session_id: str, on_text: Callable[[str], None] | None) -> ChatReply:
        """Answer; the turn is on disk when this returns, and memories are made of it in the background."""
        begun, asked = time.perf_counter(), self.clock.now()
        history = await self.store.find_messages(
            scope, FindMessages(session_id=session_id, limit=_HISTORY, newest_first=True)
        )
        earlier = tuple(stored.message for stored in reversed(history.messages))
        found = await self.retriever.retrieve(scope, RetrieveRequest(query=text, token_budget=_NOTES_TOKENS, now=asked))
        hits = _not_shown(found.results, earlier)
        trace = RunTrace()

        async def read_blocks() -> str:
            held = await self.blocks.list(scope)
            trace.shown_blocks.update({block.label: block.revision for block in held})
            return blocks_text(held)

        has_blocks = bool(await read_blocks())
        agent = ReMyAgentV1Op(self.options, enable_memory_blocks=has_blocks)
        context = ToolContext(
            scope=scope,
            store=self.store,
            embedder=self.embedder,
            model=ModelWithBlocks(self.model, read_blocks) if has_blocks else self.model,
            clock=self.clock,
            token_counter=self.blocks.counter,
            author=agent.name,
            zone=self.zone,
            trace=trace,
        )
        task = AgentTask(workspace_id=scope.memory_space, query=text, messages=earlier, notes=found_text(hits))
        result = await agent.run(task, context, on_text=on_text)
        turn = (_message("user", text, asked), _message("assistant", result.answer, self.clock.now()))
        kept = await self.summarizer.summarize(
            scope, SummaryRequest(session_id=session_id, messages=turn, ends_session=False, background=True)
        )
        usage = (found.usage + trace.usage + result.usage).model_copy(update={"milliseconds": since(begun)})
        return ChatReply(
            text=result.answer,
            session_id=session_id,
            results=tuple(trace.hits or hits),  # what the agent looked up itself tells more than what it was shown
            job_ids=kept.job_ids,
            usage=usage,
            degraded=tuple(dict.fromkeys((*found.degraded, *trace.degraded))),
        )


def _not_shown(hits: Sequence[Hit], shown: Sequence[Message]) -> list[Hit]:
    """Return hits without messages that stand in the conversation anyway."""
    ids = {message.message_id for message in shown}
    return [hit for hit in hits if hit.layer != "message" or not ids.issuperset(hit.message_ids)]


def _message(role: str, text: str, at: datetime) -> Message:
    return Message.model_validate({"role": role, "content": (TextBlock(text=text),), "created_at": at})
