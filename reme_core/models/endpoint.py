"""Requests to an OpenAI-compatible endpoint: connections, limits, time-outs; nothing of their content.

Retries are those of the `openai` client; here is the bound on a call as a whole, its waits included.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Protocol, Self

import openai
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient
from pydantic import JsonValue, SecretStr

from reme_core.errors import ConfigurationError, ModelOutputError
from reme_core.models.call_slots import CallSlots
from reme_core.models.defaults import Meter, Tally
from reme_core.models.endpoint_failures import (
    BYTE_STREAM,
    TRANSPORT_ERROR,
    USED_UP,
    EndpointAddress,
    translate,
    trusted_certificates,
    was_reached,
)
from reme_core.schema import Usage

if TYPE_CHECKING:
    from openai._types import RequestOptions


_LINGER_S = 30.0
"""How long a loop holds the connections of an object that is gone."""

OPENAI_URL = "https://api.openai.com/v1"

# The client has one hook for the requests of all its calls; it runs in the task of the call.
_TALLY: ContextVar[Tally] = ContextVar("tally of the call under way")


ANSWER_BYTES = 8 << 20
"""What is read of a chat model's answer: a hundred times what any model writes."""


def as_secret(api_key: SecretStr | str | None) -> SecretStr | None:
    """Keep a key so that printing it shows stars; an empty one is none."""
    secret = SecretStr(api_key.strip()) if isinstance(api_key, str) else api_key
    return secret if secret is not None and secret.get_secret_value() else None


