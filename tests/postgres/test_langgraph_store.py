"""Every rule of LangGraph's store, with its items in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.adapters.langchain.store import store_rules_index, store_rules_items, store_rules_namespaces
from tests.adapters.langchain.store.store_values import FLAVOURS, RULES, Bench, Flavour, Rule

pytestmark = pytest.mark.postgres

MODULES = (store_rules_items, store_rules_namespaces, store_rules_index)  # whose rules are in RULES


@pytest.fixture(params=FLAVOURS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path, shared_url: str) -> AsyncIterator[Bench]:
    flavour: Flavour = request.param

    def place(folder: Path) -> Mapping[str, JsonValue]:
        schema = "reme" if folder == tmp_path / "folder" else f"reme_{folder.name}_{flavour}"
        return {"backend": "postgres", "url": shared_url, "schema": schema}

    opened = Bench(tmp_path / "folder", flavour, place=place)
    yield opened
    await opened.close()


@pytest.mark.parametrize("rule", [pytest.param(check, id=check.__name__) for _, check in RULES])
async def test_the_store_holds_the_rule_that(rule: Rule, bench: Bench) -> None:
    await rule(bench)
