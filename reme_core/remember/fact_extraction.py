"""First call of distillation: typed facts out of a conversation, each with its messages and a target of the scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pydantic import JsonValue

from reme_core.ports import ResponseSchema, Store, Target
from reme_core.remember.written_facts import FactReader, WrittenFact, WrittenFacts
from reme_core.rules import Claim, join_relations
from reme_core.schema import (
    MemoryType,
    Message,
    Relation,
    Scope,
    Source,
    TimePrecision,
    TrustClass,
    last_part,
    least_trusted,
    trust_field,
)
from reme_core.steps.ask_json import AnswerRepair, JsonQuestion, object_schema, with_problems
from reme_core.steps.distillation import EXTRACTED, SHOWN_CHARS, DistilTask
from reme_core.steps.targets import claim_on, read_meta, same_name
from reme_core.text import (
    Language,
    conversation_lines,
    estimate_tokens,
    fence,
    json_line,
    load_prompt,
    main_script,
    query_terms,
    shortened,
    with_media_told,
)

# Names are shown to the model to be used again: those with the most memories, and none so long that it is no name.
_MOST_SHOWN = 40
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class KnownTargets:
    """The targets of a scope with the number of their current memories."""

    counts: Mapping[Target, int]

    def spelled(self, target: Target) -> Target:
        """Return the target as it is known: the same letters, else those that differ in case; else as it is."""
        name = target.memory_target.strip()
        wanted = Target(target.memory_type, name)
        if wanted in self.counts:
            return wanted
        alike = [known for known in self.counts if is_same_target(known, wanted)]
        return max(alike, key=lambda known: (self.counts[known], known.memory_target), default=wanted)

    def shown(self, types: Sequence[MemoryType]) -> dict[str, JsonValue]:
        """Return the names by type, those with the most memories first."""
        known = [
            target
            for target in self.counts
            if target.memory_type in types and len(target.memory_target) <= _LONGEST_SHOWN
        ]
        known.sort(key=lambda target: (-self.counts[target], target.memory_target))
        names: dict[str, JsonValue] = {}
        for kind in types:
            listed: list[JsonValue] = [item.memory_target for item in known[:_MOST_SHOWN] if item.memory_type == kind]
            if listed:
                names[kind.value] = listed
        return names


def is_same_target(one: Target, other: Target) -> bool:
    """Tell whether two targets are the same, whatever the case and the blanks at the ends of their names."""
    return one.memory_type == other.memory_type and same_name(one, other)


async def read_known_targets(store: Store, scope: Scope) -> KnownTargets:
    """Read the targets of a scope: those of its current memories, and those that its routing table names."""
    return KnownTargets({entry.target: entry.memories for entry in await read_meta(store, scope)})


# A fact's fields take some 50 tokens beside its text, and a message of talk holds up to two. Most endpoints write
# 8,192 tokens at most.
_TOKENS_ANYWAY, _TOKENS_PER_MESSAGE, _MOST_TOKENS = 1000, 100, 8192
# Tokens of what came before: enough to know who and what is talked of, for some 300 in all.
_THREAD_TOKENS, _BEFORE_TOKENS, _NAME_TOKENS = 100, 25, 12
_EXAMPLES = {"HAN": "zh", "KANA": "ja", "HANGUL": "ko", "CYRILLIC": "ru", "ARABIC": "ar"}
# A message is where a fact was told if it holds as large a share of its words.
_LEAST_SHARED = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A statement taken from messages.

    Attributes:
        target: What it is about.
        content: What it says.
        when_to_use: When it is of use; may be empty.
        observed_at: When it was said; the last time, if it was said more than once.
        stated_from: Since when it holds, if that was said.
        stated_precision: How much of that was said.
        ended_at: Until when it holds or held (exclusive), if that was said.
        ended_precision: How much of that was said.
        sources: The messages it was said in, by block.
        trust: That of the least trusted of these.
        relations: What it tells of persons and things to each other.
    """

    target: Target
    content: str
    when_to_use: str = ""
    observed_at: datetime
    stated_from: datetime | None = None
    stated_precision: TimePrecision = TimePrecision.EXACT
    ended_at: datetime | None = None
    ended_precision: TimePrecision = TimePrecision.EXACT
    sources: tuple[Source, ...]
    trust: TrustClass = TrustClass.USER
    relations: tuple[Relation, ...] = ()

    @property
    def valid_from(self) -> datetime:
        """Since when it holds: as stated, else since it was said, but no later than the last day or month it names."""
        if self.stated_from is not None:
            return self.stated_from
        if self.ended_at is None or self.ended_at > self.observed_at:
            return self.observed_at
        return last_part(self.ended_at, self.ended_precision)

    @property
    def valid_from_precision(self) -> TimePrecision:
        """How much of `valid_from` was said."""
        if self.stated_from is not None:
            return self.stated_precision
        return TimePrecision.EXACT if self.valid_from == self.observed_at else self.ended_precision

    @property
    def index_text(self) -> str:
        """The text that a memory of it is found by."""
        return f"{self.when_to_use}\n{self.content}" if self.when_to_use else self.content

    @property
    def claim(self) -> Claim:
        """What a memory of it would claim for itself alone."""
        return claim_on(self.target, self.content)


