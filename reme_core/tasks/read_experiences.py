"""Requests to a model for experiences, and the reading of its answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, Strict

from reme_core.ports import ResponseSchema
from reme_core.remember.fact_extraction import list_schema
from reme_core.schema import Message, Source
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import JsonQuestion, lowered, none_as_empty, not_blank
from reme_core.tasks.attempts import ShownAttempt
from reme_core.tasks.task_values import Attempt, Experience, Experiences, Origin, StepType
from reme_core.text import Language, load_prompt

PACKAGE = "reme_core.tasks"
"""Where the prompts of the stages lie."""

AT_ONCE = 4
"""Model calls that a stage has open at the same time: enough to hide their waiting, few enough for rate limits."""

MAX_CONTENT_CHARS = 4000
"""An experience is a few sentences, a procedure a page; what is longer is a copy of the attempt."""

MAX_WHEN_CHARS = 1000
"""A situation is told in a sentence or two."""

MAX_TAGS = 8
MAX_TAG_CHARS = 60

_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Keep what can be a tag; a tag too many is no reason to ask again."""
    lines = (_BLANKS.sub(" ", tag).strip() for tag in tags)
    return tuple(dict.fromkeys(tag for tag in lines if 0 < len(tag) <= MAX_TAG_CHARS))[:MAX_TAGS]


class WrittenExperience(BaseModel):
    """An experience as the model writes it. Keys of its own say nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    when_to_use: Annotated[Text, AfterValidator(not_blank), Field(max_length=MAX_WHEN_CHARS)]
    content: Annotated[Text, AfterValidator(not_blank), Field(max_length=MAX_CONTENT_CHARS)]
    tags: Annotated[tuple[Text, ...], AfterValidator(_tags), BeforeValidator(none_as_empty)] = ()
    confidence: Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)]
    step_type: Annotated[StepType, BeforeValidator(lowered)]
    tools_used: Annotated[tuple[Text, ...], BeforeValidator(none_as_empty)] = ()
    messages: Annotated[tuple[Annotated[int, Strict()], ...], Field(min_length=1)]


class _WrittenExperiences(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    experiences: tuple[WrittenExperience, ...]


_TEXT: JsonValue = {"type": "string"}
_SCHEMA = ResponseSchema(
    name="experiences",
    schema=list_schema(
        "experiences",
        {
            "when_to_use": _TEXT,
            "content": _TEXT,
            "tags": {"type": "array", "items": _TEXT},
            "confidence": {"type": "number"},
            "step_type": {"type": "string", "enum": [kind.value for kind in StepType]},
            "tools_used": {"type": "array", "items": _TEXT},
            "messages": {"type": "array", "items": {"type": "integer"}},
        },
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceRequest:
    """What a model is to learn from.

    Attributes:
        prompt: Name of the prompt that says what to look for.
        origin: What comes of it.
        user: The fenced data.
        shown: The attempts that the data shows, in the order of their numbers.
        language: Of the prompts.
        most: At most so many experiences.
    """

    prompt: str
    origin: Origin
    user: str
    shown: tuple[ShownAttempt, ...]
    language: Language
    most: int


def experience_question(lesson: ExperienceRequest) -> JsonQuestion[Experiences]:
    """Return what the model is asked."""
    form = load_prompt(PACKAGE, "experience", lesson.language).fill({"most": str(lesson.most)})
    return JsonQuestion(
        system=load_prompt(PACKAGE, lesson.prompt, lesson.language).fill({"form": form}),
        user=lesson.user,
        schema=_SCHEMA,
        language=lesson.language,
        read=lambda value: read_experiences(value, lesson),
    )


def read_experiences(value: JsonValue, lesson: ExperienceRequest) -> Experiences:
    """Read an answer.

    Raises:
        ValueError: Saying what is wrong; a ValidationError for what is wrong with its form.
    """
    listed = value.get("experiences") if isinstance(value, dict) else None
    if isinstance(listed, list) and len(listed) > lesson.most:
        msg = f"experiences: {len(listed)} of them, at most {lesson.most}: only what is most worth knowing"
        raise ValueError(msg)
    called = frozenset(name for shown in lesson.shown for name in tools_called(shown.attempt))
    written = _WrittenExperiences.model_validate(value).experiences
    return tuple(_experience(item, f"experiences[{place}]", lesson, called) for place, item in enumerate(written))


def tools_called(attempt: Attempt) -> frozenset[str]:
    """Return the names of the tools that were called in an attempt."""
    blocks = (block for message in attempt.trajectory.messages for block in message.content)
    return frozenset(block.name for block in blocks if block.type == "tool_call")


def _experience(
    written: WrittenExperience, where: str, lesson: ExperienceRequest, called: frozenset[str]
) -> Experience:
    cited = frozenset(written.messages)
    evidence: list[Message] = []
    sources: list[Source] = []
    for shown in lesson.shown:
        own = [message for number, message in shown.messages.items() if number in cited]
        evidence += own
        if own:
            ids = tuple(message.message_id for message in own)
            sources.append(Source(block_id=shown.attempt.block_id, message_ids=ids))
    if len(evidence) < len(cited):
        known = {number for shown in lesson.shown for number in shown.messages}
        msg = f"{where}.messages: no message has the number {str(min(cited - known))[:20]}: give numbers that are shown"
        raise ValueError(msg)
    named = (name.strip() for name in written.tools_used)
    return Experience(
        when_to_use=written.when_to_use,
        content=written.content,
        tags=written.tags,
        confidence=written.confidence,
        step_type=written.step_type,
        tools_used=tuple(dict.fromkeys(name for name in named if name in called)),
        origin=lesson.origin,
        attempts=tuple(shown.attempt for shown in lesson.shown),
        evidence=tuple(evidence),
        sources=tuple(sources),
    )
