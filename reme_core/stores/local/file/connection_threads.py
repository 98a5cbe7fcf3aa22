"""Threads of one process that work on a file, and the connections that are theirs."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import FileIO

from reme_core.stores.local.file.file_location import OpenedFiles

_READERS = 4
_PURGE_EVERY_S = 60.0


class ConnectionThreads:
    """The threads of one process and their connections."""

    def __init__(self) -> None:
        """Begin with no thread: each is made when there is work for it."""
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="reme-write")
        self.reader = ThreadPoolExecutor(1, thread_name_prefix="reme-read")
        self.more_readers = ThreadPoolExecutor(_READERS - 1, thread_name_prefix="reme-read-more")
        self.purger = ThreadPoolExecutor(1, thread_name_prefix="reme-purge")
        self.behind = ThreadPoolExecutor(1, thread_name_prefix="reme-load")  # a thread is made when there is work
        self.closing = False
        self.read_only = False
        self.writing: sqlite3.Connection | None = None
        self.opened: list[sqlite3.Connection] = []
        self.files = OpenedFiles(None)
        self.raw: list[FileIO] = []
        self._local = threading.local()
        self._counting = threading.Lock()
        self._reading = 0
        self._purged = float("-inf")
        self._preparing = threading.Lock()
        self._prepared = False

    def is_time_to_purge(self) -> bool:
        """Tell whether the last time that this said so is long ago."""
        now = time.monotonic()
        if now - self._purged < _PURGE_EVERY_S:
            return False
        self._purged = now
        return True

    def begin_reading(self) -> ThreadPoolExecutor:
        """Count a read, and return where it is done: a process that reads one thing at a time has one thread for it."""
        with self._counting:
            self._reading += 1
            return self.reader if self._reading == 1 else self.more_readers

    def end_reading(self) -> None:
        """Count a read as done."""
        with self._counting:
            self._reading -= 1

    def prepare_once(self, create: Callable[[], None]) -> None:
        """Make the file ready, unless a thread has done so; one that fails leaves it to the next."""
        with self._preparing:
            if not self._prepared:
                create()
                self._prepared = True

    def of_this_thread(self) -> sqlite3.Connection | None:
        """Return the connection of the thread that calls, None where it has none yet."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        return connection

    def keep_for_this_thread(self, connection: sqlite3.Connection) -> None:
        """Keep the connection for later calls of this thread."""
        self._local.connection = connection

    def open_raw(self, path: str) -> FileIO:
        """Open the file itself, once; called by the purging thread alone."""
        for raw in self.raw:
            if os.path.samestat(os.fstat(raw.fileno()), os.stat(path)):  # noqa: PTH116
                return raw
        # Of a memory that nobody closes it stays open, as the connections do.
        self.raw.append(FileIO(os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0)), "r+", closefd=False))
        return self.raw[-1]

    def close(self) -> None:
        """Wait for what was begun, then close the connections; the file itself stays open."""
        self.closing = True
        for pool in (self.purger, self.behind, self.writer, self.reader, self.more_readers):
            pool.shutdown(wait=True)
        for connection in self.opened:
            connection.close()
