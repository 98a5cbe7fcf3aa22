"""Memories that LangMem keeps in a store of LangGraph, under `("memories", user)`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from reme_core.transfer.importers.foreign_data import text_of
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, Unreadable
from reme_langchain.importing.foreign_stores import StoreRow, store_rows

_PLAIN_KIND = "Memory"


@dataclass(frozen=True, slots=True)
class LangMemSource:
    """What LangMem's tools and store managers have put.

    Attributes:
        place: A file of `SqliteStore`, or the URL of a database of `PostgresStore`.
        root: The first label of its namespaces; the second one is the user.
    """

    place: str
    root: str = "memories"
    name: str = "langmem"

    def items(self) -> Iterator[ImportedItem]:
        """Yield the memories; see `ImportSource.items`."""
        now = datetime.now(UTC)
        for row in store_rows(self.place):
            if isinstance(row, Unreadable):
                yield row
            elif row.namespace[0] != self.root:
                where = f"item {row.key!r:.80} of {'.'.join(row.namespace)!r:.80}"
                yield Unreadable(
                    where, f"lies outside {self.root!r}: reme_langchain.import_items takes it over as it is"
                )
            elif not row.is_over(now):
                yield _memory(row)


def _memory(row: StoreRow) -> ImportedMemory | Unreadable:
    where = f"item {row.key!r:.80} of {'.'.join(row.namespace)!r:.80}"
    kind, held = text_of(row.value.get("kind")) or _PLAIN_KIND, row.value.get("content")
    fields: dict[str, JsonValue] = held if isinstance(held, dict) else {"content": held}
    content = text_of(fields.get("content")) if set(fields) == {"content"} else _told(fields)
    if content is None:
        return Unreadable(where, "has no content as LangMem writes it")
    more: dict[str, JsonValue] = {} if set(fields) == {"content"} else {"kind": kind, "fields": fields}
    return ImportedMemory(
        source_id=json.dumps([*row.namespace, row.key]),
        user=row.namespace[1] if len(row.namespace) > 1 else None,
        content=content,
        where=where,
        memory_target="self" if kind == _PLAIN_KIND else kind,
        created_at=row.created_at,
        updated_at=row.updated_at,
        metadata={"namespace": list(row.namespace), "key": row.key, **more},
    )


def _told(fields: dict[str, JsonValue]) -> str | None:
    """Tell an instance of a schema in words: its fields, by name."""
    told = [f"{name}: {value}" for name, value in fields.items() if value not in (None, "", [], {})]
    return "; ".join(told) or None
