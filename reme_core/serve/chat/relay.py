"""One request on its way to the model, and the answer on its way back, piece by piece as it comes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

import httpx2
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from reme_core.errors import ConfigurationError, InvalidInputError, ModelUnavailableError
from reme_core.serve.chat.answer import MAX_BYTES, AnswerReader
from reme_core.serve.chat.remember import ChatMemory, DegradedError
from reme_core.serve.chat.talk import is_instruction
from reme_core.serve.chat.upstream import Upstream, returned_headers
from reme_core.serve.service import until_gone
from reme_core.telemetry import model_span

_LOG = logging.getLogger("reme.serve")


@dataclass(slots=True)
class Turn:
    """What the memory does for one request, and how that went.

    Attributes:
        memory: The memory; None: the request is none of its affair.
        problem: Why it could not do its part; empty where it could.
        has_notes: Whether the model was shown something.
    """

    memory: ChatMemory | None = None
    problem: str = ""
    has_notes: bool = False
    _is_kept: bool = False

    async def begin(self, body: Mapping[str, JsonValue], raw: bytes, budget: int) -> bytes:
        """Put the question on disk; return the request with the memory blocks, and what helps before the question."""
        if self.memory is None:
            return raw
        try:
            await self.memory.record_question()
        except DegradedError as exc:
            self.problem = exc.reason
        blocks = await self._asked(self.memory.blocks())
        notes = await self._asked(self.memory.recall(budget))
        self.has_notes = bool(blocks or notes)
        try:
            return _with_notes(body, self.memory.talk.place, blocks, notes) if self.has_notes else raw
        except RecursionError:
            self.problem, self.has_notes = "a request that lies too deep for notes", False
            return raw

    async def _asked(self, text: Awaitable[str]) -> str:
        """Return what the memory says; "" where it can't be asked, which the caller is told."""
        try:
            return await text
        except DegradedError as exc:
            self.problem = exc.reason
            return ""

    async def keep(self, reader: AnswerReader) -> None:
        """Put the answer on disk, once; what broke off is marked so."""
        if self.memory is None or self._is_kept:
            return
        self._is_kept = True
        try:
            message = self.memory.talk.answered(reader.message(), is_partial=not reader.is_whole)
            if message is not None:
                await self.memory.record_answer(message)
            await self.memory.record_cost(reader.spent)
        except (DegradedError, InvalidInputError) as exc:
            self.problem = exc.reason if isinstance(exc, DegradedError) else "an answer that can't be kept"
            _LOG.warning("an answer was not kept: %s", self.problem)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return what the caller is told of the memory."""
        if self.memory is None and not self.problem:
            return []
        state = f"degraded; reason={self.problem}" if self.problem else "notes" if self.has_notes else "none"
        told = [(b"x-reme-memory", state.encode("ascii", "replace"))]
        if self.memory is not None:
            told.append((b"x-reme-session", self.memory.talk.session_id.encode()))
        return told


@dataclass(slots=True)
class Relay(Response):
    """Passes the request on and the answer back; a caller that leaves ends both.

    Attributes:
        upstream: The model; None: there is none, which the caller is told.
        request: The request.
        path: Where it goes.
        body: What is sent.
        turn: What the memory does.
        keep_alive_s: Seconds of silence after which a stream carries a comment.
        model: The name of the model, for the span of the call; empty: there is none.
    """

    upstream: Upstream | None
    request: Request
    path: str
    body: bytes
    turn: Turn = field(default_factory=Turn)
    keep_alive_s: float = 15.0
    model: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request.

        Raises:
            ConfigurationError: There is no model.
            ModelUnavailableError: It gives no answer.
        """
        if self.upstream is None:
            msg = "there is no model behind this service: start it with --upstream URL, or set REME_UPSTREAM_BASE_URL"
            raise ConfigurationError(msg)
        relaying = asyncio.ensure_future(self._relay(self.upstream, send))
        leaving = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait({relaying, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            relaying.cancel()  # nothing, where it is done
            await asyncio.wait({relaying})
        if not relaying.cancelled():
            relaying.result()

    async def _relay(self, upstream: Upstream, send: Send) -> None:
        reader = AnswerReader()
        with model_span("chat", self.model, lambda: reader.spent) if self.model else nullcontext():
            await self._ask(upstream, reader, send)

    async def _ask(self, upstream: Upstream, reader: AnswerReader, send: Send) -> None:
        async with upstream.ask(self.request.method, self.path, self.request.headers, self.body) as answer:
            encoding = answer.headers.get("content-encoding", "").strip().lower()
            reader.encoding = "" if encoding == "identity" else encoding
            reader.is_stream = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
            try:
                if reader.is_stream:
                    await self._pass_stream(answer, reader, send)
                else:
                    await self._pass_whole(answer, reader, send)
            finally:
                await self._keep(answer, reader)

    async def _pass_whole(self, answer: httpx2.Response, reader: AnswerReader, send: Send) -> None:
        """Pass on an answer once it is there and on disk; one that is too large to be held back, as it comes."""
        waiting, is_begun = bytearray(), False
        async for piece in _pieces(answer):
            reader.feed(piece)
            waiting += piece
            if is_begun or len(waiting) > MAX_BYTES:
                if not is_begun:
                    await self._start(answer, send)
                is_begun = True
                await send({"type": "http.response.body", "body": bytes(waiting), "more_body": True})
                waiting.clear()
        await self._keep(answer, reader)
        if not is_begun:
            await self._start(answer, send)
        await send({"type": "http.response.body", "body": bytes(waiting)})

    async def _pass_stream(self, answer: httpx2.Response, reader: AnswerReader, send: Send) -> None:
        """Pass on each piece as it comes; that which says that all is said, once it is on disk."""
        await self._start(answer, send, is_stream=True)
        try:
            async for piece in self._with_keep_alive(_pieces(answer), reader):
                if reader.is_whole:
                    await self._keep(answer, reader)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except ModelUnavailableError as exc:
            if self.turn.memory is None:
                raise
            await self._keep(answer, reader)
            error = {"error": {"message": exc.message, "type": "server_error", "param": None, "code": None}}
            event = b"data: " + json.dumps(error).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await self._keep(answer, reader)
        await send({"type": "http.response.body", "body": b""})

    async def _with_keep_alive(self, pieces: AsyncIterator[bytes], reader: AnswerReader) -> AsyncIterator[bytes]:
        coming = asyncio.ensure_future(anext(pieces, None))
        try:
            while True:
                done, _ = await asyncio.wait({coming}, timeout=self.keep_alive_s)
                if not done:
                    if self.turn.memory is not None and reader.is_between_events:
                        yield b": keep-alive\n\n"
                    continue
                piece = coming.result()
                if piece is None:
                    return
                reader.feed(piece)
                yield piece
                coming = asyncio.ensure_future(anext(pieces, None))
        finally:
            coming.cancel()

    async def _keep(self, answer: httpx2.Response, reader: AnswerReader) -> None:
        """Let the turn be kept to its end, also where the caller has left meanwhile."""
        if answer.status_code >= 400:
            return
        await _to_its_end(self.turn.keep(reader))

    async def _start(self, answer: httpx2.Response, send: Send, *, is_stream: bool = False) -> None:
        headers = [*returned_headers(answer), *self.turn.headers()]
        if is_stream and self.turn.memory is not None:  # comments and an error of ours are none of its length
            headers = [(name, value) for name, value in headers if name.lower() != b"content-length"]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})


def _with_notes(body: Mapping[str, JsonValue], place: int | None, blocks: str, notes: str) -> bytes:
    """Return a request with what the memory shows, where what stands before it stays the same from call to call.

    Memory blocks, which rarely change, stand behind the application's instructions; notes, which are others for each
    question, right before the last message of the user.
    """
    messages = body["messages"]
    assert isinstance(messages, list)  # noqa: S101  # the talk was read from it
    at = len(messages) if place is None else place
    begins = next((place for place, message in enumerate(messages) if not is_instruction(message)), len(messages))
    shown = [*messages[:begins], *_note(blocks), *messages[begins:at], *_note(notes), *messages[at:]]
    return json.dumps({**body, "messages": shown}).encode()


def _note(text: str) -> list[JsonValue]:
    return [{"role": "user", "content": text}] if text else []


async def _pieces(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the bytes of an answer as they come (ModelUnavailableError: it breaks off)."""
    try:
        async for piece in answer.aiter_raw():
            yield piece
    except httpx2.HTTPError as exc:
        msg = "the model's answer broke off: ask again"
        raise ModelUnavailableError(msg) from exc


async def _to_its_end(work: Coroutine[object, object, None]) -> None:
    """Run something to its end, whoever stops waiting for it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
