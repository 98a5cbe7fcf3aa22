"""Procedural memory: what is learnt from attempts at tasks, and how it is found again."""

from reme_core.tasks.attempts import attempt_of, preprocess, segmentation
from reme_core.tasks.extract_experiences import comparison, failure_extraction, step_comparison, success_extraction
from reme_core.tasks.find_experiences import build_query, make_retrieval_flow, retrieval_flow, search
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
from reme_core.tasks.task_worker import TASK_FLOW, task_flow
from reme_core.tasks.tell_experiences import rerank, rewrite, show
from reme_core.tasks.validate_experiences import deduplication, validation

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
