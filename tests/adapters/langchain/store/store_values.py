"""What the tests of the store share: a bench on which stores are opened, and rules as functions over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore, IndexConfig, Item, SearchItem, TTLConfig
from pydantic import JsonValue

from reme_core import ReMe
from reme_core.testing import FixedClock
from reme_core.testing.hashed_embedder import hashed_vector
from reme_langchain import ReMeStore
from reme_langchain.store import DEFAULT_RULES, NamespaceRule

DIMS = 32
Flavour: TypeAlias = Literal["sync", "async"]
FLAVOURS: tuple[Flavour, ...] = ("sync", "async")


class Words(Embeddings):
    """Embeds by words and letters, keeps what it was asked, and fails if told to."""

    def __init__(self, dims: int = DIMS) -> None:
        self.dims = dims
        self.calls: list[list[str]] = []
        self.queries: list[str] = []
        self.broken = False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.broken:
            raise RuntimeError("no connection to the model")
        self.calls.append(list(texts))
        return [hashed_vector(text, self.dims).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        if self.broken:
            raise RuntimeError("no connection to the model")
        self.queries.append(text)
        return hashed_vector(text, self.dims).tolist()

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]


class Face:
    """A store, called by its sync methods in worker threads or by its async ones."""

    def __init__(self, store: BaseStore, flavour: Flavour, inner: ReMeStore) -> None:
        self.store, self.flavour, self.inner = store, flavour, inner

    async def call(self, name: str, *given: Any, **named: Any) -> Any:
        if self.flavour == "async":
            return await getattr(self.store, f"a{name}")(*given, **named)
        return await asyncio.to_thread(getattr(self.store, name), *given, **named)

    async def get(self, namespace: Sequence[str], key: Any, **named: Any) -> Item | None:
        found: Item | None = await self.call("get", namespace, key, **named)
        return found

    async def value(self, namespace: Sequence[str], key: str) -> Any:
        found = await self.get(namespace, key)
        return None if found is None else found.value

    async def put(self, namespace: Any, key: Any, value: Any, *given: Any, **named: Any) -> None:
        assert await self.call("put", namespace, key, value, *given, **named) is None

    async def delete(self, namespace: Any, key: Any) -> None:
        assert await self.call("delete", namespace, key) is None

    async def search(self, prefix: Any, **named: Any) -> list[SearchItem]:
        found: list[SearchItem] = await self.call("search", prefix, **named)
        return found

    async def keys(self, prefix: Any, **named: Any) -> list[str]:
        return [item.key for item in await self.search(prefix, **named)]

    async def namespaces(self, **named: Any) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = await self.call("list_namespaces", **named)
        return found

    async def batch(self, ops: Any) -> list[Any]:
        found: list[Any] = await self.call("batch", ops)
        return found

    async def enter(self) -> ReMeStore:
        if self.flavour == "async":
            return await self.inner.__aenter__()
        return await asyncio.to_thread(self.inner.__enter__)

    async def sweep(self) -> int:
        if self.flavour == "async":
            return await self.inner.asweep_ttl()
        return await asyncio.to_thread(self.inner.sweep_ttl)


class Bench:
    """A folder, a clock that stands still and an embedder; stores opened on it are closed with it."""

    def __init__(
        self,
        folder: Path,
        flavour: Flavour,
        wrap: Callable[[ReMeStore], BaseStore] | None = None,
        place: Callable[[Path], Mapping[str, JsonValue]] | None = None,
    ) -> None:
        self.folder, self.flavour, self.wrap = folder, flavour, wrap
        self.place = place  # settings of where the memory of a folder is kept
        self.clock = FixedClock()
        self.words = Words()
        self.memory = self._memory()
        self._memories = [self.memory]
        self._stores: list[ReMeStore] = []

    def _memory(self) -> ReMe:
        fast: Mapping[str, JsonValue] = {"backend": "local_file", "synchronous": "NORMAL"}
        settings = fast if self.place is None else self.place(self.folder)
        return ReMe("space", self.folder, llm=None, embedding=None, vector_store=settings, clock=self.clock)

    def index(self, **more: Any) -> IndexConfig:
        return {"dims": DIMS, "embed": self.words, **more}  # type: ignore[typeddict-item]  # the tests' own settings

    def open(
        self,
        *,
        index: IndexConfig | Literal["words"] | None = None,
        ttl: TTLConfig | None = None,
        rules: Sequence[NamespaceRule] = DEFAULT_RULES,
    ) -> Face:
        settings = self.index(fields=["text"]) if index == "words" else index
        inner = ReMeStore(self.memory, index=settings, ttl=ttl, rules=rules)
        self._stores.append(inner)
        return Face(inner if self.wrap is None else self.wrap(inner), self.flavour, inner)

    async def reopen(self) -> None:
        """Close what is open; stores opened from now on read the file anew."""
        await self.close()
        self.memory = self._memory()
        self._memories.append(self.memory)

    async def close(self) -> None:
        for store in self._stores:
            await store.aclose()
        for memory in self._memories:
            await memory.close()
        self._stores, self._memories = [], []


Rule: TypeAlias = Callable[[Bench], Awaitable[None]]
RULES: list[tuple[str, Rule]] = []


def rule(requirement: str) -> Callable[[Rule], Rule]:
    """Name the requirement that a rule shows."""

    def keep(function: Rule) -> Rule:
        RULES.append((requirement, function))
        return function

    return keep
