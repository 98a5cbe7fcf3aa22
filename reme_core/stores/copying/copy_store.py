"""Copies of a store, or of some of its scopes, into another one: resumed after a kill, and compared at the end.

A scope is one transaction of the target, and one snapshot of the source; so are the items of a memory space behind its
scopes. Whoever was killed left whole scopes behind: the next run finds these equal, and goes on with the others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from reme_core.errors import ConflictError, CorruptDataError
from reme_core.ports.items import SERVICE_SPACE
from reme_core.schema import Scope
from reme_core.stores.copying.read_rows import Batch, Digests, ItemsOf, TableDigest, Unit, digests_of, passed
from reme_core.stores.copying.rows_file import RowsFile, write_rows_file
from reme_core.stores.copying.stores_as_rows import (
    Chosen,
    RowSource,
    StoreRows,
    Survey,
    WithoutTables,
    boundary_of,
    handed_over,
)
from reme_core.stores.copying.tables import NAMED
from reme_core.stores.copying.write_rows import Numbers, write_items, write_scope
from reme_core.stores.sql.bookkeeping import put_once
from reme_core.stores.sql.connection import SqlConnection, SqlDatabase
from reme_core.stores.sql.embedding_record import claim_embedding, read_record

Progress = Callable[[int], None]
_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedUnit:
    """What became of a scope, or of the items of a space (`user_id` None).

    Attributes:
        memory_space: The space.
        user_id: The user, "" for the shared scope.
        rows: How many rows the source holds, by table.
        outcome: `copied`; `there`: it was, and is equal; `merged`: what lacked was added.
    """

    memory_space: str
    user_id: str | None
    rows: Mapping[str, int]
    outcome: Literal["copied", "there", "merged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCopy:
    """What a copy, or a comparison, has done.

    Attributes:
        units: Scopes and items, in order.
        left_out: Tables of adapters that hold something, and are not copied.
    """

    units: tuple[CopiedUnit, ...] = field(default=())
    left_out: tuple[str, ...] = ()

    @property
    def rows(self) -> dict[str, int]:
        """How many rows there are of each table."""
        sums: dict[str, int] = {}
        for unit in self.units:
            for table, rows in unit.rows.items():
                sums[table] = sums.get(table, 0) + rows
        return sums


def units_of(survey: Survey, chosen: Chosen) -> list[Unit]:
    """Return what is to be copied, in order: scopes, then the items of each space, as they may be memories of those.

    What a service notes of a user, such as costs, lies in a space of its own, and goes with the user.
    """
    scopes = tuple(survey.scopes)
    unowned = chosen.user_id is None
    return [
        *scopes,
        *(ItemsOf(space, scopes, unowned=unowned) for space in survey.spaces),
        *(
            []
            if SERVICE_SPACE in survey.spaces
            else [ItemsOf(SERVICE_SPACE, scopes, unowned and chosen.spaces is None)]
        ),
    ]


async def copy_store(
    source: RowSource,
    target: StoreRows[SqlDatabase],
    chosen: Chosen,
    *,
    merge: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> StoreCopy:
    """Copy what is chosen; run again, it goes on where it was broken off, and adds nothing to what is equal.

    Args:
        source: Read, and nothing else.
        target: Where it is to be.
        chosen: What is copied.
        merge: Add what a scope of the target lacks, in place of refusing one that holds other things.
        progress: Is told how many messages and memories are done, and of how many.

    Raises:
        ConflictError: A scope of the target holds other things; with `merge`, a row under the same id.
        CorruptDataError: What was written is not what was read: names scope and table.
        DimensionMismatchError: The vectors of the two are of different lengths.
    """
    survey = await source.survey(chosen)
    total, done = sum(survey.scopes.values()), 0

    def tell(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(min(done, total), total)

    tables = await target.table_names()
    left_out = _left_out(survey, tables)
    source = WithoutTables(source, frozenset(NAMED) - tables)
    highest = {table: number for table, number in survey.highest.items() if table in tables}
    copy = _Copy(source, target, replace(survey, highest=highest), merge=merge, tell=tell)
    await copy.take_settings()
    units = []
    for unit in units_of(survey, chosen):
        before = done
        units.append(await copy.unit(unit))
        done = before
        tell(survey.scopes.get(unit, 0) if isinstance(unit, Scope) else 0)
    await copy.finish()
    kept = tuple(unit for unit in units if unit.rows or unit.user_id is not None)
    return StoreCopy(units=kept, left_out=left_out)


def _left_out(survey: Survey, there: Collection[str]) -> tuple[str, ...]:
    """Return tables of adapters that can't be copied: nobody here knows them, or the target has none."""
    return tuple(table for table in survey.of_adapters if table not in NAMED or table not in there)


