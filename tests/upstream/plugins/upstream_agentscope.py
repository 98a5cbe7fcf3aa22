"""A pytest plugin that puts `ReMeMemory`, on a file of its own, where AgentScope 1.x takes its `InMemoryMemory`."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import agentscope.agent
import agentscope.memory
import pytest

from reme_agentscope.v1.working_memory.memory import ReMeMemory

_FILES = contextlib.ExitStack()


class MemoryInPlace(ReMeMemory):
    """The working memory, made as InMemoryMemory is."""

    def __init__(self) -> None:
        folder = _FILES.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        super().__init__(location=Path(folder))


agentscope.memory.InMemoryMemory = MemoryInPlace
agentscope.agent._react_agent.InMemoryMemory = MemoryInPlace  # an agent that is given no memory makes one


@pytest.fixture(autouse=True)
def _closed_files() -> Iterator[None]:
    yield
    _FILES.close()
