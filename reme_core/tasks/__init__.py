"""Procedural memory: what is learnt from attempts at tasks, and how it is found again."""

from reme_core.tasks.find.rerank_memories import rerank
from reme_core.tasks.find.retrieval_flows import make_retrieval_flow, retrieval_flow
from reme_core.tasks.find.rewrite_memories import rewrite
from reme_core.tasks.find.search_memories import search
from reme_core.tasks.find.shown_memories import show
from reme_core.tasks.find.task_query import build_query
from reme_core.tasks.learn.compare_attempts import comparison, step_comparison
from reme_core.tasks.learn.deduplicate_experiences import deduplication
from reme_core.tasks.learn.extract_experiences import failure_extraction, success_extraction
from reme_core.tasks.learn.prepare_attempts import attempt_of, preprocess
from reme_core.tasks.learn.segment_attempts import segmentation
from reme_core.tasks.learn.task_flow import TASK_FLOW, task_flow
from reme_core.tasks.learn.validate_experiences import validation
from reme_core.tasks.task_values import (
    Attempt,
    Attempts,
    Experience,
    Experiences,
    Origin,
    RetrievalFlow,
    StepType,
    TaskAnswer,
    TaskFlow,
    TaskQuestion,
)

__all__ = [
    "TASK_FLOW",
    "Attempt",
    "Attempts",
    "Experience",
    "Experiences",
    "Origin",
    "RetrievalFlow",
    "StepType",
    "TaskAnswer",
    "TaskFlow",
    "TaskQuestion",
    "attempt_of",
    "build_query",
    "comparison",
    "deduplication",
    "failure_extraction",
    "make_retrieval_flow",
    "preprocess",
    "rerank",
    "retrieval_flow",
    "rewrite",
    "search",
    "segmentation",
    "show",
    "step_comparison",
    "success_extraction",
    "task_flow",
    "validation",
]
