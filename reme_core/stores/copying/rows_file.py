"""Files of rows: JSON Lines that carry all that a copy does, and are read as a store is.

A head says what is there; then, for each scope and for the items of each space, a line that names it, a line for each
row, and one with the digests of its tables. Bytes are written as base64. The last line tells that the file is whole,
and has the digest of all lines before it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import JsonValue

from reme_core.errors import InvalidInputError, SchemaVersionError, StoreAccessError
from reme_core.ports.items import SERVICE_SPACE
from reme_core.private_drafts import private_draft, put_in_place
from reme_core.schema import Scope
from reme_core.stores.copying.read_rows import Batch, Digests, ItemsOf, Unit, scope_name
from reme_core.stores.copying.stores_as_rows import Chosen, RowSource, Survey
from reme_core.stores.copying.tables import ITEMS, NAMED, OF_ADAPTERS, CopiedTable, Row, Value
from reme_core.text import TERMS_VERSION

T = TypeVar("T")

_FORMAT, _VERSION, _HOLDS = "reme", 2, "rows"
_UNIT, _DIGESTS, _END = "unit", "digests", "end"


class _Lines:
    """Lines that are written to a file, and the digest of all of them."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin with none."""
        self._file = file
        self.digest = hashlib.blake2b(digest_size=16)

    def write(self, item: Mapping[str, object]) -> None:
        """Write an object as a line."""
        line = json.dumps(item, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        self.digest.update(line)
        self._file.write(line)


async def write_rows_file(
    path: Path, source: RowSource, survey: Survey, units: list[Unit], progress: Callable[[int], None]
) -> list[Digests]:
    """Write units to a file, which is put in place once it is whole; return the digests of each.

    Raises:
        StoreAccessError: The file can't be written.
    """
    digests = list[Digests]()
    try:
        with private_draft(path) as draft:
            with draft.open("wb") as file:
                lines = _Lines(file)
                head = {"kind": "header", "format": _FORMAT, "version": _VERSION, "holds": _HOLDS}
                lines.write({**head, "value": {"terms": TERMS_VERSION, "settings": dict(survey.settings)}})
                for unit in units:
                    lines.write({"kind": _UNIT, "value": _named(unit)})
                    sums = await source.read(unit, lambda batches: _write_batches(lines, batches))
                    of_tables = {name: [item.rows, item.digest] for name, item in sums.result().items()}
                    lines.write({"kind": _DIGESTS, "value": of_tables})
                    digests.append(sums)
                    progress(survey.scopes.get(unit, 0) if isinstance(unit, Scope) else 0)
                lines.write({"kind": _END, "value": lines.digest.hexdigest()})
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            await asyncio.to_thread(put_in_place, draft, path)
    except OSError as exc:
        msg = f"{str(path)!r} can't be written ({exc.strerror}): give a path in a folder that exists and is writable"
        raise StoreAccessError(msg) from exc
    return digests


def _named(unit: Unit) -> dict[str, JsonValue]:
    if isinstance(unit, Scope):
        return {"memory_space": unit.memory_space, "user_id": unit.user_id}
    return {"memory_space": unit.memory_space}


def _write_batches(lines: _Lines, batches: Iterator[Batch]) -> Digests:
    sums = Digests()
    for table, rows in batches:
        sums.add(table, rows)
        for row in rows:
            values = [{"base64": base64.b64encode(v).decode()} if isinstance(v, bytes) else v for v in row]
            lines.write({"kind": table.name, "value": values})
    return sums


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the rows of a unit begin in the file."""

    memory_space: str
    user_id: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class _Found:
    """What a file holds."""

    places: tuple[_Place, ...]
    highest: Mapping[str, int]
    rows: Mapping[_Place, int]
    settings: Mapping[str, str]


def is_rows_file(path: Path) -> bool:
    """Tell whether a file may be replaced by a file of rows: it is one, or empty."""
    with path.open("rb") as file:
        head = file.read(200)
    return not head or (b'"header"' in head and b'"holds": "rows"' in head)


class RowsFile:
    """A file of rows as a `RowSource`. The first look reads all of it, and checks it."""

    def __init__(self, path: Path) -> None:
        """Keep the path; nothing is read."""
        self.path = path
        self.shown = str(path)
        self.shows_spaces = True
        self._found: _Found | None = None

    async def survey(self, chosen: Chosen) -> Survey:
        """Read the whole file once.

        Raises:
            InvalidInputError: It is no such file, not whole, or says something else than what was written.
            SchemaVersionError: Another release wrote it.
            StoreAccessError: It can't be read.
        """
        self._found = found = await asyncio.to_thread(self._look)
        places = [
            place
            for place in found.places
            if place.memory_space != SERVICE_SPACE and (chosen.spaces is None or place.memory_space in chosen.spaces)
        ]
        scopes = {
            Scope(memory_space=place.memory_space, user_id=place.user_id): found.rows[place]
            for place in places
            if place.user_id is not None and chosen.user_id in {None, place.user_id}
        }
        spaces = tuple(dict.fromkeys(place.memory_space for place in places))
        adapters = tuple(table.name for table in OF_ADAPTERS if table.name in found.highest)
        return Survey(
            spaces=spaces, scopes=scopes, highest=found.highest, settings=found.settings, of_adapters=adapters
        )

    async def read(self, unit: Unit, consume: Callable[[Iterator[Batch]], T]) -> T:
        """Read the rows of a unit; see `RowSource`."""

        def read() -> T:
            user = unit.user_id if isinstance(unit, Scope) else None
            found = self._look() if self._found is None else self._found
            at = [p.offset for p in found.places if (p.memory_space, p.user_id) == (unit.memory_space, user)]
            batches = self._batches(at[0]) if at else iter(())
            return consume(batches if isinstance(unit, Scope) else _of_owners(unit, batches))

        return await asyncio.to_thread(read)

    def _look(self) -> _Found:
        try:
            with self.path.open("rb") as file:
                return _survey_of(file, self.shown)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            if isinstance(exc, InvalidInputError):
                raise
            raise _wrong(self.shown, "has a line that is none of such a file") from exc
        except OSError as exc:
            msg = f"{self.shown!r} can't be read ({exc.strerror}): check the path"
            raise StoreAccessError(msg) from exc

    def _batches(self, offset: int) -> Iterator[Batch]:
        with self.path.open("rb") as file:
            file.seek(offset)
            table, rows = ITEMS, list[Row]()
            for line in file:
                kind, value = _line(line)
                if rows and (kind != table.name or len(rows) == table.at_once):
                    yield table, rows
                    rows = []
                if kind == _DIGESTS:
                    return
                table = NAMED[kind]
                rows.append(_row(value))


def _of_owners(items: ItemsOf, batches: Iterator[Batch]) -> Iterator[Batch]:
    wanted = {scope_name(scope) for scope in items.scopes}
    for table, rows in batches:
        kept = []
        for row in rows:
            owners = {table.value(row, "memory_of"), table.value(row, "owner")} - {None}
            if owners & wanted or (items.unowned and not owners):
                kept.append(row)
        if kept:
            yield table, kept


def _row(value: JsonValue) -> Row:
    def read(item: JsonValue) -> Value:
        if isinstance(item, dict):
            return base64.b64decode(str(item["base64"]), validate=True)
        return item  # type: ignore[return-value]  # lists are refused by the digest

    return tuple(map(read, value if isinstance(value, list) else []))


def _line(line: bytes) -> tuple[str, JsonValue]:
    item = json.loads(line)
    return str(item["kind"]), item.get("value")


def _wrong(path: str, what: str) -> InvalidInputError:
    return InvalidInputError(f"{path!r} {what}: write it anew with `reme copy --to`; nothing was copied")


def _check_head(line: bytes, path: str) -> dict[str, str]:
    try:
        head = json.loads(line)
        said = (head["format"], head["version"], head["holds"])
    except (ValueError, KeyError, TypeError):
        head, said = {}, ("", 0, "")
    if said == (_FORMAT, _VERSION, "scope"):
        msg = f"{path!r} is an export of one user: reme import reads it"
        raise InvalidInputError(msg)
    if said != (_FORMAT, _VERSION, _HOLDS):
        raise _wrong(path, "is no file that `reme copy` wrote")
    terms = head["value"]["terms"]
    if terms != TERMS_VERSION:
        msg = (
            f"{path!r} has words of version {terms!r:.20}, this release {TERMS_VERSION}: copy it into a store with the"
            " release that wrote it, then open that store with this one"
        )
        raise SchemaVersionError(msg)
    return {str(name): str(value) for name, value in head["value"]["settings"].items()}


def _survey_of(file: BinaryIO, path: str) -> _Found:
    """Read all lines, and compare the digests that were written with those of what is there (InvalidInputError)."""
    head = file.readline()
    settings, places, digest = _check_head(head, path), list[_Place](), hashlib.blake2b(head, digest_size=16)
    highest: dict[str, int] = {}
    rows: dict[_Place, int] = {}
    sums, is_whole = Digests(), False
    for line in file:
        kind, value = _line(line)
        if kind == _END:
            is_whole = value == digest.hexdigest()
            break
        digest.update(line)
        match kind:
            case "unit" if isinstance(value, dict):
                user = value.get("user_id")
                place = _Place(str(value["memory_space"]), None if user is None else str(user), file.tell())
                Scope(memory_space=place.memory_space, user_id=place.user_id or "")  # refused now, if it can be none
                places.append(place)
                sums = Digests()
            case "digests":
                found = sums.result()
                if value != {name: [item.rows, item.digest] for name, item in found.items()}:
                    raise _wrong(path, f"says other things than what was written (space {places[-1].memory_space!r})")
                rows[places[-1]] = sum(found[name].rows for name in ("messages", "memories") if name in found)
            case _ if kind in NAMED and places:
                _add(sums, highest, NAMED[kind], _row(value), path)
            case _:
                raise _wrong(path, f"has a line of kind {kind!r:.40}")
    if not is_whole:
        raise _wrong(path, "is not whole, or was changed: its last line tells so")
    return _Found(tuple(places), highest, rows, settings)


def _add(sums: Digests, highest: dict[str, int], table: CopiedTable, row: Row, path: str) -> None:
    sums.add(table, [row])
    if len(row) != 1 + len(table.placed) + len(table.references):
        raise _wrong(path, f"has a row of {table.name} with {len(row)} values")
    if isinstance(row[0], int):
        highest[table.name] = max(row[0], highest.get(table.name, 0))
