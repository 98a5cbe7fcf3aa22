"""The routing table, the identity, and handing targets to sub-agents."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    ModelUnavailableError,
    PartialFailureError,
    RunError,
    ToolFeedback,
)
from reme_core.ports import (
    AgentResult,
    AgentTask,
    DeleteMemory,
    EventQuery,
    MemoryFilter,
    PutMemory,
    ToolContext,
    WriteBatch,
)
from reme_core.schema import Memory, MemoryType
from reme_core.steps.targets import all_memories, read_meta
from reme_core.stores import LocalStore
from reme_core.testing.store_values import ALICE, NOW
from reme_core.tools import (
    AddMetaMemoryOp,
    DraftStore,
    HandsOffOp,
    ReadIdentityMemoryOp,
    ReadMetaMemoryOp,
    UpdateIdentityMemoryOp,
)
from reme_core.tools.meta import read_descriptions
from tests.support.snapshots import snapshot
from tests.support.toolbox import (
    EMMA,
    IDENTITY,
    MESSAGES,
    META,
    NOAH,
    PERSONAL,
    PROCEDURAL,
    SUMMARY,
    TOOL,
    NotingAgent,
    Target,
    context_over,
    current,
    held,
    put,
)

ANY = {"memory_type": None, "memory_target": None}
SELF = Target(IDENTITY, "self")


async def test_the_table_holds_counted_and_added_targets(store: LocalStore) -> None:
    await put(
        store,
        held("sum-1", "They talked.", Target(SUMMARY, "self")),
        held("tool-1", "Ask twice.", Target(TOOL, "search")),
        held("meta-1", "how to bake", Target(META, "procedural/baking/bread")),
        held("meta-2", "my best friend", Target(META, "personal/emma ")),
        held("meta-3", "forged", Target(META, "nothing")),
        held("meta-4", "forged", Target(META, "summary/self")),
    )
    for memories in (store, DraftStore(store)):
        found = await read_meta(memories, ALICE)
        assert [(*entry.target, entry.description, entry.memories) for entry in found] == [
            ("personal", "Emma", "my best friend", 1),
            ("personal", "Noah", "", 1),
            ("procedural", "baking/bread", "how to bake", 0),
            ("tool", "search", "", 1),
        ]


async def test_the_table_is_shown_a_line_for_each_target(store: LocalStore, tmp_path: Path) -> None:
    await put(store, held("tool-1", "Ask twice.", Target(TOOL, "search")))
    context = context_over(store, **ANY)
    plain = "- personal(Emma): personal memories about Emma\n- personal(Noah): personal memories about Noah"
    assert await ReadMetaMemoryOp()({}, context) == plain
    (tmp_path / "personal.json").write_text(json.dumps({"Noah": "a\nfriend", "Liam": "nobody"}))
    full = ReadMetaMemoryOp(
        enable_tool_memory=True, enable_identity_memory=True, enable_thinking_params=True, memory_metadata_dir=tmp_path
    )
    assert (await full({"thinking": "so"}, context)).splitlines() == [
        "- identity(self): what the assistant itself is",
        "- personal(Emma): personal memories about Emma",
        "- personal(Noah): a friend",
        "- tool(search): tool memories about search",
    ]
    only = context_over(store, **ANY, targets=frozenset({EMMA}))
    assert await full({"thinking": "so"}, only) == "- personal(Emma): personal memories about Emma"
    assert await ReadMetaMemoryOp()({}, context_over(store, targets=frozenset())) == "there are no targets yet"


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', "{", "[" * 100_000, "x" * ((1 << 20) + 1), b"\xff\xfe\x00"])
def test_descriptions_that_are_none_are_a_wrong_setting(tmp_path: Path, text: str | bytes) -> None:
    file = tmp_path / "tool.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=r"tool\.json"):
        read_descriptions(tmp_path)
    with pytest.raises(ConfigurationError, match="not a folder"):
        read_descriptions(tmp_path / "missing")


async def test_a_target_is_added_once_whatever_its_case(store: LocalStore) -> None:
    context = context_over(store, **ANY)
    items = [
        {"memory_type": "personal", "memory_target": " EMMA"},
        {"memory_type": "procedural", "memory_target": "Emma"},
        {"memory_type": "procedural", "memory_target": "emma "},
    ]
    answer = await AddMetaMemoryOp()({"meta_memories": items}, context)
    assert answer.splitlines() == [
        "known already: personal(Emma)",
        "added: procedural(Emma)",
        "known already: procedural(Emma)",
    ]
    single = AddMetaMemoryOp(enable_multiple=False)
    assert await single({"memory_type": "procedural", "memory_target": "Emma"}, context) == (
        "known already: procedural(Emma)"
    )
    [entry] = await all_memories(store, ALICE, MemoryFilter(types=(META,)))
    assert (entry.memory_target, entry.content) == ("procedural/Emma", "procedural memories about Emma")


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        ({"memory_type": "tool", "memory_target": "x"}, {}),
        ({"memory_type": "meta", "memory_target": "x"}, {}),
        ({"memory_type": "personal", "memory_target": " "}, {}),
        ({"memory_type": "personal", "memory_target": "a\nb"}, {}),
        ({"memory_type": "personal", "memory_target": "x" * 300}, {}),
        ({"memory_type": "personal", "memory_target": "Liam"}, {"targets": frozenset({EMMA})}),
        ({"memory_type": "personal", "memory_target": "Noah"}, {"targets": frozenset({EMMA})}),
        ({"memory_type": "personal", "memory_target": "Liam"}, {"memory_type": PROCEDURAL}),
    ],
)
async def test_no_other_targets_can_be_added(
    store: LocalStore, item: dict[str, str], fields: dict[str, object]
) -> None:
    before = await snapshot(store, ALICE)
    arguments = {"meta_memories": [{"memory_type": "personal", "memory_target": "Emma"}, item]}
    with pytest.raises(InvalidInputError):
        await AddMetaMemoryOp()(arguments, context_over(store, **{**ANY, **fields}))
    assert await snapshot(store, ALICE) == before


async def test_a_target_of_the_call_gets_its_entry(store: LocalStore) -> None:
    context = context_over(store, **ANY, targets=frozenset({Target(PERSONAL, "Liam")}))
    item = {"memory_type": "personal", "memory_target": "liam"}
    assert await AddMetaMemoryOp()({"meta_memories": [item]}, context) == "added: personal(Liam)"


async def test_a_new_identity_closes_the_old_one(store: LocalStore) -> None:
    await put(store, held("id-1", "I am Remy.", SELF), held("id-2", "I am kind.", SELF))
    context = context_over(store, **ANY)
    assert await ReadIdentityMemoryOp()({}, context) == "I am kind.\nI am Remy."
    answer = await UpdateIdentityMemoryOp()({"identity_memory": "I am Remy, and curious."}, context)
    assert answer.startswith("replaced")
    assert await ReadIdentityMemoryOp()({}, context) == "I am Remy, and curious."
    [first, second] = await store.get(ALICE, ["id-1", "id-2"])
    assert first.superseded_by == second.superseded_by is not None
    assert first.valid_to is not None
    assert first.valid_to >= first.valid_from
    events = await store.events(ALICE, EventQuery(run_id="run-1"))
    assert sorted(event.operation for event in events) == ["add", "supersede", "supersede"]
    for again in ("I am Remy, and curious.", " i am remy, and CURIOUS"):
        assert "nothing was changed" in await UpdateIdentityMemoryOp()({"identity_memory": again}, context)
    assert await store.events(ALICE, EventQuery(run_id="run-1")) == events


async def test_an_identity_that_is_part_of_the_old_one_is_kept(store: LocalStore) -> None:
    await put(store, held("id-1", "I am Remy.", SELF), held("id-2", "I am kind.", SELF))
    context = context_over(store, **ANY)
    await UpdateIdentityMemoryOp()({"identity_memory": "I am kind."}, context)
    [kept] = await all_memories(store, ALICE, MemoryFilter(types=(IDENTITY,)))
    assert kept.memory_id == "id-2"


async def test_an_identity_beyond_the_targets_of_the_call_is_left_alone(store: LocalStore) -> None:
    await put(store, held("id-1", "I am Remy.", SELF))
    context = context_over(store, **ANY, targets=frozenset({EMMA}))
    assert await ReadIdentityMemoryOp()({}, context) == "there is no identity memory yet"
    with pytest.raises(ConfigurationError, match="identity"):
        await UpdateIdentityMemoryOp()({"identity_memory": "I am Max."}, context)


def hands(*agents: NotingAgent, multiple: bool = True) -> HandsOffOp:
    return HandsOffOp(agents=agents or [NotingAgent()], enable_multiple=multiple)


def task(name: str, kind: str = "personal") -> dict[str, str]:
    return {"memory_type": kind, "memory_target": name}


async def test_sub_agents_run_side_by_side_and_each_writes_once(store: LocalStore) -> None:
    draft = DraftStore(store)
    agent = NotingAgent(barrier=asyncio.Barrier(2))
    context = context_over(draft, **ANY)
    answer = await hands(agent)({"memory_tasks": [task("emma"), task("Noah"), task("Emma ")]}, context)
    assert answer.splitlines() == ["- personal(Emma): done. kept Emma", "- personal(Noah): done. kept Noah"]
    assert sorted(context.trace.done) == [EMMA, NOAH]
    assert context.trace.usage.model_calls == 2
    assert await current(context, EMMA, NOAH) == sorted(
        ["Emma lives in Berlin.", "Noah plays the cello.", "noted Emma", "noted Noah"]
    )
    [first, _] = agent.tasks
    assert (first.workspace_id, first.memory_target, first.ref_memory_id) == ("space", "Emma", "block-1")
    assert first.messages == MESSAGES
    added = [change.after for change in draft.changes]
    assert {item.author for item in added if item is not None} == {"noting-personal"}
    assert await current(context_over(store), EMMA) == ["Emma lives in Berlin."]


async def test_a_failing_sub_agent_loses_nothing_of_the_others(store: LocalStore) -> None:
    error = ModelUnavailableError("the model is away")
    context = context_over(store, **ANY)
    answer = await hands(NotingAgent(error=error))({"memory_tasks": [task("Noah"), task("Emma")]}, context)
    assert answer.splitlines() == [
        "- personal(Noah): failed, nothing was changed: the model is away",
        "- personal(Emma): done. kept Emma",
    ]
    assert context.trace.failures == [(NOAH, error)]
    assert context.trace.done == [EMMA]
    assert await current(context, NOAH) == ["Noah plays the cello."]
    assert await current(context, EMMA) == ["Emma lives in Berlin.", "noted Emma"]


class Overtaken(NotingAgent):
    """Changes or deletes a memory, which somebody else changes meanwhile, so many times."""

    def __init__(self, store: LocalStore, *, times: int, deletes: bool = False) -> None:
        super().__init__()
        self.store, self.times, self.deletes = store, times, deletes

    async def run(self, task: AgentTask, context: ToolContext) -> AgentResult:
        assert isinstance(context.store, DraftStore)
        wanted = MemoryFilter(targets=(str(task.memory_target),))
        found = await all_memories(context.store, ALICE, wanted)
        if self.deletes and found:
            deletes = [DeleteMemory(memory_id=item.memory_id) for item in found]
            await context.store.put(ALICE, WriteBatch(deletes=deletes, at=NOW))
        elif found:
            changed = found[0].model_copy(update={"content": f"mine, {found[0].content}"})
            await context.store.put(ALICE, WriteBatch(puts=[PutMemory(memory=changed)], at=NOW))
        if self.times and task.memory_target == "Emma":
            self.times -= 1
            await self.interfere(found[0])
        return await super().run(task, context)

    async def interfere(self, memory: Memory) -> None:
        changed = memory.model_copy(update={"content": f"theirs, {memory.content}"})
        await self.store.put(ALICE, WriteBatch(puts=[PutMemory(memory=changed)], at=NOW))


class Removed(Overtaken):
    """The same, where somebody else deletes it."""

    async def interfere(self, memory: Memory) -> None:
        await self.store.put(ALICE, WriteBatch(deletes=[DeleteMemory(memory_id=memory.memory_id)], at=NOW))


@pytest.mark.parametrize("in_draft", [False, True])
async def test_an_agent_that_was_overtaken_looks_again(store: LocalStore, in_draft: bool) -> None:
    agent = Overtaken(store, times=1)
    context = context_over(DraftStore(store) if in_draft else store, **ANY)
    answer = await hands(agent)({"memory_tasks": [task("Emma"), task("Noah")]}, context)
    assert "failed" not in answer
    assert len(agent.tasks) == 3
    assert context.trace.usage.model_calls == 3
    assert sorted(context.trace.done) == [EMMA, NOAH]
    assert context.trace.failures == []
    assert await current(context, EMMA) == ["mine, theirs, Emma lives in Berlin.", "noted Emma"]


@pytest.mark.parametrize("deletes", [False, True])
async def test_an_agent_looks_again_where_its_memory_was_deleted(store: LocalStore, deletes: bool) -> None:
    agent = Removed(store, times=1, deletes=deletes)
    context = context_over(store, **ANY)
    assert "done" in await hands(agent)({"memory_tasks": [task("Emma")]}, context)
    assert await current(context, EMMA) == ["noted Emma"]


async def test_an_agent_that_is_overtaken_twice_has_failed(store: LocalStore) -> None:
    agent = Overtaken(store, times=2)
    context = context_over(store, **ANY)
    assert "failed" in await hands(agent)({"memory_tasks": [task("Emma")]}, context)
    [(target, error)] = context.trace.failures
    assert target == EMMA
    assert isinstance(error, ConflictError)
    assert context.trace.usage.model_calls == 2
    assert await current(context, EMMA) == ["theirs, theirs, Emma lives in Berlin."]


async def test_an_error_that_is_none_of_ours_stops_no_other_agent(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow(NotingAgent):
        async def run(self, task: AgentTask, context: ToolContext) -> AgentResult:
            for _ in range(20):  # it is still at work when the other one fails
                await asyncio.sleep(0)
            return await super().run(task, context)

    error = KeyError("a bug")
    context = context_over(store, **ANY)
    other = NotingAgent(PROCEDURAL, error=error)
    await AddMetaMemoryOp()({"meta_memories": [task("Noah", "procedural")]}, context)
    answer = await hands(Slow(), other)({"memory_tasks": [task("Noah", "procedural"), task("Emma")]}, context)
    assert answer.splitlines() == [
        "- procedural(Noah): failed, nothing was changed: KeyError: 'a bug'",
        "- personal(Emma): done. kept Emma",
    ]
    [(target, failure)] = context.trace.failures
    assert target == Target(PROCEDURAL, "Noah")
    assert type(failure) is RunError
    assert failure.__cause__ is error
    assert context.trace.done == [EMMA]
    assert await current(context, EMMA) == ["Emma lives in Berlin.", "noted Emma"]
    [record] = caplog.records
    assert record.name == "reme"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_a_cancelled_call_ends_its_sub_agents_and_writes_nothing(store: LocalStore) -> None:
    context = context_over(store, **ANY)
    call = asyncio.create_task(
        hands(NotingAgent(barrier=asyncio.Barrier(3)))({"memory_tasks": [task("Emma")]}, context)
    )
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await current(context, EMMA) == ["Emma lives in Berlin."]
    assert context.trace.done == context.trace.failures == []


async def test_tools_the_identity_and_targets_of_the_call_need_no_entry(store: LocalStore) -> None:
    agents = [NotingAgent(kind) for kind in (PERSONAL, TOOL, IDENTITY)]
    liam = Target(PERSONAL, "Liam")
    tasks = [task("search", "tool"), task("SELF", "identity"), task("Emma")]
    context = context_over(store, **ANY)
    await hands(*agents)({"memory_tasks": tasks}, context)
    assert set(context.trace.done) == {Target(TOOL, "search"), SELF, EMMA}
    only = context_over(store, **ANY, targets=frozenset({liam}))
    await hands(*agents, multiple=False)(task("liam"), only)
    assert only.trace.done == [liam]


@pytest.mark.parametrize(
    ("item", "fields", "said", "unknown"),
    [
        (task("Liam"), {}, "add_meta_memory", [Target(PERSONAL, "Liam")]),
        (task("Emma", "procedural"), {}, "nobody keeps procedural", []),
        (task("Emma", "identity"), {}, "nobody keeps identity", []),
        (task("Noah"), {"targets": frozenset({EMMA})}, "none of the targets", []),
    ],
)
async def test_one_target_that_cannot_be_handed_on_is_named_and_the_others_are_worked_on(
    store: LocalStore, item: dict[str, str], fields: dict[str, object], said: str, unknown: list[Target]
) -> None:
    for tasks in ([task("Emma"), item], [item, task("Emma")]):
        agent, context = NotingAgent(), context_over(store, **{**ANY, **fields})
        tool = hands(agent)
        with pytest.raises(ToolFeedback, match=said) as told:
            await tool.run(tool.arguments.model_validate({"memory_tasks": tasks}), context)
        assert "- personal(Emma): done. kept Emma" in str(told.value)
        assert [done.memory_target for done in agent.tasks] == ["Emma"]
        assert (context.trace.done, context.trace.unknown) == ([EMMA], unknown)
        with pytest.raises(PartialFailureError, match=said) as failed:  # the same, outside of a loop
            await tool({"memory_tasks": tasks}, context)
        assert failed.value.done == ("- personal(Emma): done. kept Emma",)
        assert len(failed.value.failures) == 1


@pytest.mark.parametrize(
    ("item", "fields", "said"),
    [
        (task("Liam"), {}, "nothing was handed on.*add_meta_memory"),
        (task("Noah"), {"memory_type": TOOL}, "nothing was handed on.*none of the targets"),
        (task("Emma", "summary"), {}, "memory_type"),
        (task(""), {}, "memory_target"),
    ],
)
async def test_where_no_target_can_be_handed_on_nothing_is_done(
    store: LocalStore, item: dict[str, str], fields: dict[str, object], said: str
) -> None:
    agent, context = NotingAgent(), context_over(store, **{**ANY, **fields})
    with pytest.raises(InvalidInputError, match=f"(?s){said}"):
        await hands(agent)({"memory_tasks": [item]}, context)
    assert (agent.tasks, context.trace.done, context.trace.nothing) == ((), [], [])


async def test_an_unknown_target_is_settled_once_it_is_added_or_left_out(store: LocalStore) -> None:
    tool, context = hands(NotingAgent()), context_over(store, **ANY)
    for name in ("Liam", "Lia"):
        with pytest.raises(InvalidInputError):
            await tool({"memory_tasks": [task(name)]}, context)
    assert [target.memory_target for target in context.trace.unknown] == ["Liam", "Lia"]
    await AddMetaMemoryOp()({"meta_memories": [task("liam")]}, context)
    await tool({"memory_tasks": [task("LIAM")]}, context)
    assert [target.memory_target for target in context.trace.unknown] == ["Lia"]
    await tool({"memory_tasks": [], "reason": "Lia was a misspelling"}, context)
    assert context.trace.unknown == []


@pytest.mark.parametrize("multiple", [True, False])
async def test_that_nothing_is_worth_keeping_is_said_with_a_reason(store: LocalStore, multiple: bool) -> None:
    none: dict[str, object] = {"memory_tasks": []} if multiple else {}
    agent, context = NotingAgent(), context_over(store, **ANY)
    tool = hands(agent, multiple=multiple)
    assert await tool({**none, "reason": " small talk "}, context) == "nothing is handed on"
    assert context.trace.nothing == ["small talk"]
    for reason in ({}, {"reason": " "}, {"reason": None}):
        with pytest.raises(InvalidInputError, match="name the targets, or give the reason"):
            await tool({**none, **reason}, context)
    assert context.trace.nothing == ["small talk"]
    assert agent.tasks == ()
    some = {"memory_tasks": [task("Emma")]} if multiple else dict(task("Emma"))
    await tool({**some, "reason": "she moved"}, context)  # a reason beside a target says nothing
    assert (context.trace.done, context.trace.nothing) == ([EMMA], ["small talk"])


async def test_of_a_target_without_its_type_the_form_is_told(store: LocalStore) -> None:
    with pytest.raises(InvalidInputError, match=r"memory_type.*write an object of this form"):
        await hands(multiple=False)({"memory_target": "Emma"}, context_over(store, **ANY))


async def test_what_targets_share_is_kept_with_the_first_of_them(store: LocalStore) -> None:
    seen: dict[str, tuple[str, ...]] = {}

    class Seeing(NotingAgent):
        async def run(self, task: AgentTask, context: ToolContext) -> AgentResult:
            seen[str(task.memory_target)] = context.elsewhere
            return await super().run(task, context)

    people, tools = Seeing(), Seeing(TOOL)
    tasks = [task("Noah"), task("search", "tool"), task("Emma")]
    await hands(people, tools)({"memory_tasks": tasks}, context_over(store, **ANY))
    assert seen == {"Noah": (), "search": (), "Emma": ("Noah",)}


async def test_the_identity_has_one_target(store: LocalStore) -> None:
    tool = hands(NotingAgent(MemoryType.IDENTITY))
    arguments = tool.arguments.model_validate({"memory_tasks": [task("Emma", "identity")]})
    context = context_over(store, **ANY)
    with pytest.raises(ToolFeedback, match="one target, self"):
        await tool.run(arguments, context)
    assert context.trace.unknown == [Target(IDENTITY, "Emma")]


@pytest.mark.parametrize("agents", [[], [NotingAgent(), NotingAgent()]])
def test_there_is_one_agent_for_each_type(agents: list[NotingAgent]) -> None:
    with pytest.raises(ConfigurationError, match="agents"):
        HandsOffOp(agents=agents)


async def test_an_identity_said_later_may_be_distilled_first(store: LocalStore) -> None:
    later = NOW + timedelta(days=3)
    await put(store, held("id-1", "I am Remy.", SELF, observed_at=later, valid_from=later))
    await UpdateIdentityMemoryOp()({"identity_memory": "I am Max."}, context_over(store, **ANY))
    [old] = await store.get(ALICE, ["id-1"])
    assert old.valid_to == old.valid_from
