"""One turn with the chat agent: it answers from memory, and the turn is remembered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from reme_core.agents import ReMyAgentV1Op
from reme_core.ports import (
    AgentTask,
    ChatModel,
    Clock,
    Embedder,
    FindMessages,
    RunTrace,
    Store,
    Summarizer,
    SummaryRequest,
    ToolContext,
)
from reme_core.remember.record_messages import since
from reme_core.schema import ChatReply, Message, Scope, TextBlock

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
    """

    agent: ReMyAgentV1Op
    model: ChatModel
    store: Store
    embedder: Embedder | None
    clock: Clock
    summarizer: Summarizer

    async def turn(self, scope: Scope, text: str, session_id: str, on_text: Callable[[str], None] | None) -> ChatReply:
        """Answer; the turn is on disk when this returns, and memories are made of it in the background."""
        begun, asked = time.perf_counter(), self.clock.now()
        history = await self.store.find_messages(
            scope, FindMessages(session_id=session_id, limit=_HISTORY, newest_first=True)
        )
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
        earlier = tuple(stored.message for stored in reversed(history.messages))
        result = await self.agent.run(
            AgentTask(workspace_id=scope.memory_space, query=text, messages=earlier), context, on_text=on_text
        )
        turn = (_message("user", text, asked), _message("assistant", result.answer, self.clock.now()))
        kept = await self.summarizer.summarize(
            scope, SummaryRequest(session_id=session_id, messages=turn, ends_session=False, background=True)
        )
        usage = (trace.usage + result.usage).model_copy(update={"milliseconds": since(begun)})
        return ChatReply(
            text=result.answer,
            session_id=session_id,
            results=tuple(trace.hits),
            job_ids=kept.job_ids,
            usage=usage,
            degraded=tuple(trace.degraded),
        )


def _message(role: str, text: str, at: datetime) -> Message:
    return Message.model_validate({"role": role, "content": (TextBlock(text=text),), "created_at": at})
