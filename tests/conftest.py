"""Shared settings of the suite."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

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
    ]
)  # fmt: skip

# A slow machine is no failure: a test that hangs is ended by pytest's own limit. Each run draws other examples, so half
# of hypothesis' hundred in each of many runs find what a hundred would.
settings.register_profile("reme", deadline=None, max_examples=50)
settings.load_profile("reme")


def pytest_collection_finish() -> None:
    """Leave the thousands of collected tests out of each garbage collection, and their pages to forked processes."""
    gc.freeze()


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """Give what presses Ctrl-C for the main thread, also where the suite runs in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    signal.signal(signal.SIGINT, before)
