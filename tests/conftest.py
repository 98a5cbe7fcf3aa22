"""Shared settings of the suite."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The contract suites lie in the package, so pytest has to be told to explain their failed asserts.
pytest.register_assert_rewrite("reme_core.testing")

# The suite starts hundreds of processes, which would compile the package anew each, as pytest would its tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Imported once for all processes that tests begin with multiprocessing, which takes each of them up to two seconds.
multiprocessing.set_forkserver_preload(
    [
        "pytest", "reme_core.testing.store_contract", "reme_core.facade.learning_service", "reme_core.models.defaults",
        "reme_core.recall.simple_retriever", "reme_core.remember.simple_distiller", "reme_core.working.prepare",
        "reme_core.working.tool_results", "tests.support.indexed", "tests.support.summary_child",
        "reme_core.cli.mcp", "reme_core.cli.program", "reme_core.serve.doors", "reme_core.serve.process",
        "reme_core.serve.mcp.stdio", "reme_core.serve.inspect.door", "reme_core.models.openai_chat",
        "reme_core.remember.memory_editor", "anyio._backends._asyncio", "tests.support.forked_program",
    ]
)  # fmt: skip

# A slow machine is no failure: a test that hangs is ended by pytest's own limit. Nor is chance: each run draws the same
# examples, so that what fails has been broken by a change. `make explore` draws others, many more of them.
settings.register_profile("reme", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500)
settings.load_profile("reme")


# Files of tests lie in memory, where there is a file system of it with room: thousands of small ones are on disk before
# their write is acknowledged, and the suite would wait for that half of its time. What a killed process has written is
# there in memory as on a disk; power cuts are replayed from what was not synced. Slow suites name a disk; see Makefile.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108  # pytest makes a folder of its own in it, for this user alone
_ROOM = 4 << 30  # bytes: several times what a whole run leaves


def pytest_configure() -> None:
    """Have temporary folders made in memory, unless somebody said where."""
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not os.access(_IN_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_IN_MEMORY).free > _ROOM:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_IN_MEMORY)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among thousands of tests, now and later: time of this process, and memory of forked ones."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Give what presses Ctrl-C for the main thread, also where the suite runs in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    signal.signal(signal.SIGINT, before)
