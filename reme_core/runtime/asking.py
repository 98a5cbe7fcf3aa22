"""Ask a model for JSON: what can't be used is asked for once more, with what was wrong, and then is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pydantic import JsonValue, ValidationError

from reme_core.errors import ModelOutputError
from reme_core.ports import ChatModel, ChatRequest, ChatResult, ResponseSchema
from reme_core.runtime.distil import Spent
from reme_core.schema import Message, TextBlock, Usage, describe
from reme_core.text import Language, fence, json_line, load_prompt, shortened

PACKAGE = "reme_core.runtime"
"""Where the prompts of the runtime lie."""

T = TypeVar("T")

# An answer that goes back to the model in full could be as long as its window.
_MOST_SHOWN = 2000


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
class Question(Generic[T]):
    """What is asked, and how the answer is read.

    Attributes:
        system: The system message.
        user: The user's message.
        schema: The form of the answer.
        language: Of what is said when the answer can't be used.
        read: Turns the JSON into a value, or raises a ValueError that tells the model what is wrong.
    """

    system: str
    user: str
    schema: ResponseSchema
    language: Language
    read: Callable[[JsonValue], T]

    def request(self) -> ChatRequest:
        """Return the first request."""
        messages = (_message("system", self.system), _message("user", self.user))
        return ChatRequest(messages=messages, response_schema=self.schema)


def with_problems(user: str, problems: Sequence[str], language: Language) -> str:
    """Return a user's message with what a reviewer has found wrong with an earlier attempt, if anything."""
    if not problems:
        return user
    lines = "\n".join(json_line({"problem": shortened(problem, _MOST_SHOWN)}) for problem in problems)
    words = load_prompt(PACKAGE, "revised", language)
    return f"{user}\n{words.fill({'problems': fence('problems', lines)})}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unusable:
    problem: str
    raw: str


@dataclass(frozen=True, slots=True)
class Metered:
    """A `ChatModel` over another one whose calls are counted, those that end in an unusable answer as well.

    Attributes:
        model: The model.
        meter: Where the cost is added.
    """

    model: ChatModel
    meter: Spent

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Ask the model; see `ChatModel.chat`."""
        try:
            result = await self.model.chat(request)
        except ModelOutputError:
            self.meter.add(Usage(model_calls=1))  # its tokens are not known
            raise
        self.meter.add(result.usage)
        return result


async def ask(model: ChatModel, question: Question[T]) -> tuple[T, Usage]:
    """Ask, once more if the answer can't be used, and return what was read and what it all cost.

    Raises:
        ModelOutputError: Neither answer could be used; `raw` is the second one.
        ModelError: The model failed.
    """
    request = question.request()
    first, spent = await _try(model, request, question.read)
    if not isinstance(first, _Unusable):
        return first, spent
    second, more = await _try(model, _again(request, first, question.language), question.read)
    if not isinstance(second, _Unusable):
        return second, spent + more
    msg = f"the model's answer ({question.schema.name}) can't be used, asked twice: {second.problem}"
    raise ModelOutputError(msg, raw=second.raw)


async def _try(model: ChatModel, request: ChatRequest, read: Callable[[JsonValue], T]) -> tuple[T | _Unusable, Usage]:
    try:
        result = await model.chat(request)
    except ModelOutputError as exc:
        return _Unusable(problem=exc.message, raw=exc.raw), Usage(model_calls=1)  # its tokens are not known
    raw = result.message.full_text
    if result.finish_reason == "length":
        return _Unusable(problem="it was cut off at the limit of tokens: write less", raw=raw), result.usage
    try:
        return read(result.parsed), result.usage
    except ValidationError as exc:
        return _Unusable(problem=describe(exc, "answer"), raw=raw), result.usage
    except ValueError as exc:
        return _Unusable(problem=str(exc), raw=raw), result.usage


def _again(request: ChatRequest, failed: _Unusable, language: Language) -> ChatRequest:
    said = shortened(failed.raw, _MOST_SHOWN)
    words = load_prompt(PACKAGE, "again", language)
    answered = (_message("assistant", said),) if said.strip() else ()
    told = _message("user", words.fill({"problem": fence("problem", failed.problem)}))
    return replace(request, messages=(*request.messages, *answered, told))


def _message(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": (TextBlock(text=text),)})
