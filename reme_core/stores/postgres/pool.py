"""Connections of one process: made when they are needed, used again, and closed when nobody needs them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import generators
from psycopg.pq import TransactionStatus

from reme_core.errors import StoreUnavailableError
from reme_core.stores.postgres.adapters import make_adapters
from reme_core.stores.postgres.pipeline import Pipeline, RawConnection
from reme_core.stores.postgres.settings import ServerSettings

# A server whose machine is gone answers nothing at all: it is given up after some half a minute, not after two hours.
# Source: https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_ALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3", "tcp_user_timeout": "30000"}

_MAY_BE_KEPT = {TransactionStatus.IDLE, TransactionStatus.ACTIVE}  # the latter while a COMMIT is under way


class ConnectionPool:
    """Connections to one database, each used by one thread at a time. The newest idle one is taken first."""

    def __init__(self, settings: ServerSettings) -> None:
        """Keep the settings; nothing is opened."""
        self._settings = settings
        self._adapters = make_adapters()
        self._places = threading.BoundedSemaphore(settings.max_connections)
        self._gate = threading.Lock()
        self._idle: list[tuple[float, Pipeline]] = []
        self._timer: threading.Timer | None = None
        self._closed = False

    @contextmanager
    def connection(self) -> Iterator[Pipeline]:
        """Take a connection, a new one where none is idle; one that ends within a transaction is not used again.

        Raises:
            psycopg.Error: None can be made.
            StoreUnavailableError: All are in use for as long as a statement may take.
        """
        if not self._places.acquire(timeout=self._settings.statement_timeout_s):
            msg = f"all {self._settings.max_connections} connections are in use: try again, or raise max_connections"
            raise StoreUnavailableError(msg)
        try:
            pipeline = self._take() or Pipeline(self.connect(), self._settings.prepare_threshold)
            try:
                yield pipeline
            finally:
                self._give_back(pipeline)
        finally:
            self._places.release()

    def connect(self) -> RawConnection:
        """Make a connection (psycopg.Error)."""
        parts = {**_ALIVE, "application_name": "reme", "connect_timeout": str(round(self._settings.connect_timeout_s))}
        raw: RawConnection = psycopg.connect(
            # libpq's names, all of them texts; `adapters` writes and reads UTF-8, whatever role or URL ask for.
            **{**parts, **self._settings.parameters(), "client_encoding": "UTF8"},  # type: ignore[arg-type]
            autocommit=True,  # transactions are begun in one message, see `Beginning`
            prepare_threshold=None,  # at a ROLLBACK the driver may forget all, those of `Pipeline` too
            context=_Context(self._adapters),
        )
        raw.add_notice_handler(_pass_over)
        return raw

    def drop_idle(self) -> None:
        """Close what is idle: when one connection is lost, the others are, too."""
        with self._gate:
            idle, self._idle = self._idle, []
        for _, pipeline in idle:
            pipeline.raw.close()

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it is given back."""
        self._closed = True
        with self._gate:
            if self._timer is not None:
                self._timer.cancel()
        self.drop_idle()

    def _take(self) -> Pipeline | None:
        while True:
            with self._gate:
                if not self._idle:
                    return None
                pipeline = self._idle.pop()[1]
            if _has_ended(pipeline.raw):
                return pipeline
            pipeline.raw.close()

    def _give_back(self, pipeline: Pipeline) -> None:
        raw = pipeline.raw
        if self._closed or raw.closed or raw.info.transaction_status not in _MAY_BE_KEPT:
            raw.close()
            return
        with self._gate:
            self._idle.append((time.monotonic(), pipeline))
            self._watch()

    def _watch(self) -> None:
        """Have a thread look at what is idle, later. Held: the gate."""
        if self._timer is None:
            self._timer = threading.Timer(self._settings.idle_s, self._close_old)
            self._timer.daemon = True
            self._timer.start()

    def _close_old(self) -> None:
        with self._gate:
            since = time.monotonic() - self._settings.idle_s
            old = [pipeline.raw for used, pipeline in self._idle if used <= since]
            self._idle = [(used, pipeline) for used, pipeline in self._idle if used > since]
            self._timer = None
            if self._idle and not self._closed:
                self._watch()
        for raw in old:
            raw.close()


def _has_ended(raw: RawConnection) -> bool:
    """Take the answer to what was sent last, the end of a reading transaction; tell whether it is one."""
    if raw.info.transaction_status == TransactionStatus.ACTIVE:
        with suppress(psycopg.Error):  # which ends the connection
            raw.wait(generators.execute(raw.pgconn))  # libpq's own waiting would have all threads stand still
    return raw.info.transaction_status == TransactionStatus.IDLE


class _Context:
    """What a connection takes its adapters from."""

    connection = None

    def __init__(self, adapters: psycopg.adapt.AdaptersMap) -> None:
        self.adapters = adapters


def _pass_over(_: psycopg.errors.Diagnostic) -> None:
    """Notices of the server say nothing that a caller could act on."""
