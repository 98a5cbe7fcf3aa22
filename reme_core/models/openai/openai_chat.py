"""A chat model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import NoReturn, Self, TypeVar

from openai import AsyncStream
from pydantic import SecretStr

from reme_core.errors import ContextTooLongError, ModelRejectedError, ModelUnavailableError
from reme_core.models.openai.back_off import BackOff
from reme_core.models.openai.chat_answer import StreamedAnswer, count_tokens, parse_wire, read_draft, result_of
from reme_core.models.openai.chat_body import chat_body, streaming
from reme_core.models.openai.endpoint import OPENAI_URL, Endpoint, as_secret
from reme_core.models.openai.endpoint_dialect import EndpointDialect, JsonObject, is_about_room, learnt_of, simpler
from reme_core.models.openai.endpoint_failures import EndpointAddress, complaint
from reme_core.models.usage_meter import Meter, Tally
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import Usage

T = TypeVar("T")

_PATH = "/chat/completions"


class OpenAIChat:
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
        back_off: BackOff | None = None,
    ) -> None:
        """Keep the settings; nothing is opened yet.

        Args:
            model: The model's name at the endpoint.
            api_key: None sends no key, as local servers want it.
            base_url: Most end in `/v1`.
            temperature: For requests that name none; None leaves it to the endpoint.
            timeout_s: For each attempt; in a stream, for its beginning and between two pieces.
            max_retries: After the first attempt, for connection errors, time-outs, 408, 409, 429 and 5xx.
            max_concurrency: Requests under way at once, over all event loops and threads.
            back_off: How long to wait between attempts.

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
        self._endpoint = Endpoint(
            place,
            timeout_s=timeout_s,
            max_retries=max_retries,
            max_concurrency=max_concurrency,
            back_off=back_off or BackOff(),
        )
        self._temperature = temperature
        self._learnt = learnt_of(base_url, model)
        self._meter = Meter()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._endpoint.place.model

    @property
    def usage(self) -> Usage:
        """The cost of all calls so far, failed ones included."""
        return self._meter.total

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
            async with (
                self._endpoint.slots.hold(),
                await self._negotiate(request, send) as stream,
                aclosing(self._endpoint.pieces(stream, timeout_s=request.timeout_s)) as pieces,
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

    async def close(self) -> None:
        """Close the connections of the running event loop. A later call opens new ones."""
        await self._endpoint.close()

    async def __aenter__(self) -> Self:
        """Return the model itself; nothing is opened."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections of the running event loop."""
        await self.close()

    def __repr__(self) -> str:
        """Name the model and the endpoint, never the key."""
        return f"OpenAIChat({self.model!r}, base_url={self._endpoint.place.url!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: the key must not get into a file.

        Raises:
            TypeError: Always.
        """
        msg = "an OpenAIChat holds a key, so it is not pickled or copied: build it anew where it is needed"
        raise TypeError(msg)

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
