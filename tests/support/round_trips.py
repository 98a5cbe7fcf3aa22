"""Count of the answers that a server was waited for: libpq writes down what it sends and gets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg


class Traced:
    """The connections that were made meanwhile, and what went over them."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder of the traces."""
        self._folder = folder
        self._open: list[Any] = []

    def add(self, raw: psycopg.Connection[Any]) -> None:
        """Have a connection written down."""
        file = (self._folder / str(len(self._open))).open("w+", encoding="latin-1")
        raw.pgconn.trace(file.fileno())
        raw.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)
        self._open.append((raw, file))

    def round_trips(self) -> int:
        """Return how many answers were waited for so far; a pipeline's counts once."""
        return sum(line.startswith("B\t") and "ReadyForQuery" in line for line in self.lines())

    def lines(self) -> list[str]:
        """Return all messages so far."""
        found: list[str] = []
        for raw, file in self._open:
            if not raw.closed:
                raw.pgconn.untrace()
            file.seek(0)
            found += file.readlines()
            file.seek(0, 2)
            if not raw.closed:
                raw.pgconn.trace(file.fileno())
                raw.pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)
        return found

    def close(self) -> None:
        """Let go of the files."""
        for raw, file in self._open:
            if not raw.closed:
                raw.pgconn.untrace()
            file.close()


@contextmanager
def traced_connections() -> Iterator[Traced]:
    """Write down what goes over the connections that are made within."""
    connect = psycopg.connect
    with tempfile.TemporaryDirectory(prefix="reme-trace-") as folder:
        traced = Traced(Path(folder))

        def connecting(*args: Any, **kwargs: Any) -> psycopg.Connection[Any]:
            raw = connect(*args, **kwargs)
            traced.add(raw)
            return raw

        try:
            with patch.object(psycopg, "connect", connecting):
                yield traced
        finally:
            traced.close()
