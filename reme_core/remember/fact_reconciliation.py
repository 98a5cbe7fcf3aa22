"""Second call of distillation: what each fact means for the memories that it is compared with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, tzinfo
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError

from reme_core.ports import ResponseSchema
from reme_core.remember.fact_candidates import NearMemory
from reme_core.remember.fact_extraction import Fact
from reme_core.remember.written_facts import MAX_CONTENT_CHARS, listed, numbered, told_problems
from reme_core.schema import FactPreview, Memory, TimePrecision, describe, last_part, shown_time, trust_field
from reme_core.schema.checks import Text
from reme_core.steps.ask_json import AnswerRepair, JsonQuestion, WrittenAnswer, list_schema, lowered, with_problems
from reme_core.text import Language, estimate_tokens, fence, json_line, load_prompt, shortened

SHOWN_CHARS = 300
"""Characters of a memory that the prompt shows: more than nearly all have, less than a page."""

SHOWN_FACT_CHARS = 900
"""Characters of a fact that the prompt shows."""

# Both calls of a session of twenty short messages take at most 3,000 tokens; 1,700 are instructions, schemas, fences:
# the first figure is what messages, facts and memories share. A longer session shows what it takes beyond the second.
_SESSION_TOKENS, _SHORT_TOKENS, _MOST_ROOM = 1300, 850, 750
_FIGURES = re.compile(r"\s*\d{1,9}\s*")
# More decisions than so many for each fact are no answer.
_MOST_TIMES = 10
# A decision takes some 40 tokens, and one that updates a memory repeats the fact and the memory.
_TOKENS_ANYWAY, _TOKENS_PER_FACT, _MOST_TOKENS = 500, 150, 8192


class FactAction(StrEnum):
    """What becomes of a fact."""

    ADD = "add"
    UPDATE = "update"
    SUPERSEDE = "supersede"
    SKIP = "skip"
    DELETE = "delete"


CHANGING = frozenset({FactAction.UPDATE, FactAction.SUPERSEDE, FactAction.DELETE})
"""Actions that change a memory that is there, and so have to name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFact:
    """A fact, and the memories that it may change."""

    fact: Fact
    candidates: tuple[Memory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactOutcome:
    """What becomes of a fact.

    Attributes:
        fact: The fact.
        action: What is done.
        memories: What is changed; of the candidates.
        content: The text of an update, where it is not the fact's.
        candidates: What the fact was compared with.
    """

    fact: Fact
    action: FactAction
    memories: tuple[Memory, ...] = ()
    content: str = ""
    candidates: tuple[Memory, ...] = ()

    @property
    def preview(self) -> FactPreview:
        """The outcome as it is told."""
        return FactPreview(
            action=self.action.value,
            content=self.content or self.fact.content,
            memory_type=self.fact.target.memory_type,
            memory_target=self.fact.target.memory_target,
            message_ids=tuple(name for source in self.fact.sources for name in source.message_ids),
            memory_ids=tuple(memory.memory_id for memory in self.memories),
            compared_with=self.candidates,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDecisions:
    """What was read of an answer.

    Attributes:
        outcomes: What becomes of each fact, in order; None where that can't be told.
        problems: Why not, in words for a model, by the place of the fact.
    """

    outcomes: tuple[FactOutcome | None, ...]
    problems: Mapping[int, str] = field(default_factory=dict)


def _numbers(value: object) -> object:
    """Return numbers of memories as they were written: 1, "1" or a list of such."""
    items = value if isinstance(value, (list, tuple)) else () if value is None or value == "" else (value,)
    return tuple(int(item) if isinstance(item, str) and _FIGURES.fullmatch(item) else item for item in items)


class Decision(WrittenAnswer):
    """A decision as the model writes it; keys of its own say nothing."""

    action: Annotated[FactAction, BeforeValidator(lowered)]
    memory: Annotated[tuple[int, ...], BeforeValidator(_numbers)] = ()
    content: Annotated[Text, AfterValidator(str.strip), Field(max_length=MAX_CONTENT_CHARS)] | None = None


def room_beside(extraction: int) -> int:
    """Return how many tokens of facts and memories the comparison shows after an extraction from so many tokens.

    A short session leaves room for more. A long one holds more facts.
    """
    return max(_SESSION_TOKENS - extraction, min(_MOST_ROOM, extraction - _SHORT_TOKENS))


def nearest(near: Sequence[tuple[Fact, Sequence[NearMemory]]], room: int) -> list[ComparedFact]:
    """Return facts with those of their candidates that a prompt of so many tokens has room for, one pair at least.

    The nearest of each fact goes first, then the second of each; among these what is nearer. A fact and a memory take
    their room once, and a fact keeps every candidate that is shown.
    """
    pairs = [
        (rank, -one.similarity, place, one.memory)
        for place, (_, found) in enumerate(near)
        for rank, one in enumerate(found)
    ]
    facts, memories = set[int](), set[str]()
    for _, _, place, memory in sorted(pairs, key=lambda pair: pair[:3]):
        fact, found = near[place]
        # Two digits for each candidate: more than there is room for are never shown.
        numbers = range(10, 10 + len(found))
        cost = 0 if place in facts else estimate_tokens(_fact_line(fact, place, numbers, UTC))
        cost += 0 if memory.memory_id in memories else estimate_tokens(_memory_line(memory, 0, UTC))
        if cost <= room or not facts:
            room -= cost
            facts.add(place)
            memories.add(memory.memory_id)
    shown = [
        tuple(one.memory for one in found if place in facts and one.memory.memory_id in memories)
        for place, (_, found) in enumerate(near)
    ]
    return [ComparedFact(fact=fact, candidates=own) for (fact, _), own in zip(near, shown, strict=True)]


def reconcile_question(
    cases: Sequence[ComparedFact], language: Language, problems: Sequence[str], *, zone: tzinfo = UTC
) -> JsonQuestion[ReadDecisions]:
    """Return what the model is asked about facts that have candidates; `problems` are those of an earlier attempt.

    Days are those of `zone`, as in the words of facts.
    """
    numbers: dict[str, int] = {}
    memories: list[str] = []
    for case in cases:
        for memory in case.candidates:
            if memory.memory_id not in numbers:
                numbers[memory.memory_id] = len(numbers) + 1
                memories.append(_memory_line(memory, numbers[memory.memory_id], zone))
    facts = [
        _fact_line(case.fact, place, [numbers[memory.memory_id] for memory in case.candidates], zone)
        for place, case in enumerate(cases, 1)
    ]
    parts = [fence("memories", "\n".join(memories)), fence("facts", "\n".join(facts))]
    reader = DecisionReader(cases=cases, numbers=numbers)
    return JsonQuestion(
        system=load_prompt("reme_core.remember", "reconcile", language).fill({}),
        user=with_problems("\n".join(parts), problems, language),
        schema=_SCHEMA,
        language=language,
        read=reader.read,
        mending=AnswerRepair(schema=_SCHEMA, problems=reader.problems, join=reader.join),
        temperature=0.0,
        max_tokens=min(_MOST_TOKENS, _TOKENS_ANYWAY + _TOKENS_PER_FACT * len(cases) + estimate_tokens(parts[1])),
    )


def _memory_line(memory: Memory, number: int, zone: tzinfo) -> str:
    text = shortened(memory.content, SHOWN_CHARS)
    line: dict[str, JsonValue] = {"n": number}
    # A memory without a time of its own holds since it was told.
    if memory.valid_from != memory.observed_at:
        line |= _unsaid("since", _date(memory.valid_from, memory.valid_from_precision, zone), text)
    if memory.valid_to is not None:
        line |= _unsaid("until", _end(memory.valid_to, memory.valid_to_precision, zone), text)
    return json_line({**line, **trust_field(memory.trust), "text": text})


def _fact_line(fact: Fact, number: int, candidates: Sequence[int], zone: tzinfo) -> str:
    text = shortened(fact.content, SHOWN_FACT_CHARS)
    line: dict[str, JsonValue] = {"fact": number}
    if fact.stated_from is not None:
        line |= _unsaid("since", _date(fact.stated_from, fact.stated_precision, zone), text)
    if fact.ended_at is not None:
        line |= _unsaid("until", _end(fact.ended_at, fact.ended_precision, zone), text)
    return json_line({**line, **trust_field(fact.trust), "text": text, "candidates": list(candidates)})


def _unsaid(name: str, when: str, text: str) -> dict[str, JsonValue]:
    """Return a time as a field, or none where the text names it."""
    return {} if re.search(rf"(?<!\d){re.escape(when)}", text) else {name: when}


def _date(moment: datetime, precision: TimePrecision, zone: tzinfo) -> str:
    if precision is not TimePrecision.EXACT:
        return shown_time(moment, precision)
    # At midnight it was a date, before dates had a precision.
    here = moment if moment.time() == time.min else moment.astimezone(zone).replace(tzinfo=UTC)
    return shown_time(here, TimePrecision.DAY)


def _end(moment: datetime, precision: TimePrecision, zone: tzinfo) -> str:
    return _date(last_part(moment, precision), precision, zone)


_SCHEMA = ResponseSchema(
    name="decisions",
    schema=list_schema(
        "decisions",
        {
            "fact": {"type": "integer"},
            "action": {"type": "string", "enum": [action.value for action in FactAction]},
            "memory": {"type": "array", "items": {"type": "integer"}},
            "content": {"type": ["string", "null"]},
        },
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReader:
    """Reads decisions, each by itself.

    Attributes:
        cases: What is to be decided.
        numbers: The numbers that the candidates were shown with, by memory id.
    """

    cases: Sequence[ComparedFact]
    numbers: Mapping[str, int]

    def read(self, value: JsonValue) -> ReadDecisions:
        """Read an answer.

        Raises:
            ValueError: Saying what is wrong: there are no decisions, far too many, or none that can be used.
        """
        decided = self._decided([None] * len(self.cases), value, range(len(self.cases)))
        if not any(decided.outcomes):
            raise ValueError("\n".join(self.problems(decided)))
        return decided

    def problems(self, decided: ReadDecisions) -> list[str]:
        """Return what is wrong with the facts that are not decided, by number."""
        return told_problems("fact", [(place + 1, problem) for place, problem in decided.problems.items()])

    def join(self, first: ReadDecisions, value: JsonValue) -> ReadDecisions:
        """Put the decisions of a second answer in place of those that are missing (ValueError: there are none)."""
        return self._decided(list(first.outcomes), value, list(first.problems))

    def _decided(self, outcomes: list[FactOutcome | None], value: JsonValue, open_: Sequence[int]) -> ReadDecisions:
        items = listed(value, "decisions", "action")
        if len(items) > _MOST_TIMES * len(self.cases) + _MOST_TIMES:
            msg = f"decisions: {len(items)} for {len(self.cases)} facts; each fact is decided once"
            raise ValueError(msg)
        told: dict[int, list[JsonValue]] = {}
        for place, item in numbered(items, "fact", open_):
            told.setdefault(place, []).append(item)
        changed = {memory.memory_id for outcome in outcomes if outcome for memory in outcome.memories}
        problems: dict[int, str] = {}
        for place in open_:
            try:
                outcome = self._outcome(self.cases[place], told.get(place, []), changed)
            except ValidationError as exc:
                problems[place] = describe(exc, "").removeprefix(".")
            except ValueError as exc:
                problems[place] = str(exc)
            else:
                outcomes[place] = outcome
                changed |= {memory.memory_id for memory in outcome.memories}
        return ReadDecisions(outcomes=tuple(outcomes), problems=problems)

    def _outcome(self, case: ComparedFact, told: Sequence[JsonValue], changed: Set[str]) -> FactOutcome:
        """Return what becomes of a fact (ValueError: saying why that can't be told)."""
        decisions = {Decision.model_validate(item) for item in told}
        if len(decisions) != 1:
            msg = "is decided twice, and not in the same way" if decisions else "is not decided"
            raise ValueError(msg)
        outcome = _outcome(case, decisions.pop(), self.numbers)
        twice = sorted(self.numbers[memory.memory_id] for memory in outcome.memories if memory.memory_id in changed)
        if twice:
            msg = f"another fact changes memory {twice[0]} already; a memory is changed by one fact"
            raise ValueError(msg)
        return outcome


def _outcome(case: ComparedFact, decision: Decision, numbers: Mapping[str, int]) -> FactOutcome:
    if decision.action not in CHANGING:
        return FactOutcome(fact=case.fact, action=decision.action, candidates=case.candidates)
    own = {numbers[memory.memory_id]: memory for memory in case.candidates}
    named = tuple(dict.fromkeys(decision.memory))
    if not named or (decision.action == FactAction.UPDATE and len(named) > 1):
        msg = f"{decision.action} has to name {'one memory' if named else 'a memory'}"
        raise ValueError(msg)
    foreign = [number for number in named if number not in own]
    if foreign:
        msg = f"memory {str(foreign[0])[:20]} is none of its candidates {sorted(own)}"
        raise ValueError(msg)
    return FactOutcome(
        fact=case.fact,
        action=decision.action,
        memories=tuple(own[number] for number in named),
        content=decision.content or "",
        candidates=case.candidates,
    )
