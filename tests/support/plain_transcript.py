"""A transcript that is nothing else."""

from __future__ import annotations

from pathlib import Path

from reme_core.stores import LocalStore


class PlainTranscript:
    """A transcript of a user's own, which keeps no offloads, jobs or tool calls."""

    def __init__(self, path: Path) -> None:
        self._store = LocalStore(path)
        for name in (
            "append", "get_messages", "find_messages", "put_blocks", "get_blocks", "list_blocks", "erase", "close",
            "search_messages", "search_blocks", "pending_texts", "waiting_scopes", "put_vectors",
        ):  # fmt: skip
            setattr(self, name, getattr(self._store, name))
