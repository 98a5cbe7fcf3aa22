"""Items of LangGraph's own stores, moved to a store of ours with their namespaces, keys and values.

python -m reme_langchain.import_items store.db .reme --dry-run
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from reme_core.errors import ReMeError
from reme_core.transfer.importers.items import Unreadable
from reme_langchain.importing.foreign_savers import place_to_write
from reme_langchain.importing.foreign_stores import store_rows
from reme_langchain.store import ReMeStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemImport:
    """What an import has done, or would do.

    Attributes:
        imported: The items that were written, or would be.
        present: Those whose namespace and key were there before; they stay as they are.
        expired: Those whose time to live is over; they are left out.
        unreadable: Those that can't be taken over, and why.
    """

    imported: int
    present: int
    expired: int
    unreadable: tuple[Unreadable, ...]


def import_items(source: str, target: ReMeStore, *, prefix: Sequence[str] = (), dry_run: bool = False) -> ItemImport:
    """Copy items of `SqliteStore` or `PostgresStore`; the source is only read.

    Each is one durable write, and an item that the target has is left alone: doing it again changes nothing, and goes
    on where it was stopped. Times to live begin anew; `created_at` and `updated_at` are those of the import.

    Args:
        source: The path of a file of `SqliteStore`, or the URL of a database of `PostgresStore`.
        target: Where they go; what lies in the namespaces of its rules, `("memories", user)`, becomes memories.
        prefix: Only namespaces that begin so.
        dry_run: Read all of it, and write nothing.

    Raises:
        InvalidInputError: There is no store of LangGraph.
        StoreAccessError: The file can't be read.
        ConfigurationError: The database can't be read.
    """
    now, wanted = datetime.now(UTC), tuple(prefix)
    imported = present = expired = 0
    unreadable: list[Unreadable] = []
    for row in store_rows(source):
        if isinstance(row, Unreadable):
            unreadable.append(row)
        elif row.namespace[: len(wanted)] != wanted:
            continue
        elif row.is_over(now):
            expired += 1
        else:
            try:
                if target.get(row.namespace, row.key, refresh_ttl=False) is not None:
                    present += 1
                    continue
                if not dry_run:
                    target.put(row.namespace, row.key, row.value, ttl=row.ttl_minutes)
                imported += 1
            except ValueError as exc:
                unreadable.append(Unreadable(f"item {row.key!r:.80} of {'.'.join(row.namespace)!r:.80}", str(exc)))
    return ItemImport(imported=imported, present=present, expired=expired, unreadable=tuple(unreadable))


def main(arguments: Sequence[str] | None = None) -> int:
    """Import the items of a store into a folder or file of ours; return 0 when all of it is done."""
    parser = argparse.ArgumentParser(prog="python -m reme_langchain.import_items", description=main.__doc__)
    parser.add_argument("source", help="a file of SqliteStore, or postgresql://... of PostgresStore")
    parser.add_argument("target", help="the folder or file of a ReMeStore, or postgresql://...")
    parser.add_argument("--prefix", default="", help="only namespaces that begin so, with dots between their labels")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, and say what would be done")
    given = parser.parse_args(arguments)
    prefix = tuple(given.prefix.split(".")) if given.prefix else ()
    try:
        with place_to_write(given.target, dry_run=given.dry_run) as place, ReMeStore(place) as target:
            done = import_items(given.source, target, prefix=prefix, dry_run=given.dry_run)
    except ReMeError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    for item in done.unreadable:
        sys.stderr.write(f"left out {item.where}: {item.reason}\n")
    what = "would import" if given.dry_run else "imported"
    beside = f"; {done.present} were there, {done.expired} are over" if done.present or done.expired else ""
    sys.stdout.write(f"{what} {done.imported} items{beside}\n")
    return 1 if done.unreadable else 0


if __name__ == "__main__":
    sys.exit(main())
