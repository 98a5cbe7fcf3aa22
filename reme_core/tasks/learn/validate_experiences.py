"""Stage in which a second call judges experiences; those that are not confirmed are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, Strict, ValidationError

from reme_core.errors import ConfigurationError
from reme_core.ports import ResponseSchema
from reme_core.remember.fact_extraction import list_schema
from reme_core.schema import RejectedExperience
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import JsonQuestion, ask
from reme_core.steps.flow import Stage, for_each, stage
from reme_core.steps.flow_context import FlowContext
from reme_core.tasks.learn.read_experiences import AT_ONCE, PACKAGE
from reme_core.tasks.learn.shown_attempts import head_and_tail, language_of
from reme_core.tasks.task_values import Experience, Experiences
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
        "verdicts", {"n": {"type": "integer"}, "score": {"type": "number"}, "reason": {"type": ["string", "null"]}}
    ),
)


class WrittenVerdict(BaseModel):
    """A verdict as the model writes it; keys of its own say nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    n: Annotated[int, Strict()]
    score: Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
    reason: Annotated[Text, AfterValidator(str.strip)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedExperience:
    """What was said of an experience; a score of None is a verdict that there isn't, and `reason` says why."""

    score: float | None
    reason: str


def validation(*, min_score: float = MIN_SCORE) -> Stage[Experiences, Experiences, FlowContext]:
    """Make the stage that has a model score experiences against their evidence and leaves out what scores too low.

    All are judged in one call, many in several. A verdict that is missing, given twice or malformed is a failed one:
    the experience is rejected as `invalid`. Those that stay have their `score`, and keep their order.

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
        for experience, verdict in zip(experiences, (one for group in judged for one in group), strict=True):
            if verdict.score is not None and verdict.score >= min_score:
                kept.append(replace(experience, score=verdict.score))
            else:
                context.trace.rejected.append(_rejected(experience, verdict, min_score))
        return tuple(kept)

    return stage(run, "validation")


def _rejected(experience: Experience, verdict: JudgedExperience, min_score: float) -> RejectedExperience:
    reason = verdict.reason
    if verdict.score is not None:
        said = f": {reason}" if reason else ""
        reason = f"its score is {verdict.score:g}, wanted {min_score:g}{said}"
    return RejectedExperience(
        when_to_use=experience.when_to_use, content=experience.content, kind="invalid", reason=reason
    )


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
    verdicts, _ = await ask(context.chat_model("validation"), validation_question(experiences, language))
    return verdicts


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
        {"by": message.speaker, "text": shortened(message.full_text, share)} for message in shown
    ]
    scores: list[JsonValue] = [attempt.trajectory.score for attempt in experience.attempts]
    return json_line(
        {
            "n": number,
            "scores": scores,
            "when_to_use": experience.when_to_use,
            "content": experience.content,
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
    return [_judged(said.get(number, [])) for number in range(1, count + 1)]


def _judged(said: Sequence[JsonValue]) -> JudgedExperience:
    if len(said) != 1:
        return JudgedExperience(
            score=None, reason=f"it was given {len(said)} verdicts" if said else "it was given no verdict"
        )
    try:
        verdict = WrittenVerdict.model_validate(said[0])
    except ValidationError:
        return JudgedExperience(score=None, reason="its verdict can't be read")
    return JudgedExperience(score=verdict.score, reason=shortened(verdict.reason or "", _REASON_CHARS))
