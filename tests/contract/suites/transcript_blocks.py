# asserts are what a contract suite is made of
"""Promises of a transcript about blocks, about scopes, and about tasks, threads and processes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core.errors import (
    BlockNotFoundError,
    ConflictError,
    InvalidInputError,
    MessageNotFoundError,
    StoreClosedError,
)
from reme_core.ports import AppendMessages, FindMessages, ListBlocks, Store
from reme_core.schema import Block, Erased, Message, Scope, StoredMessage, new_id
from reme_core.testing.store_values import (
    ALICE,
    BOB,
    ELSEWHERE,
    LOOKALIKES,
    SHARED,
    Opener,
    StoreCapabilities,
    at,
    at_once,
    block,
    in_new_process,
    in_threads,
    message,
    opened,
    require,
)
from tests.contract.suites.transcript_messages import SESSION, append, found, put_block, several

OTHERS = (BOB, SHARED, ELSEWHERE, *LOOKALIKES)
# Examples use scopes of their own in the store of one test, and each backend runs the same function in its own class.
SUPPRESSED = (HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)
TASKS = 50
THREADS = 16


async def blocks_of(store: Store, query: ListBlocks, *, scope: Scope = ALICE) -> list[Block]:
    """List blocks on all pages."""
    blocks: list[Block] = []
    cursor = query.cursor
    while True:
        asked = ListBlocks(
            session_id=query.session_id,
            said_from=query.said_from,
            said_to=query.said_to,
            limit=query.limit,
            cursor=cursor,
        )
        page = await store.list_blocks(scope, asked)
        assert len(page.blocks) <= query.limit
        blocks += page.blocks
        cursor = page.next_cursor
        if cursor is None:
            return blocks


class TranscriptBlocks:
    """Slices of a session."""

    async def test_blocks_come_back_as_they_were_put(self, store: Store) -> None:
        said = several(3)
        await append(store, *said)
        first = block(SESSION, said[0], said[1], summary="начало 开始")
        second = block(SESSION, said[2], summary="end")
        await store.put_blocks(ALICE, [first, second])
        assert await store.get_blocks(ALICE, [second.block_id, first.block_id]) == [second, first]
        assert await store.get_blocks(ALICE, []) == []
        assert await blocks_of(store, ListBlocks()) == [first, second]

    async def test_every_unknown_block_is_named(self, store: Store) -> None:
        [said] = several(1)
        await append(store, said)
        made = await put_block(store, said)
        with pytest.raises(BlockNotFoundError) as caught:
            await store.get_blocks(ALICE, ["no such", made.block_id, "*", ""])
        assert caught.value.missing == ("no such", "*", "")

    async def test_putting_an_equal_block_again_changes_nothing(self, store: Store) -> None:
        said = several(2)
        await append(store, *said)
        made = await put_block(store, *said)
        await store.put_blocks(ALICE, [made])
        await store.put_blocks(ALICE, [made, made])
        assert await blocks_of(store, ListBlocks()) == [made]

    async def test_the_id_of_a_block_with_other_content_conflicts(self, store: Store) -> None:
        said = several(2)
        await append(store, *said)
        made = await put_block(store, *said, summary="one")
        other = block(SESSION, said[1])
        with pytest.raises(ConflictError):
            await store.put_blocks(ALICE, [other, made.model_copy(update={"summary": "two"})])
        assert await blocks_of(store, ListBlocks()) == [made]

    @pytest.mark.parametrize("wrong", ["unknown", "other session", "other scope"])
    async def test_a_block_of_messages_that_are_not_in_its_session_is_refused(self, store: Store, wrong: str) -> None:
        mine, other, theirs = message("mine"), message("other"), message("theirs")
        await append(store, mine)
        await append(store, other, session_id="other")
        await append(store, theirs, scope=BOB)
        bad = {"unknown": message("never said"), "other session": other, "other scope": theirs}[wrong]
        good = block(SESSION, mine)
        with pytest.raises(MessageNotFoundError) as caught:
            await store.put_blocks(ALICE, [good, block(SESSION, mine, bad)])
        assert caught.value.missing == (bad.message_id,)
        assert await blocks_of(store, ListBlocks()) == []
        assert await found(store, FindMessages(unsliced=True)) == [mine, other]

    async def test_blocks_may_repeat_the_end_of_the_block_before(self, store: Store) -> None:
        said = several(3)
        await append(store, *said)
        first = await put_block(store, said[0], said[1])
        second = block(SESSION, said[1], said[2]).model_copy(update={"repeats": 1})
        await store.put_blocks(ALICE, [second])
        assert await blocks_of(store, ListBlocks()) == [first, second]
        stored = await store.get_messages(ALICE, [item.message_id for item in said])
        assert stored[0].block_id == first.block_id
        assert stored[1].block_id in {first.block_id, second.block_id}
        assert stored[2].block_id == second.block_id
        assert await found(store, FindMessages()) == said
        assert await found(store, FindMessages(unsliced=True)) == []

    async def test_a_message_is_not_sliced_twice(self, store: Store) -> None:
        said = several(4)
        await append(store, *said)
        first = await put_block(store, said[0], said[1])
        with pytest.raises(ConflictError):
            await store.put_blocks(ALICE, [block(SESSION, said[3]), block(SESSION, said[1], said[2])])
        with pytest.raises(ConflictError):
            await store.put_blocks(ALICE, [block(SESSION, said[2]), block(SESSION, said[2], said[3])])
        assert await blocks_of(store, ListBlocks()) == [first]
        assert await found(store, FindMessages(unsliced=True)) == said[2:]

    async def test_of_many_that_slice_the_same_messages_at_once_one_succeeds(self, store: Store) -> None:
        said = several(2)
        await append(store, *said)

        async def attempt() -> bool:
            try:
                await put_block(store, *said)
            except ConflictError:
                return False
            return True

        assert sum(await at_once(*(attempt() for _ in range(20)))) == 1
        assert len(await blocks_of(store, ListBlocks())) == 1

    async def test_blocks_of_a_time_are_those_that_overlap_it(self, store: Store) -> None:
        said = several(6)
        await append(store, *said)
        made = [await put_block(store, said[n], said[n + 1]) for n in (0, 2, 4)]
        assert await blocks_of(store, ListBlocks(said_from=at(1), said_to=at(2))) == made[:1]
        assert await blocks_of(store, ListBlocks(said_from=at(1), said_to=at(2.5))) == made[:2]
        assert await blocks_of(store, ListBlocks(said_from=at(3.5))) == made[2:]
        assert await blocks_of(store, ListBlocks(said_from=at(3))) == made[1:]
        assert await blocks_of(store, ListBlocks(said_to=at(2))) == made[:1]
        assert await blocks_of(store, ListBlocks(said_from=at(0.2), said_to=at(0.8))) == made[:1]

    @pytest.mark.parametrize("size", [1, 2, 4, 5, 6])
    async def test_pages_of_blocks_partition_the_list(self, store: Store, size: int) -> None:
        made = []
        for n in range(5):
            session = "ab"[n % 2]
            said = message(f"text {n}", minute=-n)
            await append(store, said, session_id=session)
            made.append(await put_block(store, said, session_id=session))
        assert await blocks_of(store, ListBlocks(limit=size)) == made
        assert await blocks_of(store, ListBlocks(limit=size, session_id="a")) == made[::2]
        assert await blocks_of(store, ListBlocks(session_id="*")) == []

    @pytest.mark.parametrize("cursor", ["", "x", "-1", "*", "{}", "null", "e30=", "é"])
    async def test_a_cursor_of_blocks_that_is_not_ours_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidInputError):
            await store.list_blocks(ALICE, ListBlocks(cursor=cursor))


async def visible(store: Store, scope: Scope) -> list[StoredMessage | Block]:
    """Return everything that listing calls show of a scope."""
    page = await store.find_messages(scope, FindMessages(limit=1000))
    words = await store.find_messages(scope, FindMessages(keyword="zebra", limit=1000))
    return [*page.messages, *words.messages, *await blocks_of(store, ListBlocks(limit=1000), scope=scope)]


class TranscriptIsolation:
    """Two scopes never meet."""

    async def test_the_same_ids_in_two_scopes_are_different_things(self, store: Store) -> None:
        for number, scope in enumerate((ALICE, *OTHERS)):
            said = message(f"zebra {number}", message_id="id")
            assert (await append(store, said, scope=scope)).added == ("id",)
            await store.put_blocks(scope, [block(SESSION, said, summary=f"{number}", block_id="block")])
        for number, scope in enumerate((ALICE, *OTHERS)):
            [stored] = await store.get_messages(scope, ["id"])
            assert stored.message.text == f"zebra {number}"
            [made] = await store.get_blocks(scope, ["block"])
            assert made.summary == f"{number}"
            assert len(await visible(store, scope)) == 3

    async def test_another_scope_sees_and_touches_nothing(self, store: Store) -> None:
        said = message("zebra")
        await append(store, said)
        made = await put_block(store, said)
        for scope in OTHERS:
            assert await visible(store, scope) == [], scope
            with pytest.raises(MessageNotFoundError):
                await store.get_messages(scope, [said.message_id])
            with pytest.raises(BlockNotFoundError):
                await store.get_blocks(scope, [made.block_id])
            with pytest.raises(MessageNotFoundError):
                await store.put_blocks(scope, [block(SESSION, said)])
            assert _counts(await store.erase(scope)) == (0, 0), scope
            assert len(await visible(store, ALICE)) == 3, scope

    async def test_erasing_removes_everything_of_the_scope_alone(self, store: Store) -> None:
        for scope in (ALICE, BOB):
            said = [message(f"zebra {n}", message_id=f"id {n}") for n in range(3)]
            await append(store, *said, scope=scope)
            await put_block(store, *said[:2], scope=scope)
        assert _counts(await store.erase(ALICE)) == (3, 1)
        assert await visible(store, ALICE) == []
        assert len(await visible(store, BOB)) == 7
        assert _counts(await store.erase(ALICE)) == (0, 0)
        again = message("quite another text", message_id="id 0")
        assert (await append(store, again, session_id="other")).added == ("id 0",)

    @given(
        st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(["append", "block", "erase"]), st.integers(0, 5)), max_size=15
        )
    )
    @settings(max_examples=25, deadline=None, suppress_health_check=SUPPRESSED)
    async def test_no_sequence_of_calls_mixes_two_scopes(self, store: Store, steps: list[tuple[int, str, int]]) -> None:
        space = new_id()
        scopes = (Scope(memory_space=space, user_id="a"), Scope(memory_space=space, user_id="*"))
        model: tuple[list[Message], list[Message]] = ([], [])
        for which, action, number in steps:
            scope, held = scopes[which], model[which]
            if action == "append":
                said = message(f"zebra {number} {which}", message_id=f"id {number}")
                answer = await append(store, said, scope=scope)
                assert answer.known == ((said.message_id,) if said in held else ())
                held += [] if said in held else [said]
            elif action == "block" and held:
                with suppress(ConflictError):  # it lies in a block already
                    await put_block(store, held[number % len(held)], scope=scope)
            elif action == "erase":
                assert (await store.erase(scope)).messages == len(held)
                held.clear()
            for other_scope, other in zip(scopes, model, strict=True):
                assert await found(store, FindMessages(), scope=other_scope) == other


class TranscriptConcurrency:
    """Many writers at once, cancellation, and closing."""

    async def test_many_identical_appends_at_once_add_the_message_once(self, store: Store) -> None:
        said = message("hello")
        answers = await at_once(*(append(store, said) for _ in range(TASKS)))
        assert sum(answer.added == (said.message_id,) for answer in answers) == 1
        assert sum(answer.known == (said.message_id,) for answer in answers) == TASKS - 1
        assert await found(store, FindMessages()) == [said]

    async def test_many_distinct_appends_at_once_are_all_kept_in_batches(self, store: Store) -> None:
        batches = [several(3) for _ in range(TASKS)]
        await at_once(*(append(store, *said) for said in batches))
        kept = await found(store, FindMessages(limit=1000))
        assert len(kept) == 3 * TASKS
        starts = {said[0].message_id: said for said in batches}
        for place in range(0, len(kept), 3):
            assert kept[place : place + 3] == starts[kept[place].message_id]

    async def test_threads_with_event_loops_of_their_own_share_one_store(self, store: Store) -> None:
        same = message("the same")

        async def work(number: int) -> None:
            await append(store, same)
            own = message(f"own {number}", message_id=f"own {number}")
            await append(store, own, session_id=f"session {number}")
            await put_block(store, own, session_id=f"session {number}")

        await in_threads(work, count=THREADS)
        kept = await found(store, FindMessages(limit=1000))
        assert sorted(item.text for item in kept) == sorted(["the same", *(f"own {n}" for n in range(THREADS))])
        assert len(await blocks_of(store, ListBlocks())) == THREADS

    async def test_an_append_cancelled_at_any_moment_is_whole_or_absent(self, store: Store) -> None:
        for steps in range(12):
            session = f"session {steps}"
            request = AppendMessages(session_id=session, messages=several(3))
            task = asyncio.create_task(store.append(ALICE, request))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await append(store, message("after"))  # waits behind the cancelled write, where writes wait for each other
            count = len(await found(store, FindMessages(session_id=session)))
            assert count in (({0, 3}) if task.cancelled() else {3})

    async def test_every_call_after_closing_says_that_it_is_closed(self, store: Store) -> None:
        said = message("hello")
        await append(store, said)
        await store.close()
        await store.close()
        with pytest.raises(StoreClosedError):
            await append(store, message("more"))
        with pytest.raises(StoreClosedError):
            await store.get_messages(ALICE, [said.message_id])
        with pytest.raises(StoreClosedError):
            await store.find_messages(ALICE, FindMessages())
        with pytest.raises(StoreClosedError):
            await store.put_blocks(ALICE, [block(SESSION, said)])
        with pytest.raises(StoreClosedError):
            await store.get_blocks(ALICE, ["id"])
        with pytest.raises(StoreClosedError):
            await store.list_blocks(ALICE, ListBlocks())
        with pytest.raises(StoreClosedError):
            await store.erase(ALICE)


class TranscriptDurability:
    """What a new process finds, and several processes at once. Declared by `capabilities`."""

    capabilities = StoreCapabilities()

    @pytest.fixture
    def opener(self) -> Opener[Store]:
        """Return what opens the same store again; to be overridden by a backend that declares a capability."""
        pytest.fail("this backend declares a capability that needs the fixture `opener`")

    async def test_a_new_process_finds_every_message_and_block(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.persistent, capability="persistent")
        opener: Opener[Store] = request.getfixturevalue("opener")
        said = [message("她喜欢打网球 🎾", name="Ann"), message("ok", role="assistant", minute=1)]
        await append(store, *said)
        made = await put_block(store, said[0], summary="网球")
        here = await visible(store, ALICE)
        await store.close()
        assert await in_new_process(_look, opener) == (here, [said[0]], [made])

    async def test_processes_that_append_at_the_same_time_lose_and_repeat_nothing(
        self, store: Store, request: pytest.FixtureRequest
    ) -> None:
        require(declared=self.capabilities.shared, capability="shared")
        opener: Opener[Store] = request.getfixturevalue("opener")
        common = [message(f"common {n}") for n in range(20)]
        await at_once(*(in_new_process(_write_some, opener, name, common) for name in ("a", "b")))
        kept = await found(store, FindMessages(limit=1000))
        own = {f"{name} {n}" for name in ("a", "b") for n in range(20)}
        assert sorted(item.text for item in kept) == sorted(own | {item.text for item in common})


async def _looked(opener: Opener[Store]) -> tuple[list[StoredMessage | Block], list[Message], list[Block]]:
    store = await opened(opener)
    answer = (
        await visible(store, ALICE),
        await found(store, FindMessages(keyword="网球")),
        await blocks_of(store, ListBlocks()),
    )
    await store.close()
    return answer


def _look(opener: Opener[Store]) -> tuple[list[StoredMessage | Block], list[Message], list[Block]]:
    return asyncio.run(_looked(opener))


async def _written(opener: Opener[Store], name: str, common: list[Message]) -> None:
    store = await opened(opener)
    for number, said in enumerate(common):
        await append(store, message(f"{name} {number}"), session_id=name)
        await append(store, said)
    await store.close()


def _write_some(opener: Opener[Store], name: str, common: list[Message]) -> None:
    asyncio.run(_written(opener, name, common))


def _counts(erased: Erased) -> tuple[int, int]:
    return erased.messages, erased.blocks
