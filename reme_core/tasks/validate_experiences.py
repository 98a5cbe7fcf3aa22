"""Stages that drop experiences: those a second call doesn't confirm, those that are known, and repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue, Strict, ValidationError

from reme_core.errors import ConfigurationError
from reme_core.ports import ResponseSchema, Target
from reme_core.remember.fact_extraction import join_sources
from reme_core.schema import MemoryType, RejectedExperience, least_trusted, trust_field
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import JsonQuestion, WrittenAnswer, ask, list_schema
from reme_core.steps.flow import FlowContext, Stage, for_each, stage
from reme_core.steps.similar_memories import SIMILARITY, Duplicate, NewMemory, find_duplicates
from reme_core.tasks.attempts import head_and_tail, language_of
from reme_core.tasks.task_values import AT_ONCE, PACKAGE, Experience, Experiences
from reme_core.text import Language, fence, json_line, load_prompt, shortened

MIN_SCORE = 0.5
"""What the prompt calls borne out and of some use."""

# Of the evidence of one experience a prompt shows this much.
_EVIDENCE_MESSAGES, _EVIDENCE_CHARS = 10, 3000
# One prompt holds at most so many experiences, and so many characters of them.
_MOST, _MOST_CHARS = 20, 24_000
_REASON_CHARS = 500

_SCHEMA = ResponseSchema(
    name="verdicts",
    schema=list_schema(
        "verdicts",
        {
            "n": {"type": "integer"},
            "score": {"type": "number"},
            "reason": {"type": ["string", "null"]},
            "same_as": {"type": ["integer", "null"]},
        },
    ),
)


class WrittenVerdict(WrittenAnswer):
    """A verdict as the model writes it; keys of its own say nothing."""

    n: Annotated[int, Strict()]
    score: Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
    reason: Annotated[Text, AfterValidator(str.strip)] | None = None
    same_as: Annotated[int, Strict()] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedExperience:
    """What was said of an experience.

    Attributes:
        score: None is a verdict that there isn't, and `reason` says why.
        reason: In words; may be empty.
        same_as: The place of an earlier experience that says the same rule.
    """

    score: float | None
    reason: str
    same_as: int | None = None


def validation(*, min_score: float = MIN_SCORE) -> Stage[Experiences, Experiences, FlowContext]:
    """Make the stage that has a model score experiences against their evidence and leaves out what scores too low.

    All are judged in one call, many in several. A verdict that is missing, given twice or malformed is a failed one:
    the experience is rejected as `invalid`. Those that stay have their `score`, and keep their order. Of those that say
    the same rule in other words, as success, failure and comparison of one task do, the best stays, with the evidence
    of all; the others are rejected as `duplicate`.

    Args:
        min_score: The least score of what is kept, in [0, 1].

    Raises:
        ConfigurationError: `min_score` is none.
    """
    if not 0 <= min_score <= 1:
        msg = f"validation: min_score lies in [0, 1], found {min_score}"
        raise ConfigurationError(msg)

    async def run(experiences: Experiences, context: FlowContext) -> Experiences:
        batches = _batches(experiences)
        judged = await for_each(lambda batch: _judge(batch, context), batches, at_once=AT_ONCE)
        kept: list[Experience] = []
        for batch, verdicts in zip(batches, judged, strict=True):
            for group in _same_rules(batch, verdicts):
                passed = [(item, said) for item, said in group if said.score is not None and said.score >= min_score]
                failed = [(item, said) for item, said in group if (item, said) not in passed]
                context.trace.rejected += [_rejected(item, said, min_score) for item, said in failed]
                if passed:
                    one, others = _joined(passed)
                    kept.append(one)
                    context.trace.rejected += others
        return tuple(kept)

    return stage(run, "validation")


def _same_rules(
    experiences: Sequence[Experience], verdicts: Sequence[JudgedExperience]
) -> list[list[tuple[Experience, JudgedExperience]]]:
    """Put those that say the same rule together, in the order of the first of each."""
    groups: list[list[tuple[Experience, JudgedExperience]]] = []
    group_of: list[int] = []
    for experience, verdict in zip(experiences, verdicts, strict=True):
        if verdict.same_as is None:
            group_of.append(len(groups))
            groups.append([])
        else:
            group_of.append(group_of[verdict.same_as])
        groups[group_of[-1]].append((experience, verdict))
    return groups


def _joined(same: Sequence[tuple[Experience, JudgedExperience]]) -> tuple[Experience, list[RejectedExperience]]:
    """Return the best of experiences that say the same, with the evidence of all, and the others as rejected."""
    best, verdict = max(same, key=lambda pair: (pair[1].score or 0.0, pair[0].confidence))
    others = [item for item, _ in same if item is not best]
    attempts = {attempt.block_id: attempt for item in (best, *others) for attempt in item.attempts}
    evidence = {message.message_id: message for item in (best, *others) for message in item.evidence}
    sources = best.sources
    for item in others:
        sources = join_sources(sources, item.sources)
    one = replace(
        best,
        score=verdict.score,
        attempts=tuple(attempts.values()),
        evidence=tuple(evidence.values()),
        sources=sources,
        tools_used=tuple(dict.fromkeys(name for item in (best, *others) for name in item.tools_used)),
    )
    return one, [item.rejected("duplicate", "another one of this run says the same rule") for item in others]


def _rejected(experience: Experience, verdict: JudgedExperience, min_score: float) -> RejectedExperience:
    reason = verdict.reason
    if verdict.score is not None:
        said = f": {reason}" if reason else ""
        reason = f"its score is {verdict.score:g}, wanted {min_score:g}{said}"
    return experience.rejected("invalid", reason)


def _batches(experiences: Sequence[Experience]) -> list[list[Experience]]:
    batches: list[list[Experience]] = []
    size = 0
    for experience in experiences:
        own = len(_line(experience, 0))
        if not batches or len(batches[-1]) == _MOST or size + own > _MOST_CHARS:
            batches.append([])
            size = 0
        batches[-1].append(experience)
        size += own
    return batches


async def _judge(experiences: Sequence[Experience], context: FlowContext) -> list[JudgedExperience]:
    attempts = {attempt.block_id: attempt for experience in experiences for attempt in experience.attempts}
    language = language_of(list(attempts.values()), context)
    return await ask(context.chat_model("validation"), validation_question(experiences, language))


def validation_question(experiences: Sequence[Experience], language: Language) -> JsonQuestion[list[JudgedExperience]]:
    """Return what the model is asked; the answer has what was said of each experience, in order."""
    lines = "\n".join(_line(experience, number) for number, experience in enumerate(experiences, 1))
    return JsonQuestion(
        system=load_prompt(PACKAGE, "validation", language).fill({}),
        user=fence("experiences", lines),
        schema=_SCHEMA,
        language=language,
        read=lambda value: read_verdicts(value, len(experiences)),
    )


def _line(experience: Experience, number: int) -> str:
    shown = [experience.evidence[place] for place in head_and_tail(len(experience.evidence), _EVIDENCE_MESSAGES)]
    share = _EVIDENCE_CHARS // max(1, len(shown))
    evidence: list[JsonValue] = [
        {
            "by": message.speaker,
            **trust_field(message.trust, message.speaker),
            "text": shortened(message.full_text, share),
        }
        for message in shown
    ]
    scores: list[JsonValue] = [attempt.trajectory.score for attempt in experience.attempts]
    return json_line(
        {
            "n": number,
            "scores": scores,
            "when_to_use": experience.when_to_use,
            "content": experience.content,
            **trust_field(least_trusted(message.trust for message in experience.evidence)),
            "evidence": evidence,
        }
    )


def read_verdicts(value: JsonValue, count: int) -> list[JudgedExperience]:
    """Read an answer about so many experiences; one that can't be read of one of them is a failed verdict.

    Raises:
        ValueError: It is no object with a list of verdicts.
    """
    listed = value.get("verdicts") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        msg = "verdicts: wanted an object with a list of verdicts"
        raise ValueError(msg)  # noqa: TRY004  # told to the model, as all that is wrong with an answer
    said: dict[int, list[JsonValue]] = {}
    for item in listed:
        number = item.get("n") if isinstance(item, dict) else None
        if isinstance(number, int):
            said.setdefault(number, []).append(item)
    return [_judged(said.get(number, []), number) for number in range(1, count + 1)]


def _judged(said: Sequence[JsonValue], number: int) -> JudgedExperience:
    if len(said) != 1:
        return JudgedExperience(
            score=None, reason=f"it was given {len(said)} verdicts" if said else "it was given no verdict"
        )
    try:
        verdict = WrittenVerdict.model_validate(said[0])
    except ValidationError:
        return JudgedExperience(score=None, reason="its verdict can't be read")
    same_as = verdict.same_as if verdict.same_as is not None and 1 <= verdict.same_as < number else None
    return JudgedExperience(
        score=verdict.score,
        reason=shortened(verdict.reason or "", _REASON_CHARS),
        same_as=None if same_as is None else same_as - 1,
    )


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
                context.trace.rejected.append(_rejected_as_known(experience, same))
        return tuple(kept)

    return stage(run, "deduplication")


async def _new_memories(experiences: Sequence[Experience], context: FlowContext) -> list[NewMemory]:
    if context.memory_target is None:
        msg = "deduplication needs the target that the run is about: give memory_target"
        raise ConfigurationError(msg)
    target = Target(MemoryType.PROCEDURAL, context.memory_target)
    vectors = await context.vectors(experience.index_text for experience in experiences)
    return [
        NewMemory(target=target, content=item.content, index_text=item.index_text, vector=vectors.get(item.index_text))
        for item in experiences
    ]


def _rejected_as_known(experience: Experience, same: Duplicate) -> RejectedExperience:
    other = "another one of this run" if same.memory is None else f"memory {same.memory.memory_id!r}"
    return experience.rejected("duplicate", f"{other} says the same")
