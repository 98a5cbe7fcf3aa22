# asserts are what a contract suite is made of
"""Promises of an offload store about clean-ups, and about what they leave alone."""

from __future__ import annotations

import pytest

from reme_core.errors import ConflictError, InvalidInputError, OffloadNotFoundError
from reme_core.ports import AppendMessages
from reme_core.schema import CleanedOffloads
from reme_core.testing.store_values import ALICE, BOB, message
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


async def put_by_age(store: Store, count: int = 4) -> list[str]:
    """Keep texts of ten bytes, one a minute, and the newest first: age is not the order of keeping."""
    kept = [text_of(f"walrus {n:03}", minute=n) for n in range(count)]
    await put(store, *kept[::-1])
    return [item.reference for item in kept]


class OffloadCleaning:
    """What is too old or too much goes, the oldest first, and is named."""

    async def test_texts_offloaded_before_a_time_go(self, store: Store) -> None:
        kept = await put_by_age(store)
        cleaned = await clean(store, older=2)
        assert references(cleaned.removed) == kept[:2]
        assert (cleaned.bytes_removed, cleaned.bytes_left, cleaned.held) == (20, 20, ())
        assert references(await listed(store)) == kept[:1:-1]
        for reference in kept[:2]:
            with pytest.raises(OffloadNotFoundError):
                await store.get_offload(ALICE, reference)
        assert {hit.info.reference for hit in await search(store, "walrus")} == set(kept[2:])

    @pytest.mark.parametrize(("max_bytes", "gone"), [(40, 0), (39, 1), (30, 1), (29, 2), (10, 3), (9, 4), (0, 4)])
    async def test_beyond_a_size_the_oldest_go_until_it_fits(self, store: Store, max_bytes: int, gone: int) -> None:
        kept = await put_by_age(store)
        cleaned = await clean(store, max_bytes=max_bytes)
        assert references(cleaned.removed) == kept[:gone]
        assert (cleaned.bytes_removed, cleaned.bytes_left) == (10 * gone, 40 - 10 * gone)
        assert set(references(await listed(store))) == set(kept[gone:])

    @pytest.mark.parametrize(("older", "max_bytes", "gone"), [(2, 20, 2), (1, 20, 2), (3, 20, 3), (0, 40, 0)])
    async def test_age_and_size_together_take_what_either_asks_for(
        self, store: Store, older: float, max_bytes: int, gone: int
    ) -> None:
        kept = await put_by_age(store)
        assert references((await clean(store, older=older, max_bytes=max_bytes)).removed) == kept[:gone]
        assert set(references(await listed(store))) == set(kept[gone:])

    async def test_sizes_are_bytes_of_utf_8(self, store: Store) -> None:
        await put(store, text_of("网球", minute=1), text_of("🎾", minute=2))
        assert (await clean(store, max_bytes=10)).bytes_left == 10
        assert (await clean(store, max_bytes=9)).bytes_removed == 6

    async def test_without_a_bound_nothing_goes(self, store: Store) -> None:
        await put_by_age(store)
        assert await clean(store) == CleanedOffloads(bytes_left=40)
        assert await clean(store, scope=BOB, max_bytes=0, older=999) == CleanedOffloads()
        assert len(await listed(store)) == 4

    async def test_trying_says_what_would_go_and_removes_nothing(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0])
        tried = CleanedOffloads()
        for older in (2, 3):
            tried = await clean(store, older=older, max_bytes=25, dry_run=True)
            assert (tried.dry_run, references(tried.held)) == (True, [kept[0]])
            assert len(await listed(store)) == 4
            assert len(await search(store, "walrus")) == 4
        done = await clean(store, older=3, max_bytes=25)
        assert done == tried.model_copy(update={"dry_run": False})
        assert references(await listed(store)) == [kept[3], kept[0]]

    async def test_pointers_at_messages_stay(self, store: Store) -> None:
        await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[message("said", message_id="m")]))
        pointer = pointer_to("m")
        await put(store, pointer, text_of("text"))
        cleaned = await clean(store, older=999, max_bytes=0)
        assert len(cleaned.removed) == 1
        assert await listed(store) == [pointer.info]

    async def test_what_was_cleaned_up_can_be_kept_again(self, store: Store) -> None:
        kept = await put_by_age(store)
        await clean(store, max_bytes=0)
        again = text_of("walrus 000", reference=kept[1])
        assert await put(store, again) == [kept[1]]
        assert await texts(store) == ["walrus 000"]
        assert [hit.passage for hit in await search(store, "walrus")] == ["walrus 000"]

    async def test_a_negative_size_is_refused(self, store: Store) -> None:
        await put_by_age(store)
        with pytest.raises(InvalidInputError):
            await clean(store, max_bytes=-1)
        assert len(await listed(store)) == 4


