"""Notes of lines that are still to go from files, because their memories are erased: no event of the store tells it.

A note is on disk before its memory goes, and until the line went: a process that dies in between leaves it to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reme_core.files.file_index import scope_key
from reme_core.ports import Clock, ItemAddress, Namespace, PutItem, SearchItems, Store, WriteItems
from reme_core.schema import Scope
from reme_core.steps.costs import SERVICE_SPACE

_LINES, _MOST = "file-erasures", 1_000_000


@dataclass(frozen=True, slots=True)
class ErasedLines:
    """The notes of a store. They say nothing of what the lines say, and go with their user's erasure."""

    store: Store
    clock: Clock

    async def note(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        """Note memories that are about to be erased."""
        value = scope.model_dump()
        await self._write(
            [PutItem(address=address, value=value, owner=scope) for address in _addresses(scope, memory_ids)]
        )

    async def find(self, scope: Scope) -> list[str]:
        """Return the memories that are noted of a scope."""
        search = SearchItems(prefix=_place(scope), limit=_MOST, at=self.clock.now())
        return [item.key for item in await self.store.search_items(SERVICE_SPACE, search)]

    async def forget(self, scope: Scope, memory_ids: Sequence[str]) -> None:
        """Remove notes of lines that are gone."""
        await self._write(_addresses(scope, memory_ids))

    async def scopes(self, memory_space: str) -> set[Scope]:
        """Return the scopes of a space of which something is noted."""
        search = SearchItems(prefix=(_LINES,), limit=_MOST, at=self.clock.now())
        noted = {Scope.model_validate(item.value) for item in await self.store.search_items(SERVICE_SPACE, search)}
        return {scope for scope in noted if scope.memory_space == memory_space}

    async def _write(self, writes: Sequence[PutItem | ItemAddress]) -> None:
        if writes:
            await self.store.write_items(SERVICE_SPACE, WriteItems(writes=writes, at=self.clock.now()))


def _place(scope: Scope) -> Namespace:
    return (_LINES, scope_key(scope, ""))


def _addresses(scope: Scope, memory_ids: Sequence[str]) -> list[ItemAddress]:
    return [ItemAddress(namespace=_place(scope), key=memory_id) for memory_id in memory_ids]
