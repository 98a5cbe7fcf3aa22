"""The simple strategy: what becomes of facts that are new, known, better told, replaced or taken back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reme_core.errors import ModelOutputError
from reme_core.ports import ChatRequest, ListMemories, MemoryFilter, MemorySearch, Target
from reme_core.schema import Memory, MemoryPage, MemoryType, Scope, Source, shown_validity
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from reme_core.text import estimate_tokens
from tests.support.temporary_store import TemporaryStore
from tests.unit.remember.distilling import (
    NOW,
    OTHER,
    SAID,
    SCOPE,
    all_of,
    choose,
    contents,
    decision,
    decisions,
    distiller,
    fact,
    facts,
    known,
    say,
    shown,
    store_of,
    task_of,
)

EMBEDDERS = pytest.mark.parametrize("embedder", [None, HashedEmbedder()], ids=["words", "vectors"])


async def run(
    store: Any, task: Any, *steps: Any, scope: Scope = SCOPE, **options: Any
) -> tuple[Any, ScriptedChatModel]:
    with ScriptedChatModel(steps) as model:
        distilled = await distiller(store, model, **options).distil(scope, task)
    await store.put(scope, distilled.batch)
    return distilled, model


async def test_a_new_fact_is_written_after_one_call_with_its_messages_and_times() -> None:
    store = TemporaryStore()
    task = task_of(say("I moved", "Nice", "To Lisbon, in 2022"), block_size=2)
    distilled, _ = await run(store, task, facts(fact("Alice lives in Lisbon", 3, 1, valid_from="2022-03")))
    [memory] = await all_of(store)
    assert (memory.content, memory.memory_type, memory.memory_target) == ("Alice lives in Lisbon", "personal", "Alice")
    assert memory.sources == (
        Source(block_id="b1", message_ids=("m1",)),
        Source(block_id="b2", message_ids=("m3",)),
    )
    assert memory.observed_at == SAID + timedelta(minutes=2)
    assert memory.valid_from == datetime(2022, 3, 1, tzinfo=UTC)
    assert (memory.created_at, memory.author, memory.metadata) == (NOW, "simple", {})
    assert task.meter.usage.model_calls == 1
    assert (distilled.batch.run_id, distilled.batch.reason, distilled.batch.actor) == ("run", "summary", "simple")


async def test_a_fact_without_a_date_holds_since_it_was_said() -> None:
    store = TemporaryStore()
    await run(store, task_of(say("I like tea")), facts(fact("Alice likes tea", valid_from="unknown", valid_to=None)))
    [memory] = await all_of(store)
    assert memory.valid_from == memory.observed_at == SAID


async def test_no_facts_is_a_fine_answer() -> None:
    distilled, _ = await run(TemporaryStore(), task_of(say("hello")), facts())
    assert (distilled.batch.puts, distilled.batch.deletes) == ([], [])


async def test_a_task_without_messages_calls_no_model() -> None:
    distilled, _ = await run(TemporaryStore(), task_of([]))
    assert not distilled.batch.puts


@EMBEDDERS
async def test_what_is_known_word_by_word_is_left_alone_without_a_second_call(embedder: HashedEmbedder | None) -> None:
    store = await store_of(known("Alice likes green tea."), embedder=embedder)
    task = task_of(say("I like green tea"))
    distilled, _ = await run(store, task, facts(fact("ALICE likes  green tea", target=" alice ")), embedder=embedder)
    assert not distilled.batch.puts
    assert task.meter.usage.model_calls == 1


async def test_a_fact_written_twice_is_one_with_the_messages_of_both() -> None:
    store = TemporaryStore()
    task = task_of(say("I like tea", "tea is what I like"), block_size=1)
    await run(store, task, facts(fact("Alice likes tea", 1), fact("alice likes tea.", 2, target="ALICE")))
    [memory] = await all_of(store)
    assert [source.message_ids for source in memory.sources] == [("m1",), ("m2",)]
    assert memory.observed_at == SAID + timedelta(minutes=1)


async def test_the_spelling_of_a_known_target_is_kept_and_shown() -> None:
    store = await store_of(known("Alice likes tea"))
    given = choose()
    _, model = await run(store, task_of(say("I ski")), facts(fact("Alice skis", target="aLICE ")), given)
    assert {memory.memory_target for memory in await all_of(store)} == {"Alice"}
    assert shown(model.requests[0], "request")[0]["targets"] == {"personal": ["Alice"]}


async def test_a_target_of_the_routing_table_is_known_before_it_has_memories() -> None:
    meta = known("personal memories about Zoë", memory_type=MemoryType.META, memory_target="personal/Zoë")
    store = await store_of(meta)
    _, model = await run(store, task_of(say("Zoë skis")), facts(fact("Zoë skis", target="ZOË")))
    assert shown(model.requests[0], "request")[0]["targets"] == {"personal": ["Zoë"]}
    found = await store.search(SCOPE, MemorySearch(text="skis", filter=MemoryFilter(targets=("Zoë",))))
    assert len(found) == 1


@EMBEDDERS
@pytest.mark.parametrize(
    ("before", "after", "target"),
    [("Alice lives in Berlin", "Alice moved to Lisbon", "Alice"), ("小王住在柏林", "小王搬到了里斯本", "小王")],
    ids=["en", "zh"],
)
async def test_moving_closes_the_former_home_with_an_interval(
    before: str, after: str, target: str, embedder: HashedEmbedder | None
) -> None:
    old = known(before, memory_target=target)
    other = known("x loves jazz", memory_target=target)
    store = await store_of(old, other, embedder=embedder)
    words = (after[-2:], "supersede", before[-2:])
    said = facts(fact(after, target=target))
    await run(store, task_of(say(after, name=target)), said, choose(words), embedder=embedder)
    assert contents(await all_of(store)) == sorted([after, "x loves jazz"])
    [past] = await store.get(SCOPE, [old.memory_id])
    [new] = [memory for memory in await all_of(store) if memory.content == after]
    assert (past.valid_to, past.superseded_by) == (new.valid_from, new.memory_id)
    assert new.valid_from == SAID
    then = await store.search(
        SCOPE,
        MemorySearch(text=before, filter=MemoryFilter(as_of=SAID - timedelta(days=1))),
    )
    assert before in [item.memory.content for item in then]


async def test_each_fact_is_held_against_its_own_type_and_target_only() -> None:
    store = await store_of(
        known("Bob likes tea", memory_target="Bob"),
        known("Alice likes jazz"),
        known("Alice likes tea", memory_type=MemoryType.TOOL),
        known("Alice likes tea very much", scope=OTHER),
    )
    _, model = await run(store, task_of(say("tea")), facts(fact("Alice likes black tea")), choose())
    assert [line["text"] for line in shown(model.requests[1], "memories")] == ["Alice likes jazz"]


async def test_a_memory_is_shown_once_and_each_fact_names_its_own() -> None:
    store = await store_of(known("Alice likes jazz"), known("Bob likes jazz", memory_target="Bob"))
    said = facts(
        fact("Alice skis"), fact("Alice sings"), fact("Bob skis", target="Bob"), fact("Eve skis", target="Eve")
    )
    _, model = await run(store, task_of(say("we")), said, choose())
    lines = shown(model.requests[1], "memories")
    texts = {line["n"]: line["text"] for line in lines}
    assert sorted(texts.values()) == ["Alice likes jazz", "Bob likes jazz"]
    own = [[texts[n] for n in line["candidates"]] for line in shown(model.requests[1], "facts")]
    assert own == [["Alice likes jazz"], ["Alice likes jazz"], ["Bob likes jazz"]]
    assert len(await all_of(store)) == 6


@EMBEDDERS
async def test_of_a_target_with_many_memories_the_nearest_are_shown(embedder: HashedEmbedder | None) -> None:
    many = [known(f"Alice collects stamps of country{number}") for number in range(30)]
    store = await store_of(*many, known("Alice lives in Berlin near the river"), embedder=embedder)
    said = facts(fact("Alice lives in Lisbon near the sea"))
    _, model = await run(store, task_of(say("I moved")), said, choose(), embedder=embedder)
    texts = [line["text"] for line in shown(model.requests[1], "memories")]
    assert "Alice lives in Berlin near the river" in texts
    assert len(texts) <= 5


async def test_what_is_near_nothing_of_many_is_written_without_a_second_call() -> None:
    store = await store_of(*(known(f"Alice collects stamps of country{number}") for number in range(30)))
    await run(store, task_of(say("x")), facts(fact("Alice swims on Fridays")))
    assert len(await all_of(store)) == 31


@pytest.mark.parametrize(("day", "other"), [("(8 May 2023)", "(8 May 2023)"), ("（2023年5月8日）", "（2023年5月9日）")])
async def test_a_date_that_is_shared_makes_no_neighbours(day: str, other: str) -> None:
    store = await store_of(*(known(f"Alice collected a stamp of country{number} {day}") for number in range(30)))
    await run(store, task_of(say("x")), facts(fact(f"Alice swam {other}")))
    assert len(await all_of(store)) == 31


async def test_one_word_that_is_shared_among_others_makes_no_neighbours() -> None:
    store = await store_of(*(known(f"Alice paints a lake with colour{number} at night") for number in range(30)))
    await run(store, task_of(say("x")), facts(fact("Alice bought blue colours to paint with Bob's children")))
    assert len(await all_of(store)) == 31


async def test_prompts_show_the_nearest_of_each_fact_first_and_only_so_many_memories() -> None:
    things = [f"quilt{number} of wool" for number in range(40)]
    store = await store_of(*(known(f"Alice sews {thing} for the winter fair in Oslo") for thing in things))
    said = facts(*(fact(f"Alice sold {thing} at the winter fair in Oslo") for thing in things[:12]))
    _, model = await run(store, task_of(say("x")), said, choose())
    texts = {line["n"]: line["text"] for line in shown(model.requests[1], "memories")}
    assert sum(map(estimate_tokens, texts.values())) <= 350
    assert len(set(texts.values())) == len(texts) >= 12
    for line in shown(model.requests[1], "facts"):
        assert line["candidates"]
        assert line["text"].split()[2] in texts[line["candidates"][0]]


async def test_an_update_keeps_id_and_first_time_and_joins_the_sources() -> None:
    old = known("Alice has a dog", sources=(Source(block_id="b0", message_ids=("m0",)),))
    store = await store_of(old, embedder=HashedEmbedder())
    said = facts(fact("Alice's dog is called Rex", valid_from="2021"))
    better = decisions(decision(1, "update", 1, content="Alice has a dog called Rex"))
    embedder = HashedEmbedder()
    await run(store, task_of(say("Rex!")), said, better, embedder=embedder)
    [memory] = await all_of(store)
    assert (memory.memory_id, memory.content) == (old.memory_id, "Alice has a dog called Rex")
    assert [source.block_id for source in memory.sources] == ["b0", "b1"]
    assert (memory.observed_at, memory.revision) == (old.observed_at, 2)
    assert memory.valid_from == datetime(2021, 1, 1, tzinfo=UTC)
    [vector] = await embedder.embed(["Alice has a dog called Rex"])
    [found] = await store.search(SCOPE, MemorySearch(vector=vector))
    assert found.score == pytest.approx(1.0)


async def test_an_update_without_a_text_takes_that_of_the_fact() -> None:
    store = await store_of(known("Alice has a dog"))
    await run(store, task_of(say("Rex")), facts(fact("Alice has a dog, Rex")), decisions(decision(1, "update", 1)))
    assert contents(await all_of(store)) == ["Alice has a dog, Rex"]


async def test_an_update_that_would_repeat_another_memory_is_left_out() -> None:
    store = await store_of(known("Alice has a dog"), known("Alice has a dog named Rex"))

    def answer(request: ChatRequest) -> str:
        [dog] = [line["n"] for line in shown(request, "memories") if line["text"] == "Alice has a dog"]
        return decisions(decision(1, "update", dog, content="ALICE has a dog named Rex!"))

    distilled, _ = await run(store, task_of(say("Rex")), facts(fact("Alice's dog is Rex")), answer)
    assert not distilled.batch.puts


async def test_two_updates_to_one_text_make_one() -> None:
    store = await store_of(known("Alice has a dog"), known("Alice has a pet"))
    said = facts(fact("Alice's dog is Rex"), fact("Alice's pet is Rex"))
    both = decisions(
        decision(1, "update", 1, content="Alice owns Rex"), decision(2, "update", 2, content="Alice owns Rex")
    )
    await run(store, task_of(say("Rex")), said, both)
    assert "Alice owns Rex" in contents(await all_of(store))
    assert len(await all_of(store)) == 2


async def test_a_memory_of_which_the_model_saw_a_part_keeps_its_text() -> None:
    long = "To deploy: " + "check the list, " * 50
    store = await store_of(known(long, memory_type=MemoryType.PROCEDURAL, memory_target="deploying"))
    said = facts(fact("Deploy on Mondays", type="procedural", target="deploying"))
    _, model = await run(store, task_of(say("x")), said, decisions(decision(1, "update", 1, content="Deploy")))
    assert contents(await all_of(store)) == sorted([long, "Deploy on Mondays"])
    [line] = shown(model.requests[1], "memories")
    assert len(line["text"]) < 350


async def test_what_is_taken_back_is_removed() -> None:
    store = await store_of(known("Alice's address is Main Street 1"), known("Alice likes tea"))
    said = facts(fact("Alice asks to forget her address"))
    await run(store, task_of(say("Forget my address")), said, choose(("forget", "delete", "address is")))
    assert contents(await all_of(store, current=False)) == ["Alice likes tea"]


async def test_skipping_writes_nothing() -> None:
    store = await store_of(known("Alice likes tea"))
    distilled, _ = await run(store, task_of(say("x")), facts(fact("Alice enjoys tea")), choose(("tea", "skip", "")))
    assert not distilled.batch.puts


async def test_what_was_and_what_is_are_both_written_and_found() -> None:
    store = TemporaryStore()
    said = facts(fact("Alice lived in Berlin", 1, valid_to="2023-05-08"), fact("Alice lives in Lisbon", 2))
    await run(store, task_of(say("I lived in Berlin", "now in Lisbon")), said)
    assert contents(await all_of(store)) == ["Alice lived in Berlin", "Alice lives in Lisbon"]
    [berlin] = [memory for memory in await all_of(store) if "Berlin" in memory.content]
    assert (berlin.valid_to, berlin.valid_to_precision) == (datetime(2023, 5, 9, tzinfo=UTC), "day")


async def test_times_keep_the_precision_they_were_said_in() -> None:
    store = TemporaryStore()
    said = facts(
        fact("Alice studied in Rome", valid_from="2015", valid_to="2019-07"),
        fact("Alice ran a marathon", valid_from="2023-04-02", valid_to="2023-04-02"),
        fact("Alice will open her studio", valid_from="2023-6", valid_to=None),
        fact("Alice worked at Acme", valid_to="2014"),
        fact("Alice skis"),
    )
    await run(store, task_of(say("x")), said)
    assert {memory.content: shown_validity(memory) for memory in await all_of(store)} == {
        "Alice studied in Rome": "2015 to July 2019",
        "Alice ran a marathon": "2 April 2023",
        "Alice will open her studio": "since June 2023",
        "Alice worked at Acme": "2014",
        "Alice skis": "",
    }


async def test_two_events_told_in_the_same_words_are_two_memories_that_say_their_times() -> None:
    store = TemporaryStore()
    holiday = "Alice was on holiday"
    said = facts(
        fact(holiday, 1, valid_from="2021-07", valid_to="2021-07"),
        fact(holiday, 1, valid_from="2022-08", valid_to="2022-08"),
    )
    await run(store, task_of(say("x")), said)
    third = facts(fact(holiday, 1, valid_from="2023-05-01", valid_to="2023-05-03"))
    await run(store, task_of(say("x")), third, choose(), embedder=HashedEmbedder())
    wanted = [holiday, f"{holiday} (1 May 2023 to 3 May 2023)", f"{holiday} (August 2022)"]
    assert contents(await all_of(store)) == wanted
    await run(store, task_of(say("x")), said, choose())
    await run(store, task_of(say("x")), third, choose())
    assert contents(await all_of(store, current=False)) == wanted


async def test_what_holds_again_stands_beside_what_was_over() -> None:
    over = known("Alice works at Acme", valid_from=SAID - timedelta(days=900), valid_to=SAID - timedelta(days=500))
    store = await store_of(over)
    said = facts(fact("Alice works at Acme", valid_from="2023-05-02"))
    _, model = await run(store, task_of(say("x")), said, choose())
    assert shown(model.requests[1], "memories")[0]["until"] == "24 December 2021"
    assert contents(await all_of(store)) == ["Alice works at Acme", "Alice works at Acme (since 2 May 2023)"]


async def test_a_past_that_is_known_as_past_is_not_written_again() -> None:
    store = await store_of(known("Alice lived in Berlin", valid_to=SAID - timedelta(days=50)))
    said = facts(fact("Alice lived in Berlin.", valid_to="2023-03"))
    distilled, _ = await run(store, task_of(say("x")), said)
    assert not distilled.batch.puts
    again = facts(fact("Alice used to live in Berlin", valid_to="2023-03"))
    distilled, model = await run(store, task_of(say("x")), again, choose(("Berlin", "skip", "Berlin")))
    assert shown(model.requests[1], "memories")[0]["until"] == "19 March 2023"
    assert not distilled.batch.puts


async def test_what_was_replaced_is_told_again_as_past_and_found() -> None:
    old = known("Alice lives in Berlin", valid_to=SAID - timedelta(days=50), superseded_by="lisbon")
    store = await store_of(old, known("Alice lives in Lisbon", memory_id="lisbon"))
    said = facts(fact("Alice lives in Berlin", valid_to="2023-03"))
    _, model = await run(store, task_of(say("x")), said, choose())
    assert [line["text"] for line in shown(model.requests[1], "memories")] == ["Alice lives in Lisbon"]
    assert contents(await all_of(store)) == ["Alice lives in Berlin", "Alice lives in Lisbon"]


async def test_a_memory_said_again_as_over_is_ended() -> None:
    old = known("Alice works at Acme")
    store = await store_of(old)
    task = task_of(say("x"))
    await run(store, task, facts(fact("Alice works at Acme", valid_to="2023-05-01")))
    [memory] = await all_of(store, current=False)
    assert (memory.valid_to, memory.is_current) == (datetime(2023, 5, 2, tzinfo=UTC), True)
    assert memory.memory_id == old.memory_id
    assert task.meter.usage.model_calls == 1


async def test_an_end_that_lies_ahead_is_kept() -> None:
    store = TemporaryStore()
    said = facts(fact("Alice is on leave", valid_to="2023-07"))
    await run(store, task_of(say("x")), said, now=SAID)
    [memory] = await all_of(store)
    assert (memory.valid_from, memory.valid_to, memory.is_current) == (SAID, datetime(2023, 8, 1, tzinfo=UTC), True)


async def test_a_plan_is_replaced_by_another_one_and_by_its_being_called_off() -> None:
    plan = known("The opening is on 20 June", valid_from="2023-06-20", valid_to="2023-06-20")
    for text, since in (("The opening is on 27 June", "2023-06-27"), ("There will be no opening", "")):
        store = await store_of(plan)
        said = facts(fact(text, valid_from=since, valid_to=since))
        await run(store, task_of(say("x")), said, choose(("opening", "supersede", "20 June")), now=SAID)
        [new] = await all_of(store)
        [old] = await store.get(SCOPE, [plan.memory_id])
        assert (new.content, old.superseded_by) == (text, new.memory_id)
        then = MemorySearch(text="opening", filter=MemoryFilter(as_of=datetime(2023, 6, 20, 12, tzinfo=UTC)))
        found = [item.memory.content for item in await store.search(SCOPE, then)]
        assert "The opening is on 20 June" not in found or since


async def test_an_event_that_is_over_is_not_replaced_by_what_comes_after() -> None:
    trip = known("Alice took a trip to Rome", valid_from="2023-04-10", valid_to="2023-04-14")
    store = await store_of(trip)
    said = facts(fact("Alice is back at work"))
    await run(store, task_of(say("x")), said, choose(("work", "supersede", "Rome")))
    assert contents(await all_of(store)) == ["Alice is back at work", "Alice took a trip to Rome"]
    assert await store.get(SCOPE, [trip.memory_id]) == [trip]


async def test_prompts_show_the_times_that_the_texts_do_not_name() -> None:
    second_of_may = datetime(2021, 5, 2, tzinfo=UTC)
    store = await store_of(
        known("Alice bought a boat (2 May 2021)", valid_from=second_of_may, valid_from_precision="day"),
        known("Alice painted her boat (12 May 2021)", valid_from=second_of_may, valid_from_precision="day"),
        known("Alice's boat leaks"),
    )
    said = facts(
        fact("Alice sold her boat (7 May 2023)", valid_from="2023-05-07"),
        fact("Alice's new boat is due", valid_to="2023-06"),
    )
    _, model = await run(store, task_of(say("x")), said, choose())
    memories, told = (shown(model.requests[1], name) for name in ("memories", "facts"))
    assert {line["text"]: line.get("since") for line in memories} == {
        "Alice bought a boat (2 May 2021)": None,
        "Alice painted her boat (12 May 2021)": "2 May 2021",
        "Alice's boat leaks": None,
    }
    assert [(line.get("since"), line.get("until")) for line in told] == [(None, None), (None, "June 2023")]


async def test_a_longer_session_is_compared_with_more() -> None:
    things = [f"quilt{number} of wool" for number in range(14)]
    said = facts(*(fact(f"Alice sold {thing} at the winter fair in Oslo") for thing in things))
    compared = []
    for messages in (20, 40):
        store = await store_of(*(known(f"Alice sews {thing} for the winter fair in Oslo") for thing in things))
        _, model = await run(store, task_of(say(*["x" * 150] * messages)), said, choose())
        compared.append(len(shown(model.requests[1], "facts")))
    assert 3 < compared[0] < compared[1] / 1.5


async def test_a_change_that_lies_ahead_closes_nothing_yet() -> None:
    store = await store_of(known("Alice lives in Berlin"))
    said = facts(fact("Alice will live in Lisbon from July 2023", valid_from="2023-07-08"))
    await run(store, task_of(say("x")), said, choose(("Lisbon", "supersede", "Berlin")), now=SAID)
    assert len(await all_of(store)) == 2


async def test_a_memory_is_never_closed_before_it_began() -> None:
    old = known("Alice lives in Berlin")
    store = await store_of(old)
    said = facts(fact("Alice has lived in Lisbon since 2020", valid_from="2020"))
    await run(store, task_of(say("x")), said, choose(("Lisbon", "supersede", "Berlin")))
    [past] = await store.get(SCOPE, [old.memory_id])
    assert past.valid_to == past.valid_from


async def test_an_older_conversation_that_comes_later_replaces_nothing() -> None:
    newer = known("Alice lives in Lisbon", at=SAID + timedelta(days=30))
    store = await store_of(newer)
    said = facts(fact("Alice lives in Berlin"))
    await run(store, task_of(say("x")), said, choose(("Berlin", "supersede", "Lisbon")))
    assert contents(await all_of(store)) == ["Alice lives in Lisbon"]
    [past] = [memory for memory in await all_of(store, current=False) if not memory.is_current]
    assert (past.content, past.superseded_by) == ("Alice lives in Berlin", newer.memory_id)
    assert past.valid_to == newer.valid_from


async def test_only_the_targets_of_the_task_are_taken() -> None:
    store = TemporaryStore()
    task = task_of(say("x"), targets=(Target(MemoryType.PERSONAL, "Alice"),))
    said = facts(fact("Alice skis", target="ALICE"), fact("Bob skis", target="Bob"))
    _, model = await run(store, task, said)
    assert contents(await all_of(store)) == ["Alice skis"]
    assert shown(model.requests[0], "request") == [{"types": ["personal"], "targets": {"personal": ["Alice"]}}]


async def test_a_task_of_one_type_asks_for_that_type_alone() -> None:
    store = TemporaryStore()
    task = task_of(say("x"), memory_type=MemoryType.TOOL)
    said = facts(fact("grep is fast", type="tool", target="grep", when_to_use="searching files"))
    _, model = await run(store, task, said)
    assert shown(model.requests[0], "request")[0]["types"] == ["tool"]
    [memory] = await all_of(store)
    assert memory.when_to_use == "searching files"


async def test_what_the_assistant_is_lies_under_self() -> None:
    store = TemporaryStore()
    await run(store, task_of(say("You are Remy")), facts(fact("The assistant is Remy", type="identity", target="Remy")))
    [memory] = await all_of(store)
    assert (memory.memory_type, memory.memory_target) == (MemoryType.IDENTITY, "self")


async def test_facts_are_embedded_in_one_batch_that_also_serves_writing() -> None:
    embedder = HashedEmbedder()
    store = await store_of(known("Alice likes tea"))
    said = facts(fact("Alice skis"), fact("Alice sings"))
    task = task_of(say("x"))
    distilled, _ = await run(store, task, said, choose(), embedder=embedder)
    assert embedder.calls == [("Alice skis", "Alice sings")]
    assert task.meter.usage.embedding_calls == 1
    assert all(put.vector is not None for put in distilled.batch.puts)


async def test_a_chinese_conversation_gets_chinese_prompts_unless_a_language_is_set() -> None:
    _, model = await run(TemporaryStore(), task_of(say("我喜欢喝茶")), facts())
    assert "绝不执行" in model.requests[0].messages[0].text
    _, model = await run(TemporaryStore(), task_of(say("我喜欢喝茶")), facts(), language="en")
    assert "never follow" in model.requests[0].messages[0].text


async def test_running_it_twice_changes_nothing() -> None:
    store = TemporaryStore()
    said = facts(fact("Alice skis"), fact("Alice lived in Rome", valid_to="2020"))
    await run(store, task_of(say("x")), said)
    distilled, _ = await run(store, task_of(say("x")), said)
    assert not distilled.batch.puts


FINE = '{"ok": true, "problems": []}'
WRONG = '{"ok": false, "problems": ["that Alice sings is </problems> missing"]}'


async def test_a_reviser_that_finds_nothing_costs_one_call() -> None:
    store = await store_of(known("Alice likes tea"))
    said = facts(fact("Alice skis"), fact("Alice likes tea"))
    task = task_of(say("x"))
    _, model = await run(store, task, said, choose(), FINE, use_reviser=True)
    assert task.meter.usage.model_calls == 3
    shown_to_it = model.requests[2].messages[-1].text
    assert "Alice likes tea" in shown_to_it.split("<after>")[1]
    assert "Alice skis" in shown_to_it.split("<after>")[1]


async def test_what_a_reviser_finds_is_put_right_in_a_second_attempt() -> None:
    store = await store_of(known("Alice likes tea"))
    second = facts(fact("Alice skis"), fact("Alice sings"))
    steps = (facts(fact("Alice skis")), choose(), WRONG, second, choose())
    _, model = await run(store, task_of(say("x")), *steps, use_reviser=True)
    assert contents(await all_of(store)) == ["Alice likes tea", "Alice sings", "Alice skis"]
    for request in model.requests[3:]:
        assert shown(request, "problems") == [{"problem": "that Alice sings is </problems> missing"}]


async def test_nothing_found_is_reviewed_as_well() -> None:
    store = TemporaryStore()
    await run(store, task_of(say("I sing")), facts(), WRONG, facts(fact("Alice sings")), use_reviser=True)
    assert contents(await all_of(store)) == ["Alice sings"]


async def test_a_target_that_is_known_in_two_spellings_is_the_one_with_more_memories() -> None:
    store = await store_of(
        known("one", memory_target="alice"), known("two", memory_target="Alice"), known("three", memory_target="Alice")
    )
    await run(store, task_of(say("x")), facts(fact("Alice skis", target="ALICE")), choose())
    [new] = [memory for memory in await all_of(store) if memory.content == "Alice skis"]
    assert new.memory_target == "Alice"


async def test_names_that_are_no_names_are_not_shown() -> None:
    store = await store_of(known("x", memory_target="a" * 300))
    _, model = await run(store, task_of(say("x")), facts())
    assert shown(model.requests[0], "request") == [{}]


async def test_replacing_several_memories_closes_them_all() -> None:
    first, second = known("Alice lives in Berlin"), known("Alice's home is Berlin")
    store = await store_of(first, second)
    await run(store, task_of(say("x")), facts(fact("Alice lives in Lisbon")), choose(("Lisbon", "supersede", "Berlin")))
    [new] = await all_of(store)
    closed = await store.get(SCOPE, [first.memory_id, second.memory_id])
    assert {memory.superseded_by for memory in closed} == {new.memory_id}


def intervals(memories: list[Memory]) -> set[tuple[str, str, str]]:
    return {
        (item.content, f"{item.valid_from:%m-%d}", f"{item.valid_to:%m-%d}" if item.valid_to else "")
        for item in memories
    }


def on(month: int, day: int = 1) -> datetime:
    return datetime(2023, month, day, tzinfo=UTC)


async def test_what_is_told_late_ends_what_held_then_and_ends_where_the_next_begins() -> None:
    store = TemporaryStore()
    steps = {"Berlin": on(1), "Lisbon": on(6), "Rome": on(3)}
    for city, said in steps.items():
        given = [choose(("", "supersede", ""))] if city != "Berlin" else []
        await run(store, task_of(say("x", at=said)), facts(fact(f"Alice lives in {city}")), *given)
    held = await all_of(store, current=False)
    names = {item.memory_id: item.content for item in held}
    assert intervals(held) == {
        ("Alice lives in Berlin", "01-01", "03-01"),
        ("Alice lives in Rome", "03-01", "06-01"),
        ("Alice lives in Lisbon", "06-01", ""),
    }
    [berlin] = [item for item in held if "Berlin" in item.content]
    assert names[str(berlin.superseded_by)] == "Alice lives in Rome"


async def test_several_late_facts_of_one_conversation_share_the_past() -> None:
    berlin = known("Alice lives in Berlin", at=on(1), valid_to=on(6), superseded_by="lisbon")
    flat = known("Alice rents a flat", at=on(2), valid_to=on(6), superseded_by="lisbon")
    lisbon = known("Alice lives in Lisbon", at=on(6), memory_id="lisbon")
    house = known("Alice owns a house", at=on(7))
    store = await store_of(berlin, flat, lisbon, house)
    said = facts(fact("Alice lives in Rome", 1), fact("Alice lives on a boat", 2, valid_from="2023-04"))
    given = choose(("Rome", "supersede", "Lisbon"), ("boat", "supersede", "house"))
    await run(store, task_of(say("x", "y", at=on(3))), said, given)
    assert intervals(await all_of(store, current=False)) == {
        ("Alice lives in Berlin", "01-01", "03-01"),
        ("Alice rents a flat", "02-01", "03-01"),
        ("Alice lives in Rome", "03-01", "06-01"),
        ("Alice lives in Lisbon", "06-01", ""),
        ("Alice lives on a boat", "04-01", "07-01"),
        ("Alice owns a house", "07-01", ""),
    }


async def test_a_past_that_comes_late_and_is_known_is_not_written_again() -> None:
    berlin = known("Alice lives in Berlin", at=on(1), valid_to=on(6), superseded_by="lisbon")
    store = await store_of(berlin, known("Alice lives in Lisbon", at=on(6), memory_id="lisbon"))
    given = choose(("Berlin", "supersede", "Lisbon"))
    distilled, _ = await run(store, task_of(say("x", at=on(3))), facts(fact("Alice lives in Berlin")), given)
    assert not distilled.batch.puts


async def test_a_fact_with_an_end_leaves_what_was_replaced_to_its_chain() -> None:
    berlin = known("Alice lived in Berlin", at=on(1), valid_to=on(6), superseded_by="lisbon")
    store = await store_of(berlin, known("Alice lives in Lisbon", at=on(6), memory_id="lisbon"))
    said = facts(fact("Alice lives in Rome", 1), fact("Alice lived in East Berlin", 1, valid_to="2023-02"))
    given = choose(("Rome", "supersede", "Lisbon"))
    distilled, _ = await run(store, task_of(say("x", at=on(3))), said, given)
    assert len({put.memory.memory_id for put in distilled.batch.puts}) == len(distilled.batch.puts) == 3
    assert intervals(await all_of(store, current=False)) == {
        ("Alice lived in Berlin", "01-01", "03-01"),
        ("Alice lived in East Berlin", "02-01", "03-01"),
        ("Alice lives in Rome", "03-01", "06-01"),
        ("Alice lives in Lisbon", "06-01", ""),
    }
    assert contents(await all_of(store)) == ["Alice lived in East Berlin", "Alice lives in Lisbon"]


async def test_what_begins_only_later_ends_nothing_that_is_told_late() -> None:
    store = await store_of(known("Alice will live in Lisbon", at=SAID, valid_from=SAID + timedelta(days=60)))
    said = facts(fact("Alice lives in Berlin"))
    given = choose(("Berlin", "supersede", "Lisbon"))
    await run(store, task_of(say("x", at=SAID - timedelta(days=5))), said, given, now=SAID)
    assert contents(await all_of(store)) == ["Alice lives in Berlin", "Alice will live in Lisbon"]


class CountingStore(TemporaryStore):
    """Counts what it is asked for."""

    asked = 0

    async def list_memories(self, scope: Scope, query: ListMemories) -> MemoryPage:
        self.asked += 1
        return await super().list_memories(scope, query)


async def test_many_facts_about_one_target_do_not_read_it_once_for_each() -> None:
    async def asked(facts_told: int) -> int:
        store = CountingStore()
        await store_of(*(known(f"Alice collects stamps of country{number}") for number in range(30)), into=store)
        store.asked = 0
        told = [fact(f"Alice collects stamps of country{number}") for number in range(facts_told)]
        distilled, _ = await run(store, task_of(say("x")), facts(*told))
        assert not distilled.batch.puts
        return store.asked

    assert await asked(24) == await asked(10)


async def test_calls_that_were_paid_for_are_counted_though_their_answers_cannot_be_used() -> None:
    task = task_of(say("x"))
    with ScriptedChatModel(['{"facts": "none"}', "no JSON"]) as model, pytest.raises(ModelOutputError):
        await distiller(TemporaryStore(), model).distil(SCOPE, task)
    assert task.meter.usage.model_calls == 2
    assert task.meter.usage.prompt_tokens > 0


@EMBEDDERS
async def test_what_was_counted_as_it_went_on_is_what_it_cost(embedder: HashedEmbedder | None) -> None:
    store, task = await store_of(known("Alice likes tea"), embedder=embedder), task_of(say("x"))
    steps = ("no JSON", facts(fact("Alice skis")), choose(), FINE)
    await run(store, task, *steps, embedder=embedder, use_reviser=True)
    assert task.meter.usage.model_calls == 4
    assert task.meter.usage.embedding_calls == (0 if embedder is None else 1)


async def test_what_replaces_a_memory_that_was_over_before_it_began_stands_beside_it() -> None:
    old = known("Alice lived in Rome", valid_to=SAID - timedelta(days=50))
    for since, stays in (("2023-04", True), ("2023-02", False)):
        store = await store_of(old)
        said = facts(fact("Alice lived in Bari", valid_from=since, valid_to="2023-04"))
        await run(store, task_of(say("x")), said, choose(("Bari", "supersede", "Rome")))
        assert len(await all_of(store, current=False)) == 2
        assert (await store.get(SCOPE, [old.memory_id]) == [old]) == stays


async def test_an_update_by_what_has_ended_ends_the_memory() -> None:
    old = known("Alice works at Acme")
    store = await store_of(old)
    said = facts(fact("Alice worked at Acme until May 2020", valid_to="2020-05"))
    await run(store, task_of(say("x")), said, choose(("Acme", "update", "Acme")))
    [memory] = await all_of(store, current=False)
    assert memory.content == "Alice worked at Acme until May 2020"
    assert (memory.valid_from, memory.valid_to) == (datetime(2020, 5, 1, tzinfo=UTC), datetime(2020, 6, 1, tzinfo=UTC))


async def test_an_update_that_says_nothing_new_writes_nothing() -> None:
    store = await store_of(known("Alice likes tea"))
    said = facts(fact("Alice enjoys tea"))
    same = decisions(decision(1, "update", 1, content="Alice likes tea."))
    distilled, _ = await run(store, task_of(say("x")), said, same)
    assert not distilled.batch.puts
