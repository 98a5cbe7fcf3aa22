"""Stores that are wrong on purpose: for each, a rule that fails on it (and passes on the right store)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp

from reme_langchain import ReMeStore
from tests.adapters.langchain.store import store_rules_index as index
from tests.adapters.langchain.store import store_rules_items as items
from tests.adapters.langchain.store import store_rules_namespaces as namespaces
from tests.adapters.langchain.store.store_values import Bench, Rule


class Wrong(BaseStore):
    """Hands every operation on; a fault changes one of them, or its result."""

    supports_ttl = True

    def __init__(self, inner: ReMeStore) -> None:
        self.inner = inner
        self.ttl_config = inner.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise NotImplementedError

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        found = await self.inner.abatch([self.change(op) for op in given])
        return [await self.answer(op, result) for op, result in zip(given, found, strict=True)]

    def change(self, op: Op) -> Op:
        return op

    async def answer(self, op: Op, result: Any) -> Any:
        return result

    async def all(self) -> list[SearchItem]:
        return await self.inner.asearch((), limit=10_000, refresh_ttl=False)


class PrefixByText(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        if isinstance(op, SearchOp) and op.namespace_prefix and op.limit:
            text = "\x1f".join(op.namespace_prefix)
            return [item for item in await self.all() if "\x1f".join(item.namespace).startswith(text)][: op.limit]
        return result


class ResultsGroupedByKind(Wrong):
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        kinds = [GetOp, SearchOp, ListNamespacesOp, PutOp]
        order = sorted(range(len(given)), key=lambda at: kinds.index(type(given[at])))
        found = await self.inner.abatch(given)
        return [found[at] for at in order]


class FilterIgnored(Wrong):
    def change(self, op: Op) -> Op:
        return op._replace(filter=None) if isinstance(op, SearchOp) else op


class FilterAfterLimit(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        if isinstance(op, SearchOp) and op.filter:
            [page] = await self.inner.abatch([op._replace(filter=None)])
            [kept] = await self.inner.abatch([op._replace(limit=10_000, offset=0)])
            keys = {item.key for item in kept}  # type: ignore[union-attr]
            return [item for item in page if item.key in keys]  # type: ignore[union-attr]
        return result


class DeleteIgnored(Wrong):
    def change(self, op: Op) -> Op:
        return GetOp(op.namespace, op.key) if isinstance(op, PutOp) and op.value is None else op

    async def answer(self, op: Op, result: Any) -> Any:
        return None if isinstance(op, PutOp) else result


class GreaterAsText(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        wanted = op.filter if isinstance(op, SearchOp) else None
        if wanted and any(isinstance(operand, dict) and "$gt" in operand for operand in wanted.values()):
            [(field, operand)] = wanted.items()
            found = await self.all()
            return [item for item in found if str(item.value.get(field)) > str(operand["$gt"])]
        return result


class NamespacesUnsorted(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        return result[::-1] if isinstance(op, ListNamespacesOp) else result


class ScoresMissing(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        for item in result if isinstance(op, SearchOp) else ():
            item.score = None
        return result


class WorstFirst(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        return result[::-1] if isinstance(op, SearchOp) and op.query else result


class FirstPutWins(Wrong):
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        seen = set[tuple[Any, str]]()
        kept: list[Op] = []
        for op in given:
            twice = isinstance(op, PutOp) and (op.namespace, op.key) in seen
            if isinstance(op, PutOp):
                seen.add((op.namespace, op.key))
            kept.append(ListNamespacesOp(limit=0) if twice else op)
        found = await self.inner.abatch(kept)
        return [None if isinstance(op, PutOp) else result for op, result in zip(given, found, strict=True)]


class NamespaceDropped(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        if isinstance(result, Item):
            result.namespace = ()
        return result


class KeysFolded(Wrong):
    def change(self, op: Op) -> Op:
        return op._replace(key=op.key.lower()) if isinstance(op, (GetOp, PutOp)) else op


class PagesOverlap(Wrong):
    def change(self, op: Op) -> Op:
        return op._replace(offset=max(0, op.offset - 1)) if isinstance(op, SearchOp) else op


class FieldsIgnored(Wrong):
    def change(self, op: Op) -> Op:
        return op._replace(index=["$"]) if isinstance(op, PutOp) and op.index is not False else op


class IntsAsFloats(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        if isinstance(result, Item):
            result.value = json.loads(json.dumps(result.value), parse_int=float)
        return result


class BatchOneByOne(Wrong):
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return [(await self.inner.abatch([op]))[0] for op in ops]


class CreationMoves(Wrong):
    async def answer(self, op: Op, result: Any) -> Any:
        if isinstance(result, Item):
            result.created_at = result.updated_at
        return result


class ExpiredShown(Wrong):
    def __init__(self, inner: ReMeStore) -> None:
        super().__init__(inner)
        inner._omit_expired = False


class RefreshedTogether(Wrong):
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        given = list(ops)
        reads = [op for op in given if isinstance(op, (GetOp, SearchOp))]
        if any(op.refresh_ttl for op in reads):
            given = [op._replace(refresh_ttl=True) if isinstance(op, (GetOp, SearchOp)) else op for op in given]
        return await self.inner.abatch(given)


FAULTS: list[tuple[type[Wrong], Rule]] = [
    (PrefixByText, namespaces.a_prefix_covers_whole_labels_literally),
    (ResultsGroupedByKind, items.results_come_in_the_order_of_the_operations),
    (FilterIgnored, namespaces.filters_compare_by_the_types_of_json),
    (FilterAfterLimit, namespaces.unknown_operators_are_refused_and_filters_come_before_the_page),
    (DeleteIgnored, items.a_put_replaces_the_whole_value_and_none_deletes),
    (GreaterAsText, namespaces.filters_compare_by_the_types_of_json),
    (NamespacesUnsorted, namespaces.namespaces_are_matched_then_cut_then_listed_once_in_order),
    (ScoresMissing, index.an_item_counts_once_with_its_best_score),
    (WorstFirst, index.an_item_counts_once_with_its_best_score),
    (FirstPutWins, items.reads_see_the_state_before_the_batch_and_the_last_write_wins),
    (NamespaceDropped, items.what_was_put_is_got_under_its_namespace_and_key_alone),
    (KeysFolded, items.keys_are_opaque),
    (PagesOverlap, items.pages_partition_the_result_ranked_or_not),
    (FieldsIgnored, index.only_the_texts_at_the_fields_reach_the_embedder),
    (IntsAsFloats, items.values_come_back_with_their_exact_types_through_get_and_search),
    (BatchOneByOne, items.a_batch_with_one_bad_operation_writes_nothing),
    (CreationMoves, items.an_update_keeps_the_creation_and_moves_the_change_and_reading_moves_neither),
    (ExpiredShown, index.expired_items_are_invisible_at_once_or_go_with_the_next_sweep),
    (RefreshedTogether, index.reads_refresh_unless_told_otherwise_each_by_itself),
]


@pytest.mark.parametrize(("fault", "rule"), [pytest.param(*pair, id=pair[0].__name__) for pair in FAULTS])
async def test_a_wrong_store_breaks_a_rule(fault: type[Wrong], rule: Rule, tmp_path: Path) -> None:
    bench = Bench(tmp_path, "async", fault)
    try:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await rule(bench)
    finally:
        await bench.close()


async def test_a_store_that_only_hands_on_breaks_none(tmp_path: Path) -> None:
    for number, rule in enumerate(dict.fromkeys(rule for _, rule in FAULTS)):
        bench = Bench(tmp_path / str(number), "async", Wrong)
        try:
            await rule(bench)
        finally:
            await bench.close()
