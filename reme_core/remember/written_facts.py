"""Facts as a model writes them, each read by itself: one that can't be read costs no other one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, TypeAdapter, ValidationError

from reme_core.rules import USER, name_key
from reme_core.schema import MemoryType, PartialTime, RejectedFact, Relation, describe, shown
from reme_core.schema.checks import Text
from reme_core.schema.relations import MAX_RELATIONS, ToldRelation
from reme_core.schema.times import may_end, read_said_time
from reme_core.steps.ask_json import WrittenAnswer, lowered, not_blank
from reme_core.text import share_of_script, shortened

MAX_CONTENT_CHARS = 4000
"""A fact is a sentence or two, a procedure a page; what is longer is a copy of the conversation."""

MAX_SUMMARY_CHARS = 1000
"""A summary is one to three sentences."""

_MAX_TARGET_CHARS = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FIGURES = re.compile(r"\d{1,9}")
# Talk holds a fact or two in a message; a document of one message may hold twenty.
_FACTS_ANYWAY, _FACTS_PER_MESSAGE, _MOST_FACTS = 20, 4, 500
# In a text with names or code of another script the own one still has so much.
_LEAST_SHARE = 0.15
# Of what was wrong, a model is told so many, and so much of each.
_MOST_TOLD, _TOLD_CHARS = 20, 300


def _name(text: str) -> str:
    # A name is one line: it is shown in lists, to models and on terminals.
    return _CONTROL.sub(" ", text).strip()


def _none_as_blank(value: object) -> object:
    return "" if value is None else value


class WrittenFact(WrittenAnswer):
    """A fact as the model writes it. Keys of its own, which endpoints without schemas let through, say nothing.

    Attributes:
        type: What kind of memory it makes.
        target: What it is about; empty where the model didn't say.
        content: What it says.
        when_to_use: When it is of use; may be empty.
        valid_from: Since when, as exact as it was written; None where that was not told.
        valid_to: Until when, likewise.
        messages: The numbers of the messages it was told in; none where the model gave none that there are.
        relations: What it tells of persons and things to each other, as far as that could be read.
    """

    type: Annotated[MemoryType, BeforeValidator(lowered)]
    target: Annotated[
        Text, BeforeValidator(_none_as_blank), AfterValidator(_name), Field(max_length=_MAX_TARGET_CHARS)
    ] = ""
    content: Annotated[Text, AfterValidator(not_blank), Field(max_length=MAX_CONTENT_CHARS)]
    when_to_use: Annotated[
        Text, BeforeValidator(_none_as_blank), AfterValidator(str.strip), Field(max_length=MAX_CONTENT_CHARS)
    ] = ""
    valid_from: PartialTime | None = None
    valid_to: PartialTime | None = None
    messages: tuple[int, ...] = ()
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenItem:
    """One item of an answer.

    Attributes:
        written: What the model wrote.
        fact: What was read of it; None: nothing.
        problem: What is wrong with it, in words for a model; empty: nothing.
    """

    written: JsonValue
    fact: WrittenFact | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFacts:
    """What was read of an answer.

    Attributes:
        entries: Its items, in order.
        summaries: What it says of the parts of the conversation, one text each; none where it says nothing.
        foreign: Whether these are in another script than the conversation.
    """

    entries: tuple[WrittenItem, ...] = ()
    summaries: tuple[str, ...] = ()
    foreign: bool = False

    @property
    def facts(self) -> tuple[WrittenFact, ...]:
        """The facts that could be read."""
        return tuple(entry.fact for entry in self.entries if entry.fact is not None)

    @property
    def rejected(self) -> tuple[RejectedFact, ...]:
        """Those that could not."""
        return tuple(rejected(entry.written, entry.problem) for entry in self.entries if entry.fact is None)

    @property
    def doubtful(self) -> tuple[int, ...]:
        """The places of those with which something is wrong, whether they could be read or not."""
        return tuple(place for place, entry in enumerate(self.entries) if entry.problem)


def rejected(written: JsonValue, reason: str) -> RejectedFact:
    """Return what is said of an item that is left out."""
    content = written.get("content") if isinstance(written, dict) else written
    text = content if isinstance(content, str) else json.dumps(written, ensure_ascii=False)
    return RejectedFact(content=shortened(text, _TOLD_CHARS), reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReader:
    """Reads the facts of an answer.

    Attributes:
        types: The types that were asked for.
        texts: The messages that were shown, numbered from 1.
        zone: Where the user is, whose times of the day are written.
    """

    types: Sequence[MemoryType]
    texts: Sequence[str]
    zone: tzinfo = UTC

    @property
    def messages(self) -> int:
        """How many messages were shown."""
        return len(self.texts)

    def read(self, value: JsonValue) -> WrittenFacts:
        """Read an answer, in its own form or another one that holds facts.

        Raises:
            ValueError: Saying what is wrong: there are none, too many, or none that can be read.
        """
        items = listed(value, "facts", "content")
        most = min(_MOST_FACTS, _FACTS_ANYWAY + _FACTS_PER_MESSAGE * self.messages)
        if len(items) > most:
            msg = f"facts: {len(items)} of them for {self.messages} messages, at most {most}: only what is worth it"
            raise ValueError(msg)
        summaries = _summaries(value)
        written = WrittenFacts(
            entries=tuple(map(self._entry, items)),
            summaries=summaries,
            foreign=_is_foreign(self.texts, " ".join(summaries)),
        )
        if items and not written.facts:
            raise ValueError("\n".join(self.problems(written)))
        return written

    def problems(self, written: WrittenFacts) -> list[str]:
        """Return what is wrong with each item that something is wrong with, by number, and with the summary."""
        lines = told_problems("fact", [(place + 1, written.entries[place].problem) for place in written.doubtful])
        return [*lines, "summary: write it in the language of the conversation"] if written.foreign else lines

    def join(self, first: WrittenFacts, value: JsonValue) -> WrittenFacts:
        """Put what an answer holds in place of the items of another one that something is wrong with.

        Items without a number are taken in the order in which the others were told. One that could be read and is not
        written again stays as it is.

        Raises:
            ValueError: There are no facts in it.
        """
        entries = list(first.entries)
        again = _summaries(value)
        summaries = again if first.foreign and again else first.summaries
        for place, item in numbered(listed(value, "facts", "content"), "fact", first.doubtful):
            entry = self._entry(item)
            if entry.fact is not None:
                entries[place] = entry
        return replace(first, entries=tuple(entries), summaries=summaries)

    def _entry(self, item: JsonValue) -> WrittenItem:
        if not isinstance(item, dict):
            return WrittenItem(written=item, fact=None, problem="is no object with type, target, content, messages")
        kind = lowered(item.get("type"))
        if kind not in self.types:
            problem = f"type: {shown(kind)} is none of {', '.join(self.types)}"
            return WrittenItem(written=item, fact=None, problem=problem)
        dates, problems = dict[str, PartialTime | None](), list[str]()
        for name in ("valid_from", "valid_to"):
            try:
                dates[name] = read_said_time(item.get(name), self.zone)
            except ValueError as exc:
                dates[name] = None
                problems.append(f"{name}: {exc}")
        try:
            kept = {**item, **_in_order(dates), "messages": message_numbers(item.get("messages"), self.messages)}
            fact = WrittenFact.model_validate({**kept, "relations": read_relations(item.get("relations"))})
        except ValidationError as exc:
            return WrittenItem(written=item, fact=None, problem=describe(exc, "").removeprefix("."))
        told = [self.texts[number - 1] for number in fact.messages]
        if _is_foreign(told, fact.content, self.texts):
            problems.append("content: is in another script than its messages: write it in their language")
        return WrittenItem(written=item, fact=fact, problem="; ".join(problems))


def message_numbers(value: JsonValue, messages: int) -> tuple[int, ...]:
    """Return the numbers of messages that there are, as they were written: 1, "1", "1, 2" or a list of such."""
    items = value if isinstance(value, list) else [value]
    found: list[int] = []
    for item in items:
        if isinstance(item, str):
            found += map(int, _FIGURES.findall(item[:200]))
        elif isinstance(item, (int, float)) and not isinstance(item, bool) and 1 <= item <= messages:
            found.append(int(item))
    return tuple(sorted({number for number in found if 1 <= number <= messages}))


_RELATION = TypeAdapter[Relation](ToldRelation)


def read_relations(value: JsonValue) -> tuple[Relation, ...]:
    """Return the relations that a model wrote, each once, the first eight; one that can't be read costs no other."""
    items: Sequence[JsonValue] = value if isinstance(value, list) else ()
    if any(isinstance(item, str) for item in items):
        items = [value]  # one alone, without brackets around it
    found: dict[tuple[str, str, str], Relation] = {}
    for item in items:
        try:
            read = _RELATION.validate_python(item)
        except ValidationError:
            continue
        first, second = name_key(read.subject), name_key(read.object)
        if first and second and first != second:
            ends = {name: USER for name, key in (("subject", first), ("object", second)) if key == USER}
            found.setdefault((first, read.relation.casefold(), second), read.model_copy(update=ends))
    return tuple(found.values())[:MAX_RELATIONS]


