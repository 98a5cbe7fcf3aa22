"""Procedural memory: what is learnt from attempts at tasks, and how it is found again."""

from reme_core.runtime.procedural.compare import comparison, step_comparison
from reme_core.runtime.procedural.deduplicate import deduplication
from reme_core.runtime.procedural.extract import failure_extraction, success_extraction
from reme_core.runtime.procedural.flows import TASK_FLOW, task_flow
from reme_core.runtime.procedural.preprocess import attempt_of, preprocess
from reme_core.runtime.procedural.query import build_query
from reme_core.runtime.procedural.rerank import rerank
from reme_core.runtime.procedural.retrieval import make_retrieval_flow, retrieval_flow
from reme_core.runtime.procedural.rewrite import rewrite
from reme_core.runtime.procedural.search import search
from reme_core.runtime.procedural.segment import segmentation
from reme_core.runtime.procedural.shown_memories import show
from reme_core.runtime.procedural.validate import validation
from reme_core.runtime.procedural.values import (
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
