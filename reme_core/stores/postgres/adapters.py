"""Values between Python and PostgreSQL: whole numbers of one type, and texts with U+0000, which PostgreSQL has not."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from psycopg import adapters
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader, NumericLoader
from psycopg.types.string import StrDumperUnknown

# U+0000 becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002: texts keep their order, and equal ones stay equal.
_ESCAPED = re.compile("[\x00\x01]")
_UNESCAPED = re.compile("\x01[\x01\x02]")


def escape(text: str) -> str:
    """Return a text as PostgreSQL can hold it."""
    return _ESCAPED.sub(lambda found: "\x01\x01" if found[0] == "\x00" else "\x01\x02", text)


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    return _UNESCAPED.sub(lambda found: "\x00" if found[0] == "\x01\x01" else "\x01", text)


def unescaped(rows: list[tuple[Any, ...]], column: int) -> list[tuple[Any, ...]]:
    """Return rows with the texts of a column as they were; a loader of its own would be called for each of them."""
    if not any("\x01" in row[column] for row in rows if row[column]):
        return rows
    return [(*row[:column], row[column] and unescape(row[column]), *row[column + 1 :]) for row in rows]


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return (escape(obj) if "\x00" in obj or "\x01" in obj else obj).encode()


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


class _NumberLoader(NumericLoader):
    def load(self, data: Buffer) -> int | float:  # type: ignore[override]
        return _number(super().load(data))


class _BinaryNumberLoader(NumericBinaryLoader):
    def load(self, data: Buffer) -> int | float:  # type: ignore[override]
        return _number(super().load(data))


def make_adapters() -> AdaptersMap:
    """Return how values are bound and read."""
    made = AdaptersMap(adapters)
    made.register_dumper(int, Int8Dumper)  # one type, so that a statement is planned once
    made.register_dumper(str, _TextDumper)
    for number in (_NumberLoader, _BinaryNumberLoader):
        made.register_loader("numeric", number)
    return made
