"""Adding, updating and deleting memories within the type and target of a call."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    ModelUnavailableError,
)
from reme_core.ports import EventQuery, ListMemories, MemorySearch, Target
from reme_core.schema import MemoryType, Source, TrustClass, shown_validity
from reme_core.stores import LocalStore
from reme_core.testing import HashedEmbedder
from reme_core.testing.store_values import ALICE, BOB, NOW
from reme_core.tools import AddMemoryOp, AddSummaryMemoryOp, DeleteMemoryOp, DraftStore, UpdateMemoryOp
from tests.support.snapshots import snapshot
from tests.support.toolbox import (
    EMMA,
    MESSAGES,
    META,
    NOAH,
    SOURCE,
    SUMMARY,
    context_over,
    current,
    held,
    put,
    said,
)

EARLY = MESSAGES[0].created_at - timedelta(days=9)


async def test_an_added_memory_carries_what_the_context_says(store: LocalStore) -> None:
    context = context_over(store)
    item = {"memory_content": "Emma drinks tea.", "metadata": {"strength": 1}}
    answer = await AddMemoryOp()({"memories": [item]}, context)
    [event] = await store.events(ALICE, EventQuery(run_id="run-1"))
    assert event.after is not None
    assert event.memory_id in answer
    assert (event.reason, event.actor, event.after.author) == ("add_memory", "tester", "tester")
    assert event.after.observed_at == event.after.valid_from == MESSAGES[0].created_at  # where tea is spoken of
    assert event.after.created_at == NOW
    assert event.after.sources == (SOURCE,)
    assert event.after.metadata == {"strength": 1}
    assert (event.after.memory_type, event.after.memory_target) == EMMA


async def test_without_messages_a_memory_was_observed_now(store: LocalStore) -> None:
    tool = AddMemoryOp(enable_multiple=False, enable_thinking_params=True, add_when_to_use=True)
    arguments = {"thinking": "so", "memory_content": "Emma sings.", "when_to_use": "music"}
    await tool(arguments, context_over(store, messages=()))
    [event] = await store.events(ALICE, EventQuery(run_id="run-1"))
    assert event.after is not None
    assert event.after.observed_at == NOW
    assert event.after.when_to_use == "music"


async def test_what_is_known_already_is_answered_with_its_id(store: LocalStore) -> None:
    items = [
        {"memory_content": "emma lives in BERLIN"},
        {"memory_content": "Emma sings."},
        {"memory_content": "emma sings"},
    ]
    answer = await AddMemoryOp()({"memories": items}, context_over(store))
    lines = answer.splitlines()
    assert lines[0].startswith("known already")
    assert "emma-1" in lines[0]
    assert lines[1].startswith("added")
    assert lines[2].startswith("known already")
    assert await current(context_over(store), EMMA) == ["Emma lives in Berlin.", "Emma sings."]


async def test_memories_are_written_with_vectors_and_the_cost_is_noted(store: LocalStore) -> None:
    embedder = HashedEmbedder(16)
    context = context_over(store, embedder=embedder)
    await AddMemoryOp()({"memories": [{"memory_content": "Emma sings."}, {"memory_content": "Emma runs."}]}, context)
    assert embedder.calls == [("Emma sings.", "Emma runs.")]
    assert context.trace.usage.embedding_calls == 1
    [vector] = await embedder.embed(["Emma sings."])
    [best] = await store.search(ALICE, MemorySearch(vector=vector, limit=1))
    assert best.score == pytest.approx(1.0, abs=1e-5)


async def test_a_memory_written_while_the_embedder_fails_waits_for_its_vector(store: LocalStore) -> None:
    embedder = HashedEmbedder(16, failures=[ModelUnavailableError("away")])
    context = context_over(store, embedder=embedder)
    await AddMemoryOp()({"memories": [{"memory_content": "Emma sings."}]}, context)
    assert [item.text for item in await store.pending_texts(ALICE, 10)] == ["Emma sings."]
    assert list(context.trace.degraded) == ["embedding: away; words alone were compared"]


@pytest.mark.parametrize(
    "fields",
    [{"memory_type": None}, {"memory_target": None}, {"targets": frozenset({NOAH})}],
)
async def test_adding_needs_a_context_that_says_about_whom(store: LocalStore, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await AddMemoryOp()({"memories": [{"memory_content": "x"}]}, context_over(store, **fields))


@pytest.mark.parametrize("content", ["", "  \n", "a\0b", None, 5, "x" * (1 << 19)])
async def test_what_is_no_statement_is_refused(store: LocalStore, content: object) -> None:
    before = await snapshot(store, ALICE)
    items = [{"memory_content": "fine"}, {"memory_content": content}]
    with pytest.raises(InvalidInputError, match="memory_content"):
        await AddMemoryOp()({"memories": items}, context_over(store))
    assert await snapshot(store, ALICE) == before


async def test_metadata_that_no_file_keeps_is_refused(store: LocalStore) -> None:
    deep: dict[str, object] = {}
    for _ in range(40):
        deep = {"a": deep}
    for metadata in (deep, {"a": float("nan")}, {"a": "\ud800"}, [1], "text"):
        arguments = {"memories": [{"memory_content": "x", "metadata": metadata}]}
        with pytest.raises(InvalidInputError, match="metadata"):
            await AddMemoryOp()(arguments, context_over(store))


async def test_an_update_keeps_the_id_and_adds_the_sources_of_the_run(store: LocalStore) -> None:
    later = Source(block_id="block-2", message_ids=("message-9",))
    context = context_over(store, sources=(SOURCE, later))
    item = {"memory_id": "emma-1", "memory_content": "Emma lives in Lisbon."}
    answer = await UpdateMemoryOp()({"memories": [item]}, context)
    assert answer.startswith("updated")
    [memory] = await store.get(ALICE, ["emma-1"])
    assert (memory.content, memory.sources, memory.author) == ("Emma lives in Lisbon.", (SOURCE, later), "tester")
    assert (memory.revision, memory.updated_at) == (2, NOW)


async def test_metadata_that_an_update_leaves_out_stays(store: LocalStore) -> None:
    await put(store, held("emma-2", "Emma sings.", metadata={"a": 1}))
    single, context = UpdateMemoryOp(enable_multiple=False), context_over(store)
    await single({"memory_id": "emma-2", "memory_content": "Emma hums."}, context)
    assert (await store.get(ALICE, ["emma-2"]))[0].metadata == {"a": 1}
    await single({"memory_id": "emma-2", "memory_content": "Emma hums.", "metadata": {"b": 2}}, context)
    assert (await store.get(ALICE, ["emma-2"]))[0].metadata == {"a": 1, "b": 2}


async def test_an_update_that_would_repeat_a_memory_names_that_one(store: LocalStore) -> None:
    await put(store, held("emma-2", "Emma sings."))
    before = await snapshot(store, ALICE)
    tool = UpdateMemoryOp()
    arguments = tool.arguments.model_validate(
        {"memories": [{"memory_id": "emma-2", "memory_content": "Emma lives in berlin"}]}
    )
    for context in (context_over(store), context_over(DraftStore(store))):
        with pytest.raises(Exception, match="emma-1") as caught:
            await tool.run(arguments, context)
        assert type(caught.value).__name__ == "ToolFeedback"
    assert await snapshot(store, ALICE) == before


async def test_one_memory_is_not_updated_twice_in_a_call(store: LocalStore) -> None:
    items = [{"memory_id": "emma-1", "memory_content": text} for text in ("a", "b")]
    with pytest.raises(InvalidInputError, match="stands twice"):
        await UpdateMemoryOp()({"memories": items}, context_over(store))


async def test_deleted_memories_are_gone_and_named(store: LocalStore) -> None:
    answer = await DeleteMemoryOp()({"memory_ids": ["emma-1", "emma-1"]}, context_over(store))
    assert answer.count("deleted") == 1
    assert await current(context_over(store), EMMA, NOAH) == ["Noah plays the cello."]
    [theirs] = await store.get(BOB, ["emma-1"])
    assert theirs.content == "Emma lives in Berlin. zqxsecret"


@pytest.mark.parametrize("memory_id", ["noah-1", "meta-1", "replaced-1", "nothing", "block-1"])
async def test_only_current_memories_of_the_target_can_be_touched(store: LocalStore, memory_id: str) -> None:
    await put(
        store,
        held("meta-1", "personal memories about Emma", Target(META, "personal/Emma")),
        held("replaced-1", "Emma lived in Rome.", superseded_by="emma-1"),
    )
    before = await snapshot(store, ALICE)
    for wide in ({}, {"memory_type": None, "memory_target": None, "targets": frozenset({EMMA})}):
        context = context_over(store, **wide)
        items = [{"memory_id": name, "memory_content": "taken over"} for name in ("emma-1", memory_id)]
        with pytest.raises(MemoryNotFoundError):
            await UpdateMemoryOp()({"memories": items}, context)
        with pytest.raises(MemoryNotFoundError):
            await DeleteMemoryOp()({"memory_ids": ["emma-1", memory_id]}, context)
        with pytest.raises(MemoryNotFoundError):
            await DeleteMemoryOp(enable_multiple=False)({"memory_id": memory_id}, context)
    assert await snapshot(store, ALICE) == before


async def test_a_summary_is_about_self_unless_the_context_names_somebody(store: LocalStore) -> None:
    general = context_over(store, memory_type=None, memory_target=None, sources=())
    answer = await AddSummaryMemoryOp()({"summary_memory": "Emma said what she drinks.", "metadata": {"a": 1}}, general)
    assert answer.startswith("added")
    assert await current(general, Target(SUMMARY, "self")) == ["Emma said what she drinks."]
    await AddSummaryMemoryOp(add_metadata=False)({"summary_memory": "Tea."}, context_over(store))
    assert await current(general, Target(SUMMARY, "Emma")) == ["Tea."]
    assert AddSummaryMemoryOp.__mro__[1] is AddMemoryOp


async def test_what_was_said_earlier_does_not_set_the_time_of_a_memory_back(store: LocalStore) -> None:
    early = MESSAGES[0].model_copy(update={"created_at": NOW - timedelta(days=900)})
    item = {"memory_id": "emma-1", "memory_content": "Emma lives in Mainz."}
    await UpdateMemoryOp()({"memories": [item]}, context_over(store, messages=(early,)))
    [memory] = await store.get(ALICE, ["emma-1"])
    assert memory.observed_at == NOW


async def test_a_statement_comes_from_the_messages_that_it_shares_most_words_with(store: LocalStore) -> None:
    messages = (
        said("Emma bought a red boat.", message_id="m1", minute=1),
        said("It rains.", message_id="m2", minute=2),
        said("The boat of Emma is red and fast.", message_id="m3", minute=3),
    )
    sources = (Source(block_id="a", message_ids=("m1", "m2")), Source(block_id="b", message_ids=("m3",)))
    context = context_over(store, messages=messages, sources=sources)
    await AddMemoryOp(enable_multiple=False)({"memory_content": "Emma bought a boat."}, context)
    await AddMemoryOp(enable_multiple=False)({"memory_content": "Ein Satz ohne gemeinsame W\u00f6rter."}, context)
    await AddSummaryMemoryOp()({"summary_memory": "Emma bought a boat."}, context)
    closest, foreign, summary = [event.after for event in await store.events(ALICE, EventQuery(run_id="run-1"))]
    assert closest is not None
    assert foreign is not None
    assert summary is not None
    assert closest.sources == (Source(block_id="a", message_ids=("m1",)), Source(block_id="b", message_ids=("m3",)))
    assert closest.observed_at == messages[0].created_at
    assert foreign.sources == summary.sources == sources
    assert foreign.observed_at == summary.observed_at == messages[2].created_at


@pytest.mark.parametrize("keep_past", [False, True])
async def test_what_is_replaced_by_something_else_said_later_is_closed_where_the_past_is_kept(
    store: LocalStore, keep_past: bool
) -> None:
    await put(store, held("emma-9", "Emma works in Rome.", EMMA, observed_at=EARLY, valid_from=EARLY))
    item = {"memory_id": "emma-9", "memory_content": "Emma works in Oslo."}
    await UpdateMemoryOp(keep_past=keep_past)({"memories": [item]}, context_over(store))
    [old] = await store.get(ALICE, ["emma-9"])
    if not keep_past:
        assert (old.content, old.is_current, old.revision) == ("Emma works in Oslo.", True, 2)
        return
    assert (old.content, old.is_current) == ("Emma works in Rome.", False)
    [new] = await store.get(ALICE, [str(old.superseded_by)])
    assert (new.content, new.valid_from, new.sources) == ("Emma works in Oslo.", old.valid_to, (SOURCE,))


@pytest.mark.parametrize("keep_past", [False, True])
async def test_a_text_that_rests_on_nothing_said_is_no_more_trusted_than_the_one_before(
    store: LocalStore, keep_past: bool
) -> None:
    old = held("emma-9", "Emma works in Rome.", EMMA, observed_at=EARLY, valid_from=EARLY, trust=TrustClass.WEB)
    await put(store, old)
    item = {"memory_id": "emma-9", "memory_content": "Emma works in Oslo."}
    context = context_over(store, sources=(), messages=())
    await UpdateMemoryOp(keep_past=keep_past)({"memories": [item]}, context)
    page = await store.list_memories(ALICE, ListMemories())
    assert {item.trust for item in page.memories if item.content == "Emma works in Oslo."} == {TrustClass.WEB}


async def test_what_was_said_before_the_memory_it_replaces_becomes_its_past(store: LocalStore) -> None:
    before, later = EARLY - timedelta(days=9), NOW - timedelta(minutes=9)
    await put(
        store,
        held(
            "emma-8",
            "Emma works in Rome.",
            observed_at=before,
            valid_from=before,
            valid_to=later,
            superseded_by="emma-9",
        ),
        held("emma-9", "Emma works in Oslo.", observed_at=later, valid_from=later),
    )
    item = {"memory_id": "emma-9", "memory_content": "Emma works in Bern."}
    await UpdateMemoryOp(keep_past=True)({"memories": [item]}, context_over(store))
    rome, oslo = await store.get(ALICE, ["emma-8", "emma-9"])
    [bern] = await store.get(ALICE, [str(rome.superseded_by)])
    assert (oslo.content, oslo.is_current, oslo.revision) == ("Emma works in Oslo.", True, 1)
    assert (bern.content, bern.valid_to, bern.superseded_by) == ("Emma works in Bern.", later, "emma-9")
    assert rome.valid_to == bern.valid_from == MESSAGES[-1].created_at
    answer = await UpdateMemoryOp(keep_past=True)({"memories": [item]}, context_over(store, run_id="run-2"))
    assert "nothing changed" in answer
    assert await store.events(ALICE, EventQuery(run_id="run-2")) == []


async def test_what_is_put_right_in_the_same_breath_keeps_its_id_where_the_past_is_kept(store: LocalStore) -> None:
    context = context_over(store)
    await AddMemoryOp()({"memories": [{"memory_content": "Emma drinks tea."}]}, context)
    [event] = await store.events(ALICE, EventQuery(run_id="run-1"))
    item = {"memory_id": event.memory_id, "memory_content": "Emma drinks green tea now."}
    await UpdateMemoryOp(keep_past=True)({"memories": [item]}, context)
    item = {"memory_id": event.memory_id, "memory_content": "Emma loves tea."}
    await UpdateMemoryOp(keep_past=True)({"memories": [item]}, context)
    [memory] = await store.get(ALICE, [event.memory_id])
    assert (memory.content, memory.is_current) == ("Emma loves tea.", True)


async def test_what_is_only_completed_keeps_its_id_where_the_past_is_kept(store: LocalStore) -> None:
    await put(store, held("emma-9", "Emma works in Rome.", EMMA, observed_at=EARLY, valid_from=EARLY))
    item = {"memory_id": "emma-9", "memory_content": "Emma works in Rome as a baker."}
    await UpdateMemoryOp(keep_past=True)({"memories": [item]}, context_over(store))
    [memory] = await store.get(ALICE, ["emma-9"])
    assert (memory.content, memory.is_current) == ("Emma works in Rome as a baker.", True)


async def test_the_same_text_under_another_memory_is_feedback_where_the_past_is_kept(store: LocalStore) -> None:
    await put(
        store,
        held("emma-8", "Emma works in Oslo.", EMMA, observed_at=EARLY, valid_from=EARLY),
        held("emma-9", "Emma works in Rome.", EMMA, observed_at=EARLY, valid_from=EARLY),
    )
    item = {"memory_id": "emma-9", "memory_content": "Emma works in Oslo."}
    with pytest.raises(ConflictError):
        await UpdateMemoryOp(keep_past=True)({"memories": [item]}, context_over(store))
    assert all(memory.is_current for memory in await store.get(ALICE, ["emma-8", "emma-9"]))


def day(year: int, month: int = 1, day: int = 1) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


SATURDAY = day(2023, 3, 4) + timedelta(hours=18.5)


@pytest.mark.parametrize(
    ("times", "begins", "ends", "shown"),
    [
        ({}, MESSAGES[0].created_at, None, ""),
        ({"valid_from": "2023"}, day(2023), None, "since 2023"),
        (
            {"valid_from": "2023-03", "valid_to": "2023-05-07"},
            day(2023, 3),
            day(2023, 5, 8),
            "March 2023 to 7 May 2023",
        ),
        ({"valid_from": "2023-03-04 Sat"}, day(2023, 3, 4), None, "since 4 March 2023"),
        ({"valid_from": "2023-03-04 Sat 18:30"}, SATURDAY, None, "since 4 March 2023 18:30"),
        ({"valid_from": "2023-03-04T20:30:00+02:00"}, SATURDAY, None, "since 4 March 2023 18:30"),
        ({"valid_from": 2023, "valid_to": "present"}, day(2023), None, "since 2023"),
        ({"valid_from": None, "valid_to": "null"}, MESSAGES[0].created_at, None, ""),
        ({"valid_to": "2019"}, day(2019), day(2020), "2019"),
        ({"valid_from": "2023-03-04", "valid_to": "2023"}, day(2023, 3, 4), day(2024), "4 March 2023 to 2023"),
        ({"valid_from": "2023-03-04", "valid_to": "2023-03-04"}, day(2023, 3, 4), day(2023, 3, 5), "4 March 2023"),
        ({"valid_to": "2051-02"}, MESSAGES[0].created_at, day(2051, 3), "until February 2051"),
    ],
)
@pytest.mark.parametrize("multiple", [True, False])
async def test_an_added_memory_has_the_times_that_were_stated(
    store: LocalStore, multiple: bool, times: dict[str, Any], begins: datetime, ends: datetime | None, shown: str
) -> None:
    item = {"memory_content": "Emma drinks tea.", **times}
    await AddMemoryOp(enable_multiple=multiple)({"memories": [item]} if multiple else item, context_over(store))
    [event] = await store.events(ALICE, EventQuery(run_id="run-1"))
    assert event.after is not None
    assert (event.after.valid_from, event.after.valid_to) == (begins, ends)
    assert shown_validity(event.after) == shown
    assert event.after.observed_at == MESSAGES[0].created_at


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"valid_from": "someday"}, "is no time: write 2023, 2023-01, 2023-01-05"),
        ({"valid_from": "2023-13"}, "is no time"),
        ({"valid_from": "2023-02-30"}, "is no time"),
        ({"valid_to": "99999-01-01"}, "is no time"),
        ({"valid_to": ["2023"]}, "valid_to"),
        ({"valid_from": "2023", "valid_to": "2022"}, "lies after the end"),
    ],
)
async def test_times_that_are_none_are_asked_for_again_and_nothing_is_written(
    store: LocalStore, times: dict[str, Any], said: str
) -> None:
    before = await snapshot(store, ALICE)
    added = {"memory_content": "Emma sings.", **times}
    changed = {"memory_id": "emma-1", "memory_content": "Emma lives in Berlin, in the north.", **times}
    for tool, item in ((AddMemoryOp(), added), (UpdateMemoryOp(), changed), (UpdateMemoryOp(keep_past=True), changed)):
        with pytest.raises(InvalidInputError, match=said):
            await tool({"memories": [item]}, context_over(store))
    assert await snapshot(store, ALICE) == before


@pytest.mark.parametrize("keep_past", [False, True])
async def test_an_update_keeps_the_times_of_a_memory_or_sets_them(store: LocalStore, keep_past: bool) -> None:
    await put(store, held("emma-9", "Emma works in Rome.", observed_at=EARLY, valid_from=day(2020)))
    tool = UpdateMemoryOp(keep_past=keep_past)
    item: dict[str, Any] = {"memory_id": "emma-9", "memory_content": "Emma works in Rome as a baker."}
    await tool({"memories": [item]}, context_over(store))
    [memory] = await store.get(ALICE, ["emma-9"])
    assert (memory.valid_from, memory.valid_to) == (day(2020), None)
    await tool({"memories": [{**item, "valid_from": "2019-05", "valid_to": "2051"}]}, context_over(store))
    [memory] = await store.get(ALICE, ["emma-9"])
    assert (memory.valid_from, memory.valid_to) == (day(2019, 5), day(2052))
    assert shown_validity(memory) == "May 2019 to 2051"
    await tool({"memories": [{**item, "valid_to": "2018"}]}, context_over(store))  # over before it is said to begin
    [memory] = await store.get(ALICE, ["emma-9"])
    assert shown_validity(memory) == "2018"


async def test_the_model_says_whether_things_have_changed_or_are_told_better(store: LocalStore) -> None:
    await put(
        store,
        held("emma-8", "Emma went to a choir.", observed_at=EARLY, valid_from=EARLY),
        held("emma-9", "Emma works in Rome.", observed_at=EARLY, valid_from=EARLY),
    )
    better = {"memory_id": "emma-8", "memory_content": "Emma sang with a choir in Rome.", "changed": False}
    changed = {
        "memory_id": "emma-9",
        "memory_content": "Emma works in Rome no longer, she is in Oslo now.",
        "changed": True,
        "valid_from": "2026-01-10",
    }
    await UpdateMemoryOp(keep_past=True)({"memories": [better, changed]}, context_over(store))
    choir, rome = await store.get(ALICE, ["emma-8", "emma-9"])
    assert (choir.content, choir.valid_from, choir.superseded_by) == ("Emma sang with a choir in Rome.", EARLY, None)
    assert (rome.content, rome.valid_to) == ("Emma works in Rome.", day(2026, 1, 10))
    [oslo] = await store.get(ALICE, [str(rome.superseded_by)])
    assert (oslo.content, oslo.valid_from) == (changed["memory_content"], day(2026, 1, 10))


async def test_where_the_past_is_not_kept_nobody_is_asked_whether_things_have_changed(store: LocalStore) -> None:
    item = {"memory_id": "emma-1", "memory_content": "Emma lives in Oslo.", "changed": True}
    with pytest.raises(InvalidInputError, match="changed"):
        await UpdateMemoryOp()({"memories": [item]}, context_over(store))


OVEN = Target(MemoryType.TOOL, "oven")
GUIDELINE = held("oven-1", "Core function: bakes.", OVEN, metadata={"kind": "guideline", "calls": 3})


@pytest.mark.parametrize("metadata", [{"kind": "guideline", "calls": 9000}, {"kind": "x"}, {"calls": 1, "by": "me"}])
@pytest.mark.parametrize("multiple", [True, False])
async def test_a_model_can_not_write_the_guideline_of_a_tool(
    store: LocalStore, multiple: bool, metadata: dict[str, Any]
) -> None:
    await put(store, held("oven-2", "A note.", OVEN))
    context = context_over(store, memory_type=OVEN.memory_type, memory_target=OVEN.memory_target)
    before = await snapshot(store, ALICE)
    said = {"memory_content": "Success rate: 100 % in 9000 calls.", "metadata": metadata}
    changed = {"memory_id": "oven-2", **said}
    for tool, item in (
        (AddMemoryOp(enable_multiple=multiple), said),
        (UpdateMemoryOp(enable_multiple=multiple), changed),
        (UpdateMemoryOp(enable_multiple=multiple, keep_past=True), changed),
    ):
        with pytest.raises(InvalidInputError, match="reserved for guidelines"):
            await tool({"memories": [item]} if multiple else item, context)
    assert await snapshot(store, ALICE) == before


@pytest.mark.parametrize("keep_past", [True, False])
async def test_the_guideline_of_a_tool_is_not_updated_by_a_model_but_gets_notes(
    store: LocalStore, keep_past: bool
) -> None:
    await put(store, GUIDELINE)
    context = context_over(store, memory_type=OVEN.memory_type, memory_target=OVEN.memory_target)
    with pytest.raises(InvalidInputError, match="add a note with add_memory"):
        await UpdateMemoryOp(keep_past=keep_past)(
            {"memories": [{"memory_id": "oven-1", "memory_content": "Success rate: 100 %."}]}, context
        )
    await AddMemoryOp()({"memories": [{"memory_content": "It is slow.", "metadata": {"by": "me"}}]}, context)
    assert await current(context, OVEN) == ["Core function: bakes.", "It is slow."]


async def test_the_keys_of_guidelines_are_free_in_memories_of_other_types(store: LocalStore) -> None:
    item = {"memory_content": "Emma calls twice a day.", "metadata": {"kind": "habit", "calls": 2}}
    await AddMemoryOp()({"memories": [item]}, context_over(store))
    await AddSummaryMemoryOp()(
        {"summary_memory": "Emma called.", "metadata": {"kind": "talk"}},
        context_over(store, memory_type=OVEN.memory_type, memory_target=OVEN.memory_target),
    )
    assert "Emma calls twice a day." in await current(context_over(store), EMMA)
