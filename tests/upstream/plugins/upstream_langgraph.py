"""A pytest plugin that puts our saver and our store where LangGraph's tests take those that keep things in memory.

Both are replaced before a test module is imported, so that what a test derives from them is derived from ours. Each
instance has a file of its own, which is closed after the test. The fixtures' own subclass, which looks at each `put`
whether a checkpoint was changed in memory, is left out: it would hide our `aput`.
"""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import langgraph.checkpoint.memory
import langgraph.store.memory
import pytest

from reme_langchain import ReMeSaver, ReMeStore

_FILES = contextlib.ExitStack()


def _new_file() -> Path:
    return Path(_FILES.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)), "memory.db")


class SaverInPlace(ReMeSaver):
    """The saver, made as InMemorySaver is."""

    def __init__(self, *, serde: Any = None) -> None:
        super().__init__(_new_file(), serde=serde)
        _FILES.callback(self.close)


class StoreInPlace(ReMeStore):
    """The store, made as InMemoryStore is."""

    def __init__(self, *, index: Any = None, ttl: Any = None) -> None:
        super().__init__(_new_file(), index=index, ttl=ttl)
        _FILES.callback(self.close)


langgraph.checkpoint.memory.InMemorySaver = SaverInPlace  # type: ignore[misc,assignment]
langgraph.checkpoint.memory.MemorySaver = SaverInPlace  # type: ignore[misc,assignment]
langgraph.store.memory.InMemoryStore = StoreInPlace  # type: ignore[misc,assignment]


def pytest_collection_finish() -> None:
    """Give the fixtures the saver itself."""
    for name in ("tests.conftest_checkpointer", "tests.memory_assert"):
        sys.modules[name].MemorySaverAssertImmutable = SaverInPlace  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _closed_files() -> Iterator[None]:
    yield
    _FILES.close()
