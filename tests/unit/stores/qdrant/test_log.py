"""The log of the Qdrant store: writers that know nothing of each other, and writers that die."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, models

from reme_core.errors import ConflictError, StoreError, StoreUnavailableError
from reme_core.ports import DeleteMemory, EventQuery, PutMemory, UseMemory, WriteBatch
from reme_core.rules import check_batch
from reme_core.schema import Memory
from reme_core.stores.qdrant import filters, log
from reme_core.stores.qdrant.backend import Backend
from reme_core.stores.qdrant.collection import QdrantLayout, ensure_collection
from reme_core.stores.qdrant.points import dense_of, memory_id_point, memory_point, read_commit, read_memory
from reme_core.testing.store_values import ALICE, DIMENSION, NOW, at_once, axis, batch, changed, closed, lasting, memory


class Interleaving:
    """Lets all other tasks go on before each call, as calls over a network do; may die before a chosen one."""

    def __init__(self, client: AsyncQdrantClient, dies_before: str = "") -> None:
        self.client = client
        self.dies_before = dies_before

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            if name == self.dies_before:
                raise RuntimeError("killed")
            result = await method(*args, **kwargs)
            await asyncio.sleep(0)
            return result

        return call


@pytest.fixture
async def client() -> AsyncIterator[AsyncQdrantClient]:
    client = AsyncQdrantClient(location=":memory:")
    await ensure_collection(client, "memories", DIMENSION, QdrantLayout(), remote=False)
    yield client
    await client.close()


def process(client: AsyncQdrantClient, *, dies_before: str = "") -> Backend:
    """Return what another process would hold: the same collection, and no lock in common."""
    connection: Any = Interleaving(client, dies_before)
    return Backend(client=connection, collection="memories", remote=True)


async def write(backend: Backend, *puts: Memory | PutMemory, write_batch: WriteBatch | None = None) -> Sequence[Memory]:
    return await log.write(backend, ALICE, check_batch(ALICE, write_batch or batch(*puts)))


async def held(backend: Backend) -> dict[str, Memory]:
    records = await backend.scroll(ALICE, filters.all_memories(ALICE), limit=1000)
    memories = [read_memory(record.payload) for record in records]
    return {memory.memory_id: memory for memory in memories}


async def test_writers_without_a_common_lock_write_the_same_fact_once(client: AsyncQdrantClient) -> None:
    answers = await at_once(*(write(process(client), memory("the same fact")) for _ in range(12)))
    kept = await held(process(client))
    assert len(kept) == 1
    assert {answer[0].memory_id for answer in answers} == set(kept)
    assert len(await log.events(process(client), ALICE, EventQuery())) == 1


async def test_writers_without_a_common_lock_lose_no_update_and_number_events_without_gaps(
    client: AsyncQdrantClient,
) -> None:
    [first] = await write(process(client), memory("fact"))
    await at_once(*(write(process(client), changed(first, {"freq": n})) for n in range(12)))
    assert (await held(process(client)))[first.memory_id].revision == 13
    events = await log.events(process(client), ALICE, EventQuery())
    assert [event.sequence for event in events] == list(range(1, 14))
    assert [event.before for event in events[1:]] == [event.after for event in events[:-1]]


async def test_of_writers_that_expect_the_same_revision_one_succeeds(client: AsyncQdrantClient) -> None:
    [first] = await write(process(client), memory("fact"))

    async def attempt(number: int) -> bool:
        edit = changed(first, {"content": f"edit {number}"})
        try:
            await write(process(client), PutMemory(memory=edit, expected_revision=1))
        except ConflictError:
            return False
        return True

    assert sum(await at_once(*(attempt(number) for number in range(8)))) == 1


async def test_a_writer_that_dies_before_its_commit_has_written_nothing(client: AsyncQdrantClient) -> None:
    with pytest.raises(Exception, match="killed"):
        await write(process(client, dies_before="upsert"), memory("one"), memory("two"))
    assert await log.settle(process(client), ALICE) == 0
    assert await held(process(client)) == {}


async def test_what_a_writer_committed_before_it_died_is_applied_whole_by_the_next_call(
    client: AsyncQdrantClient,
) -> None:
    one, two = memory("one"), memory("two")
    [old] = await write(process(client), PutMemory(memory=memory("old"), vector=axis(3)))
    ended = closed(old, minute=5)
    with pytest.raises(Exception, match="killed"):
        await write(
            process(client, dies_before="batch_update_points"), PutMemory(memory=one, vector=axis(0)), two, ended
        )
    assert list(await held(process(client))) == [old.memory_id]
    assert len(await log.events(process(client), ALICE, EventQuery())) == 1
    assert await log.settle(process(client), ALICE) == 4
    assert set(await held(process(client))) == {one.memory_id, two.memory_id, old.memory_id}
    assert len(await log.events(process(client), ALICE, EventQuery())) == 4
    ids = [memory_id_point(ALICE, name) for name in (one.memory_id, old.memory_id)]
    vectors = {str(item.id): dense_of(item.vector) for item in await process(client).retrieve(ALICE, ids, vectors=True)}
    assert [vector.tolist() for name in ids if (vector := vectors[name]) is not None] == [
        axis(0).tolist(),
        axis(3).tolist(),
    ]


async def test_a_writer_finishes_the_commit_of_one_that_died_before_it_plans_its_own(client: AsyncQdrantClient) -> None:
    with pytest.raises(Exception, match="killed"):
        await write(process(client, dies_before="batch_update_points"), memory("fact", memory_id="first"))
    [same] = await write(process(client), memory("Fact."))
    assert same.memory_id == "first"


async def test_a_commit_applied_late_does_not_undo_a_later_one(client: AsyncQdrantClient) -> None:
    backend = process(client)
    first, gone = await write(backend, memory("fact", memory_id="id"), memory("gone", memory_id="gone"))
    [record] = await backend.scroll(ALICE, filters.all_commits(ALICE), limit=1)
    early = read_commit(record.payload)
    [edited] = await write(backend, changed(first, {"content": "edited"}))
    await write(backend, write_batch=batch(deletes=(DeleteMemory(memory_id=gone.memory_id),)))
    await log.apply(backend, ALICE, early)
    assert await held(backend) == {"id": edited}


async def test_vectors_are_kept_once_when_a_commit_was_applied(client: AsyncQdrantClient) -> None:
    backend = process(client)
    await write(backend, PutMemory(memory=memory("fact"), vector=axis(0)))
    [record] = await backend.scroll(ALICE, filters.all_commits(ALICE), limit=1)
    assert record.payload is not None
    assert "vectors" not in record.payload
    assert record.payload["applied"] is True


async def test_uses_without_a_common_lock_all_count_among_the_writes_of_others(client: AsyncQdrantClient) -> None:
    [first] = await write(process(client), PutMemory(memory=memory("fact"), vector=axis(3)))
    use = [UseMemory(memory_id=first.memory_id, helpful=0.5)]
    uses = [log.count_uses(process(client), ALICE, use) for _ in range(8)]
    edits = [write(process(client), changed(first, {"metadata": {"n": n}})) for n in range(4)]
    async with asyncio.TaskGroup() as group:
        for work in (*uses, *edits):
            group.create_task(work)
    found = (await held(process(client)))[first.memory_id]
    assert (found.freq, found.utility, found.revision) == (8, 4.0, 5)
    [record] = await process(client).retrieve(ALICE, [memory_id_point(ALICE, first.memory_id)], vectors=True)
    vector = dense_of(record.vector)
    assert vector is not None
    assert vector.tolist() == axis(3).tolist()


async def test_uses_take_numbers_that_no_event_has_and_are_not_told(client: AsyncQdrantClient) -> None:
    backend = process(client)
    [first] = await write(backend, memory("fact"))
    for _ in range(3):
        await log.count_uses(backend, ALICE, [UseMemory(memory_id=first.memory_id)])
    [edited] = await write(backend, changed(first, {"content": "edited"}))
    told = await log.events(backend, ALICE, EventQuery())
    assert [event.sequence for event in told] == [1, 5]
    assert told[1].after == edited
    assert edited.freq == 3
    assert await log.events(backend, ALICE, EventQuery(after=1, limit=1)) == told[1:]
    assert await log.count_events(backend, ALICE) == 2


async def test_uses_that_others_record_while_events_are_counted_take_nothing_off(client: AsyncQdrantClient) -> None:
    [first] = await write(process(client), memory("fact"))
    use = [UseMemory(memory_id=first.memory_id)]
    await log.count_uses(process(client), ALICE, use)

    class UsedMeanwhile(Interleaving):
        def __getattr__(self, name: str) -> Any:
            method = super().__getattr__(name)

            async def count(*args: Any, **kwargs: Any) -> Any:
                for _ in range(3):
                    await log.count_uses(process(client), ALICE, use)
                return await method(*args, **kwargs)

            return count if name == "count" else method

    connection: Any = UsedMeanwhile(client)
    assert await log.count_events(Backend(client=connection, collection="memories", remote=True), ALICE) == 1


async def test_uses_that_were_committed_before_their_process_died_count_once(client: AsyncQdrantClient) -> None:
    backend = process(client)
    [first] = await write(backend, PutMemory(memory=memory("fact"), vector=axis(3)))
    use = [UseMemory(memory_id=first.memory_id, uses=2)]
    with pytest.raises(StoreError, match="killed"):
        await log.count_uses(process(client, dies_before="upsert"), ALICE, use)
    with pytest.raises(StoreError, match="killed"):
        await log.count_uses(process(client, dies_before="batch_update_points"), ALICE, use)
    assert (await held(backend))[first.memory_id].freq == 0
    [left] = await backend.scroll(ALICE, filters.all_commits(ALICE, filters.counts_uses()), limit=9)
    await log.settle(process(client), ALICE)
    assert (await held(backend))[first.memory_id].freq == 2
    await log.count_uses(backend, ALICE, use)
    await log.apply(backend, ALICE, read_commit(left.payload))  # late, and once more
    assert (await held(backend))[first.memory_id].freq == 4
    records = await backend.scroll(ALICE, filters.all_commits(ALICE, filters.counts_uses()), limit=9)
    assert [{"counted", "vectors"} & set(record.payload or {}) for record in records] == [set(), set()]


async def test_a_write_that_is_only_acknowledged_is_no_success(client: AsyncQdrantClient) -> None:
    class Hasty(Interleaving):
        def __getattr__(self, name: str) -> Any:
            if name != "upsert":
                return super().__getattr__(name)

            async def upsert(*_: Any, **__: Any) -> models.UpdateResult:
                return models.UpdateResult(operation_id=1, status=models.UpdateStatus.ACKNOWLEDGED)

            return upsert

    connection: Any = Hasty(client)
    with pytest.raises(StoreUnavailableError, match="acknowledged"):
        await write(Backend(client=connection, collection="memories", remote=True), memory("fact"))


async def write_as_before_own_times(client: AsyncQdrantClient, *memories: Memory) -> None:
    """Write points as a release wrote them for which a memory with an end was not current."""
    for number, item in enumerate(memories):
        point = memory_point(item, axis(number % DIMENSION), 0, waits=False)
        assert point.payload is not None
        point.payload.pop("superseded_by", None)
        if item.valid_to is not None:
            point.payload["current"] = False
            point.payload.pop("claim", None)
        await client.upsert("memories", [point])


async def test_what_had_ended_for_an_earlier_release_is_found_again_and_nothing_is_lost(
    client: AsyncQdrantClient,
) -> None:
    def ended(content: str, memory_id: str, until: float | None) -> Memory:
        return lasting(memory(content, memory_id=memory_id, minute=-500), minute=-400, until=until)

    flute = changed(ended("flute", "flute", -9), {"metadata": {"origin": {"superseded_by": "elsewhere"}}})
    violin = closed(memory("violin", memory_id="violin"), minute=5, by="sold")
    equal = [ended("Acme", "then", -300), ended("acme.", "now", None), ended("x", "x1", -20), ended("X", "x2", -10)]
    trips = [ended(f"trip {number}", f"trip {number}", -300 + number) for number in range(200)]
    before = {item.memory_id: item for item in (flute, violin, *equal, *trips)}
    await write_as_before_own_times(client, *before.values())
    await at_once(*(log.tell_ends_from_replacements(process(client), ALICE) for _ in range(4)))
    after = await held(process(client))
    assert {name: item.superseded_by for name, item in after.items() if not item.is_current} == {
        "flute": "elsewhere", "violin": "sold", "then": "now", "x1": "x2",
    }  # fmt: skip
    ignored = {"superseded_by": None, "revision": 1, "updated_at": NOW}
    assert {name: item.model_copy(update=ignored) for name, item in after.items()} == {
        name: item.model_copy(update=ignored) for name, item in before.items()
    }
    events = await log.events(process(client), ALICE, EventQuery())
    assert sorted(event.memory_id for event in events) == ["flute", "then", "x1"]
    records = await process(client).scroll(ALICE, filters.all_memories(ALICE), limit=1000, vectors=True)
    assert all(dense_of(record.vector) is not None for record in records)
    [same] = await write(process(client), memory("TRIP 7", minute=-350))
    assert same.memory_id == "trip 7"