def wanted_types(task: DistilTask) -> tuple[MemoryType, ...]:
    """Return the types of memory that a task asks for."""
    if task.memory_type is not None:
        return (task.memory_type,)
    if task.targets is None:
        return task.guidance.extracted
    return tuple(kind for kind in MemoryType if any(kind == target.memory_type for target in task.targets))


def extraction_question(
    task: DistilTask, known: KnownTargets, language: Language, problems: Sequence[str]
) -> JsonQuestion[WrittenFacts]:
    """Return what the model is asked; `problems` are those of an earlier attempt."""
    types = wanted_types(task)
    messages = [with_media_told(message) for message in task.messages]
    lines = conversation_lines(messages, max_chars=SHOWN_CHARS, zone=task.zone, terse=True)
    before = [fence("before", text)] if (text := _before(task)) else []
    fences = [fence("request", json_line(_wanted(task, types, known))), *before, fence("conversation", lines)]
    texts = [shortened(message.full_text, SHOWN_CHARS) for message in messages]
    reader = FactReader(types=types, texts=texts, zone=task.zone)
    system = load_prompt("reme_core.remember", "extract", language).fill({"example": _example(task)})
    guided = task.guidance.shown(language)
    schema = partial(_schema, types, parts=len(task.blocks))
    return JsonQuestion(
        system=f"{system}\n\n{guided}" if guided else system,
        user=with_problems("\n".join(fences), problems, language),
        schema=schema(),
        language=language,
        read=reader.read,
        mending=AnswerRepair(schema=schema(is_numbered=True), problems=reader.problems, join=reader.join),
        temperature=0.0,
        max_tokens=_room(len(task.messages), lines),
    )


def _wanted(task: DistilTask, types: Sequence[MemoryType], known: KnownTargets) -> dict[str, JsonValue]:
    # Where any type will do, the schema's list of them is enough.
    wanted: dict[str, JsonValue] = {} if types == EXTRACTED else {"types": [kind.value for kind in types]}
    names = _asked(task.targets) if task.targets is not None else known.shown(types)
    if names:
        wanted["targets"] = names
    if len(task.blocks) > 1:
        wanted["parts"] = _parts(task)
    return wanted


def _parts(task: DistilTask) -> list[JsonValue]:
    """Return the first and the last message of each block, by number."""
    numbers = {message.message_id: number for number, message in enumerate(task.messages, 1)}
    own = [[numbers[name] for name in block.message_ids if name in numbers] for block in task.blocks]
    return [[min(part), max(part)] if part else [] for part in own]


def _before(task: DistilTask) -> str:
    """Return what came before as lines: its gist, and the last messages, without numbers since no fact is theirs."""
    lines = [json_line({"summary": _fitting(task.thread, _THREAD_TOKENS)})] if task.thread else []
    for message in task.before:
        text = _fitting(with_media_told(message).full_text, _BEFORE_TOKENS)
        by = _fitting(message.speaker, _NAME_TOKENS)
        lines.append(json_line({"by": by, **trust_field(message.trust, by), "text": text}))
    return "\n".join(lines)


def _fitting(text: str, tokens: int) -> str:
    """Return a text, or its head and tail of so many tokens together."""
    count = estimate_tokens(text)
    if count <= tokens:
        return text
    size = len(text) * tokens // count
    tail = size // 3
    return f"{text[: size - tail]} … {text[len(text) - tail :]}"


def _example(task: DistilTask) -> str:
    """Return the worked example in the language of the conversation, as far as its script tells which that is."""
    script = main_script(message.full_text for message in task.messages)
    return load_prompt("reme_core.remember", "example", _EXAMPLES.get(script or "", "en")).text


def _room(messages: int, lines: str) -> int:
    """Return the tokens that facts of a conversation may need: its own, and what their fields take."""
    return min(_MOST_TOKENS, _TOKENS_ANYWAY + _TOKENS_PER_MESSAGE * messages + estimate_tokens(lines))


def _asked(targets: Sequence[Target]) -> dict[str, JsonValue]:
    names: dict[str, list[JsonValue]] = {}
    for target in targets:
        names.setdefault(target.memory_type.value, []).append(target.memory_target)
    return dict(names)


