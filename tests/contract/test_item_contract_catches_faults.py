"""Stores that are wrong on purpose: for each, a test of the contract that fails on it and passes on the right store."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reme_core.errors import ReMeError
from reme_core.ports import (
    GetItems,
    IndexedBy,
    Item,
    ItemAddress,
    PutItem,
    SearchItems,
    WrappedStore,
    WriteItems,
)
from reme_core.schema import Erased, Scope
from reme_core.stores import LocalStore
from tests.contract.suites.item_contract import ItemContract


class Wrapped(WrappedStore):
    """Hands every call on; a fault changes one of them."""

    def __init__(self, path: Path) -> None:
        self.inner = LocalStore(path, synchronous="NORMAL")
        super().__init__(self.inner)

    async def all_under(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await self.inner.search_items(memory_space, replace(search, limit=10_000, offset=0, conditions=()))


class PrefixesAreTexts(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        if not search.prefix:
            return await super().search_items(memory_space, search)
        begins = ".".join(search.prefix)
        found = await self.all_under(memory_space, replace(search, prefix=search.prefix[:-1]))
        return [item for item in found if ".".join(item.namespace or ()).startswith(begins)]


class ConditionsAreIgnored(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await super().search_items(memory_space, replace(search, conditions=()))


class ConditionsComeAfterThePage(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        page = await super().search_items(memory_space, replace(search, conditions=()))
        met = await super().search_items(memory_space, replace(search, limit=10_000, offset=0))
        keys = {(item.namespace, item.key) for item in met}
        return [item for item in page if (item.namespace, item.key) in keys]


class EmptyingIsIgnored(Wrapped):
    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        puts = [item for item in write.writes if isinstance(item, PutItem)]
        await super().write_items(memory_space, replace(write, writes=puts))


class ScoresAreMissing(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return [replace(item, score=None) for item in await super().search_items(memory_space, search)]


class WorstComesFirst(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        vector = None if search.vector is None else -search.vector
        found = await super().search_items(memory_space, replace(search, vector=vector))
        return [replace(item, score=None if item.score is None else -item.score) for item in found]


class TheFirstPutWins(Wrapped):
    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        seen: dict[tuple[object, str], PutItem | ItemAddress] = {}
        for item in write.writes:
            address = item.address if isinstance(item, PutItem) else item
            seen.setdefault((address.namespace, address.key), item)
        await super().write_items(memory_space, replace(write, writes=list(seen.values())))


class NamespacesAreDropped(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await super().search_items(memory_space, replace(search, prefix=()))


class KeysFoldCase(Wrapped):
    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        writes: list[PutItem | ItemAddress] = []
        for item in write.writes:
            address = item.address if isinstance(item, PutItem) else item
            folded = replace(address, key=address.key.lower() if isinstance(address.key, str) else address.key)
            writes.append(replace(item, address=folded) if isinstance(item, PutItem) else folded)
        await super().write_items(memory_space, replace(write, writes=writes))


class PagesOverlap(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await super().search_items(memory_space, replace(search, offset=max(search.offset - 1, 0)))


class WholeNumbersAreFloats(Wrapped):
    async def get_items(self, memory_space: str, get: GetItems) -> list[Item | None]:
        def changed(item: Item) -> Item:
            value = {key: float(part) if type(part) is int else part for key, part in item.value.items()}
            return replace(item, value=dict(value))

        return [None if item is None else changed(item) for item in await super().get_items(memory_space, get)]


class OldVectorsAnswer(Wrapped):
    """Keeps what was ranked once, as a ranking kept in memory and never brought up to date would."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.scores: dict[tuple[object, str], float] = {}

    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        found = await super().search_items(memory_space, search)
        for item in found:
            if item.score is not None:
                self.scores.setdefault((item.namespace, item.key), item.score)
        return [replace(item, score=self.scores.get((item.namespace, item.key))) for item in found]


class UpdatesAreNew(Wrapped):
    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        addresses = [item.address for item in write.writes if isinstance(item, PutItem)]
        await super().write_items(memory_space, replace(write, writes=[*addresses, *write.writes]))


class BatchesAreWrittenOneByOne(Wrapped):
    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        for item in write.writes:
            await super().write_items(memory_space, replace(write, writes=[item]))


