"""Connection to a service: a call becomes a request, its answer a value or an error, and what failed is sent again."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from reme_core.client.problems import error_of
from reme_core.errors import InvalidInputError, ReMeError, StoreUnavailableError
from reme_core.serve.access import Right
from reme_core.serve.http.calls import Call

if TYPE_CHECKING:
    import httpx2 as httpx
else:
    try:  # the library under openai 3, and that under openai 2
        import httpx2 as httpx
    except ModuleNotFoundError:
        import httpx

_CONNECT_S = 10.0
_WAIT_S = 0.2
"""Before a request is sent again; twice as long each time."""
_NOTHING = TypeAdapter[Any](None)
_FAILED = 400  # where HTTP's failures begin


@dataclass(slots=True)
class Connection:
    """A service.

    Attributes:
        url: Its address.
        api_key: The token of a key of it; None on its own machine, where it asks for none.
        timeout_s: Seconds of silence after which a request has failed.
        max_retries: How often a request is sent again that did not come through, or came at a bad time.
        transport: What carries requests, if not the network.
    """

    url: str
    api_key: str | None = field(repr=False)
    timeout_s: float
    max_retries: int
    transport: httpx.AsyncBaseTransport | None = None
    _client: httpx.AsyncClient | None = None

    async def send(self, call: Call, user_id: str | None, arguments: Mapping[str, object]) -> Any:  # noqa: ANN401  # as the call's adapter
        """Send a call and return its answer (ReMeError)."""
        given = _plain(arguments)
        path = call.path.format(**{name: _in_path(given.pop(name)) for name in call.path_names})
        request = self._opened().build_request(
            call.verb,
            path,
            headers=self._headers(call, user_id),
            content=to_json(given) if call.has_body else None,
            params=None if call.has_body else _query(given),
        )
        status, body = await self._answered(request, may_repeat=call.right is Right.READ or call.is_kept)
        if status >= _FAILED:
            raise error_of(status, body, call.answer)
        return call.answer.validate_json(body) if body else None

    async def lines(self, path: str, user_id: str | None) -> AsyncIterator[str]:
        """Yield the lines of an answer as they come (ReMeError)."""
        request = self._opened().build_request("GET", path, headers=self._headers(None, user_id))
        try:
            response = await self._opened().send(request, stream=True)
            try:
                if response.status_code >= _FAILED:
                    raise error_of(response.status_code, await response.aread(), _NOTHING)
                rest = b""
                async for piece in response.aiter_bytes():
                    *whole, rest = (rest + piece).split(b"\n")
                    for line in whole:
                        yield line.decode()
            finally:
                await response.aclose()
        except httpx.TransportError as exc:
            raise self._unreachable(exc) from exc

    async def close(self) -> None:
        """Close what is open."""
        if self._client is not None:
            await self._client.aclose()

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            timeout = httpx.Timeout(self.timeout_s, connect=min(self.timeout_s, _CONNECT_S))
            self._client = httpx.AsyncClient(base_url=self.url, timeout=timeout, transport=self.transport)
        return self._client

    def _headers(self, call: Call | None, user_id: str | None) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-type", b"application/json")] if call is not None and call.has_body else []
        if self.api_key is not None:
            headers.append((b"authorization", f"Bearer {self.api_key}".encode()))
        if user_id is not None:
            headers.append((b"x-reme-user", _header(user_id)))
        if call is not None and call.is_kept and call.right is not Right.READ:
            headers.append((b"idempotency-key", uuid.uuid4().hex.encode()))
        if call is not None and call.is_long:
            headers.append((b"accept", b"text/event-stream"))
        return headers

    async def _answered(self, request: httpx.Request, *, may_repeat: bool) -> tuple[int, bytes]:
        """Send a request until it is answered, and return status and body (StoreUnavailableError)."""
        for attempt in range(self.max_retries + 1):
            is_last = attempt == self.max_retries or not may_repeat
            try:
                response = await self._opened().send(request)
            except httpx.TransportError as exc:
                if is_last and not (attempt < self.max_retries and isinstance(exc, httpx.ConnectError)):
                    raise self._unreachable(exc) from exc
            else:
                status, body = _read(response)
                if is_last or status != 503:  # busy, or no room
                    return status, body
            await asyncio.sleep(_WAIT_S * 2**attempt)
        raise AssertionError  # pragma: no cover  # the last attempt returns or raises

    def _unreachable(self, error: Exception) -> ReMeError:
        return StoreUnavailableError(
            f"the service at {self.url} can't be reached ({type(error).__name__}): is it up, and the address right?"
        )


def _read(response: httpx.Response) -> tuple[int, bytes]:
    """Return status and body of an answer, or those that its stream of events ends with."""
    if response.headers.get("content-type", "").partition(";")[0] != "text/event-stream":
        return response.status_code, response.content
    event = response.content.rstrip(b"\n").rpartition(b"\n\n")[2]
    name, _, data = event.partition(b"\n")
    body = data.removeprefix(b"data: ")
    if name == b"event: error":
        return int(json.loads(body)["status"]), body
    return response.status_code, b"" if body == b"null" else body


def _plain(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return arguments as JSON values (InvalidInputError: one can't be written as such)."""
    try:
        return {name: to_jsonable_python(value) for name, value in arguments.items()}
    except (PydanticSerializationError, ValueError, RecursionError) as exc:
        msg = f"an argument can't be sent as JSON: {str(exc)[:200]}"
        raise InvalidInputError(msg) from exc


def _in_path(value: object) -> str:
    if not isinstance(value, str) or not value:
        msg = f"wanted an id, found {value!r:.60}"
        raise InvalidInputError(msg)
    return quote(value, safe="", errors="surrogatepass").replace(".", "%2E")


def _query(given: Mapping[str, Any]) -> list[tuple[str, str | int | float | bool | None]]:
    pairs: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in given.items():
        items = value if isinstance(value, list) else [] if value is None else [value]
        pairs += [(name, item if isinstance(item, str) else json.dumps(item)) for item in items]
    return pairs


def _header(text: str) -> bytes:
    if text.isprintable() and text == text.strip():
        return text.encode()
    msg = f"user_id: {text!r:.60} can't be sent in a header: blanks at its ends, or characters that nobody sees"
    raise InvalidInputError(msg)
