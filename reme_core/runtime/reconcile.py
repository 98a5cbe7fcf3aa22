"""The second call: what each fact means for its own neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, Strict

from reme_core.ports import ResponseSchema
from reme_core.runtime.asking import PACKAGE, Question, lowered, with_problems
from reme_core.runtime.extraction import MAX_CONTENT_CHARS, Fact, list_schema
from reme_core.schema import Memory, TimePrecision, last_part, shown_time
from reme_core.schema.checks import Text
from reme_core.text import Language, fence, json_line, load_prompt, shortened

SHOWN_CHARS = 300
"""Characters of a memory that the prompt shows: more than nearly all have, less than a page."""

SHOWN_FACT_CHARS = 900
"""Characters of a fact that the prompt shows."""


class Action(StrEnum):
    """What becomes of a fact."""

    ADD = "add"
    UPDATE = "update"
    SUPERSEDE = "supersede"
    SKIP = "skip"
    DELETE = "delete"


CHANGING = frozenset({Action.UPDATE, Action.SUPERSEDE, Action.DELETE})
"""Actions that change a memory that is there, and so have to name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fact, and the memories that it may change."""

    fact: Fact
    candidates: tuple[Memory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of a fact.

    Attributes:
        fact: The fact.
        action: What is done.
        memories: What is changed; of the candidates.
        content: The text of an update, where it is not the fact's.
    """

    fact: Fact
    action: Action
    memories: tuple[Memory, ...] = ()
    content: str = ""


def _numbers(value: object) -> object:
    if value is None or value == "":
        return []
    return value if isinstance(value, (list, tuple)) else [value]


class Decision(BaseModel):
    """A decision as the model writes it; keys of its own say nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    fact: Annotated[int, Strict()]
    action: Annotated[Action, BeforeValidator(lowered)]
    memory: Annotated[tuple[Annotated[int, Strict()], ...], BeforeValidator(_numbers)] = ()
    content: Annotated[Text, AfterValidator(str.strip), Field(max_length=MAX_CONTENT_CHARS)] | None = None


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    decisions: tuple[Decision, ...]


def reconcile_question(
    cases: Sequence[Case], language: Language, problems: Sequence[str]
) -> Question[tuple[Outcome, ...]]:
    """Return what the model is asked about facts that have candidates; `problems` are those of an earlier attempt."""
    numbers: dict[str, int] = {}
    memories: list[str] = []
    for case in cases:
        for memory in case.candidates:
            if memory.memory_id not in numbers:
                numbers[memory.memory_id] = len(numbers) + 1
                memories.append(_memory_line(memory, numbers[memory.memory_id]))
    facts = [_fact_line(case, place, numbers) for place, case in enumerate(cases, 1)]
    parts = [fence("memories", "\n".join(memories)), fence("facts", "\n".join(facts))]
    return Question(
        system=load_prompt(PACKAGE, "reconcile", language).fill({}),
        user=with_problems("\n".join(parts), problems, language),
        schema=_SCHEMA,
        language=language,
        read=lambda value: read_decisions(value, cases, numbers),
    )


def _memory_line(memory: Memory, number: int) -> str:
    line: dict[str, JsonValue] = {"n": number, "since": _date(memory.valid_from, memory.valid_from_precision)}
    if memory.valid_to is not None:
        line["until"] = _end(memory.valid_to, memory.valid_to_precision)
    return json_line({**line, "text": shortened(memory.content, SHOWN_CHARS)})


def _fact_line(case: Case, number: int, numbers: Mapping[str, int]) -> str:
    fact = case.fact
    line: dict[str, JsonValue] = {"fact": number}
    if fact.stated_from is not None:
        line["since"] = _date(fact.stated_from, fact.stated_precision)
    if fact.ended_at is not None:
        line["until"] = _end(fact.ended_at, fact.ended_precision)
    own: list[JsonValue] = [numbers[memory.memory_id] for memory in case.candidates]
    return json_line({**line, "text": shortened(fact.content, SHOWN_FACT_CHARS), "candidates": own})


def _date(moment: datetime, precision: TimePrecision) -> str:
    return shown_time(moment, TimePrecision.DAY if precision is TimePrecision.EXACT else precision)


def _end(moment: datetime, precision: TimePrecision) -> str:
    return _date(last_part(moment, precision), precision)


_SCHEMA = ResponseSchema(
    name="decisions",
    schema=list_schema(
        "decisions",
        {
            "fact": {"type": "integer"},
            "action": {"type": "string", "enum": [action.value for action in Action]},
            "memory": {"type": "array", "items": {"type": "integer"}},
            "content": {"type": "string"},
        },
        required=("fact", "action"),
    ),
)


def read_decisions(value: JsonValue, cases: Sequence[Case], numbers: Mapping[str, int]) -> tuple[Outcome, ...]:
    """Read an answer about facts; `numbers` are those that their candidates were shown with.

    Raises:
        ValueError: Saying what is wrong: a fact that is not decided, or twice; a memory that is none of its candidates,
            or that two facts change.
    """
    written = _Answer.model_validate(value).decisions
    decisions = {decision.fact: decision for decision in written}
    wanted = set(range(1, len(cases) + 1))
    if decisions.keys() != wanted or len(written) != len(cases):
        missing, unknown = sorted(wanted - decisions.keys()), sorted(decisions.keys() - wanted)
        msg = (
            f"decisions: {len(written)} for {len(cases)} facts; each fact is decided once "
            f"(missing {missing[:20]!s}, unknown {str(unknown[:3])[:60]})"
        )
        raise ValueError(msg)
    outcomes = tuple(_outcome(case, decisions[place], numbers) for place, case in enumerate(cases, 1))
    changed: set[str] = set()
    for place, outcome in enumerate(outcomes, 1):
        ids = {memory.memory_id for memory in outcome.memories}
        if ids & changed:
            twice = sorted(numbers[name] for name in ids & changed)
            msg = f"fact {place}: another fact changes memory {twice[0]} already; a memory is changed by one fact"
            raise ValueError(msg)
        changed |= ids
    return outcomes


def _outcome(case: Case, decision: Decision, numbers: Mapping[str, int]) -> Outcome:
    if decision.action not in CHANGING:
        return Outcome(fact=case.fact, action=decision.action)
    where = f"fact {decision.fact}"
    own = {numbers[memory.memory_id]: memory for memory in case.candidates}
    named = tuple(dict.fromkeys(decision.memory))
    if not named or (decision.action == Action.UPDATE and len(named) > 1):
        msg = f"{where}: {decision.action} has to name {'one memory' if named else 'a memory'}"
        raise ValueError(msg)
    foreign = [number for number in named if number not in own]
    if foreign:
        msg = f"{where}: memory {str(foreign[0])[:20]} is none of its candidates {sorted(own)}"
        raise ValueError(msg)
    return Outcome(
        fact=case.fact,
        action=decision.action,
        memories=tuple(own[number] for number in named),
        content=decision.content or "",
    )
