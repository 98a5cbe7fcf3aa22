"""`/v1/chat/completions` and `/v1/models`: requests pass to the model, with memory before and after.

The question is on disk before the model is asked, the answer before the caller is told that it is whole. Headers of a
request: `X-Reme-Session`, `X-Reme-Budget` (tokens of notes, 800 unless given), `X-Reme-Blocks` (labels of memory
blocks, or `off`; all unless given), `X-Reme-Memory: off`. Those of an answer: `X-Reme-Session`, and `X-Reme-Memory`:
`notes`, `none` or `degraded; reason=...`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from reme_core.errors import InvalidInputError
from reme_core.serve.chat.relay import Relay, Turn
from reme_core.serve.chat.remember import DEFAULT_BUDGET, MAX_BUDGET, ChatMemory
from reme_core.serve.chat.talk import read_talk
from reme_core.serve.chat.upstream import Upstream
from reme_core.serve.guard import header_text
from reme_core.serve.service import Service, principal_of

_NAME_CHARS = 200  # of a model, in the name of a span
_SESSION, _BUDGET, _BLOCKS, _MEMORY = "X-Reme-Session", "X-Reme-Budget", "X-Reme-Blocks", "X-Reme-Memory"


@dataclass(frozen=True, slots=True)
class ChatDoor:
    """The door.

    Attributes:
        service: Whose memories they are.
        upstream: The model behind it; None: there is none, and every request is told so.
        keep_alive_s: Seconds of silence after which a stream carries a comment.
    """

    service: Service
    upstream: Upstream | None
    keep_alive_s: float

    async def models(self, request: Request) -> Response:
        """Pass on which models there are."""
        return Relay(self.upstream, request, "models", b"")

    async def completions(self, request: Request) -> Response:
        """Answer a conversation with memory; with `X-Reme-Memory: off`, without."""
        raw = await request.body()
        if request.headers.get(_MEMORY, "").strip().lower() == "off":
            return Relay(self.upstream, request, "chat/completions", raw)
        body, budget = _read_body(raw), _read_budget(request.headers.get(_BUDGET))
        turn = await self._turn(request, body)
        asked, model = await turn.begin(body, raw, budget), body.get("model")
        return Relay(
            self.upstream,
            request,
            "chat/completions",
            asked,
            turn,
            self.keep_alive_s,
            model=model[:_NAME_CHARS] if isinstance(model, str) else "",
        )

    async def _turn(self, request: Request, body: Mapping[str, JsonValue]) -> Turn:
        session = header_text(request.headers, _SESSION)
        try:
            talk = read_talk(body.get("messages"), session)
        except InvalidInputError as exc:
            if session is not None and exc.message.startswith(_SESSION):
                raise
            return Turn(problem="messages that the memory can't read")  # the model says what is wrong with them
        principal = principal_of(request)
        labels = _read_labels(header_text(request.headers, _BLOCKS))
        return Turn(ChatMemory(await self.service.memory_of(principal), principal, talk, labels))


def chat_routes(service: Service, upstream: Upstream | None, *, keep_alive_s: float = 15.0) -> list[BaseRoute]:
    """Return the routes of the door; the application opens and closes the upstream, by `running=` of `make_app`."""
    door = ChatDoor(service, upstream, keep_alive_s)
    return [
        Route("/v1/chat/completions", door.completions, methods=["POST"]),
        Route("/v1/models", door.models, methods=["GET"]),
    ]


def _read_body(raw: bytes) -> Mapping[str, JsonValue]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        msg = "the body is no JSON object: send a request of chat completions, with `model` and `messages`"
        raise InvalidInputError(msg)
    return body


def _read_labels(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return () if text.strip().lower() == "off" else tuple(label for part in text.split(",") if (label := part.strip()))


def _read_budget(text: str | None) -> int:
    if text is None:
        return DEFAULT_BUDGET
    if text.strip().isascii() and text.strip().isdigit() and int(text[:9]) <= MAX_BUDGET:
        return int(text[:9])
    msg = f"X-Reme-Budget: wanted a number of tokens from 0 to {MAX_BUDGET}, found {text[:40]!r}"
    raise InvalidInputError(msg)
