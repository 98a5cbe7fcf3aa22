"""Rows of LangGraph's own stores, `SqliteStore` and `PostgresStore`, whose values are JSON; nothing is written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from reme_core.errors import ConfigurationError, InvalidInputError, MissingExtraError
from reme_core.transfer.importers.foreign_data import foreign_database, has_table, read_json, time_of
from reme_core.transfer.importers.items import Unreadable
from reme_langchain.importing.foreign_savers import file_of, is_url

_ROWS = "SELECT prefix, key, value, created_at, updated_at{} FROM store ORDER BY prefix, key"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRow:
    """One item: `ttl_minutes` it lives from each use on, None for ever; `expires_at` as it stands now."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, JsonValue]
    created_at: datetime | None
    updated_at: datetime | None
    expires_at: datetime | None = None
    ttl_minutes: float | None = None

    def is_over(self, now: datetime) -> bool:
        """Tell whether its time to live is over, though nobody has swept it yet."""
        return self.expires_at is not None and self.expires_at <= now


def store_rows(source: str) -> Iterator[StoreRow | Unreadable]:
    """Yield the items of a store by its URL or path, by namespace and key.

    Raises:
        InvalidInputError: There is no store of LangGraph.
        StoreAccessError: The file can't be read.
        ConfigurationError: The database can't be read.
        MissingExtraError: There is no driver for it.
    """
    for row in _postgres(source) if is_url(source) else _sqlite(file_of(source)):
        yield _row(*row)


def _sqlite(path: Path) -> Iterator[tuple[object, ...]]:
    with foreign_database(path) as connection:
        if not has_table(connection, "store"):
            msg = f"{str(path)!r} has no table `store`: wanted a file of SqliteStore"
            raise InvalidInputError(msg)
        columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(store)")}
        yield from connection.execute(_ROWS.format(_LIFE if "ttl_minutes" in columns else ""))


_LIFE = ", expires_at, ttl_minutes"


def _postgres(url: str) -> Iterator[tuple[object, ...]]:
    try:
        import psycopg  # noqa: PLC0415  # nothing else needs it
    except ModuleNotFoundError as exc:
        raise MissingExtraError(library="psycopg", extra="postgres", wanted_for="reading PostgreSQL") from exc
    try:
        with psycopg.connect(url) as connection:
            connection.read_only = True
            with connection.cursor("reme_import") as cursor:
                yield from cursor.execute(_ROWS.replace("value,", "value::text,").format(_LIFE))
    except psycopg.errors.UndefinedTable:
        msg = "the database has no table `store` of PostgresStore: is it the right one?"
        raise InvalidInputError(msg) from None
    except psycopg.Error as exc:
        msg = f"the source can't be read ({type(exc).__name__}): is it the right server, role and database?"
        raise ConfigurationError(msg) from None  # the driver's words may hold the URL


def _row(
    prefix: object,
    key: object,
    value: object,
    created_at: object,
    updated_at: object,
    expires_at: object = None,
    ttl: object = None,
) -> StoreRow | Unreadable:
    where = f"item {key!r:.80} of {prefix!r:.80}"
    try:
        held = read_json(value if isinstance(value, (str, bytes)) else "")
    except ValueError as exc:
        return Unreadable(where, str(exc))
    if not isinstance(held, dict) or not isinstance(prefix, str) or not isinstance(key, str):
        return Unreadable(where, "is no object under a namespace and a key")
    return StoreRow(
        namespace=tuple(prefix.split(".")),
        key=key,
        value=held,
        created_at=time_of(created_at),
        updated_at=time_of(updated_at),
        expires_at=time_of(expires_at),
        ttl_minutes=ttl if isinstance(ttl, (int, float)) and math.isfinite(ttl) and ttl > 0 else None,
    )
