"""Lines of a pipe, and messages of the protocol in them: what is no message costs its line and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress

from anyio.streams.memory import MemoryObjectSendStream
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

MAX_LINE_BYTES = 32 << 20
"""A longer line is passed over. Four times the bound of a message, whose JSON may have an escape for each character."""

_AT_ONCE = 1 << 16


def split_lines(read: Callable[[], bytes], bound: int) -> Iterator[bytes | None]:
    """Yield the lines of what is read until nothing comes any more; None for one of more than `bound` bytes."""
    held, is_long = bytearray(), False
    while data := read():
        *ended, begun = data.split(b"\n")
        for piece in ended:
            is_long = is_long or len(held) + len(piece) > bound
            yield None if is_long else bytes(held + piece)
            held.clear()
            is_long = False
        is_long = is_long or len(held) + len(begun) > bound
        if is_long:
            held.clear()
        else:
            held += begun
    if held or is_long:
        yield None if is_long else bytes(held)


class RefusalError(JSONRPCError):
    """The answer to a line that is no message; with its id, if it has one."""


def read_message(line: bytes | None) -> JSONRPCMessage:
    """Read a line; what is no message is a `RefusalError`."""
    if line is None:
        return _refusal(INVALID_REQUEST, f"a line has more than {MAX_LINE_BYTES} bytes: send less at once", None)
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _refusal(PARSE_ERROR, "not JSON in UTF-8", None)
    given = value.get("id") if isinstance(value, dict) else None
    is_id = (isinstance(given, int) and not isinstance(given, bool)) or (isinstance(given, str) and given.isascii())
    words = "not a message of JSON-RPC 2.0, or with half of a broken character"
    return _refusal(INVALID_REQUEST, words, given if is_id else None)


def _refusal(code: int, words: str, own_id: RequestId | None) -> RefusalError:
    return RefusalError(jsonrpc="2.0", id=own_id, error=ErrorData(code=code, message=words))


def start_reading(source: int, lines: MemoryObjectSendStream[bytes | None]) -> None:
    """Send the lines of a descriptor to a stream of the running loop, which is closed at their end.

    The thread that reads never keeps the process from ending: a call that waits for input can't be cancelled.
    """
    loop = asyncio.get_running_loop()

    def pump() -> None:
        with suppress(OSError, RuntimeError, CancelledError):  # the loop, or who reads the stream, is gone
            for line in split_lines(lambda: os.read(source, _AT_ONCE), MAX_LINE_BYTES):
                asyncio.run_coroutine_threadsafe(lines.send(line), loop).result()
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lines.close)

    threading.Thread(target=pump, name="reme-mcp-input", daemon=True).start()


class LineWriter:
    """Writes lines to a descriptor, in a thread of its own: a client that doesn't read holds nothing else up."""

    def __init__(self, sink: int) -> None:
        """Begin; the running loop waits for what is written."""
        self._sink, self._loop = sink, asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._pump, name="reme-mcp-output", daemon=True).start()

    async def write(self, message: JSONRPCMessage) -> None:
        """Write a message as a line of UTF-8 and wait until it is out; to a client that is gone, nothing."""
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        done = self._loop.create_future()
        self._queue.put((line, done))
        await done

    def _pump(self) -> None:
        while True:
            line, done = self._queue.get()
            with suppress(OSError):  # the client is gone, which its closed input will tell
                while line:
                    line = line[os.write(self._sink, line) :]
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(_settle, done)


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():  # who waited was cancelled
        done.set_result(None)
