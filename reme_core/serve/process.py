"""The process that serves: it listens on one address, bounds slow callers, and finishes what it acknowledged."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from reme_core.errors import ConfigurationError, PartialFailureError

_LOG = logging.getLogger("reme.serve")
HEADERS_S = 10.0
"""Within which the headers of a request must have come once it began, or a connection must say something at all."""
TAKEN_S = 60.0
"""Within which a caller must have taken some of what is on its way to them."""
MAX_HEADER_BYTES = 64 << 10
MAX_CONNECTIONS = 800
"""At once; 500 of them may be open streams. Each holds a file of the 1,024 that a process has by default."""
BACKLOG = 256
FINISH_S = 30
"""After the first signal, for running requests to be answered."""
CLOSE_S = 30.0
"""After that, for jobs that run; what is not finished is a job of the next start."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that is bound."""

    socket: socket.socket
    host: str

    @property
    def address(self) -> str:
        """The address to call, with the port that was found where 0 was asked for."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.socket.getsockname()[1]}"


def listen(host: str, port: int) -> Listening:
    """Bind an address (ConfigurationError: it is taken, or none of this machine)."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as exc:
        why = str(exc.strerror).partition(" (")[0]  # Python says the address once more in brackets
        msg = f"can't listen on port {port} of {host!r} ({why}): stop what does, or give another --host or --port"
        raise ConfigurationError(msg) from exc
    bound.settimeout(0)
    return Listening(bound, host)


@asynccontextmanager
async def opened(app: Starlette) -> AsyncIterator[Starlette]:
    """Open what an application stands on, and close it within a time: jobs that still run go on at the next start."""
    parts = app.router.lifespan_context(app)
    await parts.__aenter__()
    try:
        yield app
    finally:
        try:
            async with asyncio.timeout(CLOSE_S):
                await parts.__aexit__(None, None, None)
        except (TimeoutError, PartialFailureError) as exc:
            _LOG.warning(
                "some jobs are not done, the next start goes on with them (%s)", str(exc) or "it took too long"
            )


async def serve(app: Starlette, listening: Listening) -> None:
    """Serve until a signal comes; the second one ends the process at once: what was acknowledged is on disk."""
    await make_server(app).serve(sockets=[listening.socket])


def make_server(app: Starlette) -> uvicorn.Server:
    """Return the server, with its bounds."""
    config = uvicorn.Config(
        app,
        http=_PatientProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        backlog=BACKLOG,
        timeout_graceful_shutdown=FINISH_S,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop taking requests at the first signal, leave at the second."""
        if self.should_exit:
            sys.stderr.flush()
            os._exit(128 + sig)
        self.should_exit = True


class _PatientProtocol(H11Protocol):
    """HTTP/1.1 that leaves callers who never end the headers of a request, or don't take their answer."""

    _late: asyncio.TimerHandle | None = None
    _full: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._late = self.loop.call_later(HEADERS_S, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_waiting = self.cycle is None or self.cycle.response_complete
        if is_waiting and self._late is None:
            self._late = self.loop.call_later(HEADERS_S, self.timeout_keep_alive_handler)
        elif not is_waiting:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = self.loop.call_later(TAKEN_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._full is not None:
            self._full.cancel()
            self._full = None
        super().resume_writing()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


@contextmanager
def logging_to_stderr(names: Sequence[str] = ("reme.serve", "uvicorn.error")) -> Iterator[None]:
    """Write the request log, and what the server warns of, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger, level in zip(loggers, (logging.INFO, logging.WARNING), strict=True):
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
