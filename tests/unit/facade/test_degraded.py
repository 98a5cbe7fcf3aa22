"""A memory whose embedder fails: words answer, what was written gets its vectors later, nobody waits twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.errors import DimensionMismatchError, ModelUnavailableError, PartialFailureError
from reme_core.ports import Matrix
from reme_core.testing import FixedClock, HashedEmbedder
from tests.support.rule_model import RuleModel

U: dict[str, Any] = {"user_id": "u"}


class Switched(HashedEmbedder):
    """Fails while it is off."""

    def __init__(self) -> None:
        super().__init__(32)
        self.is_on = True
        self.asked = 0

    async def embed(self, texts: Sequence[str]) -> Matrix:
        self.asked += 1
        if not self.is_on:
            raise ModelUnavailableError("the model is away")
        return await super().embed(texts)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def embedder() -> Switched:
    return Switched()


@pytest.fixture
async def memory(tmp_path: Path, embedder: Switched, clock: FixedClock) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=embedder, clock=clock) as memory:
        yield memory


async def waiting(memory: ReMe) -> int:
    return (await memory.stats(**U)).waiting_for_vectors


async def test_every_call_goes_on_by_words_and_the_embedder_is_asked_once(
    memory: ReMe, embedder: Switched, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    await memory.add_memory("Ana drinks tea", **U)
    embedder.is_on, embedder.asked = False, 0
    found = await memory.retrieve("Who drinks tea?", **U)
    assert found.results[0].memory == "Ana drinks tea"
    assert found.degraded == ("embedding: the model is away; words alone were compared",)
    kept = await memory.summary([("user", "I keep bees.")], **U)
    assert kept.degraded == ("embedding: the model is away; texts without vectors are found by their words",)
    bees = await memory.add_memory("Ana keeps bees", **U)
    changed = await memory.update_memory(bees.memory_id, **U, content="Ana keeps two hives of bees")
    new = await memory.supersede_memory(changed.memory_id, "Ana keeps goats", **U)
    await memory.undo((await memory.history(new.memory_id, **U))[0].run_id or "", **U)
    await memory.export(tmp_path / "export.jsonl", **U)
    await memory.import_(tmp_path / "export.jsonl", user_id="other")
    found = await memory.retrieve("Who keeps bees?", **U)
    assert {hit.memory for hit in found.results[:2]} == {"Ana keeps two hives of bees", "I keep bees."}
    assert embedder.asked == 1
    [line] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "the model is away" in line.getMessage()


async def test_vectors_are_filled_in_when_a_question_finds_the_embedder_well(
    memory: ReMe, embedder: Switched, clock: FixedClock
) -> None:
    embedder.is_on = False
    await memory.add_memory("Ana keeps bees", **U)
    await memory.summary([("user", "I play chess.")], **U)
    assert await waiting(memory) == 2
    embedder.is_on = True
    assert (await memory.retrieve("bees", **U)).degraded
    clock.advance(seconds=1)
    assert (await memory.retrieve("bees", **U)).degraded == ()
    await memory.flush()
    assert await waiting(memory) == 0
    assert (await memory.history((await memory.list_memories(**U)).memories[0].memory_id, **U))[-1].operation == "add"


async def test_a_memory_that_got_its_vector_later_is_found_by_it(memory: ReMe, embedder: Switched) -> None:
    embedder.is_on = False
    await memory.add_memory("beekeeping", **U)
    embedder.is_on = True
    await memory.flush()
    found = await memory.retrieve("beekeepers", **U, layers=["memory"])  # shares letters, and no word
    assert [hit.memory for hit in found.results] == ["beekeeping"]


async def test_the_next_process_fills_in_what_an_earlier_one_left(
    tmp_path: Path, embedder: Switched, clock: FixedClock
) -> None:
    embedder.is_on = False
    async with ReMe("space", tmp_path, llm=None, embedding=embedder, clock=clock) as memory:
        await memory.add_memory("Ana keeps bees", **U)
    embedder.is_on = True
    async with ReMe("space", tmp_path, llm=None, embedding=embedder, clock=clock) as memory:
        pass  # closing waits for what has begun
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        assert await waiting(memory) == 0


async def test_a_memory_that_was_changed_or_deleted_meanwhile_waits_no_more(memory: ReMe, embedder: Switched) -> None:
    embedder.is_on = False
    first = await memory.add_memory("Ana keeps bees", **U)
    second = await memory.add_memory("Ana plays chess", **U)
    await memory.delete_memory(second.memory_id, **U)
    embedder.is_on = True
    await memory.flush()
    await memory.update_memory(first.memory_id, **U, content="Ana keeps goats")
    assert await waiting(memory) == 0


async def test_without_an_embedder_nothing_waits(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.add_memory("Ana keeps bees", **U)
        assert await waiting(memory) == 0
        assert (await memory.retrieve("bees", **U)).degraded == ()


async def test_a_wrong_dimension_is_an_error_and_no_outage(memory: ReMe, tmp_path: Path, clock: FixedClock) -> None:
    await memory.add_memory("Ana keeps bees", **U)
    async with ReMe("space", tmp_path, llm=None, embedding=HashedEmbedder(16), clock=clock) as other:
        with pytest.raises(DimensionMismatchError):
            await other.retrieve("bees", **U)
        with pytest.raises(DimensionMismatchError):
            await other.add_memory("Ana keeps goats", **U)
        with pytest.raises(PartialFailureError):
            await other.summary([("user", "I keep goats.")], **U)


@pytest.mark.parametrize("agentic", [False, True], ids=["simple", "agentic"])
async def test_memories_are_made_of_what_was_said_without_vectors_and_get_theirs_later(
    tmp_path: Path, embedder: Switched, clock: FixedClock, agentic: bool
) -> None:
    embedder.is_on = False
    async with ReMe(
        "space", tmp_path, llm=RuleModel(), embedding=embedder, clock=clock, use_agentic_mode=agentic
    ) as memory:
        result = await memory.summary([("user", "Alice lives in Berlin")], **U)
        assert [made.content for made in result.memories] == ["Alice lives in Berlin"]
        assert {sentence.partition(";")[0] for sentence in result.degraded} == {"embedding: the model is away"}
        assert (await memory.list_jobs(**U), embedder.asked) == ([], 1)
        assert await waiting(memory) >= 2
        again = await memory.summary([("user", "Alice lives in Berlin")], **U)
        assert again.memories == ()
        found = await memory.retrieve("Where does Alice live?", **U)
        assert (found.results[0].memory, len(found.degraded)) == ("Alice lives in Berlin", 1)
        embedder.is_on = True
        await memory.flush()
        assert await waiting(memory) == 0


async def test_a_task_is_answered_by_words(tmp_path: Path, embedder: Switched, clock: FixedClock) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=embedder, clock=clock) as memory:
        await memory.add_memory("Sort before you search", **U, memory_type="procedural", memory_target="code")
        embedder.is_on = False
        found = await memory.retrieve_task_memory("how to search", **U, task_name="code")
        assert ([hit.memory for hit in found.results], len(found.degraded)) == (["Sort before you search"], 1)


async def test_several_loops_and_threads_share_one_outage(
    tmp_path: Path, embedder: Switched, caplog: pytest.LogCaptureFixture
) -> None:
    memory = ReMe("space", tmp_path, llm=None, embedding=embedder, clock=FixedClock())
    embedder.is_on = False

    def use(number: int) -> int:
        async def both() -> int:
            await memory.add_memory(f"fact {number}", **U)
            return len((await memory.retrieve(f"fact {number}", **U)).degraded)

        return asyncio.run(both())

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(16))) == [1] * 16
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    embedder.is_on = True
    await memory.flush()
    assert await waiting(memory) == 0
    await memory.close()
