"""Stage that drops experiences that are known already, or repeat another one."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.errors import ConfigurationError
from reme_core.ports import Target, Vector
from reme_core.schema import MemoryType, RejectedExperience
from reme_core.steps.flow import Stage, stage
from reme_core.steps.flow_context import FlowContext
from reme_core.steps.similar_memories import SIMILARITY, Duplicate, NewMemory, find_duplicates
from reme_core.tasks.task_values import Experience, Experiences


def deduplication(*, similarity: float = SIMILARITY) -> Stage[Experiences, Experiences, FlowContext]:
    """Make the stage that compares experiences with what is stored of the same scope and target, and with each other.

    Compared is what memories are found by, `index_text`. Those with the highest score come first, of equal ones those
    with the highest confidence: of two that say the same the better one stays. The others are rejected as `duplicate`.
    The vectors are left in the trace, for the write.

    Args:
        similarity: The least cosine of two that say the same, in [-1, 1]; without an embedder words are compared.

    Raises:
        ConfigurationError: `similarity` is none; from the stage: the run has no target.
    """
    if not -1 <= similarity <= 1:
        msg = f"deduplication: similarity lies in [-1, 1], found {similarity}"
        raise ConfigurationError(msg)

    async def run(experiences: Experiences, context: FlowContext) -> Experiences:
        if not experiences:
            return ()
        ranked = sorted(experiences, key=lambda item: (-(item.score or 0.0), -item.confidence))
        newcomers = await _new_memories(ranked, context)
        known = await find_duplicates(context.store, context.scope, newcomers, similarity=similarity)
        kept: list[Experience] = []
        for experience, same in zip(ranked, known, strict=True):
            if same is None:
                kept.append(experience)
            else:
                context.trace.rejected.append(_rejected(experience, same))
        return tuple(kept)

    return stage(run, "deduplication")


async def _new_memories(experiences: Sequence[Experience], context: FlowContext) -> list[NewMemory]:
    if context.memory_target is None:
        msg = "deduplication needs the target that the run is about: give memory_target"
        raise ConfigurationError(msg)
    target = Target(MemoryType.PROCEDURAL, context.memory_target)
    vectors = await _vectors([experience.index_text for experience in experiences], context)
    return [
        NewMemory(target=target, content=item.content, index_text=item.index_text, vector=vectors.get(item.index_text))
        for item in experiences
    ]


async def _vectors(texts: Sequence[str], context: FlowContext) -> dict[str, Vector]:
    """Return the vectors of texts, those in the trace as well; none without an embedder."""
    known = context.trace.vectors
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    rows = await context.try_embedding(missing)
    if rows is not None:
        known.update(zip(missing, rows, strict=True))
    return known


def _rejected(experience: Experience, same: Duplicate) -> RejectedExperience:
    other = "another one of this run" if same.memory is None else f"memory {same.memory.memory_id!r}"
    return RejectedExperience(
        when_to_use=experience.when_to_use,
        content=experience.content,
        kind="duplicate",
        reason=f"{other} says the same",
    )
