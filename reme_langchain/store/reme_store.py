"""The store of LangGraph on a memory of reme: items by namespace and key, some of which are memories."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, Self, TypeVar

from langgraph.store.base import BaseStore, IndexConfig, Item, Op, Result, SearchItem, TTLConfig

from reme_core import EventLoopThread, ReMe
from reme_core.errors import ConfigurationError, CorruptDataError, InvalidInputError, StoreClosedError
from reme_core.ports import Item as StoredItem
from reme_core.ports import ItemAddress, Matrix, Namespace, PutItem, Vector, WriteItems
from reme_core.schema import Scope
from reme_langchain._opening import DEFAULT_FOLDER, ClosedOnExit, MemoryOrPath, NothingToDo, open_memory
from reme_langchain._owner import find_owner
from reme_langchain.store._expiry_sweeper import ExpirySweeper
from reme_langchain.store._indexing import WHOLE, ItemIndex, read_index
from reme_langchain.store._namespaces import (
    DEFAULT_RULES,
    NamespaceRule,
    RuleSet,
    decode_label,
    encode_label,
    memory_namespace,
)
from reme_langchain.store._store_ops import (
    ListRequest,
    OperationPlan,
    OpReader,
    PutRequest,
    SearchRequest,
    check_ttl,
    get_items,
    list_items,
    page_of,
    read_minutes,
    search_items,
)

__all__ = [
    "DEFAULT_RULES",
    "NamespaceRule",
    "ReMeStore",
    "decode_label",
    "encode_label",
    "memory_namespace",
    "open_store",
]

T = TypeVar("T")


class ReMeStore(ClosedOnExit, BaseStore):
    """A durable `BaseStore`, which shares what it holds with a memory of reme.

    Items in the namespaces of its rules, by default `memory_namespace(user_id)`, are memories of that user: what an
    agent puts there, `ReMe.retrieve` finds, and what reme has distilled, `search` finds. Everything else are plain
    items. Values are JSON objects and come back as they were. A search with a query goes by cosine similarity, or by
    words where nothing embeds: in their order, without scores.

    One store serves any number of threads and event loops at once, plain scripts too. Several stores and processes may
    share one file. It opens with its first call, or as a context manager, with or without `async`, when it is entered;
    then it closes at the end.
    """

    supports_ttl = True

    def __init__(
        self,
        store: MemoryOrPath = None,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        rules: Sequence[NamespaceRule] = DEFAULT_RULES,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
    ) -> None:
        """Keep the settings.

        Args:
            store: The memory, which stays open when this closes; or the path of its working folder or file; None is
                the default working folder.
            index: What is embedded, and by which model: that of the memory, if it has one, since each ranks what the
                other wrote. Without it the model of the memory embeds whole values; without either, searches go by
                words.
            ttl: Times to live, in minutes; see `TTLConfig`.
            rules: Which namespaces are memories.
            synchronous: For a path: FULL survives a power cut, NORMAL a killed process and is faster.

        Raises:
            ConfigurationError: `store` is neither a memory nor a path.
            InvalidInputError: Settings that can't be used; it is a ValueError.
        """
        given = None if index is None else read_index(index)
        self._memory, self._owned = open_memory(
            store, embedder=None if given is None else given[0], what="store", synchronous=synchronous
        )
        if given is None and self._memory.embedder is not None:
            given = self._memory.embedder, (WHOLE,)
        self._items = self._memory.store
        dims = None if index is None else index.get("dims")
        self._index = (
            None if given is None else ItemIndex(self._items, self._memory.memory_space, *given, dimension=dims)
        )
        _check_dims(dims, self._memory)
        if self._index is not None:
            self._index.warn_beside(self._memory.embedder)
        self.ttl_config = ttl
        self._sweeper = self._make_sweeper(ttl)
        self._omit_expired = bool(ttl and ttl.get("omit_expired"))
        self._rules = RuleSet(rules, self._memory.memory_space)
        self._reader = OpReader(self._rules, ttl)
        self._loop = EventLoopThread(self)

    @classmethod
    def from_path(
        cls,
        path: str | Path,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        rules: Sequence[NamespaceRule] = DEFAULT_RULES,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
    ) -> Self:
        """Return a store on a working folder or a file, for `with` or `async with`; see the constructor."""
        return cls(path, index=index, ttl=ttl, rules=rules, synchronous=synchronous)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> Self:
        """Do what `from_path` does: `with ReMeStore.from_conn_string("memory.db") as store`, or `async with`."""
        return cls(conn_string, index=index, ttl=ttl)

    def setup(self) -> NothingToDo:
        """Do nothing, with or without `await`: the file is made when it is opened."""
        return NothingToDo()

    def __repr__(self) -> str:
        """Name the memory."""
        return f"ReMeStore({self._memory!r})"

    def __enter__(self) -> Self:
        """Return the store; see `__aenter__`."""
        self._check_open()
        try:
            self._run(self._check_index)
        except BaseException:  # nobody else can close what was opened; it is raised again
            self.close()
            raise
        return self

    async def __aenter__(self) -> Self:
        """Return the store. With an index the file is opened here, otherwise with the first call.

        Raises:
            InvalidInputError: Another model made the vectors of the file; it is a ValueError.
            StoreError: The file can't be read.
        """
        self._check_open()
        try:
            await self._check_index()
        except BaseException:  # as in `__enter__`
            await self.aclose()
            raise
        return self

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations together: reads see what was there before, then all writes happen, or none.

        Works in any thread, that of a running event loop included, which it blocks.

        Returns:
            A result for each operation, in their order; None for puts.

        Raises:
            InvalidNamespaceError: A namespace that can't be one.
            TypeError: A value that can't be stored, or an argument of another type.
            InvalidInputError: An argument out of range, an unknown operator, or a file whose vectors another model
                made; it is a ValueError.
            Exception: Embedding failed; what LangChain's embeddings or a function raise comes as they raised it.
            StoreError: The file can't be read or written.
        """
        plan = self._begin(ops)
        return self._run(lambda: self._execute(plan))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations together; see `batch`. Embedding is awaited here, the file is used in other threads."""
        self._check_open()
        return await self._execute(self._begin(ops))

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over, with their vectors; return how many."""
        return self._run(self._sweep)

    async def asweep_ttl(self) -> int:
        """Remove the items whose time is over; see `sweep_ttl`."""
        self._check_open()
        return await self._sweep()

    def close(self) -> None:
        """Finish what sync methods have begun and release what was opened here. Closing twice is harmless.

        A call of an async method that is embedding meanwhile raises StoreClosedError, and has written nothing.
        """
        if self._sweeper is not None:
            self._sweeper.stop()
        self._loop.end(self._release())

    async def aclose(self) -> None:
        """Close without blocking the event loop; see `close`."""
        await asyncio.to_thread(self.close)

    async def _release(self) -> None:
        if self._owned:
            await self._memory.close()

    def _run(self, call: Callable[[], Coroutine[object, object, T]]) -> T:
        return self._loop.run(call())

    def _check_open(self) -> None:
        if self._loop.ended:
            msg = f"{self!r} was closed: make a new one"
            raise StoreClosedError(msg)

    def _make_sweeper(self, ttl: TTLConfig | None) -> ExpirySweeper | None:
        """Return what sweeps periodically, None if nothing does (TypeError, InvalidInputError)."""
        if ttl is None:
            return None
        check_ttl(ttl)
        interval = ttl.get("sweep_interval_minutes")
        if interval is None:
            return None
        return ExpirySweeper(self, interval_s=60 * read_minutes(interval, "ttl: sweep_interval_minutes"))

    def _begin(self, ops: Iterable[Op]) -> OperationPlan:
        if self._sweeper is not None:
            self._sweeper.start()
        plan = self._reader.read(ops)
        if plan.writes and (user_id := find_owner()) is not None:  # here: elsewhere nobody knows the run
            plan.owner = Scope(memory_space=self._memory.memory_space, user_id=user_id)
        return plan

    async def _execute(self, plan: OperationPlan) -> list[Result]:
        """Embed, then read, then write; whatever fails leaves nothing written."""
        await self._check_index()
        at = self._memory.clock.now()
        queries = await self._embed_queries(plan)
        writes = await self._embed_writes(plan)
        results: list[Result] = [None] * plan.size
        if plan.gets:
            found = await self._items.get_items(
                self._memory.memory_space, get_items(plan, at, omit_expired=self._omit_expired)
            )
            for (place, address), item in zip(plan.gets, found, strict=True):
                results[place] = None if item is None else _item(item, address.namespace)
        for place, search in plan.searches:
            results[place] = await self._search(search, queries.get(search.query), at)
        for place, listing in plan.listings:
            results[place] = await self._list(listing, at)
        if writes:
            batch = WriteItems(writes=writes, at=at, omit_expired=self._omit_expired, embedded_by=self._model)
            await self._items.write_items(self._memory.memory_space, batch)
        return results

    @property
    def _model(self) -> str | None:
        return None if self._index is None else self._index.model

    async def _check_index(self) -> None:
        if self._index is not None:
            await self._index.check()

    async def _embed_queries(self, plan: OperationPlan) -> dict[str, Vector]:
        if self._index is None:
            return {}
        return await self._index.vectors_of_queries([search.query for _, search in plan.searches if search.limit])

    async def _embed_writes(self, plan: OperationPlan) -> list[PutItem | ItemAddress]:
        index, writes = self._index, plan.writes
        puts = [write for write in writes if isinstance(write, PutRequest)]
        vectors: list[Matrix | None] = [None] * len(puts)
        if index is not None:
            vectors = await index.vectors_of([index.texts_of(put.value, put.fields) for put in puts])
        rows = iter(vectors)
        return [
            _put_item(write, next(rows), plan.owner) if isinstance(write, PutRequest) else write for write in writes
        ]

    async def _search(self, search: SearchRequest, vector: Vector | None, at: datetime) -> list[SearchItem]:
        if not search.limit:
            return []
        request = search_items(
            search, self._rules, vector, at, omit_expired=self._omit_expired, embedded_by=self._model
        )
        found = await self._items.search_items(self._memory.memory_space, request)
        return [_search_item(item, item.namespace or self._namespace_of(item)) for item in found]

    async def _list(self, listing: ListRequest, at: datetime) -> list[Namespace]:
        request = list_items(listing, self._rules, at, omit_expired=self._omit_expired)
        found = await self._items.list_item_namespaces(self._memory.memory_space, request)
        records = (self._rules.namespace_of(scope, kind) for scope, kind in found.records)
        return page_of(listing, [*found.namespaces, *(labels for labels in records if labels is not None)])

    async def _sweep(self) -> int:
        return await self._items.sweep_items(self._memory.memory_space, self._memory.clock.now())

    def _namespace_of(self, item: StoredItem) -> Namespace:
        """Return where a memory lies that was not written as an item."""
        memory = item.memory
        namespace = None if memory is None else self._rules.namespace_of(memory.scope, memory.memory_type)
        if namespace is None:
            msg = f"the item {item.key!r} has no namespace, and no rule maps its memory to one"
            raise CorruptDataError(msg)
        return namespace


