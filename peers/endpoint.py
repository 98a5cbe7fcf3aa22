"""Endpoint on loopback that all systems share: vectors of one model, and a chat model elsewhere whose calls it counts.

`POST /v1/embeddings` answers as OpenAI's does; `POST /v1/chat/completions` is handed on to the upstream with its key,
which no system gets to see.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import numpy as np

from reme_core.retrieval import Matrix

Embed = Callable[[Sequence[str]], Matrix]
# An answer may be written by hand, which takes a while.
_PATIENCE_S = 3600
NO_COUNTS = {"new_texts": 0, "model_calls": 0, "prompt_tokens": 0, "completion_tokens": 0}


class Upstream(NamedTuple):
    """The chat model's endpoint: its base URL, which ends in /v1 as a rule, and its key, "" for none."""

    url: str
    key: str


class Endpoint(ThreadingHTTPServer):
    """Serves until it is shut down. `counts` has the keys of `NO_COUNTS`; a text counts as new when first asked for."""

    daemon_threads = True

    def __init__(self, embed: Embed, upstream: Upstream | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.counts = dict(NO_COUNTS)
        self._embed, self._known, self._lock = embed, set[str](), threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def vectors(self, texts: Sequence[str]) -> Matrix:
        with self._lock:
            self.counts["new_texts"] += len(set(texts) - self._known)
            self._known.update(texts)
            return self._embed(texts)

    def count_answer(self, usage: dict[str, int]) -> None:
        with self._lock:
            self.counts["model_calls"] += 1
            for name in ("prompt_tokens", "completion_tokens"):
                self.counts[name] += usage.get(name) or 0


@contextmanager
def serving(embed: Embed, upstream: Upstream | None = None) -> Iterator[Endpoint]:
    """Serve in a thread until the block ends."""
    with Endpoint(embed, upstream) as served:
        threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield served
        finally:
            served.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet, at once: a client's delayed acknowledgement is nothing to measure.
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: Endpoint

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a run makes thousands of requests."""

    def do_GET(self) -> None:
        self._reply(200, {"object": "list", "data": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/v1/embeddings":
            self._embed(body)
        elif self.path == "/v1/chat/completions" and self.server.upstream:
            self._hand_on(body, self.server.upstream)
        else:
            self._reply(404, {"error": {"message": f"nothing is served at {self.path}; is there a chat model?"}})

    def _embed(self, body: bytes) -> None:
        try:
            told = embeddings(json.loads(body), self.server.vectors)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            self._reply(400, {"error": {"message": f"wanted an object with texts as `input`: {type(exc).__name__}"}})
            return
        except RuntimeError as exc:  # the model can't be asked
            self._reply(500, {"error": {"message": str(exc)}})
            return
        self._reply(200, told)

    def _hand_on(self, body: bytes, upstream: Upstream) -> None:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {upstream.key}"}
        request = urllib.request.Request(f"{upstream.url}/chat/completions", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as exc:
            self._reply(exc.code, {"error": {"message": exc.read().decode(errors="replace")}})
            return
        except (OSError, ValueError) as exc:
            self._reply(502, {"error": {"message": f"the chat model upstream gave no answer: {exc}"}})
            return
        self.server.count_answer(told.get("usage") or {})
        self._reply(200, told)

    def _reply(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def embeddings(asked: dict[str, Any], embed: Embed) -> dict[str, Any]:
    """Answer of OpenAI's form, as numbers or, where it is asked for, as base64 of float32."""
    texts = [asked["input"]] if isinstance(asked["input"], str) else list(asked["input"])
    rows = np.asarray(embed(texts) if texts else [], "<f4")
    packed = asked.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": place,
            "embedding": base64.b64encode(row.tobytes()).decode() if packed else row.tolist(),
        }
        for place, row in enumerate(rows)
    ]
    tokens = sum(len(text) for text in texts) // 4
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": asked.get("model", ""), "usage": usage}
