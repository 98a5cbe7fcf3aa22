"""Items by address, and lists of namespaces."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.ports import (
    GetItems,
    Item,
    ItemAddress,
    ItemNamespaces,
    ListItemNamespaces,
)
from reme_core.rules import namespace_path, split_path
from reme_core.schema import MemoryType
from reme_core.stores.sql.connection import SqlConnection
from reme_core.stores.sql.items.checked_writes import address_path
from reme_core.stores.sql.items.item_rows import (
    ItemRow,
    find_namespace,
    find_unlinked,
    make_item,
    namespaces_under,
    rows_by_keys,
    value_of_row,
)
from reme_core.stores.sql.items.search_items import record_groups
from reme_core.stores.sql.memory_rows import microseconds


def get_items(connection: SqlConnection, memory_space: str, get: GetItems) -> tuple[list[Item | None], list[int]]:
    """Return items by address, and the numbers of those whose time to live begins anew."""
    paths = [address_path(address) for address in get.addresses]
    at = microseconds(get.at)
    keys: dict[str, list[str]] = {}
    for path, address in zip(paths, get.addresses, strict=True):
        keys.setdefault(path, []).append(address.key)
    numbers = {path: find_namespace(connection, memory_space, path) for path in keys}
    rows = {
        (path, key): row
        for path, ns in numbers.items()
        if ns is not None
        for key, row in rows_by_keys(connection, ns, keys[path]).items()
    }
    of_numbers = {ns: path for path, ns in numbers.items() if ns is not None}
    items: list[Item | None] = []
    living: list[int] = []
    for path, address in zip(paths, get.addresses, strict=True):
        row = _visible(connection, rows.get((path, address.key)), address, at if get.omit_expired else None)
        # Read for each address anew: what is returned is the caller's.
        items.append(None if row is None else make_item(row, value_of_row(connection, row), of_numbers))
        if row is not None and row.item is not None and address.refresh and row.lives(at):
            living.append(row.item)
    return items, living


def _visible(connection: SqlConnection, row: ItemRow | None, address: ItemAddress, at: int | None) -> ItemRow | None:
    if row is not None and not row.is_closed and (at is None or not row.is_over(at)):
        return row
    return None if address.record is None else find_unlinked(connection, address.record, address.key)


def list_namespaces(connection: SqlConnection, memory_space: str, query: ListItemNamespaces) -> ItemNamespaces:
    """Return where there are items; see `Store.list_item_namespaces`."""
    numbers = namespaces_under(connection, memory_space, namespace_path(query.prefix, what="prefix"))
    at = microseconds(query.at) if query.omit_expired else None
    groups = record_groups(connection, query.records)
    return ItemNamespaces(
        namespaces=[split_path(path) for path in _holding(connection, numbers, at)],
        records=[
            (scope, MemoryType(memory_type))
            for (scope, memory_type), group in groups.items()
            if _holds_unlinked(connection, *group)
        ],
    )


def _holding(connection: SqlConnection, numbers: dict[int, str], at: int | None) -> Sequence[str]:
    """Return the paths of namespaces that hold a visible item: neither superseded nor, at a time given, over."""
    over = "" if at is None else " AND (expires IS NULL OR expires > ?)"
    values = [] if at is None else [at]
    rows = connection.execute(
        "SELECT ns FROM item_namespaces WHERE ns IN (SELECT value FROM json_each(?))"  # noqa: S608  # fixed texts
        " AND EXISTS (SELECT 1 FROM items LEFT JOIN memories ON row = memory_row"
        f" WHERE items.ns = item_namespaces.ns AND superseded_by IS NULL{over})",
        (str(list(numbers)), *values),
    )
    holding = {ns for (ns,) in rows}
    return [path for ns, path in numbers.items() if ns in holding]


def _holds_unlinked(connection: SqlConnection, scope: int, memory_type: str) -> bool:
    index = connection.dialect.along("memories_current")
    found = connection.execute(
        f"SELECT 1 FROM memories{index} WHERE scope = ? AND memory_type = ?"  # noqa: S608  # fixed texts
        " AND superseded_by IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM items WHERE memory_row = memories.row) LIMIT 1",
        (scope, memory_type),
    ).fetchone()
    return found is not None
