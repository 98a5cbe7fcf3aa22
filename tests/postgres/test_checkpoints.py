"""LangGraph's official suite of checkpointers, and what the saver's own tests show on a file, with PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from reme_langchain import ReMeSaver
from tests.adapters.langchain.saver.test_conformance import Check, official_checks


@pytest.mark.postgres
async def test_the_official_suite_is_passed_in_full(shared_url: str) -> None:
    @checkpointer_test(name="ReMeSaver")
    async def savers() -> AsyncIterator[ReMeSaver]:
        async with ReMeSaver.from_conn_string(shared_url) as saver:
            yield saver

    report = await validate(savers)

    assert report.passed_all()
    assert sum(result.tests_passed for result in report.results.values()) == len(official_checks()) == 81


@pytest.mark.postgres
@pytest.mark.parametrize("check", official_checks(), ids=lambda check: check.__name__)
async def test_each_official_check_passes_on_a_fresh_saver(check: Check, shared_url: str) -> None:
    async with ReMeSaver.from_conn_string(shared_url) as saver:
        await check(saver)
