"""Chat and embedding of both generations with the core: requests, answers, and vectors that are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from reme_agentscope._shared.content_blocks import Plain, text_field, text_of
from reme_core import (
    CallOptions,
    SpokenAnswer,
    SpokenCall,
    checked_choice,
    foreign_chat,
    function_schema,
    model_error,
    sent_messages,
    unit_rows,
)
from reme_core.errors import (
    ConfigurationError,
    ContextTooLongError,
    ModelError,
    ModelOutputError,
)
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import (
    ContentBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Usage,
    shown,
)

if TYPE_CHECKING:
    from reme_core.ports import Matrix


def spoken_answer(blocks: Sequence[Plain], calls: Sequence[SpokenCall], usage: object) -> SpokenAnswer:
    """Return what the blocks of an answer say; each provider's class makes its own usage object."""
    return SpokenAnswer(
        text="\n".join(text_field(block, "text") for block in blocks if block.get("type") == "text"),
        thoughts="\n".join(text_field(block, "thinking") for block in blocks if block.get("type") == "thinking"),
        calls=calls,
        usage=Usage(
            model_calls=1,
            prompt_tokens=_count(getattr(usage, "input_tokens", 0)),
            completion_tokens=_count(getattr(usage, "output_tokens", 0)),
        ),
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


class AgentScopeOptions(CallOptions):
    """Temperature and bound of the answer, in the words of a model's class."""

    def __init__(self, model: object) -> None:
        """Read the class of a model; nothing is called."""
        names = [kind.__name__ for kind in type(model).__mro__ if kind.__module__.startswith("agentscope.")]
        super().__init__(next((_LIMITS[name] for name in names if name in _LIMITS), _OPENAI_LIMITS))
        self._is_nested = "OllamaChatModel" in names
        self._model = model

    def of(self, request: ChatRequest) -> dict[str, object]:
        """Return the keywords that go with a request."""
        given = super().of(request)
        if not given or not self._is_nested:
            return given
        own = getattr(self._model, "options", None)  # in 1.x; in 2.x it has no others than these
        return {"options": {**(own if isinstance(own, dict) else {}), **given}}

    def refuse(self, given: Mapping[str, object], error: Exception) -> bool:
        """Leave out from now on what an error names of the keywords given; return whether it names any."""
        inner = given.get("options")
        return super().refuse(inner if isinstance(inner, dict) else given, error)


class AgentScopeChat:
    """A chat model of AgentScope behind the core's port, used as it is. Bound to no event loop."""

    def __init__(self, model: object, model_name: str, ask: Ask) -> None:
        """Keep them; nothing is called."""
        self._name = f"{type(model).__name__}:{model_name}"
        self._ask = ask
        self._options = AgentScopeOptions(model)

    def __repr__(self) -> str:
        """Name the model."""
        return f"AgentScopeChat({self._name})"

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer a request.

        Raises:
            InvalidInputError: There is nothing to send, or `tool_choice` names no tool of the request.
            ModelUnavailableError: No answer, or none in time; it may pass.
            ModelRejectedError: The model refuses the request as it is, or failed.
            ModelOutputError: The answer has no usable form; `raw` keeps it.
            ContextTooLongError: The request doesn't fit the context window.
            CancelledError: The task was cancelled, which AgentScope's models of 2.x swallow.
        """
        choice = checked_choice(request)
        question = ModelQuestion(
            who=self._name,
            messages=sent_messages(request, said=_said),
            tools=[function_schema(tool) for tool in request.tools] or None,
            choice=None if choice == "auto" or not request.tools else choice,
        )
        return await foreign_chat(request, self._name, self._options, lambda given: self._ask(question, given))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """What a model of either generation is asked.

    Attributes:
        who: The model, for errors.
        messages: Texts, tool calls and results alone: thinking and vendor data are not sent, media are told in words.
        tools: As both generations take them; None for none.
        choice: As both call it; None leaves it to the model.
    """

    who: str
    messages: list[Message]
    tools: list[dict[str, object]] | None
    choice: str | None


Ask: TypeAlias = Callable[[ModelQuestion, Mapping[str, object]], Awaitable[SpokenAnswer]]


def _said(block: ContentBlock, _: Message) -> ContentBlock | None:
    if isinstance(block, OtherBlock | ToolCallBlock | ToolResultBlock):
        return None if isinstance(block, OtherBlock) else block
    return TextBlock(text=text_of(block))


def no_answer(who: str) -> ModelOutputError:
    """Return the error of a stream that ended without a word."""
    return ModelOutputError(f"{who}: the stream ended without an answer: ask again", raw="")


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
