"""A chat model behind an OpenAI-compatible endpoint, and the bodies of its requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from openai import AsyncStream
from pydantic import JsonValue, SecretStr

from reme_core.errors import ContextTooLongError, InvalidInputError, ModelRejectedError, ModelUnavailableError
from reme_core.models.chat_answer import StreamedAnswer, count_tokens, parse_wire, read_draft, result_of
from reme_core.models.defaults import Tally
from reme_core.models.endpoint import OPENAI_URL, Endpoint, EndpointModel, as_secret
from reme_core.models.endpoint_failures import (
    EndpointAddress,
    EndpointDialect,
    JsonObject,
    complaint,
    is_about_room,
    json_instruction,
    learnt_of,
    response_format,
    simpler,
)
from reme_core.ports import ChatRequest, ChatResult, ToolSpec
from reme_core.schema.openai_messages import wire_messages
from reme_core.telemetry import model_span

T = TypeVar("T")


def chat_body(request: ChatRequest, *, model: str, temperature: float | None, dialect: EndpointDialect) -> JsonObject:
    """Build the body, in the endpoint's dialect.

    Raises:
        InvalidInputError: There is nothing to send, or a tool choice that names no tool of the request.
    """
    messages = [part for message in request.messages for part in wire_messages(message)]
    if not messages:
        msg = "messages: nothing to send: give at least one message with a text, an image, a tool call or a tool result"
        raise InvalidInputError(msg)
    body: JsonObject = {"model": model, "messages": _with_instruction(messages, request, dialect)}
    warmth = temperature if request.temperature is None else request.temperature
    if warmth is not None and dialect.temperature:
        body["temperature"] = warmth
    if request.max_tokens is not None and (dialect.tokens_below is None or request.max_tokens < dialect.tokens_below):
        body[dialect.tokens_option] = request.max_tokens
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    choice = _tool_choice(request.tool_choice, request.tools)
    if choice is not None:
        body["tool_choice"] = choice
    schema = request.response_schema
    wanted = response_format(schema, dialect.mode_of(schema)) if schema else None
    if wanted is not None:
        body["response_format"] = wanted
    return body


def streaming(body: JsonObject, dialect: EndpointDialect) -> JsonObject:
    """Return the body that asks for the same answer in pieces."""
    options: JsonObject = {"stream_options": {"include_usage": True}} if dialect.stream_usage else {}
    return {**body, "stream": True, **options}


def _tool(tool: ToolSpec) -> JsonObject:
    function: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _tool_choice(choice: str, tools: Sequence[ToolSpec]) -> JsonValue:
    """Return the option `tool_choice`; None where it says nothing new."""
    names = [tool.name for tool in tools]
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    if choice in {"auto", "none"} or (choice == "required" and tools):
        return choice if tools and choice != "auto" else None
    msg = f"tool_choice {choice!r}: wanted 'auto', 'none', 'required' or one of the request's tools {names!r}"
    raise InvalidInputError(msg)


def _with_instruction(messages: list[JsonValue], request: ChatRequest, dialect: EndpointDialect) -> list[JsonValue]:
    """Add the schema to the system message where the endpoint is not given it otherwise."""
    if request.response_schema is None or dialect.mode_of(request.response_schema) == "schema":
        return messages
    instruction = json_instruction(request.response_schema)
    first = messages[0]
    if isinstance(first, dict) and first["role"] == "system" and isinstance(first["content"], str):
        return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]


_PATH = "/chat/completions"


class OpenAIChat(EndpointModel):
    """A chat model of any endpoint that speaks OpenAI's chat completions. A `ChatModel`.

    One object serves all event loops and threads of the process, and may live as long as it. Its connections are closed
    with the event loop that they were made in, or by `close` (or leaving `async with`) from that loop.

    Options that an endpoint lacks are learnt from its refusals and left out from then on, by all objects that speak to
    the same model there: `response_format` (the schema then goes into the prompt), `temperature`, `stream_options`, and
    `max_tokens`, where it wants `max_completion_tokens`, or takes no such limit.
    """

    def __init__(  # one argument for each setting that users know from elsewhere
        self,
        model: str,
        *,
        api_key: SecretStr | str | None = None,
        base_url: str = OPENAI_URL,
        temperature: float | None = None,
        timeout_s: float = 120.0,
        max_retries: int = 3,
        max_concurrency: int = 16,
    ) -> None:
        """Keep the settings; nothing is opened yet.

        Args:
            model: The model's name at the endpoint.
            api_key: None sends no key, as local servers want it.
            base_url: Most end in `/v1`.
            temperature: For requests that name none; None leaves it to the endpoint.
            timeout_s: For a call as a whole, its retries included; in a stream, to its beginning, then between pieces.
            max_retries: After the first attempt, for connection errors, 408, 409, 429 and 5xx.
            max_concurrency: Requests under way at once, over all event loops and threads.

        Raises:
            ConfigurationError: Naming the option.
        """
        place = EndpointAddress(
            model=model,
            base_url=base_url,
            key_variable="REME_LLM_API_KEY",
            url_variable="REME_LLM_BASE_URL",
            secret=as_secret(api_key),
        )
        super().__init__(Endpoint(place, timeout_s=timeout_s, max_retries=max_retries, max_concurrency=max_concurrency))
        self._temperature = temperature
        self._learnt = learnt_of(base_url, model)

    async def chat(self, request: ChatRequest) -> ChatResult:
        """Answer a request.

        `ChatResult.usage` counts every attempt that got to the endpoint, and the time with its retries.

        Raises:
            InvalidInputError: There is nothing to send, or `tool_choice` names no tool of the request.
            ModelUnavailableError: No answer after the retries; it may pass.
            ModelRejectedError: The endpoint refuses the request as it is.
            ModelOutputError: The answer has no usable form; `raw` keeps it.
            ContextTooLongError: The request doesn't fit the context window.
        """
        tally = Tally()

        async def send(body: JsonObject, _dialect: EndpointDialect) -> str:
            return await self._endpoint.post(_PATH, body, tally=tally, timeout_s=request.timeout_s)

        try:
            with model_span("chat", self.model, lambda: tally.usage("chat")):
                text = await self._negotiate(request, send)
                return result_of(read_draft(text, tally), request, tally)
        finally:
            self._meter.add(tally.usage("chat"))

    async def stream(self, request: ChatRequest) -> AsyncGenerator[str | ChatResult, None]:
        """Yield the answer's text in pieces as it comes, and at the end the whole result.

        Close the generator (`contextlib.aclosing`) when it is not read to its end. Only the beginning is retried.

        Raises:
            ModelUnavailableError: No answer after the retries, or the stream broke.
            ModelError: As `chat`.
        """
        tally = Tally()
        answer = StreamedAnswer()

        async def send(body: JsonObject, dialect: EndpointDialect) -> AsyncStream[object]:
            return await self._endpoint.open_stream(
                _PATH, streaming(body, dialect), tally=tally, timeout_s=request.timeout_s
            )

        try:
            with model_span("chat", self.model, lambda: tally.usage("chat"), current=False):
                async with (
                    self._endpoint.slots.hold(),
                    await self._negotiate(request, send) as stream,
                    aclosing(self._endpoint.pieces(stream, tally=tally, timeout_s=request.timeout_s)) as pieces,
                ):
                    async for data in pieces:
                        piece = parse_wire(data, raw=str(data))
                        count_tokens(piece, tally)
                        if text := answer.add(piece):
                            yield text
                if answer.finish_reason is None:
                    msg = f"{self.model!r}: the stream ended before the answer did: try again"
                    raise ModelUnavailableError(msg)
                yield result_of(answer.draft(), request, tally)
        finally:
            self._meter.add(tally.usage("chat"))

    async def _negotiate(self, request: ChatRequest, send: Callable[[JsonObject, EndpointDialect], Awaitable[T]]) -> T:
        """Send a request in the simplest dialect that the endpoint has asked for so far, or now asks for."""
        dialect = self._learnt.dialect
        while True:
            body = chat_body(request, model=self.model, temperature=self._temperature, dialect=dialect)
            try:
                return await send(body, dialect)
            except ModelRejectedError as exc:
                said = complaint(exc)
                understood = simpler(dialect, streaming(body, dialect) if "stream_options" in said else body, said)
                if understood is None:
                    raise
                dialect = self._learnt.dialect = understood
            except ContextTooLongError as exc:
                if not is_about_room(dialect, body, complaint(exc)):
                    raise
                request = replace(request, max_tokens=None)
