"""One turn with the chat agent: it answers from memory, and the turn is remembered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from reme_core.agents import ReMyAgentV1Op
from reme_core.ports import (
    AgentTask,
    ChatModel,
    Clock,
    Embedder,
    FindMessages,
    Retriever,
    RetrieveRequest,
    RunTrace,
    Store,
    Summarizer,
    SummaryRequest,
    ToolContext,
)
from reme_core.remember.record_messages import since
from reme_core.schema import ChatReply, Hit, Message, Scope, TextBlock
from reme_core.schema.notes import found_text

# What is found for what the person says: a page, as the measure of memories by answers has it.
_NOTES_TOKENS = 1024
# Earlier turns of the session that the agent sees; what lies further back it can look up.
_HISTORY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Talks with a user.

    Attributes:
        agent: Who talks.
        model: Its model.
        store: What it knows, what was said, and what left contexts.
        embedder: Embeds its searches; None searches by words.
        clock: Tells the time.
        summarizer: Keeps the turn.
        retriever: Finds what the person speaks of before the agent is asked; calls no model.
    """

    agent: ReMyAgentV1Op
    model: ChatModel
    store: Store
    embedder: Embedder | None
    clock: Clock
    summarizer: Summarizer
    retriever: Retriever

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
        context = ToolContext(
            scope=scope,
            store=self.store,
            embedder=self.embedder,
            model=self.model,
            clock=self.clock,
            author=self.agent.name,
            trace=trace,
        )
        task = AgentTask(workspace_id=scope.memory_space, query=text, messages=earlier, notes=found_text(hits))
        result = await self.agent.run(task, context, on_text=on_text)
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
