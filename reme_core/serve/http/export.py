"""Export over HTTP: everything of a user as JSON Lines, read and sent a piece at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from reme_core.serve.access import Right
from reme_core.serve.service import Service, principal_of
from reme_core.transfer.scope_transfer import scope_lines

MEDIA_TYPE = "application/jsonl"
_SENT_AT_ONCE = 1 << 16


async def export(service: Service, request: Request) -> Response:
    """Answer with the lines that `ReMe.export` writes to a file, and `ReMe.import_` reads."""
    principal = principal_of(request)
    principal.require(Right.READ)
    lines = scope_lines(service.memories.store, principal.scope)
    return StreamingResponse(line_pieces(lines), media_type=MEDIA_TYPE)


async def line_pieces(lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Give lines in pieces that are worth sending."""
    waiting = bytearray()
    async for line in lines:
        waiting += line.encode() + b"\n"
        if len(waiting) >= _SENT_AT_ONCE:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)