async def copy_to_file(
    source: RowSource, path: Path, chosen: Chosen, *, progress: Callable[[int, int], None] | None = None
) -> StoreCopy:
    """Write what is chosen to a file of rows, in place of one that is there, once it is whole; then read it.

    Raises:
        StoreAccessError: The file can't be written.
        CorruptDataError: What it says is not what was read.
    """
    survey = await source.survey(chosen)
    units, total, done = units_of(survey, chosen), sum(survey.scopes.values()), 0

    def tell(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, total)

    written = await write_rows_file(path, source, survey, units, tell)
    copy = RowsFile(path)
    copied = []
    for unit, digests in zip(units, written, strict=True):
        wanted = digests.result()
        if differ := _differences(wanted, await copy.read(unit, digests_of)):
            msg = f"{_name(unit)} is not in {copy.shown} as it was read ({'; '.join(differ)}): copy it again"
            raise CorruptDataError(msg)
        copied.append(_copied(unit, wanted, "copied"))
    kept = tuple(unit for unit in copied if unit.rows or unit.user_id is not None)
    return StoreCopy(units=kept, left_out=_left_out(survey, NAMED))


async def compare_stores(source: RowSource, target: RowSource, chosen: Chosen) -> StoreCopy:
    """Compare what is chosen in two stores; nothing is written (ConflictError: names scopes and tables)."""
    survey = await source.survey(chosen)
    # A server can't be asked what spaces it has beside those of the source.
    others = await target.survey(chosen if target.shows_spaces else replace(chosen, spaces=survey.spaces))
    alone = [f"space {space!r}" for space in others.spaces if space not in survey.spaces]
    alone += [_name(s) for s in others.scopes if s.memory_space in survey.spaces and s not in survey.scopes]
    differ = [f"{name} is in the target alone" for name in alone]
    units = []
    for unit in units_of(survey, chosen):
        here, there = await source.read(unit, digests_of), await target.read(unit, digests_of)
        differ += [f"{_name(unit)}: {what}" for what in _differences(here, there)]
        units.append(_copied(unit, here, "there"))
    if differ:
        more = f"; and {len(differ) - _TOLD} more" if len(differ) > _TOLD else ""
        msg = f"{source.shown} and {target.shown} differ: {'; '.join(differ[:_TOLD])}{more}"
        raise ConflictError(msg)
    return StoreCopy(units=tuple(unit for unit in units if unit.rows or unit.user_id is not None))