class Endpoint:
    """One endpoint, shared by all event loops and threads of the process.

    A connection belongs to the event loop it was made in, so each loop has a client of its own, made on first use and
    closed with the loop (`asyncio.run` does it), by `close`, or soon after this object is gone.
    """

    def __init__(
        self,
        place: EndpointAddress,
        *,
        timeout_s: float,
        max_retries: int,
        max_concurrency: int,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        """Check the options; nothing is opened yet. Of an answer at most `answer_bytes` are read.

        Raises:
            ConfigurationError: Naming the option.
        """
        _check_options(place, timeout_s=timeout_s, max_retries=max_retries, max_concurrency=max_concurrency)
        self.place = place
        self.slots = CallSlots(max_concurrency)
        self._timeout_s = timeout_s
        self._clients = _LoopClients(place, max_retries, answer_bytes)
        self._answer_bytes = answer_bytes

    async def post(self, path: str, body: dict[str, JsonValue], *, tally: Tally, timeout_s: float | None = None) -> str:
        """Send a request and return the text of the answer, whatever its form. It holds a slot until the end.

        Raises:
            ModelUnavailableError: It failed, and so did the retries, or all of it took longer than the time-out.
            ModelRejectedError: The endpoint refuses it.
            ContextTooLongError: It is too long for the model.
            ModelOutputError: The answer is longer than what is read of one.
        """
        async with self.slots.hold(), self._bounded(tally, timeout_s):
            client = await self._clients.get()
            text = await client.post(path, cast_to=str, body=body, options=_options(self.place))
        self._check_whole(tally)
        return text

    def _check_whole(self, tally: Tally) -> None:
        if tally.is_cut:
            msg = (
                f"{self.place.model!r} at {self.place.url!r}: an answer of more than {self._answer_bytes} bytes: "
                f"is it a model's? Check {self.place.url_variable}"
            )
            raise ModelOutputError(msg, raw="")

    async def open_stream(
        self, path: str, body: dict[str, JsonValue], *, tally: Tally, timeout_s: float | None = None
    ) -> AsyncStream[object]:
        """Send a request whose answer comes in pieces; raises as `post`.

        The caller holds a slot, and closes the stream.
        """
        async with self._bounded(tally, timeout_s):
            client = await self._clients.get()
            return await client.post(
                path,
                cast_to=object,
                body=body,
                options=_options(self.place),
                stream=True,
                stream_cls=AsyncStream[object],
            )

    async def pieces(
        self, stream: AsyncStream[object], *, tally: Tally, timeout_s: float | None = None
    ) -> AsyncGenerator[object, None]:
        """Yield what the stream brings; the time-out is that between two pieces. What has begun is not tried again.

        Raises:
            ModelUnavailableError: The stream broke, or went silent.
            ModelOutputError: A piece is not JSON, or there is no end of them.
        """
        iterator = aiter(stream)
        while True:
            try:
                async with asyncio.timeout(timeout_s or self._timeout_s):
                    piece = await anext(iterator)
            except StopAsyncIteration:
                self._check_whole(tally)
                return
            except TRANSPORT_ERROR as exc:
                broken = openai.APIConnectionError(request=stream.response.request)
                raise translate(broken, self.place, attempts=1) from exc
            except (openai.OpenAIError, TimeoutError) as exc:
                raise translate(exc, self.place, attempts=1) from exc
            except ValueError as exc:
                msg = f"{self.place.model!r} at {self.place.url!r}: a piece of the stream is not JSON"
                raise ModelOutputError(msg, raw=exc.doc if isinstance(exc, json.JSONDecodeError) else "") from exc
            yield piece

    async def close(self) -> None:
        """Close the connections of the running loop. A later call opens new ones."""
        await self._clients.close()

    @asynccontextmanager
    async def _bounded(self, tally: Tally, timeout_s: float | None) -> AsyncIterator[None]:
        """Bound a call with its retries, count its attempts, and translate its failure."""
        token, before = _TALLY.set(tally), tally.attempts
        try:
            async with asyncio.timeout(timeout_s or self._timeout_s):
                yield
        except (openai.OpenAIError, TimeoutError) as exc:
            attempts = max(tally.attempts - before, 1)
            tally.attempts = tally.attempts if was_reached(exc) else before
            raise translate(exc, self.place, attempts=attempts) from exc
        finally:
            _TALLY.reset(token)


class EndpointModel:
    """A model behind an endpoint: its name, its cost and its lifetime. Its key never gets into a text or a file."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Keep the endpoint; nothing is opened yet."""
        self._endpoint = endpoint
        self._meter = Meter()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._endpoint.place.model

    @property
    def usage(self) -> Usage:
        """The cost of all calls so far, failed ones included."""
        return self._meter.total

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
        return f"{type(self).__name__}({self.model!r}, base_url={self._endpoint.place.url!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: the key must not get into a file.

        Raises:
            TypeError: Always.
        """
        kind = type(self).__name__
        msg = f"an {kind} holds a key, so it is not pickled or copied: build it anew where it is needed"
        raise TypeError(msg)


async def _count_request(_request: object) -> None:
    tally = _TALLY.get()
    tally.attempts += 1
    tally.is_cut = False


class _ByteStream(Protocol):
    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class _Answer(Protocol):
    """The head of an answer: that of httpx under openai 2, of httpx2 under openai 3."""

    status_code: int
    headers: MutableMapping[str, str]
    stream: _ByteStream

    async def aread(self) -> bytes: ...


async def _mark_used_up(answer: _Answer) -> None:
    """Keep the client from trying again where the quota is used up: a 429 that no waiting heals."""
    if answer.status_code == 429 and USED_UP.encode() in await answer.aread():
        answer.headers["x-should-retry"] = "false"


class _BoundedStream(BYTE_STREAM):  # type: ignore[misc]  # that of the library below
    """The body of an answer, which ends at a bound: who reads it is told by the tally."""

    def __init__(self, stream: _ByteStream, tally: Tally, limit: int) -> None:
        self._stream = stream
        self._tally = tally
        self._left = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                self._tally.is_cut = True
                return
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def _bounding(limit: int) -> Callable[[_Answer], Awaitable[None]]:
    """Return the hook that bounds the bytes of each answer."""

    async def bound(answer: _Answer) -> None:
        answer.stream = _BoundedStream(answer.stream, _TALLY.get(), limit)

    return bound


def _check_options(place: EndpointAddress, *, timeout_s: float, max_retries: int, max_concurrency: int) -> None:
    wrong = None
    if not place.model.strip():
        wrong = "model is empty: name the model"
    elif not place.base_url.startswith(("http://", "https://")):
        wrong = f"base_url {place.url!r}: wanted a URL with http:// or https://, such as {OPENAI_URL!r}"
    elif not timeout_s > 0:
        wrong = f"timeout_s is {timeout_s}: wanted seconds above 0"
    elif max_retries < 0:
        wrong = f"max_retries is {max_retries}: wanted 0 or more"
    elif max_concurrency < 1:
        wrong = f"max_concurrency is {max_concurrency}: wanted 1 or more"
    if wrong:
        raise ConfigurationError(wrong)


def _options(place: EndpointAddress) -> RequestOptions:
    """Leave out what the client would add from the environment, and the key where there is none."""
    headers: dict[str, str | openai.Omit] = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
    headers["Accept-Encoding"] = "identity"  # the bound is on what goes over the wire
    if place.secret is None:
        headers["Authorization"] = openai.Omit()
    return {"headers": headers}


def _open_client(place: EndpointAddress, max_retries: int, answer_bytes: int) -> AsyncOpenAI:
    """Make a client without time-outs of its own: the bound on the whole call is here.

    It follows no redirect: the prompt would go to whom nobody named.
    """
    return AsyncOpenAI(
        api_key=place.secret.get_secret_value() if place.secret else "none",
        base_url=place.base_url,
        max_retries=max_retries,
        timeout=None,
        # Not the client's default wrapper, which, when garbage, closes itself on whichever loop runs at that time.
        http_client=DefaultAsyncHttpxClient(
            timeout=None,
            follow_redirects=False,
            verify=trusted_certificates(),
            event_hooks={"request": [_count_request], "response": [_bounding(answer_bytes), _mark_used_up]},
        ),
    )


async def _lifetime(place: EndpointAddress, max_retries: int, answer_bytes: int) -> AsyncGenerator[AsyncOpenAI, None]:
    """Yield a client once, and close it when the generator is closed: the event loop does that before it ends."""
    client = _open_client(place, max_retries, answer_bytes)
    try:
        yield client
    finally:
        await client.close()


def _let_go(_lifetime: AsyncGenerator[AsyncOpenAI, None]) -> None:
    """Do nothing: with this callback the loop lets go of its reference."""


@dataclass(slots=True)
class _LoopClient:
    client: AsyncOpenAI
    lifetime: AsyncGenerator[AsyncOpenAI, None]
    linger: asyncio.TimerHandle

    def used(self, loop: asyncio.AbstractEventLoop) -> AsyncOpenAI:
        """Have the loop hold the client for a while: an object that goes earlier leaves its closing to the loop's end.

        Garbage collected between two runs of a loop, the client would otherwise be closed by nobody.
        """
        self.linger.cancel()
        self.linger = loop.call_later(_LINGER_S, _let_go, self.lifetime)
        return self.client


class _LoopClients:
    """One client for each running loop."""

    def __init__(self, place: EndpointAddress, max_retries: int, answer_bytes: int) -> None:
        self._place = place
        self._max_retries = max_retries
        self._answer_bytes = answer_bytes
        self._lock = threading.Lock()
        self._held: dict[asyncio.AbstractEventLoop, _LoopClient] = {}

    async def get(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [loop for loop in self._held if loop.is_closed()]:
                del self._held[other]
            held = self._held.get(loop)
        if held is None or held.client.is_closed():
            lifetime = _lifetime(self._place, self._max_retries, self._answer_bytes)
            client = await anext(lifetime)  # does not let other tasks run, so a loop has one client
            held = _LoopClient(client, lifetime, loop.call_later(_LINGER_S, _let_go, lifetime))
            with self._lock:
                self._held[loop] = held
        return held.used(loop)

    async def close(self) -> None:
        with self._lock:
            held = self._held.pop(asyncio.get_running_loop(), None)
        if held is not None:
            held.linger.cancel()
            await held.lifetime.aclose()
