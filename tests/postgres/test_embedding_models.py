"""Writers of different users of a space that come at the same moment agree on what makes its vectors."""

from __future__ import annotations

import asyncio
import threading

import pytest

from reme_core.errors import EmbeddingModelMismatchError
from reme_core.ports import IndexedBy
from reme_core.stores import PostgresStore
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.embedding_record import claim_embedding, find_embedding
from reme_core.testing.store_values import ALICE, BOB
from tests.support.postgres_server import waits_for_me


@pytest.mark.parametrize("before", [None, IndexedBy(dimension=2, model=None)])
async def test_of_two_first_writers_with_different_models_one_is_refused(
    shared_url: str, before: IndexedBy | None
) -> None:
    one, other = PostgresStore(shared_url), PostgresStore(shared_url)
    first, second = IndexedBy(dimension=2, model="first"), IndexedBy(dimension=2, model="second")
    claimed, space = threading.Event(), ALICE.memory_space

    def claim(connection: SqlConnection) -> None:
        claim_embedding(connection, space, first, "a vector")
        claimed.set()
        waits_for_me(connection)  # it has looked, and seen nothing of this

    if before is not None:
        await one.database.write(lambda c: claim_embedding(c, space, before, "a vector"), within=space)
    writing = asyncio.create_task(one.database.write(claim, within=ALICE))
    await asyncio.to_thread(claimed.wait, 10)
    with pytest.raises(EmbeddingModelMismatchError):
        await other.database.write(lambda c: claim_embedding(c, space, second, "a vector"), within=BOB)
    await writing

    assert await other.database.read(lambda c: find_embedding(c, space), within=space) == first
    await one.close()
    await other.close()
