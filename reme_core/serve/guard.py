"""The guard before every request: foreign pages, bodies without end, callers without a key; and one log line each.

A request that passes has its `Principal` in `request.state.principal`. Nothing else tells whose memory is touched.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reme_core.errors import InvalidInputError
from reme_core.serve.access import TOKEN_PREFIX, AccessKeys, Principal, Right, UnauthorizedError
from reme_core.serve.failures import (
    BodyTooLargeError,
    ForeignOriginError,
    TooManyRequestsError,
    TooSlowError,
    failure_response,
)

_LOG = logging.getLogger("reme.serve")
MIB = 1 << 20
MAX_BODY_BYTES = 8 << 20
"""Of a request, where the service is not started with another bound."""
MOST_BODY_MIB = 64
"""MiB to which that bound may be raised: an image of 32 MiB, the largest that is kept, takes 43 in base64."""
MAX_BODIES_BYTES = 16 * MAX_BODY_BYTES
"""Of all requests that are being answered at once."""
RECEIVE_S = 60.0
"""Within which a body must have come: 8 MiB need 1.1 Mbit/s."""
_OF_PROXIES = ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "via")
"""What comes with a header that begins so comes from another machine, whatever its address."""
_ONCE = ("authorization", "x-reme-key", "x-reme-user", "origin")
"""Which say who calls: given twice, a proxy and we may read another one of them."""
_SHOWN_PATH = 200
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""What anybody may ask: whether the service lives, and which calls it has."""
_BROWSERS = "/inspect"
"""Where browsers call, which send no key: the pages under it know who is signed in, by a cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """Which requests are let in.

    Attributes:
        hosts: Names in the Host header that are this service's, beside those of this machine.
        origins: Origins such as `https://chat.example.org` whose pages may call, beside the service's own.
        anonymous: Who calls without a key; None: nobody may.
        max_body_bytes: The bound of a request body.
        read_only: Whether nobody may write, whatever the keys say.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    anonymous: Principal | None = None
    max_body_bytes: int = MAX_BODY_BYTES
    read_only: bool = False


@dataclass(slots=True)
class _Room:
    """The room that bodies of requests take together."""

    bound: int
    taken: int = 0

    def take(self, size: int) -> None:
        """Take room for a piece (TooManyRequestsError: there is none)."""
        if self.taken + size > self.bound:
            msg = "too many large requests at once: send it again in a moment"
            raise TooManyRequestsError(msg)
        self.taken += size


