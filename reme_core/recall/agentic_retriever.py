"""Retriever with an agent: it searches and reads on as far as the question needs, and answers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from reme_core.ports import (
    AgentTask,
    ChatModel,
    Clock,
    Embedder,
    MemoryAgent,
    RetrieveRequest,
    RunTrace,
    Store,
    Target,
    TokenCounter,
    ToolContext,
)
from reme_core.recall.cut import cut_hits, scoring
from reme_core.recall.simple_retriever import SimpleRetriever
from reme_core.remember.record_messages import since
from reme_core.schema import Hit, RetrieveResult, Scope
from reme_core.tools import read_meta


@dataclass(frozen=True, slots=True, kw_only=True)
class AgenticRetrieval:
    """A `Retriever` around an agent. What the agent has found comes first; the simple search fills up the rest.

    The agent is held to types and targets. To times, sessions, layers and metadata it can't be, since it reads on as it
    sees fit: a question with such a filter is answered by the simple search alone, and has no `answer`.
    """

    agent: MemoryAgent
    model: ChatModel
    store: Store
    embedder: Embedder | None
    clock: Clock
    counter: TokenCounter
    simple: SimpleRetriever

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
            trace=trace,
        )
        result = await self.agent.run(AgentTask(workspace_id=scope.memory_space, query=request.query), context)
        hits = _joined([*(hit for hit in trace.hits if _is_asked(hit, request)), *filled.results])
        usage = trace.usage + result.usage + filled.usage
        results = cut_hits(hits, self.counter, limit=request.limit, token_budget=request.token_budget)
        return RetrieveResult(
            results=scoring(results, request.min_score),
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
    given = (request.layers, request.session_id, request.said_from, request.said_to, request.as_of)
    return any(value is not None for value in given) or bool(request.metadata) or request.include_superseded


def _is_asked(hit: Hit, request: RetrieveRequest) -> bool:
    if request.targets is not None and hit.memory_target not in request.targets:
        return False
    return request.types is None or hit.memory_type in request.types
