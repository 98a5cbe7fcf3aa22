"""A pytest plugin that writes the outcome of each test, by its id, as JSON to the file of UPSTREAM_OUTCOMES."""

import json
import os
from pathlib import Path

import pytest

OUTCOMES: dict[str, str] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs on another backend: the same tests, with Postgres, Redis or SQLite."""
    others = [item for item in items if not _in_memory(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if _in_memory(item)]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        OUTCOMES[report.nodeid] = "error"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the outcome of the call, or that of the part beside it which went wrong."""
    if report.failed and report.when != "call":
        OUTCOMES[report.nodeid] = "error"
    elif report.when == "call" or report.skipped:
        OUTCOMES.setdefault(report.nodeid, report.outcome)


def pytest_sessionfinish() -> None:
    Path(os.environ["UPSTREAM_OUTCOMES"]).write_text(json.dumps(OUTCOMES, indent=1, sort_keys=True))


def _in_memory(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    backends = ("sync_checkpointer", "async_checkpointer", "sync_store", "async_store")
    return all("memory" in str(params.get(name, "memory")) for name in backends)
