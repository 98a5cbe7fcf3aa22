"""Flows that find for a task what was learnt from others like it."""

from __future__ import annotations

from dataclasses import replace

from reme_core.steps.flow import stage
from reme_core.steps.flow_context import FlowContext
from reme_core.tasks.find.rerank_memories import rerank as order_by_model
from reme_core.tasks.find.rewrite_memories import rewrite as write_by_model
from reme_core.tasks.find.search_memories import search
from reme_core.tasks.find.shown_memories import show
from reme_core.tasks.find.task_query import build_query
from reme_core.tasks.task_values import RetrievalFlow, TaskQuestion

# As many as a prompt shows at a glance.
_CANDIDATES = 20

retrieval_flow: RetrievalFlow = build_query >> search >> show
"""Without a model: the query, what is found for it, and the text of that."""


@stage
async def widen(question: TaskQuestion, _: FlowContext) -> TaskQuestion:
    """Have more found than asked for, so that a later stage has something to choose from."""
    return replace(question, candidates=max(_CANDIDATES, question.limit))


def make_retrieval_flow(*, rerank: bool = False, rewrite: bool = False) -> RetrievalFlow:
    """Return `retrieval_flow`, with a model that puts the memories in order, or writes the text from them, or both."""
    found = build_query >> widen >> search >> order_by_model if rerank else build_query >> search
    shown = found >> show
    return shown >> write_by_model if rewrite else shown
