"""Indexes in memory follow the database, whoever writes, as they follow the file of the local store."""

from __future__ import annotations

import random

from reme_core.stores import PostgresStore
from reme_core.testing.store_values import ALICE, BOB
from tests.unit.stores.local.test_following import answers, search_from_an_older_snapshot, write_something


async def test_a_reader_that_follows_answers_like_one_that_has_just_opened(shared_url: str) -> None:
    chance = random.Random(1)  # no secret
    writer, reader = PostgresStore(shared_url), PostgresStore(shared_url, cache_bytes=20_000)
    for step in range(60):
        await write_something(writer, chance.choice((ALICE, BOB)), chance, step)
        if step % 10 == 0:
            fresh = PostgresStore(shared_url)
            for scope in (ALICE, BOB):
                assert await answers(reader, scope) == await answers(fresh, scope)
            await fresh.close()
    await writer.close()
    await reader.close()


async def test_a_search_begun_before_what_its_partition_holds_finds_that_as_well(shared_url: str) -> None:
    store = PostgresStore(shared_url)
    early, late = await search_from_an_older_snapshot(store)
    assert early == late == ["second", "first"]
    await store.close()
