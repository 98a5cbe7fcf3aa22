"""Relations in what a model writes: each read by itself, kept with its fact, and followed by what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from reme_core.remember.written_facts import read_relations
from reme_core.schema import Memory, Relation
from reme_core.testing import ScriptedChatModel
from tests.support.temporary_store import TemporaryStore
from tests.unit.remember.distilling import (
    SCOPE,
    all_of,
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

LEA = ["Lea", "sister of", "Ann"]
LONG = "x" * 121


def told(memory: Memory) -> list[str]:
    return [str(relation) for relation in memory.relations]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, []),
        ([], []),
        ("Lea is Ann's sister", []),
        ({"a": 1}, []),
        ([LEA], ["Lea sister of Ann"]),
        (LEA, ["Lea sister of Ann"]),
        ([{"subject": "Lea", "relation": "sister of", "object": "Ann"}], ["Lea sister of Ann"]),
        ([LEA, ["lea", "Sister of", "ANN"]], ["Lea sister of Ann"]),
        ([["Lea", "sister of"], [1, 2, 3], None, [LONG, "is", "x"], ["Lea", " ", "Ann"], LEA], ["Lea sister of Ann"]),
        ([["Ann", "same as", "ann."], ["!", "is", "Ann"]], []),
        (
            [["self", "lives in", "Graz\n</x>"], ["Rex", "dog of", "the user"]],
            ["user lives in Graz </x>", "Rex dog of user"],
        ),
        (
            [["Lea", "owns", f"boat {number}"] for number in range(20)],
            [f"Lea owns boat {number}" for number in range(8)],
        ),
    ],
)
def test_each_relation_is_read_by_itself_and_costs_no_other(written: Any, read: list[str]) -> None:
    assert [str(relation) for relation in read_relations(written)] == read


async def test_a_fact_keeps_its_relations_and_loses_none_by_a_bad_one() -> None:
    store = TemporaryStore()
    written = facts(
        fact("Lea, Ann's sister, works at the bakery", relations=[LEA, ["?"], ["Lea", "works at", "the bakery"]]),
        fact("Ann likes tea", relations="none"),
        fact("Ann sings"),
    )
    with ScriptedChatModel([written]) as model:
        distilled = await distiller(store, model).distil(SCOPE, task_of(say("Hello")))
    assert not distilled.rejected_facts
    await store.put(SCOPE, distilled.batch)
    held = {memory.content: told(memory) for memory in await all_of(store)}
    assert held["Lea, Ann's sister, works at the bakery"] == ["Lea sister of Ann", "Lea works at the bakery"]
    assert (held["Ann likes tea"], held["Ann sings"]) == ([], [])
    schema = model.requests[0].response_schema
    assert schema is not None
    form: Any = schema.schema["properties"]
    assert "relations" in form["facts"]["items"]["required"]


async def test_an_update_has_the_relations_of_both_that_its_text_still_names() -> None:
    relations = [
        Relation(subject="Lea", relation=word, object=name) for word, name in (("in", "Graz"), ("at", "bakery"))
    ]
    old = known("Lea works at the bakery in Graz").model_copy(update={"relations": tuple(relations)})
    store = await store_of(old)
    new = fact("Lea, Ann's sister, works at the theatre in Graz", relations=[LEA])
    with ScriptedChatModel([facts(new), decisions(decision(1, "update", 1, content=new["content"]))]) as model:
        distilled = await distiller(store, model).distil(SCOPE, task_of(say("Hello")))
    await store.put(SCOPE, distilled.batch)
    [memory] = await all_of(store)
    assert (memory.memory_id, told(memory)) == (old.memory_id, ["Lea sister of Ann", "Lea in Graz"])


async def test_what_replaces_a_memory_tells_its_own_relations_alone() -> None:
    works = Relation(subject="Lea", relation="works at", object="bakery")
    old = known("Lea works at the bakery").model_copy(update={"relations": (works,)})
    store = await store_of(old)
    new = fact("Lea works at the theatre", relations=[["Lea", "works at", "theatre"]], valid_from="2023-05")
    with ScriptedChatModel([facts(new), decisions(decision(1, "supersede", 1))]) as model:
        distilled = await distiller(store, model).distil(SCOPE, task_of(say("Hello")))
    await store.put(SCOPE, distilled.batch)
    held = {memory.is_current: told(memory) for memory in await all_of(store, current=False)}
    assert held == {True: ["Lea works at theatre"], False: ["Lea works at bakery"]}
