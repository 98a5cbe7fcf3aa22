"""Chat and embedding of both generations with the core: requests, answers, and vectors that are checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from pydantic import JsonValue

from reme_agentscope._shared.content_blocks import Plain, text_field, text_of
from reme_core import json_instruction, model_error, parse_answer, unit_rows
from reme_core.errors import (
    ConfigurationError,
    ContextTooLongError,
    InvalidInputError,
    ModelError,
    ModelOutputError,
    ModelUnavailableError,
)
from reme_core.ports import ChatRequest, ChatResult, ToolSpec
from reme_core.schema import (
    ContentBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Usage,
    new_id,
    shown,
)
from reme_core.schema.plain import clean_text, usable_id

if TYPE_CHECKING:
    from reme_core.ports import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenCall:
    """A tool call as a model said it."""

    call_id: str
    name: str
    arguments: dict[str, JsonValue] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenAnswer:
    """What a model said, whatever the generation of its blocks."""

    text: str = ""
    thoughts: str = ""
    calls: Sequence[SpokenCall] = ()
    input_tokens: int = 0
    output_tokens: int = 0


def spoken_answer(blocks: Sequence[Plain], calls: Sequence[SpokenCall], usage: object) -> SpokenAnswer:
    """Return what the blocks of an answer say; each provider's class makes its own usage object."""
    return SpokenAnswer(
        text="\n".join(text_field(block, "text") for block in blocks if block.get("type") == "text"),
        thoughts="\n".join(text_field(block, "thinking") for block in blocks if block.get("type") == "thinking"),
        calls=calls,
        input_tokens=_count(getattr(usage, "input_tokens", 0)),
        output_tokens=_count(getattr(usage, "output_tokens", 0)),
    )


def _count(found: object) -> int:
    return found if isinstance(found, int) and found > 0 else 0


def check_model(model: object, kind: type, what: str) -> None:
    """Refuse what is no model of AgentScope (ConfigurationError)."""
    if not isinstance(model, kind):
        msg = f"model: wanted {what} of AgentScope, found {shown(model)}"
        raise ConfigurationError(msg)


def not_an_answer(said: object) -> ModelOutputError:
    """Return the error of a model that answered something of its own."""
    return ModelOutputError(f"wanted a ChatResponse of AgentScope, found {shown(said)}", raw=shown(said))


# What a limit of completion tokens is called, best name first, by the class of AgentScope's that a model is one of.
_LIMITS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "GeminiChatModel": ("max_output_tokens",),
        "OllamaChatModel": ("num_predict",),
        "OpenAIResponseModel": ("max_output_tokens",),
    }
)
_OPENAI_LIMITS = ("max_tokens", "max_completion_tokens")
Ask: TypeAlias = Callable[[Mapping[str, object]], Awaitable[SpokenAnswer]]


class CallOptions:
    """Temperature and bound of the answer, in the words of a model's class. What it refuses is left out from then on.

    Some endpoints take no temperature, or know the bound by another name.
    """

    def __init__(self, model: object) -> None:
        """Read the class of a model; nothing is called."""
        names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__.startswith("agentscope.")]
        self._limits = next((_LIMITS[name] for name in names if name in _LIMITS), _OPENAI_LIMITS)
        self._is_nested = "OllamaChatModel" in names
        self._model = model
        self._refused: frozenset[str] = frozenset()

    def of(self, request: ChatRequest) -> dict[str, object]:
        """Return the keywords that go with a request."""
        limit = next((name for name in self._limits if name not in self._refused), None)
        wanted = {"temperature": request.temperature, **({} if limit is None else {limit: request.max_tokens})}
        given = {name: value for name, value in wanted.items() if value is not None and name not in self._refused}
        if not given or not self._is_nested:
            return dict(given)
        own = getattr(self._model, "options", None)  # in 1.x; in 2.x it has no others than these
        return {"options": {**(own if isinstance(own, dict) else {}), **given}}

    def refuse(self, given: Mapping[str, object], error: Exception) -> bool:
        """Leave out from now on what an error names of the keywords given; return whether it names any."""
        inner = given.get("options")
        found = frozenset(name for name in (inner if isinstance(inner, dict) else given) if name in str(error))
        self._refused |= found
        return bool(found)


