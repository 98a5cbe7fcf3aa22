"""Question to a model about memories that lie near each other: which say the same, and which contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from reme_core.evolve.joined_text import INCOMPLETE
from reme_core.evolve.merged_memory import merge
from reme_core.ports import ResponseSchema
from reme_core.schema import Memory, MemoryGroup, MergedMemories, shown_beginning, shown_end, trust_field
from reme_core.steps.ask_json import AnswerRepair, JsonQuestion, WrittenAnswer, none_as_empty, object_schema
from reme_core.steps.targets import target_of
from reme_core.text import Language, estimate_tokens, fence, json_line, load_prompt, prompt_language, shortened

MOST_SHOWN_CHARS = 600
"""Of a memory with more, a model could not tell what it says from the part that is shown: it is not compared."""

_MOST_CONTENT_CHARS, _MOST_WHY_CHARS = 4 * MOST_SHOWN_CHARS, 300
# A group repeats what its memories say; few memories are in one.
_TOKENS_ANYWAY, _MOST_TOKENS = 500, 8192
_NUMBERS: dict[str, JsonValue] = {"type": "array", "items": {"type": "integer"}}
_LISTS: dict[str, JsonValue] = {
    name: {"type": "array", "items": object_schema({"memories": _NUMBERS, word: {"type": "string"}})}
    for name, word in (("groups", "content"), ("contradictions", "why"))
}
_SCHEMA = ResponseSchema(name="consolidation", schema=object_schema(_LISTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a model found among some memories.

    Attributes:
        merges: What is joined.
        contradictions: What can't all be true.
        rejected: What it wanted joined and must not be, with the reason.
    """

    merges: tuple[MergedMemories, ...] = ()
    contradictions: tuple[MemoryGroup, ...] = ()
    rejected: tuple[MemoryGroup, ...] = ()

    def __add__(self, more: Findings) -> Findings:
        """Join what was found among others."""
        return Findings(
            merges=self.merges + more.merges,
            contradictions=self.contradictions + more.contradictions,
            rejected=self.rejected + more.rejected,
        )


class _Group(WrittenAnswer):
    memories: Annotated[tuple[int, ...], BeforeValidator(none_as_empty)] = ()
    content: Annotated[str, Field(max_length=_MOST_CONTENT_CHARS)] = ""
    why: str = ""


class _WrittenLists(WrittenAnswer):
    groups: Annotated[tuple[JsonValue, ...], BeforeValidator(none_as_empty)] = ()
    contradictions: Annotated[tuple[JsonValue, ...], BeforeValidator(none_as_empty)] = ()


def consolidation_question(
    memories: Sequence[Memory], language: Language | None, *, at: datetime
) -> JsonQuestion[Findings]:
    """Return what a model is asked about memories, which it knows by their numbers from 1."""
    chosen = language or prompt_language(memory.content for memory in memories)
    reader = _Reader(memories=memories, at=at)
    lines = "\n".join(_line(memory, number) for number, memory in enumerate(memories, 1))
    return JsonQuestion(
        system=load_prompt("reme_core.evolve", "consolidate", chosen).fill({}),
        user=fence("memories", lines),
        schema=_SCHEMA,
        language=chosen,
        read=reader.read,
        mending=AnswerRepair(schema=_SCHEMA, problems=reader.problems, join=reader.join),
        temperature=0.0,
        max_tokens=min(_MOST_TOKENS, _TOKENS_ANYWAY + estimate_tokens(lines)),
    )


def _line(memory: Memory, number: int) -> str:
    kind, name = target_of(memory)
    line: dict[str, JsonValue] = {"n": number, "about": f"{kind}/{name}", "told": f"{memory.observed_at:%Y-%m-%d}"}
    times = {"since": shown_beginning(memory), "until": shown_end(memory), "when": memory.when_to_use}
    shown = {word: shortened(text, MOST_SHOWN_CHARS) for word, text in times.items() if text}
    return json_line({**line, **shown, **trust_field(memory.trust), "text": memory.content})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reads what a model found among memories that it knows by their numbers from 1, each group by itself."""

    memories: Sequence[Memory]
    at: datetime

    def read(self, value: JsonValue) -> Findings:
        """Read an answer (ValueError: there are no lists)."""
        answer = _WrittenLists.model_validate(value)
        # More would name memories twice.
        groups = [_written(item) for item in answer.groups[: len(self.memories)]]
        times_named = Counter(number for group in groups for number in set(group.memories))
        merges, rejected = list[MergedMemories](), list[MemoryGroup]()
        for group in groups:
            parts = _named(group, self.memories)
            try:
                merges.append(_joined(group, parts, times_named, at=self.at))
            except ValueError as exc:
                rejected.append(MemoryGroup(memories=parts, reason=str(exc)))
        told = tuple(_told((_written(item) for item in answer.contradictions[: len(self.memories)]), self.memories))
        return Findings(merges=tuple(merges), rejected=tuple(rejected), contradictions=told)

    def problems(self, found: Findings) -> list[str]:
        """Return which groups lack something that their memories say."""
        numbers = {memory.memory_id: number for number, memory in enumerate(self.memories, 1)}
        return [
            f"memories {sorted(numbers[memory.memory_id] for memory in group.memories)}: {group.reason}"
            for group in found.rejected
            if group.reason.startswith(INCOMPLETE)
        ]

    def join(self, first: Findings, value: JsonValue) -> Findings:
        """Put the groups of a second answer in place of those that lacked something (ValueError)."""
        taken = {part.memory_id for item in first.merges for part in item.before}
        mended = [item for item in self.read(value).merges if taken.isdisjoint(_ids(item.before))]
        done = {part.memory_id for item in mended for part in item.before}
        left = tuple(group for group in first.rejected if not (group.memories and _ids(group.memories) <= done))
        return Findings(merges=(*first.merges, *mended), contradictions=first.contradictions, rejected=left)


def _ids(memories: Sequence[Memory]) -> set[str]:
    return {memory.memory_id for memory in memories}


def _written(item: JsonValue) -> _Group:
    """Read a group; one that can't be read names nothing, which is refused like any other that names too little."""
    try:
        return _Group.model_validate(item)
    except ValueError:
        return _Group()


def _named(group: _Group, memories: Sequence[Memory]) -> tuple[Memory, ...]:
    known = [number for number in dict.fromkeys(group.memories) if 1 <= number <= len(memories)]
    return tuple(memories[number - 1] for number in known)


def _joined(group: _Group, parts: Sequence[Memory], times_named: Mapping[int, int], *, at: datetime) -> MergedMemories:
    if any(times_named[number] > 1 for number in group.memories):
        msg = "a memory is in two groups"
        raise ValueError(msg)
    if len(parts) < len(group.memories):
        msg = "a number that was not shown, or one twice"
        raise ValueError(msg)
    if len(parts) < 2:
        msg = "names no two memories"
        raise ValueError(msg)
    return merge(parts, group.content, "model", at=at)


def _told(groups: Iterable[_Group], memories: Sequence[Memory]) -> Iterable[MemoryGroup]:
    for group in groups:
        parts = _named(group, memories)
        if len(parts) == len(set(group.memories)) == 2:
            yield MemoryGroup(memories=parts, reason=shortened(group.why.strip(), _MOST_WHY_CHARS))
