"""The official suite of checkpointers: as a whole, and each of its tests on a saver of its own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, spec, validate

from reme_langchain import ReMeSaver

Check = Callable[[BaseCheckpointSaver[str]], Coroutine[object, object, None]]


def official_checks() -> list[Check]:
    modules = [
        importlib.import_module(f"{spec.__name__}.{found.name}") for found in pkgutil.iter_modules(spec.__path__)
    ]
    return [
        check
        for module in modules
        for name, check in inspect.getmembers(module, inspect.iscoroutinefunction)
        if name.startswith("test_") and check.__module__ == module.__name__
    ]


@pytest.mark.requirement("LG-SAVER-01")
@pytest.mark.requirement("LG-SAVER-06")
@pytest.mark.requirement("LG-SAVER-09")
async def test_the_official_suite_is_passed_in_full(tmp_path: Path) -> None:
    @checkpointer_test(name="ReMeSaver")
    async def savers() -> AsyncIterator[ReMeSaver]:
        async with ReMeSaver.from_path(tmp_path / "suite.db", synchronous="NORMAL") as saver:
            yield saver

    report = await validate(savers)

    assert report.passed_all_base()
    assert report.passed_all()
    assert sum(result.tests_passed for result in report.results.values()) == len(official_checks()) == 81


@pytest.mark.parametrize("check", official_checks(), ids=lambda check: check.__name__)
async def test_each_official_check_passes_on_a_fresh_saver(check: Check, tmp_path: Path) -> None:
    async with ReMeSaver.from_path(tmp_path / "fresh.db", synchronous="NORMAL") as saver:
        await check(saver)
