"""A version 2 of an agent is a subclass that needs to say nothing."""

from __future__ import annotations

import pytest

from reme_core.agents import (
    BaseMemoryAgentOp,
    IdentitySummaryAgentV1Op,
    PersonalRetrieveAgentV2Op,
    PersonalSummaryAgentV1Op,
    ProceduralSummaryAgentV1Op,
    ReMeRetrieveAgentV1Op,
    ReMeSummaryAgentV1Op,
)
from reme_core.ports import AgentTask, ListMemories, Target
from reme_core.schema import MemoryType
from reme_core.stores import LocalStore
from reme_core.testing import ScriptedChatModel
from tests.unit.agents.acting import call, calling, context_over, remember, user


class V2(BaseMemoryAgentOp):
    pass


class ProceduralSummaryAgentV2Op(BaseMemoryAgentOp):
    pass


class IdentitySummaryAgentV2Op(BaseMemoryAgentOp):
    """With a docstring."""


class ReMeSummaryAgentV2Op(BaseMemoryAgentOp):
    pass


class PersonalRetrieveAgentV3Op(BaseMemoryAgentOp):
    pass


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (V2, PersonalSummaryAgentV1Op),
        (ProceduralSummaryAgentV2Op, ProceduralSummaryAgentV1Op),
        (IdentitySummaryAgentV2Op, IdentitySummaryAgentV1Op),
        (ReMeSummaryAgentV2Op, ReMeSummaryAgentV1Op),
        (PersonalRetrieveAgentV3Op, ReMeRetrieveAgentV1Op),
    ],
)
def test_a_bare_subclass_has_what_version_1_has(kind: type[BaseMemoryAgentOp], first: type[BaseMemoryAgentOp]) -> None:
    own, before = kind(), first()
    assert isinstance(own, first)
    assert [tool.name for tool in own.tools] == [tool.name for tool in before.tools]
    assert own.memory_type is before.memory_type
    assert own.name != before.name


def test_a_subclass_that_says_something_of_its_own_stays_what_it_is() -> None:
    class Half(BaseMemoryAgentOp):
        name = "half"
        prompt = "personal_summary"

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


async def test_a_bare_version_2_runs_and_signs_with_its_name(store: LocalStore) -> None:
    model = ScriptedChatModel(
        [calling(call("add_memory", {"memories": [{"memory_content": "Ana likes melon"}]})), "done"]
    )
    context = context_over(store, model=model, memory_type=MemoryType.PERSONAL, memory_target="Ana")
    await V2().run(AgentTask(workspace_id="space", memory_target="Ana", messages=(user("I like melon"),)), context)
    page = await store.list_memories(context.scope, ListMemories())
    assert [(memory.content, memory.author) for memory in page.memories] == [("Ana likes melon", "v2")]


async def test_the_agent_of_persons_finds_nothing_of_another_type(store: LocalStore) -> None:
    search = calling(call("vector_retrieve_memory", {"query_items": [{"query": "melon"}]}))
    model = ScriptedChatModel([search, "Melon."])
    context = context_over(store, model=model)
    await remember(store, "Ana likes melon", Target(MemoryType.PERSONAL, "Ana"))
    await remember(store, "Cut a melon in half", Target(MemoryType.PROCEDURAL, "cooking"))
    await PersonalRetrieveAgentV2Op().run(AgentTask(workspace_id="space", query="What does Ana like?"), context)
    assert [hit.memory for hit in context.trace.hits] == ["Ana likes melon"]
