"""One bad fact costs one fact: what of an answer can be read is kept, the rest is asked for once, and then reported."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reme_core.errors import ModelOutputError
from reme_core.models import OpenAIChat
from reme_core.schema import Memory, Source
from reme_core.steps.distillation import Distilled
from reme_core.testing import ScriptedChatModel
from tests.support.openai_server import KEY, Completion, OpenAIServer
from tests.support.temporary_store import TemporaryStore
from tests.unit.remember.distilling import (
    SAID,
    SCOPE,
    all_of,
    contents,
    decision,
    decisions,
    distiller,
    fact,
    facts,
    known,
    say,
    store_of,
    task_of,
)

ONE = fact("Alice skis in Norway")
GOOD = facts(ONE)
EMPTY = {
    "an empty text": "",
    "an empty object": "{}",
    "a cut-off object": GOOD[:-20],
    "single quotes": str({"facts": [ONE]}),
}
"""Answers without content: these four are asked for again as a whole."""

TAKEN: dict[str, Any] = {
    "a bare list": json.dumps([ONE]),
    "a bare fact": json.dumps(ONE),
    "a list of another name": json.dumps({"memories": [ONE]}),
    "one fact in place of the list": json.dumps({"facts": ONE}),
    "a trailing comma": GOOD[:-2] + ",],}",
    "a fence with prose around it": f"Here are the facts:\n```json\n{GOOD}\n```\nAnything else?",
    "thoughts before it": f"<think>Is it [1]?</think>\n{GOOD}",
    "extra keys": json.dumps({"facts": [{**ONE, "id": 7, "user_id": "bob"}], "note": "done"}),
    "message numbers as texts": facts({**ONE, "messages": ["1"]}),
    "one message number": facts({**ONE, "messages": 1}),
    "no message number": facts({name: value for name, value in ONE.items() if name != "messages"}),
    "one message number that there is not": facts(fact(ONE["content"], 1, 7)),
    "message numbers that there are not": facts(fact(ONE["content"], 7)),
    "an end that is present": facts({**ONE, "valid_to": "present"}),
    "a month in words": facts({**ONE, "valid_from": "May 2022"}),
    "a month": facts({**ONE, "valid_from": "2022-05"}),
    "a year": facts({**ONE, "valid_from": "2022"}),
    "null dates": facts({**ONE, "valid_from": None, "valid_to": None}),
    "empty dates": facts({**ONE, "valid_from": "", "valid_to": ""}),
    "an end before the beginning": facts({**ONE, "valid_from": "2023-05", "valid_to": "2022"}),
    "an empty target": facts({**ONE, "target": ""}),
    "a type with a capital": facts({**ONE, "type": "Personal"}),
    "an unknown type beside a good one": facts(ONE, fact("Alice prefers tea", type="preference")),
    "a text beside a good one": json.dumps({"facts": [ONE, "Alice prefers tea"]}),
}
"""The other twenty-four, which are taken wholly or in part."""

TALK = say("I ski in Norway, every winter", "And what about tea?")


async def distilled_of(*steps: Any, store: Any = None) -> tuple[Distilled, list[Memory], ScriptedChatModel]:
    store = store or TemporaryStore()
    with ScriptedChatModel(steps) as model:
        distilled = await distiller(store, model).distil(SCOPE, task_of(TALK))
    await store.put(SCOPE, distilled.batch)
    return distilled, await all_of(store, current=False), model


def test_there_are_twenty_eight_variants() -> None:
    assert (len(EMPTY), len(TAKEN)) == (4, 24)


@pytest.mark.parametrize("answer", EMPTY.values(), ids=EMPTY)
async def test_an_answer_without_content_is_asked_for_again_and_then_an_error(answer: str) -> None:
    bad = answer or ModelOutputError("the model said nothing", raw="")
    distilled, memories, _ = await distilled_of(bad, GOOD)
    assert (contents(memories), distilled.rejected_facts) == ([ONE["content"]], ())
    with pytest.raises(ModelOutputError):
        await distilled_of(bad, bad)


@pytest.mark.parametrize("name", TAKEN)
async def test_what_can_be_read_is_kept_in_one_call_or_asked_for_once(name: str) -> None:
    in_part = "beside a good one" in name
    distilled, memories, model = await distilled_of(TAKEN[name], *([facts()] if in_part else []))
    [memory] = memories
    assert (memory.content, memory.memory_target) == (ONE["content"], "Alice")
    assert memory.sources == (Source(block_id="b1", message_ids=("m1",)),)
    since = datetime(2022, 5, 1, tzinfo=UTC) if "month" in name else datetime(2022, 1, 1, tzinfo=UTC)
    assert memory.valid_from == (since if name in {"a month in words", "a month", "a year"} else memory.valid_from)
    assert memory.is_current or name == "an end before the beginning"
    assert len(distilled.rejected_facts) == in_part
    assert len(model.requests) == 1 + in_part


async def test_what_cannot_be_read_is_asked_for_by_number_and_takes_its_place() -> None:
    first = facts(ONE, fact("Alice prefers tea", 2, type="preference"), fact("Alice reads", valid_from="last winter"))
    again = json.dumps(
        {
            "facts": [
                {"fact": 3, **fact("Alice reads in winter", valid_from="2022-12")},
                {"fact": 2, **fact("Alice prefers tea", 2)},
                {"fact": 1, **fact("Alice is somebody else")},
            ]
        }
    )
    distilled, memories, model = await distilled_of(first, again)
    assert contents(memories) == ["Alice prefers tea", "Alice reads in winter", ONE["content"]]
    assert distilled.rejected_facts == ()
    *_, answered, told = model.requests[1].messages
    assert "Alice prefers tea" in answered.text
    assert "fact 2: type: 'preference' is none of personal, procedural, tool, identity" in told.text
    assert "fact 3: valid_from: not a time: 'last winter'" in told.text
    assert "fact 1" not in told.text
    schema = model.requests[1].response_schema
    assert schema is not None
    assert "fact" in json.dumps(dict(schema.schema))


async def test_items_that_come_back_without_numbers_are_those_asked_for_in_order() -> None:
    first = facts(fact("Alice prefers tea", type="preference"), ONE, fact("Alice reads", type="hobby"))
    distilled, memories, _ = await distilled_of(first, facts(fact("Alice prefers tea"), fact("Alice reads")))
    assert contents(memories) == ["Alice prefers tea", "Alice reads", ONE["content"]]
    assert distilled.rejected_facts == ()


@pytest.mark.parametrize("again", ["I can't.", facts(), facts(fact("Alice prefers tea", type="preference")), '{"a":'])
async def test_what_is_unreadable_twice_is_reported_with_its_reason_and_costs_no_other_fact(again: str) -> None:
    distilled, memories, model = await distilled_of(facts(ONE, fact("Alice prefers tea", type="preference")), again)
    assert contents(memories) == [ONE["content"]]
    [left_out] = distilled.rejected_facts
    assert left_out.content == "Alice prefers tea"
    assert left_out.reason == "type: 'preference' is none of personal, procedural, tool, identity"
    assert len(model.requests) == 2


@pytest.mark.parametrize("name", ["valid_from", "valid_to"])
@pytest.mark.parametrize("date", ["someday", "2023-06-31", "99999-01-01", "0000-01-01", "9998", "9998-12-31", [2023]])
async def test_a_date_that_is_none_twice_costs_the_date_and_not_the_fact(name: str, date: Any) -> None:
    answer = facts({**ONE, name: date})
    distilled, [memory], _ = await distilled_of(answer, answer)
    assert (memory.content, memory.valid_from, memory.valid_to) == (ONE["content"], memory.observed_at, None)
    assert distilled.rejected_facts == ()


async def test_of_a_second_answer_the_readable_part_is_taken_and_the_rest_reported_without_a_third() -> None:
    distilled, memories, _ = await distilled_of("no", facts(ONE, fact("Alice prefers tea", type="preference")))
    assert contents(memories) == [ONE["content"]]
    assert [item.content for item in distilled.rejected_facts] == ["Alice prefers tea"]


async def test_a_fact_without_a_message_is_linked_to_those_that_share_its_words_or_to_all() -> None:
    talk = say("hello", "I ski in Norway", "it rains")
    given = facts({**fact("Alice skis in Norway"), "messages": None}, {**fact("Alice likes jazz"), "messages": [0]})
    store = TemporaryStore()
    with ScriptedChatModel([given]) as model:
        distilled = await distiller(store, model).distil(SCOPE, task_of(talk))
    linked = [put.memory.sources[0].message_ids for put in distilled.batch.puts]
    assert linked == [("m2",), ("m1", "m2", "m3")]


async def test_a_fact_without_a_target_is_about_who_said_it_or_the_user() -> None:
    for name, target in (("Zoë", "Zoë"), (None, "self")):
        with ScriptedChatModel([facts(fact("skis", target=" \n"))]) as model:
            distilled = await distiller(TemporaryStore(), model).distil(SCOPE, task_of(say("I ski", name=name)))
        assert [put.memory.memory_target for put in distilled.batch.puts] == [target]


async def test_of_an_end_before_the_beginning_the_end_is_kept() -> None:
    _, [memory], _ = await distilled_of(TAKEN["an end before the beginning"])
    assert memory.valid_to == datetime(2023, 1, 1, tzinfo=UTC)  # the end of 2022
    assert memory.valid_from <= memory.valid_to < SAID


KNOWN = ("Alice likes jazz", "Alice likes tea")


async def two_known() -> Any:
    """A store in which tea is the newer memory, which is shown as number 1."""
    return await store_of(
        *(known(text, at=SAID - timedelta(days=place)) for place, text in zip((2, 1), KNOWN, strict=True))
    )


THREE = facts(fact("Alice skis"), fact("Alice sings"), fact("Alice reads"))
DECIDED_IN_PART: dict[str, Any] = {
    "not decided": [],
    "decided twice": [decision(2, "add"), decision(2, "skip")],
    "an action that is none": [decision(2, "merge", 1)],
    "a memory that there is not": [decision(2, "delete", 99)],
    "a change without a memory": [decision(2, "supersede")],
    "an update of two memories": [decision(2, "update", 1, 2)],
    "a memory that another fact changes": [decision(2, "delete", 1)],
    "a content of a million characters": [decision(2, "update", 2, content="x" * 1_000_000)],
}


@pytest.mark.parametrize("bad", DECIDED_IN_PART.values(), ids=DECIDED_IN_PART)
async def test_a_fact_that_is_not_decided_is_asked_about_once_and_costs_no_other(bad: list[Any]) -> None:
    first = decisions(decision(1, "update", 1, content="Alice likes tea and skis"), *bad, decision(3, "add"))
    kept = ["Alice likes jazz", "Alice likes tea and skis", "Alice reads"]
    store = await two_known()
    distilled, memories, model = await distilled_of(THREE, first, decisions(decision(2, "add")), store=store)
    assert contents(memories) == sorted([*kept, "Alice sings"])
    assert distilled.rejected_facts == ()
    assert "fact 2: " in model.requests[2].messages[-1].text
    distilled, memories, _ = await distilled_of(THREE, first, "no", store=await two_known())
    assert contents(memories) == kept
    [left_out] = distilled.rejected_facts
    assert left_out.content == "Alice sings"
    assert left_out.reason.startswith("what becomes of it was not told: ")


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps([decision(1, "add"), decision(2, "skip"), decision(3, "add")]),
        json.dumps({"decisions": [{"fact": "1", "action": "ADD", "memory": None}, decision(2, "skip")]})[:-2]
        + ', {"fact": 3, "action": "add"},]}',
        decisions(decision(3, "add"), decision(9, "delete", 1), decision(2, "skip"), decision(1, "add")),
    ],
    ids=["a bare list", "other forms", "one of a fact that there is not"],
)
async def test_decisions_in_other_forms_are_taken_in_one_call(answer: str) -> None:
    store = await store_of(*map(known, KNOWN))
    _, memories, model = await distilled_of(THREE, answer, store=store)
    assert contents(memories) == sorted([*KNOWN, "Alice reads", "Alice skis"])
    assert len(model.requests) == 2


async def test_extraction_is_asked_for_at_temperature_zero_with_room_for_the_facts_of_its_input() -> None:
    limits = []
    for count in (2, 40):
        with ScriptedChatModel([facts()]) as model:
            await distiller(TemporaryStore(), model).distil(SCOPE, task_of(say(*["I ski in Norway"] * count)))
        [request] = model.requests
        assert request.temperature == 0.0
        limits.append(request.max_tokens or 0)
    assert 1000 < limits[0] < limits[1] <= 8192


async def test_an_answer_cut_off_by_its_limit_gets_more_room_the_second_time() -> None:
    with OpenAIServer() as server:
        server.replies(Completion(text="<think>hm", finish_reason="length"), Completion(text=GOOD))
        async with OpenAIChat("any", base_url=server.base_url, api_key=KEY) as model:
            await distiller(TemporaryStore(), model).distil(SCOPE, task_of(TALK))
        first, second = (body["max_tokens"] for body in server.bodies)
        assert second == 4 * first


async def test_schemas_are_such_that_strict_endpoints_take_them() -> None:
    store = await store_of(*map(known, KNOWN))
    with OpenAIServer() as server:
        server.replies(
            Completion(text=facts(ONE, fact("x", type="preference"))),
            Completion(text=facts()),
            Completion(text=decisions(decision(1, "add"))),
        )
        async with OpenAIChat("any", base_url=server.base_url, api_key=KEY) as model:
            await distiller(store, model).distil(SCOPE, task_of(TALK))
        assert [body["response_format"]["json_schema"]["strict"] for body in server.bodies] == [True] * 3
        assert [body["temperature"] for body in server.bodies] == [0.0] * 3
