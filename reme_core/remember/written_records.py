"""Records in the extraction call: the schemas and the records it is shown, and what a model sets of them.

Each field is checked by itself, as each fact is. A model names records by the numbers that it was shown, never by ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from reme_core.ports import ListMemories, MemoryFilter, MemorySearch, ResponseSchema, Store
from reme_core.remember.written_facts import WrittenFacts, message_numbers, numbered, told_problems
from reme_core.schema import Memory, MemoryType, RejectedFact, Scope, shown, trust_field
from reme_core.steps.ask_json import AnswerRepair, JsonQuestion, object_schema
from reme_core.steps.records import MemorySchema, set_fields
from reme_core.text import Language, fence, json_line, load_prompt, shortened

_FEW = 12
"""Records of a schema that are all shown; of more, as many that share words with the conversation."""

_SHOWN_CHARS = 1000
_RECORDS_ANYWAY, _RECORDS_PER_MESSAGE = 20, 2
_TOKENS, _MOST_TOKENS = 800, 8192
_PROBLEM_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecords:
    """What the call is shown.

    Attributes:
        schemas: The schemas.
        records: The records there are, in the order of their numbers, from 1.
        messages: How many messages there are.
    """

    schemas: tuple[MemorySchema, ...]
    records: tuple[Memory, ...]
    messages: int


async def find_shown(store: Store, scope: Scope, schemas: Sequence[MemorySchema], texts: Sequence[str]) -> ShownRecords:
    """Read the records that a conversation may change."""
    found: list[Memory] = []
    for schema in schemas:
        wanted = MemoryFilter(types=(MemoryType.RECORD,), targets=(schema.name,))
        held = (await store.list_memories(scope, ListMemories(filter=wanted, limit=_FEW + 1))).memories
        if len(held) > _FEW:
            # What was said last counts where it is too much for one search.
            said = "\n".join(reversed(texts))
            hits = await store.search(scope, MemorySearch(text=said, limit=_FEW, filter=wanted))
            held = tuple(hit.memory for hit in hits)
        found += held
    return ShownRecords(schemas=tuple(schemas), records=tuple(found), messages=len(texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRecord:
    """What a model set of one record.

    Attributes:
        schema: Its schema; None: one that there is not.
        held: The record that is changed; None: a new one.
        given: What was set, by field, as far as it can be read.
        messages: The numbers of the messages that it was told in.
        fields: All its fields afterwards; None: nothing can be kept.
        problems: What is wrong, by field; under "" what is wrong with the record.
    """

    schema: MemorySchema | None = None
    held: Memory | None = None
    given: Mapping[str, JsonValue] = field(default_factory=dict)
    messages: tuple[int, ...] = ()
    fields: dict[str, JsonValue] | None = None
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def rejected(self) -> list[RejectedFact]:
        """What of it was left out, and why."""
        name = "record" if self.schema is None else self.schema.name
        return [
            RejectedFact(
                content=shortened(f"{name}.{key}: {self.given.get(key)}" if key else name, _PROBLEM_CHARS),
                reason=shortened(problem, _PROBLEM_CHARS),
            )
            for key, problem in self.problems.items()
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenExtraction:
    """An answer: facts, and records."""

    facts: WrittenFacts
    records: tuple[WrittenRecord, ...] = ()


def with_records(
    question: JsonQuestion[WrittenFacts], shown_records: ShownRecords, language: Language
) -> JsonQuestion[WrittenExtraction]:
    """Return the question for facts as one for records, too."""
    assert question.mending is not None  # noqa: S101  # facts can always be asked for in part
    reader = _ExtractionReader(shown=shown_records, facts=question, repair=question.mending)
    schemas = fence("schemas", "\n".join(json_line(schema.shown) for schema in shown_records.schemas))
    words = load_prompt("reme_core.remember", "records", language).fill({"schemas": schemas})
    lines = [
        json_line(
            {"n": number, "schema": memory.memory_target, **trust_field(memory.trust), "fields": _shown_fields(memory)}
        )
        for number, memory in enumerate(shown_records.records, 1)
    ]
    records = [fence("records", "\n".join(lines))] if lines else []
    return JsonQuestion(
        system=f"{question.system}\n\n{words}",
        user="\n".join([*records, question.user]),
        schema=_with_list(question.schema, shown_records),
        language=question.language,
        read=reader.read,
        mending=AnswerRepair(
            schema=_with_list(question.mending.schema, shown_records, is_numbered=True),
            problems=reader.problems,
            join=reader.join,
        ),
        temperature=question.temperature,
        max_tokens=None if question.max_tokens is None else min(_MOST_TOKENS, question.max_tokens + _TOKENS),
    )


def _shown_fields(memory: Memory) -> JsonValue:
    is_short = len(json_line(memory.metadata)) <= _SHOWN_CHARS
    return memory.metadata if is_short else shortened(memory.content, _SHOWN_CHARS)


def _with_list(schema: ResponseSchema, shown_records: ShownRecords, *, is_numbered: bool = False) -> ResponseSchema:
    """Return the form of an answer with a list of records; values are texts, since strict modes take no open ones."""
    setting = object_schema({"field": {"type": "string"}, "value": {"type": ["string", "null"]}})
    number: dict[str, JsonValue] = {"record": {"type": "integer"}} if is_numbered else {}
    item = object_schema(
        {
            **number,
            "schema": {"type": "string", "enum": [one.name for one in shown_records.schemas]},
            "n": {"type": ["integer", "null"]},
            "set": {"type": "array", "items": setting},
            "messages": {"type": "array", "items": {"type": "integer"}},
        }
    )
    properties = schema.schema["properties"]
    assert isinstance(properties, dict)  # noqa: S101  # of our own schema
    return replace(schema, schema=object_schema({**properties, "records": {"type": "array", "items": item}}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExtractionReader:
    """Reads facts as their own question does, and records one by one.

    Attributes:
        shown: What the model was shown.
        facts: Reads the facts.
        repair: Reads those that were written again.
    """

    shown: ShownRecords
    facts: JsonQuestion[WrittenFacts]
    repair: AnswerRepair[WrittenFacts]

    def read(self, value: JsonValue) -> WrittenExtraction:
        """Read an answer (ValueError: of the facts nothing can be used, or there are far too many records)."""
        items, rest = _parted(value)
        most = _RECORDS_ANYWAY + _RECORDS_PER_MESSAGE * self.shown.messages
        if len(items) > most:
            msg = f"records: {len(items)} for {self.shown.messages} messages, at most {most}: only what was told"
            raise ValueError(msg)
        records: dict[object, WrittenRecord] = {}
        for place, item in enumerate(items):
            one = self._record(item)
            key = place if one.schema is None or one.problems else one.schema.single_id or place
            key = key if one.held is None else one.held.memory_id
            records[key] = _joined(records[key], one) if key in records else one
        return WrittenExtraction(facts=self.facts.read(rest), records=tuple(map(_settled, records.values())))

    def problems(self, written: WrittenExtraction) -> list[str]:
        """Return what is wrong with facts and records, a line each, by number."""
        told = [
            (number, "; ".join(f"{name}: {problem}" if name else problem for name, problem in record.problems.items()))
            for number, record in enumerate(written.records, 1)
            if record.problems
        ]
        return [*self.repair.problems(written.facts), *told_problems("record", told)]

    def join(self, first: WrittenExtraction, value: JsonValue) -> WrittenExtraction:
        """Put what was written again in place of what could not be used (ValueError: there are no facts in it)."""
        items, rest = _parted(value)
        facts = self.repair.join(first.facts, rest) if self.repair.problems(first.facts) else first.facts
        records = list(first.records)
        doubtful = [place for place, record in enumerate(records) if record.problems]
        for place, item in numbered(items, "record", doubtful):
            again = _mended(records[place], self._record(item))
            if again.fields is not None:
                records[place] = again
        return WrittenExtraction(facts=facts, records=tuple(records))

    def _record(self, item: JsonValue) -> WrittenRecord:
        """Read an item as far as it names a record and fields; these are not checked yet."""
        fields = item if isinstance(item, dict) else {}
        schema = next((one for one in self.shown.schemas if one.name == fields.get("schema")), None)
        given = _given(fields.get("set"))
        if schema is None or not given:
            names = ", ".join(one.name for one in self.shown.schemas)
            problem = "set: names no field" if schema is not None else f"schema: is none of {names}"
            return WrittenRecord(schema=schema, problems={"": problem})
        try:
            held = self._held(schema, fields.get("n"))
        except ValueError as exc:
            return WrittenRecord(schema=schema, given=given, problems={"": str(exc)})
        numbers = message_numbers(fields.get("messages"), self.shown.messages)
        return WrittenRecord(schema=schema, held=held, given=given, messages=numbers)

    def _held(self, schema: MemorySchema, number: JsonValue) -> Memory | None:
        """Return the record of a number; None for a new one (ValueError: there is none of this number and schema)."""
        own = [memory for memory in self.shown.records if memory.memory_target == schema.name]
        if number is None or number == "":
            return own[0] if own and not schema.many else None
        named = int(number) if isinstance(number, str) and number.strip().isdecimal() and len(number) < 9 else number
        for place, memory in enumerate(self.shown.records, 1):
            if named == place and not isinstance(named, bool) and memory in own:
                return memory
        msg = f"n: {shown(number)} is no number of a record of {schema.name}; null for a new one"
        raise ValueError(msg)


def _parted(value: JsonValue) -> tuple[list[JsonValue], JsonValue]:
    """Return the records of an answer, and the rest of it."""
    if not isinstance(value, dict):
        return [], value
    items = value.get("records")
    rest: JsonValue = {name: part for name, part in value.items() if name != "records"}
    return (items if isinstance(items, list) else [] if items is None else [items]), rest


def _given(value: JsonValue) -> dict[str, JsonValue]:
    """Return what was set, by field: written as pairs or, by endpoints without schemas, as an object."""
    if isinstance(value, dict):
        return value if value.keys() != {"field", "value"} else _given([value])
    pairs = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return {str(item["field"]): item.get("value") for item in pairs if item.get("field")}


def _joined(one: WrittenRecord, more: WrittenRecord) -> WrittenRecord:
    messages = tuple(sorted({*one.messages, *more.messages}))
    return replace(one, given={**one.given, **more.given}, messages=messages)


def _mended(first: WrittenRecord, again: WrittenRecord) -> WrittenRecord:
    """Return a record with the fields that were written again, and what could be used of those before."""
    if again.problems or (first.schema, first.held) != (again.schema, again.held) or "" in first.problems:
        return _settled(again)
    usable = {name: value for name, value in first.given.items() if name not in first.problems}
    settled = _settled(_joined(replace(first, given=usable, problems={}), again))
    left = {name: problem for name, problem in first.problems.items() if name not in again.given}
    return replace(settled, given={**first.given, **settled.given}, problems={**left, **settled.problems})


def _settled(record: WrittenRecord) -> WrittenRecord:
    """Check the fields of a record. A text is tried as JSON first, then as it stands."""
    if record.schema is None or record.problems:
        return record
    held = {} if record.held is None else record.held.metadata
    values = {name: _value(value) for name, value in record.given.items()}
    came = set_fields(record.schema, held, values)
    doubtful = values.keys() if "" in came.problems else came.problems.keys() & values.keys()
    as_text = {name: record.given[name] for name in doubtful if values[name] is not None}
    if as_text:
        came = set_fields(record.schema, held, {**values, **as_text})
    return replace(record, fields=came.fields, problems=came.problems)


def _value(value: JsonValue) -> JsonValue:
    if not isinstance(value, str):
        return value
    try:
        read: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return read
