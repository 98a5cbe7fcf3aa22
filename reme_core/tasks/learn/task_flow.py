"""The flow that learns from attempts at a task, as it is by default.

Its parts are stages to be put together in other ways: `preprocess() >> segmentation() >> success_extraction()` is a
flow, too. A stage of one's own is an async function of attempts, or experiences, and a `FlowContext`.
"""

from __future__ import annotations

from reme_core.steps.similar_memories import SIMILARITY
from reme_core.tasks.learn.compare_attempts import comparison
from reme_core.tasks.learn.deduplicate_experiences import deduplication
from reme_core.tasks.learn.extract_experiences import SUCCESS_SCORE, failure_extraction, success_extraction
from reme_core.tasks.learn.prepare_attempts import preprocess
from reme_core.tasks.learn.validate_experiences import MIN_SCORE, validation
from reme_core.tasks.task_values import TaskFlow


def task_flow(
    *, success_score: float = SUCCESS_SCORE, min_score: float = MIN_SCORE, similarity: float = SIMILARITY
) -> TaskFlow:
    """Make the default flow.

    Args:
        success_score: From this score on an attempt is a success.
        min_score: The least score that the validation gives to what is kept.
        similarity: The least cosine of two experiences that say the same.
    """
    learning = (
        success_extraction(success_score=success_score) | failure_extraction(success_score=success_score) | comparison()
    )
    return preprocess() >> learning >> validation(min_score=min_score) >> deduplication(similarity=similarity)


TASK_FLOW: TaskFlow = task_flow()
"""What `summary_task` does with the attempts at one task, unless it is given another flow."""