async def _ask_with(options: CallOptions, request: ChatRequest, ask: Ask) -> SpokenAnswer:
    while True:
        given = options.of(request)
        try:
            return await ask(given)
        except (ModelError, TimeoutError, ConnectionError):
            raise
        except Exception as exc:  # providers share no base error
            if not options.refuse(given, exc):
                raise


async def chat(request: ChatRequest, who: str, options: CallOptions, ask: Ask) -> ChatResult:
    """Ask in time, and return the core's result; raises as `ChatModel.chat`."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(request.timeout_s):
            spoken = await _ask_with(options, request, ask)
    except ModelError:
        raise
    except TimeoutError as exc:
        msg = f"{who}: no answer in time: raise `timeout_s`, or try again later"
        raise ModelUnavailableError(msg) from exc
    except Exception as exc:  # providers share no base error; each is mapped, none is dropped
        raise model_error(exc, who) from exc
    result = _result(spoken, request, who)
    spent = (time.perf_counter() - started) * 1000
    return replace(result, usage=result.usage.model_copy(update={"milliseconds": spent}))


def sent_messages(request: ChatRequest) -> list[Message]:
    """Return the messages to send, with the schema of the answer where one is asked for.

    They hold texts, tool calls and results alone: thinking and vendor data are not sent, media are told in words.

    Raises:
        InvalidInputError: There is nothing to send.
    """
    messages = [cleared for message in request.messages if (cleared := _cleared(message)) is not None]
    if not messages:
        msg = "messages: nothing to send: give at least one message with a text, a tool call or a tool result"
        raise InvalidInputError(msg)
    if request.response_schema is None:
        return messages
    instruction = json_instruction(request.response_schema)
    first = messages[0]
    if first.role == "system":
        told = (TextBlock(text=f"{first.text}\n\n{instruction}"),)
        return [first.model_copy(update={"content": told}), *messages[1:]]
    return [Message(role="system", content=(TextBlock(text=instruction),)), *messages]


def tool_schema(tool: ToolSpec) -> dict[str, object]:
    """Return a tool as both generations take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def tool_choice(request: ChatRequest) -> str | None:
    """Return the choice as both generations call it; None leaves it to the model, and where there are no tools.

    Raises:
        InvalidInputError: It names no tool of the request.
    """
    names = [tool.name for tool in request.tools]
    choice = request.tool_choice
    if choice not in {"auto", "none", "required", *names} or (choice == "required" and not names):
        msg = f"tool_choice {choice!r}: wanted 'auto', 'none', 'required' or one of the request's tools {names!r}"
        raise InvalidInputError(msg)
    return None if choice == "auto" or not names else choice


def no_answer(who: str) -> ModelOutputError:
    """Return the error of a stream that ended without a word."""
    return ModelOutputError(f"{who}: the stream ended without an answer: ask again", raw="")


def _cleared(message: Message) -> Message | None:
    blocks: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, OtherBlock):
            continue
        said = block if isinstance(block, ToolCallBlock | ToolResultBlock) else TextBlock(text=text_of(block))
        last = blocks[-1] if blocks else None
        if isinstance(said, TextBlock) and isinstance(last, TextBlock):
            blocks[-1] = TextBlock(text=f"{last.text}\n{said.text}")
        else:
            blocks.append(said)
    return message.model_copy(update={"content": tuple(blocks), "metadata": {}}) if blocks else None


