"""Records in a summary: what a model sets of instances of the application's classes, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from reme_core import MemorySchema, ReMe, SimpleSummarizer
from reme_core.errors import ConfigurationError, ModelOutputError, PartialFailureError
from reme_core.ports import ChatRequest
from reme_core.remember.fact_extraction import KnownTargets, extraction_question
from reme_core.remember.written_records import ShownRecords, with_records
from reme_core.steps.records import read_schemas
from reme_core.testing import HashedEmbedder, ScriptedChatModel
from tests.unit.remember.distilling import SCOPE, distiller, say, store_of, task_of

U: dict[str, Any] = {"user_id": "u"}
SAID = [
    {"role": "user", "content": "I am Ann, I moved to Bergen.", "message_id": "m1", "created_at": "2024-05-01"},
    {"role": "user", "content": "I bought a red kayak for 300.", "message_id": "m2", "created_at": "2024-05-02"},
]


class Mood(StrEnum):
    CALM = "calm"
    BUSY = "busy"


class Address(BaseModel):
    city: str
    zip_code: str | None = None


class Profile(BaseModel):
    """Who the user is."""

    name: str = ""
    address: Address | None = None
    born: date | None = None
    mood: Mood = Mood.CALM
    hobbies: list[str] = Field(default_factory=list, description="what the user does for fun")


class Purchase(BaseModel):
    item: str
    price: Decimal = Field(gt=0)
    on: date | None = None


SCHEMAS = [Profile, MemorySchema(Purchase, many=True, instructions="Only what was paid for.")]
PROFILE_ID = "record:Profile"


def setting(schema: str, n: int | None = None, messages: tuple[int, ...] = (1,), **fields: Any) -> dict[str, Any]:
    pairs = [{"field": name, "value": value} for name, value in fields.items()]
    return {"schema": schema, "n": n, "set": pairs, "messages": list(messages)}


def answer(*records: Any, facts: Any = ()) -> str:
    return json.dumps({"summary": "", "facts": list(facts), "records": list(records)})


def open_memory(folder: Path, *steps: Any, schemas: Any = SCHEMAS, **options: Any) -> ReMe:
    return ReMe("space", folder, llm=ScriptedChatModel(steps), embedding=HashedEmbedder(32), schemas=schemas, **options)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., ReMe]:
    return lambda *steps, **options: open_memory(tmp_path, *steps, **options)


async def profile(memory: ReMe, **whose: Any) -> Profile | None:
    return next((record.value for record in await memory.records(Profile, **(whose or U))), None)


def requests_of(memory: ReMe) -> list[ChatRequest]:
    assert isinstance(memory.llm, ScriptedChatModel)
    return memory.llm.requests


async def test_one_call_fills_facts_and_records_with_their_sources(opened: Any) -> None:
    fact = {"type": "personal", "target": "self", "content": "Ann bought a kayak", "messages": [2]}
    told = answer(
        setting(
            "Profile", name="Ann", address='{"city": "Bergen"}', born="1990-02-03", mood="busy", hobbies='["kayaks"]'
        ),
        setting("Purchase", messages=(2,), item="red kayak", price="300", on="2024-05-02"),
        facts=[fact],
    )
    async with opened(told) as memory:
        result = await memory.summary(SAID, **U)
        [kept], [bought] = await memory.records(Profile, **U), await memory.records(Purchase, **U)
        home = Address(city="Bergen")
        assert kept.value == Profile(
            name="Ann", address=home, born=date(1990, 2, 3), mood=Mood.BUSY, hobbies=["kayaks"]
        )
        assert bought.value == Purchase(item="red kayak", price=Decimal(300), on=date(2024, 5, 2))
        assert (kept.memory_id, kept.revision) == (PROFILE_ID, 1)
        assert [source.message_ids for source in (*kept.sources, *bought.sources)] == [("m1",), ("m2",)]
        assert {str(memory.memory_type) for memory in result.memories} == {"personal", "record"}
        assert result.rejected == ()
        assert len(requests_of(memory)) == 1
        assert (await memory.stats(**U)).waiting_for_vectors == 0
        await memory.undo(str(result.run_id), **U)
        assert await memory.records(Profile, **U) == []


async def test_a_later_talk_changes_only_the_fields_that_it_tells(opened: Any) -> None:
    first = answer(setting("Profile", name="Ann", hobbies='["kayaks"]'), setting("Purchase", item="kayak", price="300"))
    second = answer(setting("Profile", 1, name="Anna"), setting("Purchase", 2, price="250"))
    async with opened(first, second) as memory:
        await memory.summary(SAID[:1], **U)
        result = await memory.summary(SAID[1:], **U)
        shown = requests_of(memory)[1].messages[1].text
        assert '{"n":1,"schema":"Profile","fields":{"name":"Ann"' in shown
        assert await profile(memory) == Profile(name="Anna", hobbies=["kayaks"])
        [bought] = await memory.records(Purchase, **U)
        assert (bought.value.price, bought.revision) == (250, 2)
        assert [name for source in bought.sources for name in source.message_ids] == ["m1", "m2"]
        events = await memory.history(PROFILE_ID, **U)
        assert [event.operation for event in events] == ["add", "update"]
        await memory.undo(str(result.run_id), **U)
        assert await profile(memory) == Profile(name="Ann", hobbies=["kayaks"])


async def test_without_schemas_the_request_is_that_for_facts_to_the_byte(tmp_path: Path) -> None:
    task = task_of(say("I moved to Bergen."))
    plain, filled = ScriptedChatModel([answer()]), ScriptedChatModel([answer()])
    store = await store_of()
    await distiller(store, plain).distil(SCOPE, task)
    await distiller(store, filled, schemas=read_schemas(SCHEMAS)).distil(SCOPE, task)
    wanted = extraction_question(task, KnownTargets({}), "en", ()).request()
    [one], [other] = plain.requests, filled.requests
    assert [message.text for message in one.messages] == [message.text for message in wanted.messages]
    assert replace(one, messages=()) == replace(wanted, messages=())
    assert other.messages[0].text.startswith(one.messages[0].text + "\n\n")
    assert other.messages[1].text == one.messages[1].text


def test_the_form_of_the_answer_is_closed_in_every_part_as_strict_endpoints_want_it() -> None:
    shown = ShownRecords(schemas=read_schemas(SCHEMAS), records=(), messages=1)
    question = with_records(extraction_question(task_of(say("x")), KnownTargets({}), "zh", ()), shown, "zh")
    assert question.mending is not None
    for form in (question.schema, question.mending.schema):
        waiting: list[Any] = [form.schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                if part.get("type") == "object":
                    assert part["additionalProperties"] is False
                    assert set(part["required"]) == set(part["properties"])
                waiting += part.values()
    assert "records" in question.schema.schema["properties"]  # type: ignore[operator]


def test_a_schema_is_shown_without_titles_and_nulls() -> None:
    [purchase] = read_schemas([MemorySchema(Purchase, many=True)])
    told = json.dumps(purchase.shown)
    assert "title" not in told
    assert "null" not in told
    assert purchase.shown["required"] == ["item", "price"]
    assert len(json.dumps([schema.shown for schema in read_schemas(SCHEMAS)])) < 1600


# What is refused


async def test_a_bad_field_costs_that_field_and_is_asked_for_once_more(opened: Any) -> None:
    first = answer(setting("Profile", name="Ann", mood="furious", born="1990-02-30", shoe_size="40"))
    again = answer({"record": 1, **setting("Profile", mood="busy")})
    async with opened(first, again) as memory:
        result = await memory.summary(SAID[:1], **U)
        assert await profile(memory) == Profile(name="Ann", mood=Mood.BUSY)
        asked = requests_of(memory)[1].messages[-1].text
        assert "record 1" in asked
        assert "mood" in asked
        reasons = {item.content.split(":")[0]: item.reason for item in result.rejected}
        assert reasons.keys() == {"Profile.born", "Profile.shoe_size"}
        assert reasons["Profile.shoe_size"].startswith("is no field of Profile; there are address, born")


async def test_a_bad_record_costs_that_record_and_its_second_form_is_taken(opened: Any) -> None:
    bad = setting("Purchase", item="boat")
    first = answer(setting("Profile", name="Ann"), bad, setting("Purchase", item="car", price="-3"))
    again = answer({"record": 2, **setting("Purchase", item="boat", price="20")}, {"record": 3, **bad})
    async with opened(first, again) as memory:
        result = await memory.summary(SAID[:1], **U)
        assert [record.value.item for record in await memory.records(Purchase, **U)] == ["boat"]
        assert [item.content for item in result.rejected] == ["Purchase.price: -3", "Purchase"]
        assert await profile(memory) == Profile(name="Ann")


class Phone(BaseModel):
    number: str = ""

    @field_validator("number", mode="before")
    @classmethod
    def _known(cls, value: Any) -> str:
        return {"55": "55", "[1]": "[1]"}[value]


async def test_an_error_in_a_validator_costs_the_record_and_not_the_facts(tmp_path: Path) -> None:
    texts = [setting("Phone", number=number) for number in ("55", "[1]", "7")]  # of these, JSON reads no text
    fact = {"type": "personal", "about": "self", "content": "Ann lives in Bergen", "messages": [1], "importance": 0.5}
    model = ScriptedChatModel([answer(*texts, facts=[fact]), answer({"record": 3, **texts[2]})])
    schema = MemorySchema(Phone, many=True)
    async with ReMe("space", tmp_path, llm=model, embedding=None, schemas=[schema]) as memory:
        result = await memory.summary(SAID[:1], **U)
        assert {phone.value.number for phone in await memory.records(Phone, **U)} == {"55", "[1]"}
        assert [(item.content, item.reason[:41]) for item in result.rejected] == [
            ("Phone", "Phone can't be checked, KeyError in a val")
        ]
        assert "Ann lives in Bergen" in [item.content for item in result.memories]


HOSTILE: list[Any] = [
    setting("Unknown", name="x"),
    setting("Profile", 7, name="x"),
    setting("Profile", -1, name="x"),
    {**setting("Profile", name="x"), "n": True},
    {**setting("Profile", name="x"), "n": PROFILE_ID},
    {**setting("Profile", name="x"), "n": ["1"]},
    setting("Purchase", 1, item="x"),  # the number of a profile
    setting("Profile", **{"": "x"}),
    setting("Profile", __class__="x", model_config="{}"),
    setting("Profile", address="[" * 50_000),
    {"schema": {"a": 1}, "n": None, "set": 3, "messages": "x"},
    {"schema": "Profile", "set": [{"field": ["name"], "value": "x"}, 4]},
    "Profile",
    None,
    [[]],
    {},
]


@pytest.mark.parametrize("item", HOSTILE, ids=lambda item: repr(item)[:40])
async def test_what_a_hostile_model_writes_changes_no_record(opened: Any, item: Any) -> None:
    async with opened(answer(item), answer(item)) as memory:
        await memory.put_record(Profile(name="Ann"), **U)
        result = await memory.summary(SAID, **U)
        assert await profile(memory) == Profile(name="Ann")
        assert await memory.records(Purchase, **U) == []
        assert result.rejected
        assert (await memory.get_memory(PROFILE_ID, **U)).revision == 1


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
async def test_no_answer_of_a_model_breaks_the_reading_of_records(value: Any) -> None:
    shown = ShownRecords(schemas=read_schemas(SCHEMAS), records=(), messages=2)
    question = with_records(extraction_question(task_of(say("x", "y")), KnownTargets({}), "en", ()), shown, "en")
    for item in (value, {"schema": "Profile", "n": value, "set": [{"field": "hobbies", "value": value}]}):
        with suppress(ValueError):
            written = question.read({"facts": [], "records": [item] if item is not value else value})
            assert all(record.rejected or record.fields is not None for record in written.records)


async def test_too_many_records_are_no_answer(opened: Any) -> None:
    flood = answer(*(setting("Purchase", item=f"item {n}", price="1") for n in range(200)))
    async with opened(flood, flood) as memory:
        with pytest.raises(PartialFailureError) as caught:
            await memory.summary(SAID, **U)
        assert isinstance(caught.value.failures[0], ModelOutputError)
        assert await memory.records(Purchase, **U) == []


async def test_no_record_of_another_user_is_shown_or_changed(opened: Any) -> None:
    async with opened(answer(setting("Profile", name="Bob")), answer(setting("Profile", name="Ann"))) as memory:
        await memory.summary([{**SAID[0], "message_id": "b"}], user_id="bob")
        await memory.summary(SAID[:1], **U)
        told = "\n".join(message.text for message in requests_of(memory)[1].messages)
        assert "Bob" not in told
        assert (await profile(memory), await profile(memory, user_id="bob")) == (
            Profile(name="Ann"),
            Profile(name="Bob"),
        )


# Two at once


async def test_a_summary_overtaken_by_a_patch_reads_again_and_loses_no_field(opened: Any) -> None:
    async def patched_meanwhile(request: ChatRequest) -> str:
        await memory.patch_record(Profile, {"hobbies": ["chess"]}, **U)
        return answer(setting("Profile", name="Ann"))

    async with opened(patched_meanwhile, answer(setting("Profile", name="Ann"))) as memory:
        await memory.put_record(Profile(mood=Mood.BUSY), **U)
        await memory.summary(SAID, **U)
        assert await profile(memory) == Profile(name="Ann", mood=Mood.BUSY, hobbies=["chess"])
        assert '"hobbies":["chess"]' in requests_of(memory)[1].messages[1].text


async def test_an_instance_that_is_made_meanwhile_is_changed_and_stays_the_only_one(opened: Any) -> None:
    async def put_meanwhile(request: ChatRequest) -> str:
        await memory.put_record(Profile(hobbies=["kayaks"]), **U)
        return answer(setting("Profile", name="Ann"))

    async with opened(put_meanwhile, answer(setting("Profile", name="Ann"))) as memory:
        await memory.summary(SAID[:1], **U)
        assert await profile(memory) == Profile(name="Ann", hobbies=["kayaks"])
        assert len(await memory.records(Profile, **U)) == 1


# Which there are, and how they are read


async def test_two_items_on_one_instance_are_one_change(opened: Any) -> None:
    told = answer(setting("Profile", name="Ann"), setting("Profile", None, (2,), born="1990-02-03"))
    async with opened(told) as memory:
        await memory.summary(SAID, **U)
        [kept] = await memory.records(Profile, **U)
        assert (kept.value, kept.revision) == (Profile(name="Ann", born=date(1990, 2, 3)), 1)
        assert [name for source in kept.sources for name in source.message_ids] == ["m1", "m2"]


async def test_values_may_be_json_or_plain_text_and_null_empties_a_field(opened: Any) -> None:
    lax = {"schema": "Purchase", "n": None, "set": {"item": "1984", "price": 9.5, "on": None}, "messages": "2"}
    async with opened(answer(lax, setting("Profile", name="null", mood=None, hobbies=None))) as memory:
        await memory.put_record(Profile(name="Ann", mood=Mood.BUSY, hobbies=["chess"]), **U)
        await memory.summary(SAID, **U)
        [bought] = await memory.records(Purchase, **U)
        assert bought.value == Purchase(item="1984", price=Decimal("9.5"))
        assert await profile(memory) == Profile()


async def test_of_many_records_those_near_the_talk_are_shown(opened: Any) -> None:
    async with opened(answer()) as memory:
        for number in range(20):
            await memory.put_record(Purchase(item=f"{'kayak' if number == 3 else 'book'} {number}", price=1), **U)
        await memory.summary([{"role": "user", "content": "The kayak leaks."}], **U)
        shown = requests_of(memory)[0].messages[1].text
        assert "kayak 3" in shown
        assert shown.count('"schema":"Purchase"') <= 12


async def test_a_purchase_that_is_told_again_is_kept_once(opened: Any) -> None:
    bought = setting("Purchase", item="kayak", price="300")
    async with opened(answer(bought), answer(bought, setting("Purchase", 1, price="300"))) as memory:
        await memory.summary(SAID[:1], **U)
        result = await memory.summary(SAID[1:], **U)
        assert len(await memory.records(Purchase, **U)) == 1
        assert result.rejected == ()


async def test_a_change_that_would_repeat_another_record_is_left_out(opened: Any) -> None:
    async with opened(answer(setting("Purchase", 1, item="kayak"))) as memory:
        await memory.put_record(Purchase(item="kayak", price=300), **U)
        await memory.put_record(Purchase(item="boat", price=300), **U)
        result = await memory.summary(SAID, **U)
        assert {record.value.item for record in await memory.records(Purchase, **U)} == {"kayak", "boat"}
        assert [item.reason for item in result.rejected] == ["another record says the same"]


async def test_a_class_that_has_changed_costs_the_record_and_not_the_summary(opened: Any, tmp_path: Path) -> None:
    async with opened() as memory:
        await memory.put_record(Purchase(item="kayak", price=300), **U)

    class Bought(BaseModel):
        model_config = ConfigDict(title="x")
        item: int

        @model_validator(mode="after")
        def _check(self) -> Bought:
            return self

    Bought.__name__ = "Purchase"
    fact = {"type": "personal", "target": "self", "content": "Ann sails", "messages": [1]}
    told = [answer(setting("Purchase", 1, price="2"), facts=[fact]), answer()]
    async with opened(*told, schemas=[MemorySchema(Bought, many=True)]) as memory:
        result = await memory.summary(SAID, **U)
        assert [item.content for item in result.memories if item.memory_type == "personal"] == ["Ann sails"]
        assert result.rejected


async def test_what_is_asked_for_as_personal_fills_records_and_another_type_or_agents_do_not(opened: Any) -> None:
    async with opened(answer(), answer(setting("Profile", name="Ann"))) as memory:
        await memory.summary(SAID[:1], **U, memory_type="procedural")
        assert "<schemas>" not in requests_of(memory)[0].messages[0].text
        await memory.summary(SAID[1:], **U, memory_type="personal")
        assert await profile(memory) == Profile(name="Ann")
    with pytest.raises(ConfigurationError, match="agents fill no records"):
        opened(use_agentic_mode=True)


async def test_a_model_of_its_own_and_instructions_go_with_schemas(opened: Any) -> None:
    async with opened() as memory:
        own = ScriptedChatModel([answer(setting("Profile", name="Ann"))])
        memory.set_summarizer(SimpleSummarizer(model=own, instructions="never keep prices"))
        await memory.summary(SAID, **U)
        assert await profile(memory) == Profile(name="Ann")
