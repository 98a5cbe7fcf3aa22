"""Questions to a model, answered in JSON or as an order of lines; an unusable answer is asked for once more.

An answer of which nothing can be used twice is an error. Where a part of the first one can, only the rest is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from reme_core.errors import ModelOutputError
from reme_core.ports import ChatModel, ChatRequest, ChatResult, ResponseSchema
from reme_core.schema import Message, TextBlock, Usage, describe
from reme_core.text import Language, fence, json_line, load_prompt, shortened

T = TypeVar("T")


PACKAGE = "reme_core.steps"
"""Where the prompts of these steps lie."""


# An answer that goes back to the model in full could be as long as its window.
_MOST_SHOWN = 2000
_MORE_ROOM = 4


class WrittenAnswer(BaseModel):
    """An answer as a model writes it, or a part of one; keys of its own say nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def list_schema(name: str, fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the schema of an object with one list of objects, as strict modes take it.

    These want every field written, and none of others: one that may be missing is of type null as well.
    """
    item = object_schema(fields)
    return object_schema({name: {"type": "array", "items": item}})


def object_schema(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the schema of a closed object all of whose fields are written."""
    return {"type": "object", "properties": dict(fields), "required": list(fields), "additionalProperties": False}


def not_blank(text: str) -> str:
    """Return a text of a model without blanks around it (ValueError: there is nothing else)."""
    text = text.strip()
    if not text:
        msg = "is empty"
        raise ValueError(msg)
    return text


def lowered(value: object) -> object:
    """Return a word of a model as our names are written; anything else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def none_as_empty(value: object) -> object:
    """Return a list of a model, none where it wrote null; anything else as it is."""
    return () if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRepair(Generic[T]):
    """How the rest of an answer is asked for, of which a part can be used.

    Attributes:
        schema: The form of the second answer.
        problems: Tells the model what of a value has to be written again, a line each; none: it is whole.
        join: Puts the JSON of the second answer into the value, as far as it can be used.
    """

    schema: ResponseSchema
    problems: Callable[[T], Sequence[str]]
    join: Callable[[T, JsonValue], T]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonQuestion(Generic[T]):
    """What is asked, and how the answer is read.

    Attributes:
        system: The system message.
        user: The user's message.
        schema: The form of the answer.
        language: Of what is said when the answer can't be used.
        read: Turns the JSON into a value, or raises a ValueError that tells the model what is wrong.
        mending: For answers that can be used in part.
        temperature: None leaves the model's own setting.
        max_tokens: Of the answer; if it can't be used, there is more room the second time. None: the model's own.
    """

    system: str
    user: str
    schema: ResponseSchema
    language: Language
    read: Callable[[JsonValue], T]
    mending: AnswerRepair[T] | None = None
    temperature: float | None = None
    max_tokens: int | None = None

    def request(self) -> ChatRequest:
        """Return the first request."""
        return ChatRequest(
            messages=(_message("system", self.system), _message("user", self.user)),
            response_schema=self.schema,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
        )


def with_problems(user: str, problems: Sequence[str], language: Language) -> str:
    """Return a user's message with what a reviewer has found wrong with an earlier attempt, if anything."""
    if not problems:
        return user
    lines = "\n".join(json_line({"problem": shortened(problem, _MOST_SHOWN)}) for problem in problems)
    words = load_prompt(PACKAGE, "revised", language)
    return f"{user}\n{words.fill({'problems': fence('problems', lines)})}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _UsableAnswer(Generic[T]):
    value: T
    raw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnusableAnswer:
    problem: str
    raw: str


class UsageMeter(Protocol):
    """What has a sum of what was spent so far."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class MeteredChatModel:
    """A `ChatModel` over another one whose calls are counted, those that end in an unusable answer as well.

    Attributes:
        model: The model.
        meter: Where the cost is added.
    """

    model: ChatModel
    meter: UsageMeter

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Ask the model; see `ChatModel.chat`."""
        try:
            result = await self.model.chat(request)
        except ModelOutputError:
            self.meter.usage += Usage(model_calls=1)  # its tokens are not known
            raise
        self.meter.usage += result.usage
        return result


async def ask(model: ChatModel, question: JsonQuestion[T]) -> T:
    """Ask, once more if the answer or a part of it can't be used, and return what was read.

    What it costs is counted by the model, if it is a `MeteredChatModel`.

    Raises:
        ModelOutputError: Neither answer could be used; `raw` is the second one.
        ModelError: The model failed.
    """
    request = question.request()
    first = await _try(model, request, question.read)
    if isinstance(first, _UsableAnswer):
        return await _mended(model, question, first)
    second = await _try(model, _again(request, first, question.language), question.read)
    if isinstance(second, _UsableAnswer):
        return second.value
    msg = f"the model's answer ({question.schema.name}) can't be used, asked twice: {second.problem}"
    raise ModelOutputError(msg, raw=second.raw)


async def _mended(model: ChatModel, question: JsonQuestion[T], first: _UsableAnswer[T]) -> T:
    """Ask for what could not be used of an answer; the first value where the second answer is of no use."""
    mending = question.mending
    problems = () if mending is None else mending.problems(first.value)
    if mending is None or not problems:
        return first.value
    words = load_prompt(PACKAGE, "mend", question.language)
    lines = shortened("\n".join(problems), _MOST_SHOWN)
    request = _told(question.request(), first.raw, words.fill({"problems": fence("problems", lines)}))
    read = partial(mending.join, first.value)
    second = await _try(model, replace(request, response_schema=mending.schema), read)
    return second.value if isinstance(second, _UsableAnswer) else first.value


async def _try(
    model: ChatModel, request: ChatRequest, read: Callable[[JsonValue], T]
) -> _UsableAnswer[T] | _UnusableAnswer:
    try:
        result = await model.chat(request)
    except ModelOutputError as exc:
        return _UnusableAnswer(problem=exc.message, raw=exc.raw)
    raw = result.message.full_text
    if result.finish_reason == "length":
        return _UnusableAnswer(problem="it was cut off at the limit of tokens: write less", raw=raw)
    try:
        return _UsableAnswer(value=read(result.parsed), raw=raw)
    except ValidationError as exc:
        return _UnusableAnswer(problem=describe(exc, "answer"), raw=raw)
    except ValueError as exc:
        return _UnusableAnswer(problem=str(exc), raw=raw)


def _again(request: ChatRequest, failed: _UnusableAnswer, language: Language) -> ChatRequest:
    words = load_prompt(PACKAGE, "again", language)
    told = _told(request, failed.raw, words.fill({"problem": fence("problem", failed.problem)}))
    # Models that think aloud do so within the limit, and what is cut off then may hold nothing at all.
    return told if request.max_tokens is None else replace(told, max_tokens=request.max_tokens * _MORE_ROOM)


def _told(request: ChatRequest, raw: str, words: str) -> ChatRequest:
    """Return the request that goes on with an answer and what is said to it."""
    said = shortened(raw, _MOST_SHOWN)
    answered = (_message("assistant", said),) if said.strip() else ()
    return replace(request, messages=(*request.messages, *answered, _message("user", words)))


def _message(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": (TextBlock(text=text),)})


ORDER_SCHEMA = ResponseSchema(
    name="order",
    schema=object_schema({"order": {"type": "array", "items": {"type": "integer"}}}),
)
"""The form of the answer: `{"order": [3, 1, 2]}`."""

_BARE_LIST = re.compile(r"\[[\d\s,]+\]")
# Longer numbers name nothing that we count.
_MOST_DIGITS = 9


def read_order(value: JsonValue, count: int) -> tuple[int, ...]:
    """Read which of so many lines, numbered from 1, are named: their places from 0, in the order named, each once.

    Numbers that there are not, or that were named before, are passed over. "3", 3.0 and a line that is given back with
    its "n" are 3, a list in a list is part of it. An empty list names nothing, which is an answer.

    Raises:
        ValueError: There is no list, or nothing in it can be used; tells the model what is wrong.
    """
    named = value.get("order") if isinstance(value, dict) else value
    if not isinstance(named, list):
        msg = "order: wanted a list of numbers"
        raise ValueError(msg)  # noqa: TRY004  # what a model wrote, not what a caller handed in
    places = tuple(dict.fromkeys(number - 1 for number in _numbers(named) if 1 <= number <= count))
    if named and not places:
        msg = f"order: holds no number from 1 to {count}"
        raise ValueError(msg)
    return places


def bare_order(text: str) -> JsonValue:
    """Return the longest list of whole numbers that stands in a text; None: none does.

    A text that begins as an object is not searched: it is one that broke off, or what an endpoint says of itself.
    """
    if text.lstrip().startswith("{"):
        return None
    longest = max(_BARE_LIST.findall(text), key=len, default="")
    try:
        found: JsonValue = json.loads(longest)
    except ValueError:
        return None
    return found


def with_rest(places: Sequence[int], count: int) -> tuple[int, ...]:
    """Return places, then all others of so many as they stand."""
    named = frozenset(places)
    return (*places, *(place for place in range(count) if place not in named))


def _numbers(named: list[JsonValue]) -> Iterator[int]:
    waiting: list[Iterator[JsonValue]] = [iter(named)]  # a stack: a model may nest deeper than Python calls
    while waiting:
        for item in waiting[-1]:
            if isinstance(item, list):
                waiting.append(iter(item))
                break
            number = _number(item)
            if number is not None:
                yield number
        else:
            waiting.pop()


def _number(item: JsonValue) -> int | None:
    if isinstance(item, dict):
        item = item.get("n")
    if isinstance(item, str):
        digits = item.strip()
        return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else None
    if isinstance(item, float):
        return int(item) if item.is_integer() else None
    return item if isinstance(item, int) and not isinstance(item, bool) else None