class _Copy:
    """A copy that is under way."""

    def __init__(
        self,
        source: RowSource,
        target: StoreRows[SqlDatabase],
        survey: Survey,
        *,
        merge: bool,
        tell: Progress,
    ) -> None:
        self._source = source
        self._target = target
        self._survey = survey
        self._merge = merge
        self._tell = tell
        self._higher: Mapping[str, int] | None = None
        self._mark = f"copying:{source.shown}"

    async def take_settings(self) -> None:
        """Refuse a target whose vectors are others (DimensionMismatchError, ConflictError)."""
        settings = self._survey.settings
        if settings:
            await self._target.database.write(lambda c: _take_settings(c, settings), within=None)

    async def unit(self, unit: Unit) -> CopiedUnit:
        there = await self._target.read(unit, digests_of)
        if there:
            wanted = await self._source.read(unit, digests_of)
            if there == wanted:
                return _copied(unit, wanted, "there")
            if not self._merge:
                raise _refusal(unit, self._target, _differences(wanted, there))
        written = await self._write(unit, merges=bool(there))
        found = await self._target.read(unit, lambda batches: passed(batches, of_rows=bool(there)))
        self._check(unit, written, found, merged=bool(there))
        return _copied(unit, written.result(), "merged" if there else "copied")

    async def _write(self, unit: Unit, *, merges: bool) -> Digests:
        loop, higher = asyncio.get_running_loop(), await self._numbers()
        spaces = () if isinstance(unit, Scope) else sorted({scope.memory_space for scope in unit.scopes})
        scopes = await self._target.numbers(spaces)

        def write(connection: SqlConnection) -> Digests:
            numbers = Numbers(higher)  # of this attempt
            with handed_over(self._source, unit, loop) as batches:
                told = self._told(batches, loop)
                if isinstance(unit, Scope):
                    return write_scope(connection, unit, told, numbers, merges=merges)
                return write_items(connection, unit, told, numbers, scopes, merges=merges)

        return await self._target.database.write(write, within=boundary_of(unit))

    def _told(self, batches: Iterator[Batch], loop: asyncio.AbstractEventLoop) -> Iterator[Batch]:
        for table, rows in batches:
            yield table, rows
            if table.name in {"messages", "memories"}:
                loop.call_soon_threadsafe(self._tell, len(rows))

    async def _numbers(self) -> Mapping[str, int]:
        if self._higher is None:
            mark, highest = self._mark, self._survey.highest
            self._higher = await self._target.database.write(lambda c: _set_aside(c, mark, highest), within=None)
        return self._higher

    def _check(self, unit: Unit, written: Digests, found: Digests, *, merged: bool) -> None:
        """Compare what was read with what is there now, all of it or, in a merge, row by row."""
        differ = (
            [name for name, rows in written.of_rows.items() if rows - found.of_rows.get(name, set())]
            if merged
            else _differences(written.result(), found.result())
        )
        if differ:
            msg = (
                f"{_name(unit)} is not in {self._target.shown} as it was read ({'; '.join(differ)}): somebody wrote"
                " to it meanwhile, or it is damaged; look with --verify"
            )
            raise CorruptDataError(msg)

    async def finish(self) -> None:
        """Forget what a next run would go on with."""
        if self._higher is not None:
            remove = "DELETE FROM meta WHERE key = ?"
            await self._target.database.write(lambda c: c.execute(remove, (self._mark,)), within=None)


def _take_settings(connection: SqlConnection, settings: Mapping[str, str]) -> None:
    for space, made in settings.items():
        claim_embedding(connection, space, read_record(made), f"the vectors of space {space!r} of the source")


def _set_aside(connection: SqlConnection, mark: str, highest: Mapping[str, int]) -> Mapping[str, int]:
    """Return by how much numbers are to rise: as a run before this one decided, while that has room for them."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (mark,)).fetchone()
    if row is not None:
        plan = json.loads(row[0])
        if all(number <= plan["highest"].get(table, 0) for table, number in highest.items()):
            return {table: int(number) for table, number in plan["higher"].items()}
    higher = {
        table: connection.dialect.set_aside(connection, table, NAMED[table].number or "", number)
        for table, number in highest.items()
    }
    connection.execute("DELETE FROM meta WHERE key = ?", (mark,))
    put_once(connection, mark, json.dumps({"highest": dict(highest), "higher": higher}))
    return higher


def _copied(
    unit: Unit, digests: Mapping[str, TableDigest], outcome: Literal["copied", "there", "merged"]
) -> CopiedUnit:
    return CopiedUnit(
        memory_space=unit.memory_space,
        user_id=unit.user_id if isinstance(unit, Scope) else None,
        rows={name: digest.rows for name, digest in digests.items()},
        outcome=outcome,
    )


def _differences(wanted: Mapping[str, TableDigest], found: Mapping[str, TableDigest]) -> list[str]:
    nothing = TableDigest(0, "")
    differ = []
    for table in NAMED:
        one, other = wanted.get(table, nothing), found.get(table, nothing)
        if one.rows != other.rows:
            differ.append(f"{table} has {one.rows} rows in the source, {other.rows} in the target")
        elif one != other:
            differ.append(f"{table} says other things in the target ({one.rows} rows)")
    return differ


def _refusal(unit: Unit, target: RowSource, differ: Sequence[str]) -> ConflictError:
    msg = (
        f"{_name(unit)}: {target.shown} holds other things under this name ({'; '.join(differ)}): nothing of it was"
        " copied; --merge adds what is missing there, or delete it there first, or copy into another database"
    )
    return ConflictError(msg)


def _name(unit: Unit) -> str:
    if isinstance(unit, Scope):
        whose = f"user {unit.user_id!r}" if unit.user_id else "the shared scope"
        return f"{whose} of space {unit.memory_space!r}"
    return f"items of space {unit.memory_space!r}"
