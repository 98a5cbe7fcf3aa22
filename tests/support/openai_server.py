"""An OpenAI-compatible server on the loopback address, which counts, remembers, and misbehaves when asked to.

    with OpenAIServer() as server:
        server.replies(Completion(text="Blue."), Status(429, retry_after="2"))
        chat = OpenAIChat("any", base_url=server.base_url, api_key="sk-test")

Requests take the replies in order. Without one left, `/chat/completions` does what `otherwise` says, by default it
repeats the last message, and `/embeddings` gives hashed vectors. Nothing here waits for time to pass: an answer is held
back by a `Hold` until it is let go.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from reme_core.testing.hashed_embedder import hashed_vector
from reme_core.text import estimate_tokens

KEY = "sk-a-key-that-nobody-may-see"

WAIT_S = 30.0
"""Nothing waits longer than this; a test that gets here has failed."""


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt_tokens(self) -> int:
        texts = self.body.get("input", []) if self.path.endswith("/embeddings") else _texts(self.body)
        return sum(estimate_tokens(text) for text in ([texts] if isinstance(texts, str) else texts))


class Reply(Protocol):
    def send(self, http: Handler, request: Request) -> None: ...


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` is the text that goes over the wire."""

    id: str | None
    name: str
    arguments: Any


@dataclass(frozen=True)
class Completion:
    """A proper answer, whole or as a stream, as the request wants it.

    `text=None` sends null; `cut_after` breaks a stream off after so many pieces. `extra` goes into the message.
    """

    text: str | None = None
    calls: Sequence[Call] = ()
    finish_reason: str | None = None
    cut_after: int | None = None
    with_usage: bool = True
    indexed: bool = True
    extra: dict[str, Any] = field(default_factory=dict)

    def send(self, http: Handler, request: Request) -> None:
        http.owner.count(request, self)
        if request.body.get("stream"):
            http.send_stream(self._pieces(request), self.cut_after)
        else:
            http.send_json(200, self._body(request))

    @property
    def reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    @property
    def completion_tokens(self) -> int:
        return estimate_tokens(self.text or "") + sum(estimate_tokens(str(call.arguments)) for call in self.calls)

    def _usage(self, request: Request) -> dict[str, int] | None:
        if not self.with_usage:
            return None
        prompt = request.prompt_tokens
        completion = self.completion_tokens
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _frame(self, request: Request, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": request.body.get("model")}

    def _body(self, request: Request) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text, **self.extra}
        if self.calls:
            message["tool_calls"] = [_wire_call(call) for call in self.calls]
        choice = {"index": 0, "message": message, "finish_reason": self.reason, "logprobs": None}
        return {**self._frame(request, "chat.completion"), "choices": [choice], "usage": self._usage(request)}

    def _pieces(self, request: Request) -> Iterator[dict[str, Any]]:
        def piece(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            return {**self._frame(request, "chat.completion.chunk"), "choices": [choice], "usage": None}

        yield piece({"role": "assistant", "content": "", **self.extra})
        for start in range(0, len(self.text or ""), 5):
            yield piece({"content": (self.text or "")[start : start + 5]})
        for index, call in enumerate(self.calls):
            place = {"index": index} if self.indexed else {}
            yield piece(
                {"tool_calls": [{**place, **_wire_call(call), "function": {"name": call.name, "arguments": ""}}]}
            )
            for start in range(0, len(call.arguments), 4):
                yield piece({"tool_calls": [{**place, "function": {"arguments": call.arguments[start : start + 4]}}]})
        yield piece({}, self.reason)
        if request.body.get("stream_options", {}).get("include_usage"):
            yield {**self._frame(request, "chat.completion.chunk"), "choices": [], "usage": self._usage(request)}


@dataclass(frozen=True)
class Vectors:
    """An answer to `/embeddings`; `change` alters its list before it is sent."""

    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda data: data
    dimension: int | None = None

    def send(self, http: Handler, request: Request) -> None:
        http.owner.count(request, None)
        texts = request.body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        dimension = self.dimension or request.body.get("dimensions") or http.owner.dimension
        packed = request.body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": _wire_vector(text, dimension, packed=packed)}
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": request.prompt_tokens, "total_tokens": request.prompt_tokens}
        body = {"object": "list", "data": self.change(data), "model": request.body.get("model"), "usage": usage}
        http.send_json(200, body)


@dataclass(frozen=True)
class Status:
    """A failure in OpenAI's form."""

    status: int
    message: str = "it is as it is"
    code: str | None = None
    param: str | None = None
    retry_after: str | None = None

    def send(self, http: Handler, request: Request) -> None:
        headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
        error = {"message": self.message, "type": "an_error", "param": self.param, "code": self.code}
        http.send_json(self.status, {"error": error}, headers)


@dataclass(frozen=True)
class Raw:
    """These bytes, whatever they are; with `promised` more than there are, the connection is dropped in mid-body."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    promised: int | None = None
    location: str | None = None

    def send(self, http: Handler, request: Request) -> None:
        http.send_response(self.status)
        if self.location is not None:
            http.send_header("Location", self.location)
        http.send_header("Content-Type", self.content_type)
        http.send_header("Content-Length", str(len(self.body) if self.promised is None else self.promised))
        http.end_headers()
        http.wfile.write(self.body)
        if self.promised is not None:
            http.hang_up()


@dataclass(frozen=True)
class Answering:
    """Works the reply out of the request: a rule that sees what a model would see."""

    reply_to: Callable[[Request], Reply]

    def send(self, http: Handler, request: Request) -> None:
        self.reply_to(request).send(http, request)


@dataclass(frozen=True)
class HangUp:
    """No answer at all: the connection is dropped."""

    def send(self, http: Handler, request: Request) -> None:
        http.hang_up()


class Hold:
    """Keeps back a reply until `release`; all holds are released when the server stops."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def send(self, http: Handler, request: Request) -> None:
        http.owner.held.append(self)
        if self._released.wait(WAIT_S):
            (self.reply or http.owner.usual(request)).send(http, request)


class OpenAIServer:
    """The server; use it with `with`.

    Attributes:
        requests: Everything that came, in order.
        formats: The kinds of `response_format` that it takes; others are refused.
        refused_options: Top-level options that it refuses, with what it says.
        otherwise: The reply to `/chat/completions` where none is left; None repeats the last message.
        dimension: Of vectors whose request names none.
        prompt_tokens: Of all answered requests.
        completion_tokens: Of all answers.
        most_at_once: Requests that were under way together.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.formats = {"json_schema", "json_object"}
        self.refused_options: dict[str, str] = {}
        self.otherwise: Reply | None = None
        self.dimension = 64
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.at_once = 0
        self.most_at_once = 0
        self.held: list[Hold] = []
        self._replies: deque[Reply] = deque()
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._http = _Http(("127.0.0.1", 0), Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.requests]

    def replies(self, *replies: Reply) -> None:
        """Add replies for the next requests."""
        with self._changed:
            self._replies.extend(replies)

    @property
    def replies_left(self) -> int:
        return len(self._replies)

    def wait_for_requests(self, count: int, *, at_once: bool = False) -> None:
        """Wait until so many requests have come, or are under way together."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: (self.at_once if at_once else len(self.requests)) >= count, timeout=WAIT_S
            )
        assert found, f"wanted {count} requests, found {len(self.requests)}, {self.at_once} under way"

    def wait_until_idle(self) -> None:
        """Wait until no request is under way."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.at_once == 0, timeout=WAIT_S)

    def start(self) -> OpenAIServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        for hold in self.held:
            hold.release()
        self._http.shutdown()
        self._thread.join()
        with self._changed:
            for connection in self._connections:
                hang_up(connection)
        self._http.server_close()  # joins the threads of the connections

    def __enter__(self) -> OpenAIServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def connected(self, connection: socket.socket) -> None:
        with self._changed:
            self._connections.add(connection)

    def disconnected(self, connection: socket.socket) -> None:
        with self._changed:
            self._connections.discard(connection)

    def begin(self, request: Request) -> Reply:
        """Remember a request and choose its reply."""
        with self._changed:
            self.requests.append(request)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self._changed.notify_all()
            refusal = self._refusal(request)
            if refusal is not None:
                return refusal
            return self._replies.popleft() if self._replies else self.usual(request)

    def end(self) -> None:
        with self._changed:
            self.at_once -= 1
            self._changed.notify_all()

    def usual(self, request: Request) -> Reply:
        if request.path.endswith("/embeddings"):
            return Vectors()
        if request.path.endswith("/chat/completions"):
            return self.otherwise or Completion(text=f"You said: {(_texts(request.body) or [''])[-1]}")
        return Status(404, "no such path")

    def count(self, request: Request, completion: Completion | None) -> None:
        with self._changed:
            self.prompt_tokens += request.prompt_tokens
            self.completion_tokens += completion.completion_tokens if completion else 0

    def _refusal(self, request: Request) -> Reply | None:
        for option, message in self.refused_options.items():
            if option in request.body:
                return Status(400, message, param=option)
        kind = request.body.get("response_format", {}).get("type")
        if kind is not None and kind not in self.formats:
            return Status(400, f"This response_format type is unavailable now: {kind}", code="invalid_request_error")
        return None


def hang_up(connection: socket.socket) -> None:
    """End a connection both ways; its thread sees the end."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128
    owner: OpenAIServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Http
    disable_nagle_algorithm = True

    @property
    def owner(self) -> OpenAIServer:
        return self.server.owner

    def setup(self) -> None:
        super().setup()
        self.owner.connected(self.connection)

    def finish(self) -> None:
        self.owner.disconnected(self.connection)
        try:
            super().finish()
        except OSError:  # the client is gone
            self.close_connection = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.path, {key.lower(): value for key, value in self.headers.items()}, json.loads(body))
        reply = self.owner.begin(request)
        try:
            reply.send(self, request)
            self.wfile.flush()
        except OSError:  # the client is gone
            self.close_connection = True
        finally:
            self.owner.end()

    def send_json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def send_stream(self, pieces: Iterator[dict[str, Any]], cut_after: int | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(pieces):
            if number == cut_after:
                self.hang_up()
                return
            self._chunk(f"data: {json.dumps(piece)}\n\n".encode())
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def hang_up(self) -> None:
        self.wfile.flush()
        hang_up(self.connection)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _wire_call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _wire_vector(text: str, dimension: int, *, packed: bool) -> Any:
    # Not of unit norm, as several models' vectors are not.
    vector = (hashed_vector(text, dimension) * 3).astype(np.float32)
    return base64.b64encode(vector.astype("<f4").tobytes()).decode() if packed else [float(value) for value in vector]


def _texts(body: dict[str, Any]) -> list[str]:
    texts = []
    for message in body.get("messages", []):
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        texts.append("\n".join(part.get("text", "") for part in parts))
    return texts
