"""What `retrieve` makes of the times of memories: what is over is found, and asking for more takes nothing away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.schema import Hit, shown_validity
from reme_core.testing import FixedClock
from tests.unit.remember.distilling import NOW

ANA: dict[str, Any] = {"user_id": "ana"}
SAID = {
    "trip": "I took a short trip to Rome with my sister",
    "berlin": "I live in a small flat in Berlin",
    "lisbon": "I live by the harbour of Lisbon now",
}


@pytest.fixture
async def reme(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None, clock=FixedClock(NOW)) as memory:
        await memory.summary(
            [
                {"role": "user", "content": text, "message_id": name, "created_at": f"2023-0{month}-01T10:00:00Z"}
                for month, (name, text) in enumerate(SAID.items(), 5)
            ],
            **ANA,
        )
        yield memory


async def add(memory: ReMe, content: str, source: str, **fields: Any) -> str:
    draft = {"content": content, "sources": [{"message_ids": [source]}], **fields}
    [added] = await memory.add_memories([draft], **ANA)
    return added.memory_id


def layers(hits: tuple[Hit, ...], layer: str) -> list[str]:
    return [hit.memory for hit in hits if hit.layer == layer]


async def test_a_message_is_worth_as_much_whether_what_was_made_of_it_is_over_or_not(reme: ReMe) -> None:
    async def score(question: str, message_id: str) -> float:
        found = await reme.retrieve(question, **ANA)
        return next(hit.score for hit in found.results if hit.message_ids == (message_id,) and hit.layer == "message")

    before = await score("who came along to Rome", "trip")
    trip = await add(reme, "Ana went to Rome for some days", "trip", valid_from="2023-04", valid_to="2023-04")
    beside = await add(reme, "Ana knows her way about in Rome", "berlin")
    assert await score("who came along to Rome", "trip") >= before
    found = await reme.retrieve("when was Ana in Rome for some days", **ANA)
    assert found.results[0].memory_id == trip
    assert shown_validity(found.results[0]) == "April 2023"
    await reme.supersede_memory(trip, "Ana never went to Rome", **ANA, valid_from="2023-04")
    await reme.delete_memory(beside, **ANA)
    assert await score("who came along to Rome", "trip") < before  # what it was made into is outdated


async def test_the_best_memory_stands_beside_its_message_however_few_of_the_words_it_holds(reme: ReMe) -> None:
    await add(reme, "Ana travelled with Mia", "trip", valid_from="2023-04", valid_to="2023-04")
    found = await reme.retrieve("with which sister did Ana take her short trip to Rome", **ANA)
    assert [(hit.layer, hit.message_ids) for hit in found.results[:2]] == [
        ("memory", ("trip",)),
        ("message", ("trip",)),
    ]
    assert shown_validity(found.results[0]) == "April 2023"


async def test_asking_for_replaced_memories_adds_them_and_keeps_the_messages(reme: ReMe) -> None:
    old = await add(reme, "Ana lives in Berlin", "berlin", observed_at="2023-06-01", valid_from="2020")
    new = await reme.supersede_memory(old, "Ana lives in Lisbon", **ANA, observed_at="2023-07-01")
    question = "Where does Ana live?"
    plain = await reme.retrieve(question, **ANA)
    wide = await reme.retrieve(question, **ANA, include_superseded=True)
    assert layers(plain.results, "memory") == ["Ana lives in Lisbon"]
    assert sorted(layers(wide.results, "memory")) == ["Ana lives in Berlin", "Ana lives in Lisbon"]
    assert {hit.message_ids for hit in plain.results} <= {hit.message_ids for hit in wide.results}
    assert set(layers(plain.results, "message")) <= set(layers(wide.results, "message"))
    assert SAID["berlin"] in layers(wide.results, "message")
    replaced = next(hit for hit in wide.results if hit.memory_id == old)
    assert (replaced.superseded_by, shown_validity(replaced)) == (new.memory_id, "2020 to 1 July 2023")
    alone = await reme.retrieve(question, **ANA, include_superseded=True, layers=["message"])
    assert layers(alone.results, "message")


async def test_as_of_asks_what_held_whether_it_was_replaced_since_or_ended(reme: ReMe) -> None:
    berlin = await add(reme, "Ana lives in Berlin", "berlin", observed_at="2023-06-01", valid_from="2020")
    await reme.supersede_memory(berlin, "Ana lives in Lisbon", **ANA, observed_at="2023-07-01")
    await add(reme, "Ana lives with a dog", "trip", valid_from="2019", valid_to="2021", observed_at="2023-05-01")
    for moment, held in {
        "2019-06-01": ["Ana lives with a dog"],
        "2021-12-31": ["Ana lives in Berlin", "Ana lives with a dog"],
        "2022-01-01": ["Ana lives in Berlin"],
        "2023-07-01": ["Ana lives in Lisbon"],
    }.items():
        found = await reme.retrieve("Where does Ana live, and with whom?", **ANA, as_of=moment, layers=["memory"])
        assert sorted(hit.memory for hit in found.results) == held
