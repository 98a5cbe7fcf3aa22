"""Requests to an OpenAI-compatible endpoint: connections, limits, time-outs, retries; nothing of their content."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import openai
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient
from pydantic import JsonValue, SecretStr

from reme_core.errors import ConfigurationError, ModelOutputError
from reme_core.models.openai.back_off import BackOff
from reme_core.models.openai.call_slots import CallSlots
from reme_core.models.openai.endpoint_failures import (
    TRANSPORT_ERROR,
    EndpointAddress,
    may_pass,
    retry_after_s,
    translate,
    was_reached,
)
from reme_core.models.usage_meter import Tally

if TYPE_CHECKING:
    from openai._types import RequestOptions  # not public, and needed to name the type of a public parameter

T = TypeVar("T")

_LINGER_S = 30.0
"""How long a loop holds the connections of an object that is gone."""

OPENAI_URL = "https://api.openai.com/v1"


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
        self, place: EndpointAddress, *, timeout_s: float, max_retries: int, max_concurrency: int, back_off: BackOff
    ) -> None:
        """Check the options; nothing is opened yet.

        Raises:
            ConfigurationError: Naming the option.
        """
        _check_options(place, timeout_s=timeout_s, max_retries=max_retries, max_concurrency=max_concurrency)
        self.place = place
        self.slots = CallSlots(max_concurrency)
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._back_off = back_off
        self._clients = _LoopClients(place)

    async def post(self, path: str, body: dict[str, JsonValue], *, tally: Tally, timeout_s: float | None = None) -> str:
        """Send a request and return the text of the answer, whatever its form. Each attempt holds a slot.

        Raises:
            ModelUnavailableError: It failed, and so did the retries.
            ModelRejectedError: The endpoint refuses it.
            ContextTooLongError: It is too long for the model.
        """

        async def attempt() -> str:
            client = await self._clients.get()
            return await client.post(path, cast_to=str, body=body, options=_options(self.place))

        async def attempt_in_slot() -> str:
            async with self.slots.hold():
                return await self._timed(attempt, tally, timeout_s)

        return await self._with_retries(attempt_in_slot)

    async def open_stream(
        self, path: str, body: dict[str, JsonValue], *, tally: Tally, timeout_s: float | None = None
    ) -> AsyncStream[object]:
        """Send a request whose answer comes in pieces; raises as `post`.

        The caller holds a slot, and closes the stream.
        """

        async def attempt() -> AsyncStream[object]:
            client = await self._clients.get()
            return await client.post(
                path,
                cast_to=object,
                body=body,
                options=_options(self.place),
                stream=True,
                stream_cls=AsyncStream[object],
            )

        return await self._with_retries(lambda: self._timed(attempt, tally, timeout_s))

    async def pieces(
        self, stream: AsyncStream[object], *, timeout_s: float | None = None
    ) -> AsyncGenerator[object, None]:
        """Yield what the stream brings; the time-out is that between two pieces. What has begun is not tried again.

        Raises:
            ModelUnavailableError: The stream broke, or went silent.
            ModelOutputError: A piece is not JSON.
        """
        iterator = aiter(stream)
        while True:
            try:
                async with asyncio.timeout(timeout_s or self._timeout_s):
                    piece = await anext(iterator)
            except StopAsyncIteration:
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

    async def _timed(self, attempt: Callable[[], Awaitable[T]], tally: Tally, timeout_s: float | None) -> T:
        tally.attempts += 1
        try:
            async with asyncio.timeout(timeout_s or self._timeout_s):
                return await attempt()
        except openai.OpenAIError as exc:
            tally.attempts -= not was_reached(exc)
            raise

    async def _with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        failures = 0
        while True:
            try:
                return await attempt()
            except (openai.OpenAIError, TimeoutError) as exc:
                failures += 1
                if failures > self._max_retries or not may_pass(exc):
                    raise translate(exc, self.place, attempts=failures) from exc
                wait_s = self._back_off.seconds(failures, retry_after_s(exc))
            await self._back_off.sleep(wait_s)


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
    if place.secret is None:
        headers["Authorization"] = openai.Omit()
    return {"headers": headers}


def _open_client(place: EndpointAddress) -> AsyncOpenAI:
    """Make a client without retries and time-outs of its own: those are here, in one place."""
    return AsyncOpenAI(
        api_key=place.secret.get_secret_value() if place.secret else "none",
        base_url=place.base_url,
        max_retries=0,
        timeout=None,
        # Not the client's default wrapper, which, when garbage, closes itself on whichever loop runs at that time.
        http_client=DefaultAsyncHttpxClient(timeout=None),
    )


async def _lifetime(place: EndpointAddress) -> AsyncGenerator[AsyncOpenAI, None]:
    """Yield a client once, and close it when the generator is closed: the event loop does that before it ends."""
    client = _open_client(place)
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

    def __init__(self, place: EndpointAddress) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._held: dict[asyncio.AbstractEventLoop, _LoopClient] = {}

    async def get(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [loop for loop in self._held if loop.is_closed()]:
                del self._held[other]
            held = self._held.get(loop)
        if held is None or held.client.is_closed():
            lifetime = _lifetime(self._place)
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
