"""Notes of scopes that the index beside a store is still to be cleared of.

A note is an item of the service's own space, so that it outlives the erasure of its scope and the process. It names
the scope, and goes when the index holds nothing of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from reme_core.ports import ItemAddress, PutItem, SearchItems, Store, WriteItems
from reme_core.ports.items import SERVICE_SPACE
from reme_core.schema import Scope

_NAMESPACE = ("index-erasures",)
_MOST = 1000


@dataclass(frozen=True, slots=True)
class ErasureNotes:
    """The notes that a store holds."""

    store: Store

    async def add(self, scope: Scope) -> None:
        """Note, durably, that the index is to be cleared of a scope. Noting it twice is the same."""
        value = {"memory_space": scope.memory_space, "user_id": scope.user_id}
        await self._write(PutItem(address=_address(scope), value={**value}))

    async def remove(self, scope: Scope) -> None:
        """Take the note of a scope away: the index holds nothing of it."""
        await self._write(_address(scope))

    async def read(self) -> list[Scope]:
        """Return scopes that are noted, at most a thousand of them."""
        search = SearchItems(prefix=_NAMESPACE, limit=_MOST, at=datetime.now(UTC))
        items = await self.store.search_items(SERVICE_SPACE, search)
        return [Scope.model_validate(item.value) for item in items]

    async def _write(self, write: PutItem | ItemAddress) -> None:
        await self.store.write_items(SERVICE_SPACE, WriteItems(writes=[write], at=datetime.now(UTC)))


def _address(scope: Scope) -> ItemAddress:
    return ItemAddress(namespace=_NAMESPACE, key=json.dumps([scope.memory_space, scope.user_id]))
