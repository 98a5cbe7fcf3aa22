"""Every rule of the store's contract, through the sync methods in worker threads and through the async ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.langchain.store import store_rules_index, store_rules_items, store_rules_namespaces
from tests.adapters.langchain.store.store_values import FLAVOURS, RULES, Bench, Flavour, Rule

MODULES = (store_rules_items, store_rules_namespaces, store_rules_index)  # whose rules are in RULES


@pytest.fixture(params=FLAVOURS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    flavour: Flavour = request.param
    opened = Bench(tmp_path / "folder", flavour)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    "rule",
    [pytest.param(check, marks=pytest.mark.requirement(name), id=check.__name__) for name, check in RULES],  # type: ignore[attr-defined]
)
async def test_the_store_holds_the_rule_that(rule: Rule, bench: Bench) -> None:
    await rule(bench)
