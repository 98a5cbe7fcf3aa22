"""The guard before every request: foreign pages, bodies without end, callers without a key; and one log line each.

A request that passes has its `Principal` in `request.state.principal`. Nothing else tells whose memory is touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reme_core.errors import InvalidInputError, ReMeError
from reme_core.serve.access import TOKEN_PREFIX, AccessKeys, Principal, UnauthorizedError
from reme_core.serve.failures import BodyTooLargeError, ForeignOriginError, failure_response

_LOG = logging.getLogger("reme.serve")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_BODY_BYTES = 8 << 20
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""What anybody may ask: whether the service lives, and which calls it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """Which requests are let in.

    Attributes:
        hosts: Names in the Host header that are this service's, beside those of this machine.
        origins: Origins such as `https://chat.example.org` whose pages may call, beside the service's own.
        anonymous: Who calls without a key; None: nobody may.
        max_body_bytes: The bound of a request body.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    anonymous: Principal | None = None
    max_body_bytes: int = MAX_BODY_BYTES


@dataclass(frozen=True, slots=True)
class Guard:
    """ASGI middleware around everything that is served."""

    app: ASGIApp
    keys: AccessKeys
    rules: GuardRules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, answer = time.perf_counter(), _WatchedSend(send)
        try:
            await self._admit(scope)
            await self.app(scope, _bounded(receive, self.rules.max_body_bytes), answer)
        except ReMeError as exc:
            if answer.status is not None:
                raise
            await failure_response(scope["path"], exc)(scope, receive, answer)
        finally:
            milliseconds = (time.perf_counter() - begun) * 1000
            _LOG.info("%s %s %s %.0f ms", scope["method"], scope["path"], answer.status, milliseconds)

    async def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self._check_origin(headers)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self.rules.max_body_bytes:
            raise _too_large(self.rules.max_body_bytes)
        if scope["path"] not in OPEN_PATHS:
            scope.setdefault("state", {})["principal"] = await self._principal(headers)

    def _check_origin(self, headers: Headers) -> None:
        """Refuse what a page of somebody else sends, by DNS rebinding say (ForeignOriginError)."""
        host = headers.get("host", "")
        if _hostname(host) not in {*LOOPBACK, *self.rules.hosts}:
            msg = "Host is not a name of this service: start it with --allow-host NAME for each name that it has"
            raise ForeignOriginError(msg)
        origin = headers.get("origin")
        if origin is None or origin in self.rules.origins or urlsplit(origin).netloc == host:
            return
        msg = "Origin is a foreign one: start the service with --allow-origin for pages that may call it"
        raise ForeignOriginError(msg)

    async def _principal(self, headers: Headers) -> Principal:
        token = _token_of(headers)
        if token is not None:
            principal = await self.keys.find(token)
        elif self.rules.anonymous is not None:
            principal = self.rules.anonymous
        else:
            msg = "no key: send 'Authorization: Bearer ...' with one of `reme keys add`"
            raise UnauthorizedError(msg)
        user_id = header_text(headers, "X-Reme-User")
        return principal if user_id is None else principal.act_as(user_id)


def header_text(headers: Headers, name: str) -> str | None:
    """Return a header that names something, read as UTF-8; None where it is not there (InvalidInputError)."""
    value = headers.get(name)
    try:
        return None if value is None else value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        msg = f"{name} is no UTF-8: send its bytes in that encoding"
        raise InvalidInputError(msg) from None


class _WatchedSend:
    """Passes an answer on and tells its status, None before it begins."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


def _token_of(headers: Headers) -> str | None:
    """Return the key that a request brings; `X-Reme-Key` leaves `Authorization` to the model behind the chat door."""
    token = headers.get("x-reme-key")
    if token is not None:
        return token
    scheme, _, token = headers.get("authorization", "").partition(" ")
    is_ours = scheme.lower() == "bearer" and token.strip().startswith(TOKEN_PREFIX)
    return token.strip() if is_ours else None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _too_large(bound: int) -> BodyTooLargeError:
    msg = f"the request body is larger than {bound} bytes: send it in parts"
    return BodyTooLargeError(msg)


def _bounded(receive: Receive, bound: int) -> Receive:
    """Return the body's source, which fails once more than `bound` bytes came (BodyTooLargeError)."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > bound:
            raise _too_large(bound)
        return message

    return bounded
