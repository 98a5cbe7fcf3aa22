"""Door to the inspector: its routes, and the one-time invitations; the pages are loaded at the first request."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reme_core.facade.reme import ReMe
from reme_core.serve.access import Principal
from reme_core.serve.service import Service

PREFIX = "/inspect"
SESSION_S = 12 * 3600
"""How long a browser stays signed in."""
INVITATION_S = 600
"""How long an invitation may be used, once."""
_MOST = 1000


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that is signed in.

    Attributes:
        principal: Who it is; with a key, who the key says it is at each request.
        csrf: What each form brings, and a page of somebody else can't know.
        key: The token of the access key that signed in; None for an invitation.
    """

    principal: Principal
    csrf: str
    key: str | None = None


@dataclass(slots=True)
class BrowserSessions:
    """Browsers that are signed in, and invitations; in memory, by digest, so that a restart ends all of them."""

    seconds: Callable[[], float] = time.monotonic
    _kept: dict[str, tuple[float, BrowserSession]] = field(default_factory=dict)

    def invite(self, principal: Principal) -> str:
        """Return a token that signs in as somebody, once."""
        return self._keep("invitation", BrowserSession(principal, ""), INVITATION_S)

    def accept(self, invitation: str) -> str | None:
        """Return the name of a new session for an invitation, None if it is none, or was used."""
        found = self._kept.pop(_digest("invitation", invitation), None)
        return self.open(found[1].principal) if found is not None and found[0] > self.seconds() else None

    def open(self, principal: Principal, key: str | None = None) -> str:
        """Sign in; return the name of the session."""
        return self._keep("session", BrowserSession(principal, secrets.token_urlsafe(24), key), SESSION_S)

    def find(self, name: str) -> BrowserSession | None:
        """Return a session, None if there is none, or no longer."""
        until, session = self._kept.get(_digest("session", name), (0.0, None))
        return session if until > self.seconds() else None

    def close(self, name: str) -> None:
        """Sign out."""
        self._kept.pop(_digest("session", name), None)

    def _keep(self, kind: str, session: BrowserSession, seconds: float) -> str:
        while len(self._kept) >= _MOST:
            self._kept.pop(next(iter(self._kept)))
        name = secrets.token_urlsafe(32)
        self._kept[_digest(kind, name)] = (self.seconds() + seconds, session)
        return name


def _digest(kind: str, name: str) -> str:
    return hashlib.sha256(f"{kind} {name}".encode("utf-8", "surrogatepass")).hexdigest()


def inspect_routes(
    service: Service, sessions: BrowserSessions, *, write: bool, previewing: ReMe | None = None
) -> list[BaseRoute]:
    """Return the routes of the inspector; without `write` nobody changes anything there, whatever a key says.

    `previewing` has the chat model of previews, where the service has none; whoever made it closes it.
    """
    app = _LazyInspector(service, sessions, write, previewing)
    return [Route(PREFIX, app), Route(PREFIX + "/{page:path}", app)]


@dataclass(slots=True)
class _LazyInspector:
    """ASGI application that loads the pages at the first request."""

    service: Service
    sessions: BrowserSessions
    write: bool
    previewing: ReMe | None
    _loaded: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._loaded is None:
            from reme_core.serve.inspect.app import Inspector  # noqa: PLC0415  # brings Jinja; most never ask for it

            self._loaded = Inspector(self.service, self.sessions, write=self.write, previewing=self.previewing)
        await self._loaded(scope, receive, send)
