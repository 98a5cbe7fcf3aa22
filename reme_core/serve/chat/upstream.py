"""The model behind the door: where it is, with which key, and one HTTP client for all requests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx2
from starlette.datastructures import Headers

from reme_core.errors import ModelUnavailableError
from reme_core.serve.access import TOKEN_PREFIX

_LOG = logging.getLogger("reme.serve")
_CONNECT_S = 10.0
# A model may think for long before its first word; the caller leaves when it has had enough.
_SILENCE_S = 600.0
# Of one connection to the next, and ours to set.
_OWN_HEADERS = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade"),
        *(b"transfer-encoding", b"host", b"content-length", b"accept-encoding", b"authorization"),
        *(b"x-reme-key", b"x-reme-user", b"x-reme-session", b"x-reme-budget", b"x-reme-blocks", b"x-reme-memory"),
        *(b"cookie", b"origin", b"referer"),
    }
)
_NOT_RETURNED = frozenset(
    {
        *(
            b"connection",
            b"keep-alive",
            b"transfer-encoding",
            b"upgrade",
            b"trailer",
            b"set-cookie",
            b"server",
            b"date",
        ),
        b"location",  # the talk would go to whom nobody named
    }
)

# What this service remembers, and which pages may read it.
_OURS_TO_SAY = (b"x-reme-", b"access-control-")


@dataclass(slots=True)
class Upstream:
    """An OpenAI-compatible endpoint.

    Args:
        base_url: Such as `https://api.openai.com/v1`.
        api_key: Sent with every request; None passes on what the caller sends as `Authorization`, where that is not a
            key of ours.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    _client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Open the client."""
        timeout = httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client and what still goes on."""
        if self._client is not None:
            await self._client.aclose()

    @asynccontextmanager
    async def ask(self, method: str, path: str, headers: Headers, body: bytes) -> AsyncIterator[httpx2.Response]:
        """Send a request and hand out the answer as soon as it begins; leaving cancels it.

        Raises:
            ModelUnavailableError: There is no answer.
        """
        assert self._client is not None  # noqa: S101  # entered with the application
        request = self._client.build_request(
            method, f"{self.base_url.rstrip('/')}/{path}", headers=self._headers(headers), content=body or None
        )
        try:
            response = await self._client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            _LOG.error("the chat door's model gives no answer: %s", type(exc).__name__)  # its address may hold a secret
            msg = "the model behind this service gives no answer: is it up?"
            raise ModelUnavailableError(msg) from exc
        try:
            yield response
        finally:
            await response.aclose()

    def _headers(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        sent = [(name, value) for name, value in headers.raw if name.lower() not in _OWN_HEADERS]
        theirs = headers.get("authorization", "")
        if self.api_key is not None:
            sent.append((b"authorization", f"Bearer {self.api_key}".encode()))
        elif theirs and not any(word.startswith(TOKEN_PREFIX) for word in theirs.split()):
            sent.append((b"authorization", theirs.encode("latin-1")))
        return [*sent, (b"accept-encoding", b"identity")]  # the answer is read along as it passes


def returned_headers(response: httpx2.Response) -> list[tuple[bytes, bytes]]:
    """Return the headers that go back to the caller: none that speak for this service."""
    return [
        (name, value)
        for name, value in response.headers.raw
        if name.lower() not in _NOT_RETURNED and not name.lower().startswith(_OURS_TO_SAY)
    ]