def _result(spoken: SpokenAnswer, request: ChatRequest, who: str) -> ChatResult:
    text = clean_text(spoken.text)
    if not text.strip() and not spoken.calls:
        msg = f"{who}: the model said nothing: ask again, or allow more completion tokens"
        raise ModelOutputError(msg, raw=text)
    thoughts = clean_text(spoken.thoughts)
    blocks: list[ContentBlock] = [OtherBlock(kind="thinking", data=thoughts)] if thoughts else []
    blocks += [TextBlock(text=text)] if text else []
    try:
        message = Message(role="assistant", content=(*blocks, *_calls(spoken.calls)))
    except ValueError as exc:  # larger than a message may be
        msg = f"{who}: the model's message can't be kept: it is larger than a message may be"
        raise ModelOutputError(msg, raw=text) from exc
    # A model may call tools before it gives the JSON that was asked for.
    wanted = None if spoken.calls else request.response_schema
    return ChatResult(
        message=message,
        usage=Usage(model_calls=1, prompt_tokens=spoken.input_tokens, completion_tokens=spoken.output_tokens),
        finish_reason="tool_calls" if spoken.calls else "stop",
        parsed=parse_answer(text, wanted.schema) if wanted else None,
    )


def _calls(calls: Iterable[SpokenCall]) -> Iterable[ToolCallBlock]:
    """Yield the calls. Ids that are missing or given twice are replaced: each needs its own."""
    seen: set[str] = set()
    for call in calls:
        own = usable_id(call.call_id) if call.call_id else ""
        if not own or own in seen:
            own = f"call_{new_id()}"
        seen.add(own)
        yield ToolCallBlock(call_id=own, name=clean_text(call.name), arguments=call.arguments)


Rows: TypeAlias = Callable[[list[str]], Awaitable[object]]

_SHORTER = 3  # times that texts are halved where a model still finds them too long


class CheckedEmbedder:
    """An embedding model behind the core's port. Bound to no event loop."""

    def __init__(self, *, model: str, dimension: int, rows: Rows, batch: int | None, max_chars: int) -> None:
        """Keep what is known of the model.

        Args:
            model: Names it; tells its vectors from those of others.
            dimension: The length of its vectors.
            rows: Asks it for the vectors of some texts.
            batch: At most so many texts a call; None: it divides them itself.
            max_chars: Longer texts are cut. A character is a token at most, but for emoji and the like.
        """
        self._model = model
        self._dimension = dimension
        self._rows = rows
        self._batch = batch
        self._max_chars = max_chars

    def __repr__(self) -> str:
        """Name the model."""
        return f"{type(self).__name__}({self._model!r}, dims={self._dimension})"

    @property
    def model(self) -> str:
        """The name of the model, with that of its class."""
        return self._model

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm, in the order of the texts.

        Raises:
            ModelUnavailableError: No answer; it may pass.
            ModelRejectedError: The model refuses the request, or failed.
            ModelOutputError: A wrong number of vectors, a wrong dimension, zeros, or values that are not finite.
            ContextTooLongError: A text is too long for the model, cut as it is.
        """
        wanted = [text if text.strip() else "." for text in texts]  # providers refuse blank texts
        if not wanted:
            return np.zeros((0, self._dimension), dtype=np.float32)
        size = self._batch or len(wanted)
        batches = [await self._ask(wanted[begin : begin + size]) for begin in range(0, len(wanted), size)]
        return np.concatenate(batches)

    async def _ask(self, texts: list[str]) -> Matrix:
        most = self._max_chars
        for halvings in range(_SHORTER + 1):
            try:
                rows = await self._rows([text[:most] for text in texts])
            except ModelError:
                raise
            except Exception as exc:  # providers share no base error; each is mapped, none is dropped
                error = model_error(exc, self._model)
                if not isinstance(error, ContextTooLongError) or halvings == _SHORTER:
                    raise error from exc
                most = min(most, max(map(len, texts))) // 2
            else:
                return unit_rows(rows, count=len(texts), dimension=self._dimension, who=self._model)
        msg = "each turn returns or raises"
        raise AssertionError(msg)


def checked_dimension(model: object, found: object) -> int:
    """Return the length of a model's vectors as it tells it.

    Raises:
        ConfigurationError: It tells none.
    """
    if isinstance(found, int) and not isinstance(found, bool) and found > 0:
        return found
    msg = f"{type(model).__name__}: wanted `dimensions`, the length of the vectors, found {shown(found)}"
    raise ConfigurationError(msg)
