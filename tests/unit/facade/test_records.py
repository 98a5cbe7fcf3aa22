"""Records on the facade: instances of the application's classes, put, patched, listed, found, undone, kept apart."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator

from reme_core import MemorySchema, MemoryType, ReMe
from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    MessageNotFoundError,
    RecordMismatchError,
)
from reme_core.steps.records import read_schemas, rendered, set_fields
from reme_core.testing import HashedEmbedder
from reme_core.tools import DeleteMemoryOp, UpdateMemoryOp, VectorRetrieveMemoryOp

U: dict[str, Any] = {"user_id": "u"}


class Mood(StrEnum):
    CALM = "calm"
    BUSY = "busy"


class Address(BaseModel):
    city: str
    since: date | None = None


class Profile(BaseModel):
    name: str
    home: Address | None = None
    mood: Mood = Mood.CALM
    tags: set[str] = Field(default_factory=set)
    seen: datetime | None = None
    scores: dict[str, int] = Field(default_factory=dict)


class Purchase(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    item: str
    price: Decimal = Decimal(0)
    paid_by: str = Field(default="card", alias="paidBy")

    @field_validator("price")
    @classmethod
    def _positive(cls, value: Decimal) -> Decimal:
        if value < 0:
            msg = "a price below zero"
            raise ValueError(msg)
        return value


SCHEMAS = (Profile, MemorySchema(Purchase, many=True))
ANN = Profile(
    name="Ann",
    home=Address(city="Bergen", since=date(2020, 5, 1)),
    mood=Mood.BUSY,
    tags={"sea"},
    seen=datetime(2024, 1, 1, tzinfo=UTC),
    scores={"chess": 3},
)


@pytest.fixture
async def memory(tmp_path: Path) -> Any:
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(32), schemas=SCHEMAS) as opened:
        yield opened


async def test_an_instance_comes_back_equal_and_is_a_memory_with_its_fields(memory: ReMe) -> None:
    kept = await memory.put_record(ANN, **U)
    [read] = await memory.records(Profile, **U)
    assert read.value == kept.value == ANN
    stored = await memory.get_memory(kept.memory_id, **U)
    assert (stored.memory_type, stored.memory_target) == (MemoryType.RECORD, "Profile")
    assert (stored.metadata["mood"], stored.metadata["home"]) == ("busy", {"city": "Bergen", "since": "2020-05-01"})
    assert stored.content.startswith("Profile: name: Ann; home: city Bergen, since 2020-05-01; mood: busy; tags: sea")


async def test_of_one_there_is_one_and_of_many_there_are_many(memory: ReMe) -> None:
    await memory.put_record(ANN, **U)
    again = await memory.put_record(Profile(name="Anna"), **U)
    assert (again.revision, again.value) == (2, Profile(name="Anna"))
    assert len(await memory.records(Profile, **U)) == 1
    boat = await memory.put_record(Purchase(item="boat", paidBy="cash"), **U)
    await memory.put_record(Purchase(item="kayak"), **U)
    assert [item.value.item for item in await memory.records(Purchase, **U)] == ["kayak", "boat"]
    assert [item.value for item in await memory.records(Purchase, **U, metadata={"paidBy": "cash"})] == [boat.value]
    same = await memory.put_record(Purchase(item="boat", paidBy="cash"), **U)
    assert same.memory_id == boat.memory_id
    changed = await memory.put_record(Purchase(item="ship"), **U, record_id=boat.memory_id, expected_revision=1)
    assert (changed.memory_id, changed.revision) == (boat.memory_id, 2)


async def test_a_patch_sets_what_it_names_and_history_and_undo_have_it(memory: ReMe) -> None:
    first = await memory.put_record(ANN, **U)
    fields = {"name": "Anna", "home": Address(city="Oslo"), "mood": Mood.CALM, "tags": None, "seen": None}
    patched = await memory.patch_record(Profile, fields, **U, reason="told me")
    assert patched.value == Profile(name="Anna", home=Address(city="Oslo"), scores={"chess": 3})
    events = await memory.history(first.memory_id, **U)
    assert [(event.operation, event.reason) for event in events] == [("add", ""), ("update", "told me")]
    await memory.undo(str(events[-1].run_id), **U)
    [back] = await memory.records(Profile, **U)
    assert back.value == ANN
    same = await memory.patch_record(Profile, {"name": "Ann"}, **U)
    assert same.revision == back.revision


async def test_a_record_rests_on_the_messages_that_are_named(memory: ReMe) -> None:
    said = await memory.summary([("user", "I am Ann"), ("user", "I live in Bergen")], **U)
    first, second = said.message_ids
    await memory.put_record(ANN, **U, messages=[first])
    patched = await memory.patch_record(Profile, {"name": "Anna"}, **U, messages=[second])
    assert [name for source in patched.sources for name in source.message_ids] == [first, second]
    assert {source.block_id for source in patched.sources} == set(said.block_ids)
    with pytest.raises(MessageNotFoundError):
        await memory.patch_record(Profile, {"name": "A"}, **U, messages=["of nobody"])


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": 3}, "name"),
        ({"nmae": "x"}, "nmae: is no field of Profile; there are home, mood"),
        ({"mood": "furious"}, "'calm' or 'busy'"),
        ({"home": {"town": "x"}}, "home: city"),
        ({"home": {"city": "x", "since": "2024-02-30"}}, "home: since"),
        ({"name": "a\0b"}, "NUL"),
        ({"scores": {"a": 1 << 70}}, "64"),
        ({"name": None}, "name"),
        ({}, "sets no field"),
        ({"name": object()}, "fields"),
        ("name", "fields"),
        ({"name": "fine", "mood": "furious"}, "mood"),
    ],
)
async def test_a_patch_with_anything_wrong_changes_nothing(memory: ReMe, fields: Any, told: str) -> None:
    await memory.put_record(ANN, **U)
    with pytest.raises(InvalidInputError, match=told):
        await memory.patch_record(Profile, fields, **U)
    [kept] = await memory.records(Profile, **U)
    assert (kept.value, kept.revision) == (ANN, 1)


async def test_writers_at_once_lose_no_field_and_one_who_expects_a_revision_is_told(memory: ReMe) -> None:
    await asyncio.gather(*(memory.put_record(Profile(name=f"n{number}"), **U) for number in range(5)))
    await asyncio.gather(
        memory.patch_record(Profile, {"name": "Ann"}, **U),
        memory.patch_record(Profile, {"mood": "busy"}, **U),
        memory.patch_record(Profile, {"tags": ["sea"]}, **U),
        memory.patch_record(Profile, {"scores": {"go": 1}}, **U),
        memory.patch_record(Profile, {"home": {"city": "Oslo"}}, **U),
    )
    [kept] = await memory.records(Profile, **U)
    assert kept.value == Profile(name="Ann", mood=Mood.BUSY, tags={"sea"}, scores={"go": 1}, home=Address(city="Oslo"))
    with pytest.raises(ConflictError):
        await memory.patch_record(Profile, {"name": "x"}, **U, expected_revision=kept.revision - 1)


async def test_what_would_repeat_another_record_is_a_conflict(memory: ReMe) -> None:
    await memory.put_record(Purchase(item="boat"), **U)
    kayak = await memory.put_record(Purchase(item="kayak"), **U)
    with pytest.raises(ConflictError, match="says the same"):
        await memory.patch_record(Purchase, {"item": "boat"}, **U, record_id=kayak.memory_id)
    with pytest.raises(InvalidInputError, match="record_id"):
        await memory.patch_record(Purchase, {"item": "ship"}, **U)


async def test_nobody_else_sees_or_changes_a_record(memory: ReMe) -> None:
    kept = await memory.put_record(ANN, **U)
    boat = await memory.put_record(Purchase(item="boat"), **U)
    other = {"user_id": "other"}
    assert await memory.records(Profile, **other) == []
    assert (await memory.retrieve("Ann Bergen", **other)).results == ()
    for call in (
        lambda: memory.patch_record(Profile, {"name": "x"}, **other),
        lambda: memory.patch_record(Purchase, {"item": "x"}, **other, record_id=boat.memory_id),
        lambda: memory.put_record(Purchase(item="x"), **other, record_id=boat.memory_id),
        lambda: memory.patch_record(Profile, {"name": "x"}, shared=True),
    ):
        with pytest.raises(MemoryNotFoundError):
            await call()
    await memory.put_record(Profile(name="Other"), **other)
    await memory.put_record(Profile(name="All"), shared=True)
    assert [record.value for record in await memory.records(Profile, **U)] == [kept.value]


async def test_an_id_of_something_else_is_no_record_of_the_class(memory: ReMe) -> None:
    fact = await memory.add_memory("likes tea", **U)
    await memory.put_record(ANN, **U)
    for record_id in (fact.memory_id, "record:Profile", "unknown"):
        with pytest.raises(MemoryNotFoundError):
            await memory.put_record(Purchase(item="x"), **U, record_id=record_id)
        with pytest.raises(MemoryNotFoundError):
            await memory.patch_record(Purchase, {"item": "x"}, **U, record_id=record_id)


async def test_no_memory_takes_the_id_of_the_one_instance(memory: ReMe) -> None:
    with pytest.raises(InvalidInputError, match=r"memories\[0\].memory_id: 'record:Profile' is that of a record"):
        await memory.add_memories([{"memory_id": "record:Profile", "content": "taken"}], **U)
    assert (await memory.put_record(ANN, **U)).value == ANN


# Finding


@pytest.mark.parametrize("embedding", [None, HashedEmbedder(32)], ids=["words", "vectors"])
async def test_a_record_is_found_by_the_words_of_its_fields(tmp_path: Path, embedding: Any) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=embedding, schemas=SCHEMAS) as memory:
        await memory.add_memory("The weather was fine", **U)
        await memory.put_record(ANN, **U)
        [hit] = (await memory.retrieve("Who lives in Bergen?", **U, limit=1)).results
        assert (hit.memory_type, hit.memory_target, hit.metadata["name"]) == ("record", "Profile", "Ann")
        typed = await memory.retrieve("Bergen", **U, memory_type="record", metadata={"mood": "busy"})
        assert [item.memory_id for item in typed.results] == ["record:Profile"]
        others = await memory.retrieve("Bergen", **U, memory_type="personal")
        assert "record:Profile" not in [item.memory_id for item in others.results]
        await memory.summary([("user", "It rains in Bergen")], **U)
        alone = await memory.retrieve("Bergen", **U, memory_type="record")
        assert {item.layer for item in alone.results} == {"memory"}
        beside = await memory.retrieve("Bergen", **U, memory_type=["personal", "record"])
        assert {"record", "history"} <= {item.memory_type for item in beside.results}
        await memory.patch_record(Profile, {"home": {"city": "Oslo"}}, **U)
        assert "Oslo" in (await memory.retrieve("Oslo", **U, limit=1)).results[0].memory
        assert [item.memory_type for item in (await memory.list_memories(**U)).memories] == ["record", "personal"]


# Classes


async def test_an_instance_that_its_class_does_not_fit_any_more_is_an_error_that_names_the_field(
    tmp_path: Path,
) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None, schemas=[Address]) as memory:
        await memory.put_record(Address(city="Bergen"), **U)

    class Changed(BaseModel):
        city: int
        country: str = "NO"

    Changed.__name__ = "Address"
    async with ReMe("space", tmp_path, llm=None, embedding=None, schemas=[Changed]) as memory:
        with pytest.raises(RecordMismatchError, match=r"Address\.city: wanted a whole number") as caught:
            await memory.records(Changed, **U)
        assert (caught.value.memory_id, caught.value.fields) == ("record:Address", ("city",))
        assert pickle.loads(pickle.dumps(caught.value)).fields == ("city",)  # noqa: S301  # our own bytes
        with pytest.raises(RecordMismatchError):
            await memory.patch_record(Changed, {"country": "SE"}, **U)
        assert (await memory.get_memory("record:Address", **U)).metadata["city"] == "Bergen"
        mended = await memory.patch_record(Changed, {"city": 5003}, **U)
        assert mended.value == Changed(city=5003)


@pytest.mark.parametrize(
    "schemas",
    [
        [int],
        ["Profile"],
        [RootModel[int]],
        [BaseModel],
        [Profile, MemorySchema(Profile, many=True)],
        [type("a b", (BaseModel,), {})],
    ],
)
def test_what_can_be_no_schema_is_refused_when_the_memory_is_made(tmp_path: Path, schemas: Any) -> None:
    with pytest.raises(ConfigurationError, match="schemas"):
        ReMe("space", tmp_path, llm=None, embedding=None, schemas=schemas)


def test_a_class_too_large_for_a_prompt_or_without_a_json_schema_is_refused() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        value: asyncio.Lock

    huge = type("Huge", (BaseModel,), {"__annotations__": {f"a_field_{n}": str for n in range(300)}})
    with pytest.raises(ConfigurationError, match="too large"):
        MemorySchema(huge)
    with pytest.raises(ConfigurationError, match="no JSON schema"):
        MemorySchema(Odd)
    with pytest.raises(InvalidInputError, match="instructions"):
        MemorySchema(Profile, instructions="x" * 2000)


async def test_a_class_that_is_no_schema_of_the_memory_is_refused(memory: ReMe) -> None:
    for call in (memory.put_record(Address(city="x"), **U), memory.records(Address, **U)):
        with pytest.raises(InvalidInputError, match=r"ReMe\(schemas="):
            await call


async def test_an_instance_that_json_does_not_bring_back_is_refused(tmp_path: Path) -> None:
    class Lossy(BaseModel):
        value: float | None = None

    async with ReMe("space", tmp_path, llm=None, embedding=None, schemas=[Lossy]) as memory:
        for value in (float("nan"), float("inf")):
            with pytest.raises(InvalidInputError, match="Lossy"):
                await memory.put_record(Lossy(value=value), **U)
        assert await memory.records(Lossy, **U) == []


async def test_an_error_in_a_validator_of_the_class_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    class Phone(BaseModel):
        number: str = ""

        @field_validator("number", mode="before")
        @classmethod
        def _stripped(cls, value: Any) -> str:
            return str(value.strip())

    async with ReMe("space", tmp_path, llm=None, embedding=None, schemas=[Phone]) as memory:
        await memory.put_record(Phone(number="1"), **U)
        with pytest.raises(InvalidInputError, match="AttributeError in a validator of its own"):
            await memory.patch_record(Phone, {"number": 2}, **U)
        assert [record.value.number for record in await memory.records(Phone, **U)] == ["1"]


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.text(max_size=3), max_size=2)
GIVEN = st.dictionaries(st.sampled_from([*Profile.model_fields, "", "other"]), VALUES, max_size=4)


@settings(deadline=None, max_examples=30)
@given(GIVEN)
def test_whatever_is_set_each_field_is_set_or_has_a_problem_and_the_whole_is_an_instance(given_fields: Any) -> None:
    [schema] = read_schemas([Profile])
    held = ANN.model_dump(mode="json")
    came = set_fields(schema, held, given_fields)
    assert came.problems.keys() <= given_fields.keys() | {""}
    if came.fields is not None:
        Profile.model_validate(came.fields)
        assert all(came.fields[name] == held[name] for name in held if name not in given_fields)
    else:
        assert came.problems


def test_fields_are_told_in_words() -> None:
    fields: Any = {"a_b": True, "none": None, "list": [1, {"x": "y\n z"}], "empty": [], "deep": {"k": {"l": 2}}}
    assert rendered("R", fields) == "R: a b: yes; list: 1, (x y z); deep: k l 2"
    assert rendered("R", {}) == "R: empty"


# Other doors


async def test_no_door_for_texts_writes_a_record_past_its_class(memory: ReMe, tmp_path: Path) -> None:
    kept = await memory.put_record(ANN, **U)
    fact = await memory.add_memory("likes tea", **U)
    context = replace(memory.tool_context(**U), memory_type=MemoryType.RECORD, memory_target="Profile")
    for call in (
        memory.update_memory(kept.memory_id, **U, metadata={"name": 3}),
        memory.update_memory(kept.memory_id, **U, content="Profile: name: Eve"),
        memory.update_memory(fact.memory_id, **U, memory_type="record"),
        memory.supersede_memory(kept.memory_id, "Profile: name: Eve", **U),
        memory.add_memory("Profile: name: Eve", **U, memory_type="record", memory_target="Profile"),
        UpdateMemoryOp()({"memories": [{"memory_id": kept.memory_id, "memory_content": "Eve"}]}, context),
    ):
        with pytest.raises(InvalidInputError, match="record"):
            await call
    [still] = await memory.records(Profile, **U)
    assert still.value == ANN
    await DeleteMemoryOp()({"memory_ids": [kept.memory_id]}, context)
    assert await memory.records(Profile, **U) == []
    assert (await memory.put_record(ANN, **U)).revision == 1


async def test_an_agent_that_looks_things_up_finds_records_and_one_about_a_target_does_not(memory: ReMe) -> None:
    await memory.put_record(ANN, **U)
    search, question = VectorRetrieveMemoryOp(), {"query_items": [{"query": "Who lives in Bergen?"}]}
    context = memory.tool_context(**U)
    assert "Profile: name: Ann" in await search(question, context)
    narrow = replace(context, memory_type=MemoryType.PERSONAL, memory_target="self")
    assert "Ann" not in await search(question, narrow)


async def test_records_go_along_with_a_scope_and_not_with_a_library(memory: ReMe, tmp_path: Path) -> None:
    await memory.put_record(ANN, **U)
    await memory.export(tmp_path / "scope.jsonl", **U)
    assert (await memory.dump(tmp_path / "library.jsonl", **U)).memories == 0
    async with ReMe("space", tmp_path / "b", llm=None, embedding=None, schemas=SCHEMAS) as other:
        await other.import_(tmp_path / "scope.jsonl", **U)
        assert [record.value for record in await other.records(Profile, **U)] == [ANN]
        await memory.dump(tmp_path / "named.jsonl", **U, memory_type="record")
        with pytest.raises(InvalidInputError, match="put_record"):
            await other.load(tmp_path / "named.jsonl", **U)


async def test_records_are_no_lines_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    async with ReMe("space", tmp_path / "m", llm=None, embedding=None, schemas=SCHEMAS, files=folder) as memory:
        await memory.put_record(ANN, **U)
        await memory.add_memory("likes tea", **U)
    texts = [path.read_text() for path in folder.rglob("*.md")]
    assert any("likes tea" in text for text in texts)
    assert not any("Bergen" in text for text in texts)


def test_the_blocking_face_has_the_same_calls(tmp_path: Path) -> None:
    with ReMe.sync("space", tmp_path, llm=None, embedding=None, schemas=SCHEMAS) as memory:
        memory.put_record(ANN, **U)
        assert memory.patch_record(Profile, {"name": "Anna"}, **U).value.name == "Anna"
        assert [record.value.mood for record in memory.records(Profile, **U)] == [Mood.BUSY]