class SpacesAreOne(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await super().search_items("space", search)


class EveryReadRefreshes(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await super().search_items(memory_space, replace(search, refresh=True))


class ExpiredItemsStay(Wrapped):
    async def get_items(self, memory_space: str, get: GetItems) -> list[Item | None]:
        return await super().get_items(memory_space, replace(get, omit_expired=False))


class RecordsAreIgnored(Wrapped):
    async def write_items(self, memory_space: str, write: WriteItems) -> None:
        writes = [
            replace(item, address=replace(item.address, record=None))
            if isinstance(item, PutItem)
            else replace(item, record=None)
            for item in write.writes
        ]
        await super().write_items(memory_space, replace(write, writes=writes))


class TopicsAreIgnored(Wrapped):
    async def get_items(self, memory_space: str, get: GetItems) -> list[Item | None]:
        def bare(address: ItemAddress) -> ItemAddress:
            return address if address.record is None else replace(address, record=replace(address.record, topic=()))

        return await super().get_items(memory_space, replace(get, addresses=[bare(item) for item in get.addresses]))


class HomesAreIgnored(Wrapped):
    async def get_items(self, memory_space: str, get: GetItems) -> list[Item | None]:
        def at_home(address: ItemAddress) -> ItemAddress:
            return address if address.record is None else replace(address, record=replace(address.record, is_home=True))

        return await super().get_items(memory_space, replace(get, addresses=[at_home(item) for item in get.addresses]))


class PlacesAreIgnored(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await super().search_items(memory_space, replace(search, records=()))


class TheLastClaimCounts(Wrapped):
    async def claim_index(self, memory_space: str, indexed: IndexedBy) -> IndexedBy:
        await super().claim_index(memory_space, indexed)
        return indexed


class ErasureLeavesItems(Wrapped):
    async def erase(self, scope: Scope) -> Erased:
        return Erased()


class WordsAreIgnored(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        return await super().search_items(memory_space, replace(search, text=""))


class WordsHideTheRest(Wrapped):
    async def search_items(self, memory_space: str, search: SearchItems) -> list[Item]:
        found = await super().search_items(memory_space, search)
        return found[:1] if search.text else found


class WorksAfterClosing(Wrapped):
    async def close(self) -> None:
        pass


FAULTS: list[tuple[type[Wrapped], str]] = [
    (PrefixesAreTexts, "test_a_prefix_covers_itself_and_what_lies_below"),
    (ConditionsAreIgnored, "test_conditions_compare_by_the_types_of_json"),
    (ConditionsComeAfterThePage, "test_conditions_come_before_the_page_and_the_nearest"),
    (EmptyingIsIgnored, "test_a_put_replaces_the_whole_value_and_emptying_takes_it_away"),
    (EmptyingIsIgnored, "test_deleting_on_either_side_deletes_both_with_the_vectors"),
    (ScoresAreMissing, "test_the_best_cosine_comes_first_and_what_has_no_vector_last"),
    (WorstComesFirst, "test_the_best_cosine_comes_first_and_what_has_no_vector_last"),
    (WorstComesFirst, "test_an_item_counts_once_by_the_best_of_its_vectors"),
    (WordsAreIgnored, "test_without_a_vector_what_shares_words_comes_first_and_then_the_rest"),
    (WordsAreIgnored, "test_memories_are_ranked_by_their_words_beside_items"),
    (WordsAreIgnored, "test_conditions_and_expiry_come_before_the_page_of_words"),
    (WordsHideTheRest, "test_words_follow_what_is_put_changed_and_emptied"),
    (TheFirstPutWins, "test_the_last_write_of_an_address_counts"),
    (NamespacesAreDropped, "test_labels_mean_themselves"),
    (KeysFoldCase, "test_keys_are_opaque_texts"),
    (PagesOverlap, "test_pages_of_any_size_partition_what_is_there"),
    (WholeNumbersAreFloats, "test_every_json_value_comes_back_as_it_was_put"),
    (OldVectorsAnswer, "test_vectors_that_were_replaced_never_answer_again"),
    (UpdatesAreNew, "test_an_update_keeps_the_first_time_and_moves_the_last_one"),
    (UpdatesAreNew, "test_an_update_of_the_item_is_one_of_its_memory"),
    (BatchesAreWrittenOneByOne, "test_what_is_no_json_object_is_refused_by_name_and_nothing_is_written"),
    (BatchesAreWrittenOneByOne, "test_of_a_batch_that_fails_no_memory_is_left"),
    (SpacesAreOne, "test_a_space_holds_nothing_of_another_one"),
    (EveryReadRefreshes, "test_reads_that_refresh_begin_the_time_anew_and_others_do_not"),
    (ExpiredItemsStay, "test_expired_items_can_be_left_out_of_everything"),
    (RecordsAreIgnored, "test_a_put_with_a_record_is_found_as_a_memory"),
    (TopicsAreIgnored, "test_a_memory_lies_only_where_its_scope_and_type_do"),
    (HomesAreIgnored, "test_a_memory_lies_only_where_its_scope_and_type_do"),
    (PlacesAreIgnored, "test_a_memory_is_an_item_under_its_id"),
    (TheLastClaimCounts, "test_what_makes_the_vectors_is_recorded_once"),
    (ErasureLeavesItems, "test_erasing_a_user_takes_their_items_and_no_others"),
    (WorksAfterClosing, "test_every_call_about_items_after_closing_says_that_it_is_closed"),
]


async def run(make: Callable[[], Wrapped], test: str) -> None:
    store = make()
    try:
        await getattr(ItemContract(), test)(store)
    finally:
        await store.inner.close()


@pytest.mark.parametrize(("fault", "test"), FAULTS, ids=[f"{fault.__name__}-{test}" for fault, test in FAULTS])
async def test_the_contract_catches_the_fault_and_passes_the_right_store(
    fault: type[Wrapped], test: str, tmp_path: Path
) -> None:
    await run(lambda: Wrapped(tmp_path / "right.db"), test)
    with pytest.raises((AssertionError, pytest.fail.Exception, ReMeError)):
        await run(lambda: fault(tmp_path / "wrong.db"), test)
