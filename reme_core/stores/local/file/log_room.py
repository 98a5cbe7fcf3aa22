"""Room in the write-ahead log ahead of what is written, so that a commit need not make the file longer."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PATIENCE = 8  # commits that found the log longer than the one before, until room is made: few write so little
_MOST_AT_ONCE = 1 << 20  # bytes; one commit writes them to disk
_LARGEST = 1 << 22  # bytes; SQLite begins anew after 1,000 pages: https://sqlite.org/wal.html#ckpt


class LogRoom:
    """Makes the log of a file longer, by as much again as it has, until it is as long as it mostly gets.

    To flush a file that became longer takes the file system's own journal, which doubles the time of a commit. SQLite
    reads no further than what was committed: what is behind may be anything, as after a log that was begun anew.
    """

    def __init__(self, path: Path | None) -> None:
        """Keep the path of the file; `None`: there is no log."""
        # The other systems have no such call, and one could not remove a log that is open here.
        self._log = None if path is None or os.name != "posix" else f"{path.absolute()}-wal"
        self._opened = -1
        self._end: Callable[[], object] | None = None
        self._size = 0
        self._longer = 0

    def make(self) -> None:
        """Make room if the log became longer since the last call; to be called in a transaction that writes.

        Nobody else writes to the log then. Room that can't be made is no error: a commit does without it.
        """
        if self._log is None:
            return
        with suppress(OSError):
            if self._opened < 0:
                self._opened = os.open(self._log, os.O_WRONLY | os.O_CLOEXEC)
                self._end = weakref.finalize(self, os.close, self._opened)  # of a memory that nobody closes as well
            size = os.lseek(self._opened, 0, os.SEEK_END)  # to ask for the times as well makes the commit slower
            if size != self._size:
                self._size = size
                self._longer += 1
                room = min(size, _MOST_AT_ONCE, _LARGEST - size)
                if room > 0 and self._longer > _PATIENCE:
                    self._size += os.pwrite(self._opened, bytes(room), size)

    def close(self) -> None:
        """Let go of the log."""
        if self._end is not None:
            self._end()
            self._opened, self._end = -1, None
