"""What distilling with agents has cost is known as well where it fails."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core.agents import PersonalSummaryAgentV1Op, ReMeSummaryAgentV1Op
from reme_core.errors import ModelOutputError
from reme_core.ports import ChatRequest
from reme_core.remember.agentic_distiller import AgenticDistiller
from reme_core.stores import LocalStore
from reme_core.testing import FixedClock
from tests.support.rule_model import RuleModel
from tests.unit.remember.distilling import NOW, SCOPE, say, task_of


def distiller(store: LocalStore, model: Any, **options: Any) -> AgenticDistiller:
    return AgenticDistiller(
        store=store,
        embedder=None,
        model=model,
        clock=FixedClock(NOW),
        agents=(PersonalSummaryAgentV1Op(),),
        make_router=lambda agents: ReMeSummaryAgentV1Op(agents=agents),
        **options,
    )


class Failing(RuleModel):
    """Fails from a call on."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    async def chat(self, request: ChatRequest) -> Any:
        if len(self.requests) + 1 >= self.first:
            self.requests.append(request)
            raise ModelOutputError("not this", raw="?")
        return await super().chat(request)


@pytest.fixture
async def store(tmp_path: Any) -> Any:
    opened = LocalStore(tmp_path / "memory.db")
    yield opened
    await opened.close()


async def test_calls_of_agents_are_counted_as_they_go_on(store: LocalStore) -> None:
    model, task = RuleModel(), task_of(say("Alice lives in Berlin"))
    await distiller(store, model).distil(SCOPE, task)
    assert task.meter.usage.model_calls == len(model.requests)


@pytest.mark.parametrize("first", [1, 3])
async def test_calls_of_a_router_that_fails_are_counted(store: LocalStore, first: int) -> None:
    model, task = Failing(first), task_of(say("Alice lives in Berlin"))
    with pytest.raises(ModelOutputError):
        await distiller(store, model).distil(SCOPE, task)
    assert task.meter.usage.model_calls == len(model.requests) > first


async def test_calls_of_a_reviser_that_fails_are_counted(store: LocalStore) -> None:
    class Unsure(RuleModel):
        async def chat(self, request: ChatRequest) -> Any:
            if request.response_schema is not None:
                self.requests.append(request)
                raise ModelOutputError("not this", raw="?")
            return await super().chat(request)

    model, task = Unsure(), task_of(say("Alice lives in Berlin"))
    with pytest.raises(ModelOutputError):
        await distiller(store, model, use_reviser=True).distil(SCOPE, task)
    assert task.meter.usage.model_calls == len(model.requests) > 3
