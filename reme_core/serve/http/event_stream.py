"""Stream of events for work that takes long: comments keep the connection open, then the answer comes.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from reme_core.serve.failures import failure_response
from reme_core.serve.service import until_gone

KEEP_ALIVE_S = 15.0
"""Proxies close a connection that says nothing for a minute; services.md has the same for the chat door."""
_HEADERS = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))


def wants_events(request: Request) -> bool:
    """Tell whether a caller asks for a stream of events."""
    return any(
        part.partition(";")[0].strip() == "text/event-stream" for part in request.headers.get("accept", "").split(",")
    )


@dataclass(frozen=True, slots=True)
class EventStream:
    """ASGI answer of one piece of work: an event `result`, or `error` with the problem; comments until then.

    A caller who leaves ends the waiting; what was acknowledged goes on as a job.
    """

    path: str
    work: Callable[[], Awaitable[Response]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it."""
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(self._answer())
            left = group.create_task(until_gone(receive))
            await _send(send, b": working\n\n", more=True)
            while not (answer.done() or left.done()):
                await asyncio.wait((answer, left), timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if not (answer.done() or left.done()):
                    await _send(send, b": keep-alive\n\n", more=True)
            left.cancel()
            answer.cancel()
        if not answer.cancelled():
            await _send(send, answer.result(), more=False)

    async def _answer(self) -> bytes:
        try:
            done = await self.work()
        except Exception as exc:  # noqa: BLE001  # the outer edge: the status is sent, so a failure is an event
            done = failure_response(self.path, exc)
        return as_event(done)


def as_event(answer: Response) -> bytes:
    """Write an answer as an event; JSON has no line ends of its own."""
    kind = b"error" if answer.status_code >= 400 else b"result"  # where HTTP's failures begin
    return b"event: %s\ndata: %s\n\n" % (kind, bytes(answer.body) or b"null")


async def _send(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