@dataclass(frozen=True, slots=True)
class Guard:
    """ASGI middleware around everything that is served."""

    app: ASGIApp
    keys: AccessKeys
    rules: GuardRules
    _room: _Room = field(default_factory=lambda: _Room(MAX_BODIES_BYTES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, answer = time.perf_counter(), _WatchedSend(send)
        body = _BoundedBody(receive, self.rules.max_body_bytes, self._room)
        try:
            await self._admit(scope)
            await self.app(scope, body, answer)
        except ClientDisconnect:  # in the middle of the body: there is nobody to answer
            return
        except Exception as exc:  # noqa: BLE001  # the outer edge of a request
            response = failure_response(scope["path"], exc)
            if answer.status is not None:
                msg = "an answer broke off"
                raise ConnectionError(msg) from None  # its words go to the server's log, and quote nothing
            await response(scope, receive, answer)
        finally:
            body.leave()
            milliseconds = (time.perf_counter() - begun) * 1000
            _LOG.info("%s %s %s %.0f ms", scope["method"], _shown_path(scope), answer.status, milliseconds)

    async def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self._check_origin(headers)
        if twice := [name for name in _ONCE if len(headers.getlist(name)) > 1]:
            msg = f"{twice[0]} stands in this request more than once: send it once"
            raise InvalidInputError(msg)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self.rules.max_body_bytes:
            raise _too_large(self.rules.max_body_bytes)
        is_open = scope["path"] in OPEN_PATHS or f"{scope['path']}/".startswith(f"{_BROWSERS}/")
        if not is_open:
            scope.setdefault("state", {})["principal"] = await self._principal(headers)

    def _check_origin(self, headers: Headers) -> None:
        """Refuse what a page of somebody else sends, by DNS rebinding say (ForeignOriginError)."""
        host = headers.get("host", "")
        if not is_loopback(_hostname(host)) and _hostname(host) not in self.rules.hosts:
            msg = "Host is not a name of this service: start it with --allow-host NAME for each name that it has"
            raise ForeignOriginError(msg)
        origin = headers.get("origin")
        if origin is None or origin in self.rules.origins or _is_of(origin, host):
            return
        msg = "Origin is a foreign one: start the service with --allow-origin for pages that may call it"
        raise ForeignOriginError(msg)

    async def _principal(self, headers: Headers) -> Principal:
        token = _token_of(headers)
        if token is not None:
            principal = await self.keys.find(token)
        elif self.rules.anonymous is not None and _is_of_this_machine(headers):
            principal = self.rules.anonymous
        else:
            msg = "no key: send 'Authorization: Bearer ...' with one of `reme keys add`"
            raise UnauthorizedError(msg)
        if self.rules.read_only:
            principal = replace(principal, rights=principal.rights & {Right.READ, Right.ACT_AS})
        user_id = header_text(headers, "X-Reme-User")
        return principal if user_id is None else principal.act_as(user_id)


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_of_this_machine(headers: Headers) -> bool:
    """Tell whether a request names this machine, and tells of no proxy on its way."""
    return is_loopback(_hostname(headers.get("host", ""))) and not any(name.startswith(_OF_PROXIES) for name in headers)


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


class _BoundedBody:
    """The source of a request's body, which fails once it is too long, or did not come in time."""

    def __init__(self, receive: Receive, bound: int, room: _Room) -> None:
        self._receive = receive
        self._bound = bound
        self._room = room
        self._taken = 0
        self._is_whole = False
        self._deadline = asyncio.get_running_loop().time() + RECEIVE_S

    async def __call__(self) -> Message:
        """Return the next piece, or later, that the caller left.

        Raises:
            BodyTooLargeError: It is longer than allowed.
            TooManyRequestsError: There is no room for it now.
            TooSlowError: It did not come in time.
        """
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            msg = f"the request body did not come within {RECEIVE_S:.0f} seconds: send it again"
            raise TooSlowError(msg) from None
        size = len(message.get("body", b""))
        if self._taken + size > self._bound:
            raise _too_large(self._bound)
        self._room.take(size)
        self._taken += size
        self._is_whole = not message.get("more_body", False)
        return message

    def leave(self) -> None:
        """Give the room back, once the request is answered."""
        self._room.taken -= self._taken
        self._taken = 0


def _shown_path(scope: Scope) -> str:
    """Return the path as it came, percent-encoded: it forges no line of the log."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("ascii", "replace")[:_SHOWN_PATH]


def _token_of(headers: Headers) -> str | None:
    """Return the key that a request brings; `X-Reme-Key` leaves `Authorization` to the model behind the chat door."""
    token = headers.get("x-reme-key")
    if token is not None:
        return token
    words = headers.get("authorization", "").split()
    return words[-1] if words and words[-1].startswith(TOKEN_PREFIX) else None


def _is_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:  # half of an IPv6 address, say
        return False


def _hostname(host: str) -> str:
    if "@" in host:  # a name of somebody before a host, which no client sends
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _too_large(bound: int) -> BodyTooLargeError:
    more = f", or start the service with a larger --max-body, of up to {MOST_BODY_MIB} MiB, which /mcp doesn't take"
    is_most = bound >= MOST_BODY_MIB * MIB
    msg = f"the request body is larger than {bound} bytes: send it in parts{'' if is_most else more}"
    return BodyTooLargeError(msg)
