"""MCP over standard input and output: one message of JSON a line, in UTF-8 whatever the locale says.

Instead of the SDK's `stdio_server`, which takes lines of any length, gives up what it is answering when the input ends,
and can't be interrupted while it waits for a line.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from reme_core.serve.access import Principal
from reme_core.serve.mcp.options import McpOptions
from reme_core.serve.mcp.server import make_server
from reme_core.serve.mcp.wire import LineWriter, RefusalError, read_message, start_reading
from reme_core.serve.service import Service

ANSWER_WAIT_S = 10.0
"""How long the end of the input waits for answers that are owed; clients wait for some 2 s, then they kill."""

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


async def serve_stdio(service: Service, principal: Principal, options: McpOptions) -> None:
    """Serve one client on standard input and output until the input ends; then what is acknowledged is finished."""
    server = make_server(service, options, lambda _: principal)
    with claimed_descriptors() as (source, sink):
        async with service.memories, message_streams(source, sink) as (read, write):
            await server.run(read, write, server.create_initialization_options())


@contextmanager
def claimed_descriptors() -> Iterator[tuple[int, int]]:
    """Take standard input and output for the protocol alone: to everybody else input is empty and output is stderr."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # of this system alone

        for descriptor in (source, sink):
            msvcrt.setmode(descriptor, os.O_BINARY)
    try:
        yield source, sink
    finally:  # the private descriptors stay open: a thread may still wait for input
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)


@dataclass(slots=True)
class _OwedAnswers:
    """Requests that came and are not answered yet."""

    ids: set[RequestId] = field(default_factory=set)
    none: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, message: JSONRPCMessage) -> None:
        """Note a request that came; one that its sender cancels is answered no more."""
        if isinstance(message, JSONRPCRequest):
            self.ids.add(message.id)
            self.none.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self.drop((message.params or {}).get("requestId"))

    def drop(self, own_id: object) -> None:
        """Note that an answer is out, or not wanted any more."""
        if isinstance(own_id, (str, int)):
            self.ids.discard(own_id)
        if not self.ids:
            self.none.set()


@asynccontextmanager
async def message_streams(source: int, sink: int) -> AsyncIterator[Streams]:
    """Hand out the messages of two descriptors. At the end of the input, answers that are owed are waited for."""
    into_lines, lines = anyio.create_memory_object_stream[bytes | None](0)
    inbound, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    writer, owed, receiving = LineWriter(sink), _OwedAnswers(), anyio.CancelScope()
    owed.none.set()

    async def receive() -> None:
        with receiving, suppress(anyio.BrokenResourceError):
            async with inbound, lines:
                async for line in lines:
                    if line is None or line.strip():
                        await _take(read_message(line))
                with anyio.move_on_after(ANSWER_WAIT_S):
                    await owed.none.wait()

    async def _take(message: JSONRPCMessage) -> None:
        if isinstance(message, RefusalError):
            await writer.write(message)
            return
        owed.take(message)
        await inbound.send(SessionMessage(message))

    async def send() -> None:
        async with outbound:
            async for item in outbound:
                await writer.write(item.message)
                if isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
                    owed.drop(item.message.id)

    start_reading(source, into_lines)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        yield read, write
        receiving.cancel()
        await write.aclose()
