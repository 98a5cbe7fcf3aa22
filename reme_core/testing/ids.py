"""Identifiers that a test can foretell."""

from __future__ import annotations

import itertools
import threading


class SequentialIds:
    """Gives `id-1`, `id-2` and so on where `new_id` gives random ones; safe to use from several threads."""

    def __init__(self, prefix: str = "id") -> None:
        """Begin with `{prefix}-1`."""
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """Return the next one."""
        with self._lock:
            return f"{self._prefix}-{next(self._numbers)}"
