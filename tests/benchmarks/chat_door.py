"""What the chat door adds to the time of the first token, beside the same model asked directly, in one run.

    PYTHONPATH=. python tests/benchmarks/chat_door.py [--json out.json]

The model answers at once, from a process of its own as the door does; direct and through the door alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from figures import Figure, show, write

from reme_core import ReMe

MESSAGES, ASKED = 10_000, 200
_FIRST = b'data: {"choices": [{"index": 0, "delta": {"content": "Yes."}}]}\n\n'
_LAST = b"data: [DONE]\n\n"
# Between the first token and the end: in one piece with the end, the first token would wait for the answer to be kept.
_PAUSE_S = 0.005


async def model(scope: dict, receive: object, send: object) -> None:
    """Answer any request at once with a token, and soon with the end."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": _FIRST, "more_body": True})
    await asyncio.sleep(_PAUSE_S)
    await send({"type": "http.response.body", "body": _LAST})


def serve(role: str, upstream: str, folder: str) -> None:
    import uvicorn

    from reme_core.schema import make_scope
    from reme_core.serve.access import Principal
    from reme_core.serve.chat.door import chat_routes
    from reme_core.serve.chat.upstream import Upstream
    from reme_core.serve.guard import GuardRules
    from reme_core.serve.service import make_app, make_service

    app = model
    if role == "door":
        service = make_service(ReMe("space", folder, llm=None, embedding=None))
        behind = Upstream(f"{upstream}/v1", "key")
        rules = GuardRules(anonymous=Principal(scope=make_scope("space", "alice")))
        app = make_app(service, rules, chat_routes(service, behind), [behind])
    config = uvicorn.Config(app, port=0, log_level="info", access_log=False, lifespan="auto")
    uvicorn.Server(config).run()


@contextmanager
def process(role: str, upstream: str = "", folder: str = "") -> Iterator[str]:
    command = [sys.executable, __file__, "--serve", role, upstream, folder]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        try:
            told = next(line for line in child.stderr if "running on" in line)
            yield "http" + told.split("http", 1)[1].split()[0]
        finally:
            child.kill()


async def fill(folder: Path) -> None:
    async with ReMe("space", folder, llm=None, embedding=None) as memory:
        said = [("user", f"topic{number} came up in meeting {number % 97} with Ann") for number in range(MESSAGES)]
        await memory.summary(said, user_id="alice", session_id="before", background=True)


def first_token_ms(client: httpx2.Client, address: str, number: int) -> float:
    body = {
        "model": "m",
        "stream": True,
        "messages": [{"role": "user", "content": f"What of topic{number}, in short?"}],
    }
    begun = time.perf_counter()
    with client.stream("POST", f"{address}/v1/chat/completions", json=body) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        spent = (time.perf_counter() - begun) * 1000
        for _ in pieces:
            pass
    assert answer.status_code == 200
    return spent


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder)))
        with process("model") as upstream, process("door", upstream, folder) as door, httpx2.Client() as client:
            for number in range(20):
                first_token_ms(client, upstream, number)
                first_token_ms(client, door, number)
            pairs = [
                (first_token_ms(client, upstream, number), first_token_ms(client, door, number))
                for number in range(20, 20 + ASKED)
            ]
    added = sorted(through - direct for direct, through in pairs)
    p95 = added[int(0.95 * len(added))]
    direct = statistics.median(first for first, _ in pairs)
    return [
        Figure(
            name=f"chat door, {MESSAGES:,} messages: added to the first token, p50",
            value=statistics.median(added),
            unit="ms",
            bar=15,
            at_most=True,
            baseline=f"{direct:.1f} ms directly; p95 of what is added {p95:.1f} ms",
        )
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
    else:
        figures = measure()
        print(show(figures))
        if options.json:
            write(figures, options.json)