def _in_order(dates: Mapping[str, PartialTime | None]) -> Mapping[str, PartialTime | None]:
    """Return dates of which the end does not lie before the beginning: then it was dated by when it was told."""
    begins, ends = dates["valid_from"], dates["valid_to"]
    if begins is None or ends is None or may_end(begins.start, ends.end, ends.precision):
        return dates
    return {**dates, "valid_from": None}


def listed(value: JsonValue, name: str, mark: str) -> list[JsonValue]:
    """Return the items of an answer: the list of this name, a list of another one, or one item that has `mark` alone.

    Raises:
        ValueError: There are none.
    """
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        own = value.get(name)
        lists = [item for item in value.values() if isinstance(item, list) and all(isinstance(i, dict) for i in item)]
        if isinstance(own, dict):
            return [own]
        if mark in value and name not in value:
            return [value]
        if name not in value and len(lists) == 1:
            own = lists[0]
        if isinstance(own, list):
            return own
    msg = f"wanted an object with the list {name!r}; an empty list if there is nothing"
    raise ValueError(msg)


def numbered(items: Sequence[JsonValue], name: str, places: Sequence[int]) -> list[tuple[int, JsonValue]]:
    """Return items with the place that the number of each means, from 0, as far as it is one of `places`.

    Items without a number stand for these places in order; more than these are the whole answer once more.
    """
    order = places if len(items) <= len(places) else range(len(items))
    found: list[tuple[int, JsonValue]] = []
    for item, own in zip(items, order, strict=False):
        number = item.get(name) if isinstance(item, dict) else None
        if isinstance(number, str) and _FIGURES.fullmatch(number):
            number = int(number)
        place = number - 1 if isinstance(number, int) and not isinstance(number, bool) else own
        if place in places:
            found.append((place, item))
    return found


def told_problems(what: str, problems: Sequence[tuple[int, str]]) -> list[str]:
    """Return what is wrong with numbered items, a short line each, the first of many."""
    lines = [f"{what} {number}: {shortened(problem, _TOLD_CHARS)}" for number, problem in problems[:_MOST_TOLD]]
    more = len(problems) - _MOST_TOLD
    return [*lines, f"and {more} more"] if more > 0 else lines


def _is_foreign(told: Sequence[str], text: str, around: Sequence[str] = ()) -> bool:
    """Tell whether a text is in a script that what it comes from hardly holds; too few letters count as nothing."""
    share = share_of_script(told, text)
    share = share_of_script(around, text) if share is None else share
    return share is not None and share < _LEAST_SHARE


def _summaries(value: JsonValue) -> tuple[str, ...]:
    said = value.get("summary") if isinstance(value, dict) else None
    items = said if isinstance(said, list) else [said]
    texts = (" ".join(item.split()) for item in items if isinstance(item, str))
    return tuple(text[:MAX_SUMMARY_CHARS] for text in texts if text)
