"""Costs: what models were asked and how many tokens that took, by user, day and purpose.

Each call, or job, that asked a model leaves a row: an item of the service's own space that belongs to the user, and
goes with the user's erasure. Rows are never changed, so that processes need not know of each other.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from reme_core.errors import StoreError
from reme_core.ports import (
    Clock,
    FilterOperator,
    ItemAddress,
    ItemCondition,
    ListItemNamespaces,
    PutItem,
    SearchItems,
    Store,
    WriteItems,
)
from reme_core.ports.items import SERVICE_SPACE as SERVICE_SPACE
from reme_core.schema import Cost, Scope, Usage, new_id

_LOG = logging.getLogger("reme")

_COSTS = "costs"
_PAGE = 1000


class _CostRow(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    memory_space: str
    user_id: str
    purpose: str
    model_calls: int
    prompt_tokens: int
    completion_tokens: int
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class CostBook:
    """Writes down what was spent, and adds it up."""

    store: Store
    clock: Clock

    async def add(self, scope: Scope, purpose: str, usage: Usage, *, run_id: str | None = None) -> None:
        """Write down what a call, or a try of the job of a run, spent; nothing where no model was asked.

        It is a note about work that is done: one that can't be written is logged, and takes nothing back.
        """
        if not usage.model_calls:
            return
        now = self.clock.now()
        row = _CostRow(
            memory_space=scope.memory_space,
            user_id=scope.user_id,
            purpose=purpose,
            model_calls=usage.model_calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            run_id=run_id,
        )
        address = ItemAddress(namespace=(_COSTS, now.date().isoformat()), key=new_id())
        put = PutItem(address=address, value=row.model_dump(), owner=scope)
        try:
            await self.store.write_items(SERVICE_SPACE, WriteItems(writes=[put], at=now))
        except StoreError as exc:
            _LOG.error("what %s cost could not be written down: %s", purpose, exc)

    async def read(
        self,
        memory_space: str,
        *,
        user_id: str | None = None,
        since: date | None = None,
        until: date | None = None,
        run_id: str | None = None,
    ) -> list[Cost]:
        """Add up what was spent in a memory space, by day, user and purpose, in this order.

        Args:
            memory_space: The space.
            user_id: One user's alone.
            since: From this day (UTC) on.
            until: Up to this day, which is not counted any more.
            run_id: One run's alone, the tries of its job that failed included.
        """
        found = await self.store.list_item_namespaces(
            SERVICE_SPACE, ListItemNamespaces(prefix=(_COSTS,), at=self.clock.now())
        )
        days = sorted(date.fromisoformat(namespace[1]) for namespace in found.namespaces)
        conditions = _conditions({"memory_space": memory_space, "user_id": user_id, "run_id": run_id})
        sums: defaultdict[tuple[date, str, str], Usage] = defaultdict(Usage)
        for day in days:
            if (since is None or day >= since) and (until is None or day < until):
                for row in await self._rows(day, conditions):
                    sums[day, row.user_id, row.purpose] += Usage(**row.model_dump(include=set(Usage.model_fields)))
        return [
            Cost(
                day=day,
                user_id=user,
                purpose=purpose,
                model_calls=usage.model_calls,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )
            for (day, user, purpose), usage in sorted(sums.items())
        ]

    async def _rows(self, day: date, conditions: Sequence[ItemCondition]) -> list[_CostRow]:
        rows: dict[str, _CostRow | None] = {}  # by key: those that are written meanwhile move others to the next page
        at, prefix, read = self.clock.now(), (_COSTS, day.isoformat()), 0
        while True:
            search = SearchItems(prefix=prefix, conditions=conditions, limit=_PAGE, offset=read, at=at)
            page = await self.store.search_items(SERVICE_SPACE, search)
            rows |= {item.key: _read(item.value) for item in page}
            read += len(page)
            if len(page) < _PAGE:
                return [row for row in rows.values() if row is not None]


def _conditions(wanted: Mapping[str, JsonValue]) -> list[ItemCondition]:
    given = {name: value for name, value in wanted.items() if value is not None}
    return [ItemCondition(field=name, operator=FilterOperator.EQ, operand=value) for name, value in given.items()]


def _read(value: dict[str, JsonValue]) -> _CostRow | None:
    """Read a row; None for one that this release can't read, such as one of a newer release."""
    try:
        return _CostRow.model_validate(value)
    except ValidationError:
        return None
