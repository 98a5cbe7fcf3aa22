"""Removes expired items now and then, as long as its store is there."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Protocol

from reme_core.errors import ReMeError, StoreClosedError

_LOG = logging.getLogger("reme")


class Sweepable(Protocol):
    """A store that can be swept."""

    def sweep_ttl(self) -> int:
        """Remove what has expired and return how much."""
        ...


class ExpirySweeper:
    """A daemon thread. It holds the store weakly, so that a store that nobody has any more ends it."""

    def __init__(self, store: Sweepable, *, interval_s: float) -> None:
        """Keep both; the thread begins with `start`."""
        self._store = weakref.ref(store)
        self._interval_s = interval_s
        self._gate = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless begun; in the child of a fork, which has no threads of its parent, begin again."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._gate:
            if self._stopped.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            arguments = (self._store, self._stopped, self._interval_s)
            self._thread = threading.Thread(target=_serve, args=arguments, name="reme-sweep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread after the sweep that it is at."""
        self._stopped.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _serve(store: weakref.ref[Sweepable], stopped: threading.Event, interval_s: float) -> None:
    while not stopped.wait(interval_s):
        found = store()
        if found is None:
            return
        try:
            found.sweep_ttl()
        except StoreClosedError:
            return
        except ReMeError as exc:
            _LOG.warning("sweeping %r failed, and is tried again in %s s: %s", found, interval_s, exc)
        del found  # or the store would live as long as this thread
