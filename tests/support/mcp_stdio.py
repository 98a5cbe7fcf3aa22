"""`reme mcp` as a process, spoken to line by line: what a client of the protocol does, and no more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.forked_program import ForkedProgram

ROOT = Path(__file__).parents[2]
BEGIN: Sequence[Mapping[str, object]] = (
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)
RUN = ("-m", "reme_core.cli", "mcp")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class StdioServer:
    """A server on a folder; leaving the context closes its input and waits for its end.

    One that is forked has no interpreter of its own to begin and to end (`ForkedProgram`).
    """

    def __init__(
        self,
        folder: Path,
        *,
        options: Sequence[str] = (),
        program: Sequence[str] = RUN,
        is_forked: bool = False,
        **env: str,
    ) -> None:
        self._last_id = 0
        names = ("PATH", "HOME", "SYSTEMROOT", "TMPDIR")
        own = {name: os.environ[name] for name in names if name in os.environ}
        rest = ["--dir", str(folder), "--user", "ana", *options]
        self.process: ForkedProgram | subprocess.Popen[bytes]
        if is_forked:
            self.process = ForkedProgram(["mcp", *rest], Path.cwd(), {**own, **env})
            return
        # A suite that was started in the background ignores SIGINT, and so would its children.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL) if _is_main_thread() else None
        self.process = subprocess.Popen(
            [sys.executable, *program, *rest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**own, "PYTHONPATH": str(ROOT), **env},
        )
        if before is not None:
            signal.signal(signal.SIGINT, before)

    def __enter__(self) -> Self:
        for message in BEGIN:
            self.send(message)
        assert self.receive()["id"] == 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.finish()

    def finish(self) -> tuple[bytes, bytes]:
        """Close the input, wait for the end, and return what is still written to stdout and stderr."""
        out, err = self.process.communicate(timeout=60)
        return out, err

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, message: Mapping[str, object]) -> None:
        self.send_line(json.dumps(message, ensure_ascii=False).encode())

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, tool: str, **arguments: object) -> int:
        """Send a call and return its id."""
        self._last_id += 1
        params = {"name": tool, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": "tools/call", "params": params})
        return self._last_id

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool and return the structured form of its answer."""
        own_id = self.ask(tool, **arguments)
        answer = self.receive()
        assert answer["id"] == own_id
        assert not answer["result"]["isError"], answer
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found
