# asserts are what a contract suite is made of
"""Promises of an item store about threads, processes and its own end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from reme_core.errors import StoreClosedError
from reme_core.ports import IndexedBy, Store
from reme_core.testing.store_values import (
    DIMENSION,
    Opener,
    StoreCapabilities,
    at,
    at_once,
    axis,
    in_new_process,
    in_threads,
    leaning,
    opened,
    require,
)
from tests.contract.suites.item_values import (
    SPACE,
    address,
    asked,
    find,
    get,
    keys,
    namespaces,
    of_alice,
    places,
    put,
    write,
)

THREADS = 6
_RANKED = replace(asked(), vector=axis(0))


class ItemConcurrency:
    """Many at once, and closing."""

    async def test_threads_that_write_search_and_list_at_once_see_their_own_writes(self, store: Store) -> None:
        async def work(number: int) -> None:
            for step in range(8):
                where = address(f"{step}", ("docs", f"{number}", f"{step % 3}"))
                await write(store, put(where, {"n": number}, leaning(step / 10)), minute=step)
                assert (await get(store, where)).value == {"n": number}
                assert f"{step}" in await keys(store, replace(_RANKED, prefix=("docs", f"{number}")))
                assert where.namespace in await namespaces(store, ("docs", f"{number}"))
                if step % 3 == 2:
                    await write(store, where)
                    assert await find(store, where) is None

        await in_threads(work, count=THREADS)
        assert len(await keys(store, _RANKED)) == len(await keys(store)) == THREADS * 6

    async def test_of_many_that_write_one_address_the_last_one_stands(self, store: Store) -> None:
        await at_once(
            *(write(store, put("k", {"n": n}, axis(n % 8)), put(of_alice("k"), {"text": "x"})) for n in range(30))
        )
        assert await keys(store) == ["k"]
        found = await get(store, of_alice("k"))
        assert found.memory is not None
        assert found.memory.revision == 30

    async def test_a_cancelled_write_is_done_or_undone_and_the_store_goes_on(self, store: Store) -> None:
        task = asyncio.create_task(write(store, *(put(f"{n}") for n in range(200))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await write(store, put("after"))
        assert len(await keys(store)) in {1, 201}

    async def test_every_call_about_items_after_closing_says_that_it_is_closed(self, store: Store) -> None:
        await write(store, put("k"))
        await store.close()
        indexed = IndexedBy(dimension=DIMENSION, model="m")
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: write(store, put("k")),
            lambda: find(store, "k"),
            lambda: keys(store),
            lambda: places(store),
            lambda: store.sweep_items(SPACE, at(0)),
            lambda: store.find_index(SPACE),
            lambda: store.claim_index(SPACE, indexed),
        )
        for call in calls:
            with pytest.raises(StoreClosedError):
                await call()


class ItemDurability:
    """What was written is there in another process, and what others write is seen."""

    capabilities: StoreCapabilities

    async def test_items_are_found_in_a_new_process(self, store: Store, opener: Opener[Store]) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        await write(store, put("k", {"n": 10**50}, axis(0)), put(of_alice("m"), {"text": "x"}), put("gone"), minute=1)
        await write(store, address("gone"), put("k", {"n": 10**50}, axis(0), ttl_s=600), minute=2)
        expected = [repr(await get(store, "k")), repr(await get(store, of_alice("m")))]
        await store.close()
        assert await in_new_process(_read_and_write, opener) == (expected, ["k"], 1)

    async def test_what_another_process_writes_is_ranked_at_once(self, store: Store, opener: Opener[Store]) -> None:
        require(declared=self.capabilities.shared, capability="shared")
        await write(store, put("k", {}, leaning(0.5)), put(of_alice("m"), {"text": "x"}))
        assert await keys(store, _RANKED) == ["k"]
        await in_new_process(_read_and_write, opener)
        assert await keys(store, _RANKED) == ["better", "k"]


def _read_and_write(opener: Opener[Store]) -> tuple[list[str], list[str], int]:
    return asyncio.run(_reading_and_writing(opener))


async def _reading_and_writing(opener: Opener[Store]) -> tuple[list[str], list[str], int]:
    store = await opened(opener)
    shown = [repr(await get(store, "k")), repr(await get(store, of_alice("m")))]
    ranked = await keys(store, _RANKED)
    await write(store, put("better", {}, axis(0)))
    swept = await _sweep(store)
    await store.close()
    return shown, ranked, swept


async def _sweep(store: Store) -> int:
    return await store.sweep_items(SPACE, at(12))
