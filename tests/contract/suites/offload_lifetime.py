# asserts are what a contract suite is made of
"""Promises of an offload store about scopes, threads, processes and its own end."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from reme_core.errors import OffloadNotFoundError, StoreClosedError
from reme_core.ports import AppendMessages, ListOffloads, OffloadSearch
from reme_core.schema import CleanedOffloads, OffloadInfo, OffloadRecord, Scope
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    Opener,
    StoreCapabilities,
    at_once,
    in_new_process,
    in_threads,
    message,
    opened,
    require,
)
from tests.contract.suites.offload_values import (
    SESSION,
    Store,
    clean,
    hold,
    listed,
    pointer_to,
    put,
    references,
    search,
    text_of,
    texts,
)

OTHERS = (BOB, SHARED, ELSEWHERE, *LOOKALIKES)


class OffloadIsolation:
    """Two scopes never meet."""

    async def test_the_same_reference_in_two_scopes_is_two_offloads(self, store: Store) -> None:
        for number, scope in enumerate((ALICE, *OTHERS)):
            await put(store, text_of(f"walrus {number}", reference="same"), scope=scope)
        assert (await clean(store, max_bytes=0)).bytes_removed == 8
        for number, scope in enumerate(OTHERS, start=1):
            assert await texts(store, scope=scope) == [f"walrus {number}"]
            assert [hit.passage for hit in await search(store, "walrus", scope=scope)] == [f"walrus {number}"]
        assert await texts(store) == []

    async def test_the_same_text_in_two_scopes_is_kept_in_both(self, store: Store) -> None:
        first, second = text_of("the same"), text_of("the same")
        assert await put(store, first) == [first.reference]
        assert await put(store, second, scope=BOB) == [second.reference]

    async def test_another_scope_sees_holds_and_removes_nothing(self, store: Store) -> None:
        kept = text_of("walrus", reference="a")
        await put(store, kept)
        for scope in OTHERS:
            with pytest.raises(OffloadNotFoundError):
                await store.get_offload(scope, "a")
            assert await listed(store, scope=scope) == [], scope
            assert await listed(store, ListOffloads(session_id=SESSION), scope=scope) == [], scope
            assert await search(store, "walrus", scope=scope) == [], scope
            assert await search(store, "walrus", session_id=SESSION, scope=scope) == [], scope
            await hold(store, "a", scope=scope)
            assert await clean(store, older=999, max_bytes=0, scope=scope) == CleanedOffloads(), scope
            assert (await store.erase(scope)).offloads == 0, scope
            assert await listed(store) == [kept.info], scope
        assert references((await clean(store, older=999)).removed) == ["a"]

    async def test_a_session_of_the_same_name_in_another_scope_holds_nothing_here(self, store: Store) -> None:
        for scope in (ALICE, BOB):
            await put(store, text_of("walrus", reference="a"), scope=scope, hold=scope == BOB)
        await hold(store, scope=ALICE)
        assert references((await clean(store, older=999)).removed) == ["a"]
        assert references((await clean(store, older=999, scope=BOB)).held) == ["a"]

    async def test_words_are_weighed_by_the_texts_of_the_scope_alone(self, store: Store) -> None:
        await put(store, text_of("apple"), text_of("plum"))
        before = [hit.score for hit in await search(store, "apple quince")]
        await put(store, *(text_of(f"quince {n}") for n in range(20)), scope=BOB)
        assert [hit.score for hit in await search(store, "apple quince")] == before

    async def test_erasing_a_scope_removes_its_offloads_and_no_others(self, store: Store) -> None:
        for scope in (ALICE, BOB):
            await store.append(scope, AppendMessages(session_id=SESSION, messages=[message("said", message_id="m")]))
            await put(store, text_of("walrus", reference="a"), pointer_to("m"), scope=scope, hold=True)
        assert (await store.erase(ALICE)).offloads == 2
        assert await listed(store) == []
        assert await search(store, "walrus") == []
        with pytest.raises(OffloadNotFoundError):
            await store.get_offload(ALICE, "a")
        assert len(await listed(store, scope=BOB)) == 2
        assert references((await clean(store, older=999, scope=BOB)).held) == ["a"]
        assert (await store.erase(ALICE)).offloads == 0
        await put(store, text_of("another", reference="a"))
        assert references((await clean(store, older=999)).removed) == ["a"]


class OffloadConcurrency:
    """Many at once, and closing."""

    async def test_of_many_equal_texts_kept_at_once_one_is_kept(self, store: Store) -> None:
        answers = await at_once(*(put(store, text_of("the same"), text_of(f"own {n}")) for n in range(50)))
        assert len({same for same, _ in answers}) == 1
        assert Counter(await texts(store)) == {"the same": 1, **{f"own {n}": 1 for n in range(50)}}

    async def test_threads_that_keep_at_once_lose_nothing(self, store: Store) -> None:
        async def work(number: int) -> list[list[str]]:
            return [await put(store, text_of(f"text {n} of {number}"), text_of("the same")) for n in range(10)]

        parts = await in_threads(work, count=6)
        assert len({same for part in parts for _, same in part}) == 1
        assert sorted(await texts(store)) == sorted(
            ["the same", *(f"text {n} of {number}" for n in range(10) for number in range(6))]
        )

    async def test_keeping_that_is_cancelled_at_any_moment_keeps_all_or_nothing(self, store: Store) -> None:
        for steps in range(8):
            scope = Scope(memory_space="space", user_id=f"user {steps}")
            task = asyncio.create_task(put(store, text_of("one"), text_of("two"), scope=scope))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await put(store, text_of("three"), scope=scope)  # goes through the same lock as what was cancelled
            assert [item for item in await texts(store, scope=scope) if item != "three"] in ([], ["one", "two"])

    async def test_a_clean_up_takes_nothing_that_is_held_at_the_same_time(self, store: Store) -> None:
        for number in range(5):
            kept = [text_of(f"text {number} {n}") for n in range(10)]
            task = asyncio.create_task(put(store, *kept, hold=True))
            while not task.done():
                assert (await clean(store, older=999, max_bytes=0)).removed == ()
            for reference, item in zip(await task, kept, strict=True):
                assert (await store.get_offload(ALICE, reference)).text == item.text

    async def test_every_call_on_offloads_after_closing_says_that_it_is_closed(self, store: Store) -> None:
        await put(store, text_of("walrus", reference="a"))
        await store.close()
        with pytest.raises(StoreClosedError):
            await put(store, text_of("more"))
        with pytest.raises(StoreClosedError):
            await store.get_offload(ALICE, "a")
        with pytest.raises(StoreClosedError):
            await store.list_offloads(ALICE, ListOffloads())
        with pytest.raises(StoreClosedError):
            await store.search_offloads(ALICE, OffloadSearch(text="walrus"))
        with pytest.raises(StoreClosedError):
            await hold(store, "a")
        with pytest.raises(StoreClosedError):
            await clean(store, max_bytes=0)
        await store.close()


class OffloadDurability:
    """What a new process finds, and several processes at once. Declared by `capabilities`."""

    capabilities = StoreCapabilities()

    @pytest.fixture
    def opener(self) -> Opener[Store]:
        """Return what opens the same store again; to be overridden by a backend that declares a capability."""
        pytest.fail("this backend declares a capability that needs the fixture `opener`")

    async def test_a_new_process_finds_every_offload_its_words_and_who_holds_it(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        opener: Opener[Store] = request.getfixturevalue("opener")
        await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[message("said", message_id="m")]))
        held, free, pointer = text_of("the held 海象", minute=1), text_of("the free walrus", minute=2), pointer_to("m")
        await put(store, held, hold=True)
        await put(store, free, pointer)
        await put(store, text_of("of Bob"), scope=BOB)
        await store.close()
        infos, whole, found, cleaned, same = await in_new_process(_look, opener, held.reference)
        assert infos == [held.info, free.info, pointer.info]
        assert whole == held
        assert found == [held.reference]
        assert (references(cleaned.held), references(cleaned.removed)) == ([held.reference], [free.reference])
        assert same == [held.reference]

    async def test_processes_that_keep_at_once_lose_nothing(self, store: Store, request: pytest.FixtureRequest) -> None:
        require(declared=self.capabilities.shared, capability="shared")
        opener: Opener[Store] = request.getfixturevalue("opener")
        await put(store, text_of("before"))
        parts = await at_once(*(in_new_process(_work, opener, name) for name in ("one", "two")))
        assert len({same for part in parts for same in part}) == 1
        wanted = Counter(["before", "the same", *(f"{name} {n}" for name in ("one", "two") for n in range(8))])
        assert Counter(await texts(store)) == wanted


async def _looked(
    opener: Opener[Store], reference: str
) -> tuple[list[OffloadInfo], OffloadRecord, list[str], CleanedOffloads, list[str]]:
    store = await opened(opener)
    infos, whole = await listed(store), await store.get_offload(ALICE, reference)
    found = [hit.info.reference for hit in await search(store, "海象")]
    cleaned = await clean(store, older=999)
    same = await put(store, text_of("the held 海象"))
    await store.close()
    return infos, whole, found, cleaned, same


def _look(
    opener: Opener[Store], reference: str
) -> tuple[list[OffloadInfo], OffloadRecord, list[str], CleanedOffloads, list[str]]:
    return asyncio.run(_looked(opener, reference))


async def _worked(opener: Opener[Store], name: str) -> list[str]:
    store = await opened(opener)
    answers = [await put(store, text_of(f"{name} {n}"), text_of("the same")) for n in range(8)]
    await store.close()
    return [same for _, same in answers]


def _work(opener: Opener[Store], name: str) -> list[str]:
    return asyncio.run(_worked(opener, name))