class OffloadHolding:
    """What the context of an open session refers to stays."""

    async def test_what_a_session_holds_stays_and_is_named(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0], kept[2], "unknown", "'")
        cleaned = await clean(store, older=999)
        assert references(cleaned.held) == [kept[0], kept[2]]
        assert references(cleaned.removed) == [kept[1], kept[3]]
        assert (cleaned.bytes_removed, cleaned.bytes_left) == (20, 20)
        assert references(await listed(store)) == [kept[2], kept[0]]

    async def test_beyond_a_size_younger_ones_go_in_place_of_what_is_held(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0], kept[3])
        cleaned = await clean(store, max_bytes=20)
        assert (references(cleaned.held), references(cleaned.removed)) == ([kept[0]], [kept[1], kept[2]])
        cleaned = await clean(store, max_bytes=5)
        assert (references(cleaned.held), cleaned.removed, cleaned.bytes_left) == ([kept[0], kept[3]], (), 20)

    async def test_what_is_said_replaces_what_was_said_before(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0], kept[1])
        await hold(store, kept[1], kept[2])
        assert references((await clean(store, older=999)).held) == [kept[1], kept[2]]

    async def test_what_came_to_be_held_meanwhile_stays_held(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0], kept[1], minute=10)
        meanwhile = text_of("meanwhile", minute=20)
        await put(store, meanwhile, hold=True)
        await hold(store, kept[1], kept[2], minute=21, keep_since=20)
        assert references((await clean(store, older=999, dry_run=True)).held) == [
            kept[1], kept[2], meanwhile.reference,
        ]  # fmt: skip
        await hold(store, minute=22, keep_since=21)
        assert references((await clean(store, older=999, dry_run=True)).held) == [kept[1], kept[2]]
        await hold(store, minute=40, keep_since=39)
        assert (await clean(store, older=999)).held == ()

    async def test_a_session_that_holds_nothing_any_more_is_closed(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, *kept)
        await hold(store)
        await hold(store, session_id="another")
        assert references((await clean(store, older=999)).removed) == kept

    async def test_each_session_holds_its_own(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0], kept[1], session_id="one")
        await hold(store, kept[1], kept[2], session_id="two")
        await hold(store, session_id="one")
        assert references((await clean(store, older=999)).held) == [kept[1], kept[2]]

    async def test_a_session_that_said_nothing_for_long_counts_as_closed(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0], session_id="idle", minute=10)
        await hold(store, kept[1], session_id="open", minute=20)
        tried = await clean(store, older=999, idle=10, dry_run=True)
        assert references(tried.held) == kept[:2]
        cleaned = await clean(store, older=999, idle=10.5)
        assert references(cleaned.held) == [kept[1]]
        await hold(store, kept[0], kept[1], session_id="idle", minute=30)
        assert references((await clean(store, older=999, idle=25)).held) == [kept[1]]

    async def test_what_is_kept_to_be_held_is_held_from_the_start(self, store: Store) -> None:
        one = text_of("one", session_id="one", minute=5)
        two = text_of("two", session_id="two", minute=9)
        await put(store, one, two, hold=True)
        await put(store, text_of("three", session_id="one", minute=5))
        assert references((await clean(store, older=999, idle=5, dry_run=True)).held) == [one.reference, two.reference]
        assert references((await clean(store, older=999, idle=6)).held) == [two.reference]

    async def test_keeping_more_adds_to_what_is_held_and_is_a_sign_of_life(self, store: Store) -> None:
        kept = await put_by_age(store)
        await hold(store, kept[0], minute=50)
        more = text_of("more", minute=60)
        await put(store, more, hold=True)
        await put(store, text_of("an earlier one", minute=7), hold=True)
        assert len((await clean(store, older=999, idle=60, dry_run=True)).held) == 3
        assert references((await clean(store, older=999, idle=60.5)).held) == []

    async def test_the_same_again_is_held_by_the_reference_it_has(self, store: Store) -> None:
        first = text_of("the same", minute=1)
        await put(store, first)
        assert await put(store, text_of("the same", minute=9), hold=True) == [first.reference]
        assert references((await clean(store, older=999, idle=9)).held) == [first.reference]

    async def test_what_cannot_be_kept_is_not_held_either(self, store: Store) -> None:
        kept = await put_by_age(store)
        with pytest.raises(ConflictError):
            await put(store, text_of("walrus 000", minute=9), text_of("else", reference=kept[1]), hold=True)
        assert references((await clean(store, older=999)).removed) == kept

    async def test_holding_what_is_not_there_changes_nothing(self, store: Store) -> None:
        await hold(store, "unknown", "%", "块")
        await hold(store)
        assert await listed(store) == []
        assert await clean(store, older=999) == CleanedOffloads()