@asynccontextmanager
async def open_store() -> AsyncIterator[ReMeStore]:
    """Open a store as environment variables say, for Agent Server; close it at the end.

    `langgraph.json` names it: `"store": {"path": "./memory.py:open_store"}`, where `memory.py` imports it from here.

    - `REME_STORE_PATH`: the working folder or the file; without it `REME_WORKING_DIR`, else `.reme`.
    - `REME_STORE_INDEX`: the embedding model, as `provider:model`, and `REME_STORE_DIMS`: the length of its vectors.
      Without them the model of the memory itself ranks, if `REME_EMBEDDING_MODEL` names one.

    Raises:
        ConfigurationError: `REME_STORE_DIMS` is no number.
    """
    path = os.environ.get("REME_STORE_PATH") or os.environ.get("REME_WORKING_DIR") or DEFAULT_FOLDER
    async with ReMeStore(path, index=_index_from_environment()) as store:
        yield store


def _index_from_environment() -> IndexConfig | None:
    model, dims = os.environ.get("REME_STORE_INDEX"), os.environ.get("REME_STORE_DIMS")
    if not model:
        return None
    index: IndexConfig = {"embed": model}
    if dims:
        if not (dims.isascii() and dims.isdigit()):
            msg = f"REME_STORE_DIMS: wanted the length of the vectors as a number, found {dims[:60]!r}"
            raise ConfigurationError(msg)
        index["dims"] = int(dims)
    return index


def _put_item(put: PutRequest, vectors: Matrix | None, owner: Scope | None) -> PutItem:
    is_ranked = put.fields != ()
    return PutItem(
        address=put.address, value=put.value, vectors=vectors, ranked=is_ranked, ttl_s=put.ttl_s, owner=owner
    )


def _item(item: StoredItem, namespace: Namespace) -> Item:
    return Item(
        value=item.value,
        key=item.key,
        namespace=namespace,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _search_item(item: StoredItem, namespace: Namespace) -> SearchItem:
    return SearchItem(
        namespace=namespace,
        key=item.key,
        value=item.value,
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=item.score,
    )


def _check_dims(wanted: int | None, memory: ReMe) -> None:
    if wanted is None or memory.embedder is None:
        return
    if wanted != memory.embedder.dimension:
        msg = (
            f"index: dims is {wanted}, and the embedding model of the memory makes vectors of "
            f"{memory.embedder.dimension}: use one model for both, or leave the index out"
        )
        raise InvalidInputError(msg)