def _schema(types: Sequence[MemoryType], *, parts: int, is_numbered: bool = False) -> ResponseSchema:
    summary: JsonValue = {"type": "array", "items": {"type": "string"}} if parts > 1 else {"type": "string"}
    number: dict[str, JsonValue] = {"fact": {"type": "integer"}} if is_numbered else {}
    facts: JsonValue = {"type": "array", "items": object_schema({**number, **_fields(types)})}
    return ResponseSchema(name="facts", schema=object_schema({"summary": summary, "facts": facts}))


def _fields(types: Sequence[MemoryType]) -> dict[str, JsonValue]:
    text: JsonValue = {"type": "string"}
    text_or_none: JsonValue = {"type": ["string", "null"]}
    return {
        "type": {"type": "string", "enum": [kind.value for kind in types]},
        "target": text,
        "content": text,
        "when_to_use": text_or_none,
        "valid_from": text_or_none,
        "valid_to": text_or_none,
        "messages": {"type": "array", "items": {"type": "integer"}},
        "relations": {"type": ["array", "null"], "items": {"type": "array", "items": text}},
    }


def facts_of(written: Sequence[WrittenFact], task: DistilTask, known: KnownTargets) -> list[Fact]:
    """Return the facts that a task is about, in order; what was written twice is one fact with the sources of both."""
    spelling = known
    facts: dict[tuple[Claim, datetime | None], Fact] = {}
    for item in written:
        said = _said(item, task)
        name = "self" if item.type == MemoryType.IDENTITY else item.target or _speaker(said)
        target = spelling.spelled(Target(item.type, name))
        if task.targets is not None and not any(is_same_target(target, asked) for asked in task.targets):
            continue
        spelling = KnownTargets({target: 0, **spelling.counts})
        fact = _fact(item, target, said, task)
        same = facts.get((fact.claim, fact.ended_at))
        facts[fact.claim, fact.ended_at] = fact if same is None else _joined(same, fact)
    return list(facts.values())


def _said(written: WrittenFact, task: DistilTask) -> Sequence[Message]:
    """Return the messages that a fact was told in; where it names none, those that share its words, or else all."""
    if written.messages:
        return [task.messages[number - 1] for number in written.messages]
    wanted = set(query_terms(written.content)) - set(query_terms(written.target))
    shared = [len(wanted & set(query_terms(message.full_text))) / max(1, len(wanted)) for message in task.messages]
    best = max(shared, default=0.0)
    if best < _LEAST_SHARED:
        return task.messages
    return [message for message, share in zip(task.messages, shared, strict=True) if share == best]


def _speaker(said: Sequence[Message]) -> str:
    """Return the name of who said it, if that is one person with a name."""
    names = {message.name.strip() for message in said if message.name is not None}
    return names.pop() or "self" if len(names) == 1 else "self"


def _fact(written: WrittenFact, target: Target, said: Sequence[Message], task: DistilTask) -> Fact:
    since, until = written.valid_from, written.valid_to
    return Fact(
        target=target,
        content=written.content,
        when_to_use=written.when_to_use,
        observed_at=max(message.created_at for message in said),
        stated_from=None if since is None else since.start,
        stated_precision=TimePrecision.EXACT if since is None else since.precision,
        ended_at=None if until is None else until.end,
        ended_precision=TimePrecision.EXACT if until is None else until.precision,
        sources=sources_of([message.message_id for message in said], task),
        trust=least_trusted(message.trust for message in said),
        relations=written.relations,
    )


def _joined(one: Fact, other: Fact) -> Fact:
    return replace(
        one,
        when_to_use=one.when_to_use or other.when_to_use,
        observed_at=max(one.observed_at, other.observed_at),
        stated_from=one.stated_from or other.stated_from,
        stated_precision=one.stated_precision if one.stated_from is not None else other.stated_precision,
        sources=join_sources(one.sources, other.sources),
        trust=least_trusted([one.trust, other.trust]),
        relations=join_relations(one.relations, other.relations),
    )


def sources_of(message_ids: Sequence[str], task: DistilTask) -> tuple[Source, ...]:
    """Return messages by the block that each lies in; one that a later block repeats lies in the first."""
    homes: dict[str, str] = {}
    for block in task.blocks:
        for message_id in block.message_ids:
            homes.setdefault(message_id, block.block_id)
    sources: tuple[Source, ...] = ()
    for message_id in message_ids:
        sources = join_sources(sources, (Source(block_id=homes.get(message_id), message_ids=(message_id,)),))
    return sources


def join_sources(one: Sequence[Source], other: Sequence[Source]) -> tuple[Source, ...]:
    """Return the sources of both: each block once, each of its messages once, in the order of their coming."""
    joined: dict[str | None, dict[str, None]] = {}
    for source in (*one, *other):
        joined.setdefault(source.block_id, {}).update(dict.fromkeys(source.message_ids))
    return tuple(Source(block_id=block_id, message_ids=tuple(ids)) for block_id, ids in joined.items())
