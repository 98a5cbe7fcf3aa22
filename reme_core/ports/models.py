"""The ports of models: chat, embedding, counting of tokens; and the clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from reme_core.ports.memory_store import Matrix, Vector
from reme_core.schema import Message, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that the model may call: name, description, JSON schema of its arguments (an object)."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSchema:
    """The JSON schema that the answer's text must follow, under a name."""

    name: str
    schema: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request.

    Attributes:
        messages: The conversation, at least one message.
        tools: What the model may call.
        tool_choice: `auto`, `none`, `required`, or the name of a tool.
        response_schema: Asks for JSON of this form; the answer is then in `ChatResult.parsed`.
        temperature: None leaves the model's own setting.
        max_tokens: At most this many completion tokens; None leaves the model's own setting.
        timeout_s: Seconds for this request, its retries included; None leaves the model's own setting.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: str = "auto"
    response_schema: ResponseSchema | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatResult:
    """One answer.

    Attributes:
        message: The assistant's message, tool calls included.
        usage: What it cost; tokens as the endpoint reported them.
        finish_reason: Why it ended.
        parsed: The JSON value, if a response schema was asked for.
    """

    message: Message
    usage: Usage = field(default_factory=Usage)
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter", "other"] = "stop"
    parsed: JsonValue = None


class ChatModel(Protocol):
    """A chat model. One object serves many calls at once and keeps nothing between them."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer a request.

        Raises:
            ModelUnavailableError: No answer after the retries; it may pass.
            ModelRejectedError: The endpoint refuses the request as it is.
            ModelOutputError: The answer has no usable form; `raw` keeps it.
            ContextTooLongError: The request doesn't fit the context window.
        """


@runtime_checkable
class StreamingChatModel(ChatModel, Protocol):
    """A chat model that can hand out its answer while it is being written."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[str | ChatResult, None]:
        """Yield the answer's text in pieces, and at the end the whole result; raises as `chat`."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def dimension(self) -> int:
        """The length of every vector."""

    async def embed(self, texts: Sequence[str]) -> Matrix:
        """Return float32 of shape (len(texts), dimension), rows of unit norm, in the order of the texts.

        No texts: shape (0, dimension), and no call of the model.

        Raises:
            ModelUnavailableError: No answer after the retries; it may pass.
            ModelRejectedError: The endpoint refuses the request as it is.
            ModelOutputError: A wrong number of vectors, a wrong dimension, or values that are not finite.
        """


@runtime_checkable
class NamedEmbedder(Protocol):
    """An embedder that says which model it is, so that vectors of two models are never mixed."""

    @property
    def model(self) -> str:
        """The name of the model."""


@runtime_checkable
class LabelledEmbedder(Protocol):
    """An embedder whose vectors go by a name that somebody gave them, whatever the model is called."""

    @property
    def name(self) -> str | None:
        """The name; None: that of the model."""


def embedder_name(embedder: Embedder) -> str:
    """Return what tells the vectors of an embedder from others: the name it was given, its model, or else its class."""
    if isinstance(embedder, LabelledEmbedder) and isinstance(embedder.name, str) and embedder.name:
        return embedder.name
    return embedder.model if isinstance(embedder, NamedEmbedder) else type(embedder).__qualname__


@runtime_checkable
class EmbedsQueries(Protocol):
    """An embedder whose model treats a query otherwise than a text that is stored."""

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a query, shape (dimension,), as `Embedder.embed` does for texts; raises as that."""


class TokenCounter(Protocol):
    """Counts tokens as a model would, or near enough; it may be called from any thread, from several at a time."""

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, 0 for an empty one; adding text never lowers it."""


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
