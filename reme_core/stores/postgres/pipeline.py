"""Statements that go to the server together, so that it is waited for once, not once for each of them.

The driver has this, too (`Connection.pipeline`), at the price of what it saves where the server is near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import errors, generators
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

from reme_core.stores.postgres.adapters import unescaped

RawConnection = psycopg.Connection[tuple[Any, ...]]

_TEXT: Final = psycopg.adapters.types["text"].oid
_PREPARED: Final = 500  # statements of the shared rows: some 300
_FEW: Final = (
    64  # values of a statement that may be prepared; one with more inserts rows, a number of them hardly twice
)


class SqlStatement(NamedTuple):
    """A statement, with `$1`, `$2` and so on for its values; it is prepared after some uses, if it may be."""

    sql: bytes
    values: Sequence[object] = ()
    may_be_prepared: bool = True


class StatementResult(NamedTuple):
    """What a statement brought: all its rows, how many it read or changed, and what the server says that it did."""

    rows: list[tuple[Any, ...]]
    changed: int
    done: str


class Pipeline:
    """A connection, and the statements that are prepared on it."""

    def __init__(self, raw: RawConnection, prepare_threshold: int | None = None) -> None:
        """Take a connection that is used in no other way while `run` is at work, and see `ServerSettings`."""
        self.raw = raw
        self._threshold = prepare_threshold
        self._values = Transformer(raw)
        self._uses: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._names = count()

    def run(self, statements: Sequence[SqlStatement]) -> tuple[list[StatementResult], psycopg.Error | None]:
        """Run statements, all those behind a failed one left out.

        Returns:
            The answers of those that were done, and what was wrong with the next one.

        Raises:
            psycopg.Error: A value can't be bound, or the connection was lost, and is closed.
        """
        bound: list[_Bound] = []
        try:
            for statement in statements:
                bound.append(self._bound(statement))  # noqa: PERF401  # those before one that can't be bound are needed
        except BaseException:
            self._forget(bound)
            raise
        try:
            self.raw.pgconn.enter_pipeline_mode()
            results = self.raw.wait(_exchanged(self.raw.pgconn, bound))
            if self.raw.pgconn.status == ConnStatus.OK:
                self.raw.pgconn.exit_pipeline_mode()
        except BaseException:
            self.raw.close()
            raise
        return self._answers(bound, results)

    def _bound(self, statement: SqlStatement) -> _Bound:
        """Return a statement as it is sent; the first uses of one are not prepared, as most are never used again."""
        values = self._values.dump_sequence(statement.values, [PyFormat.AUTO] * len(statement.values))
        types, formats = self._values.types or (), self._values.formats or []
        key = (statement.sql, types)
        name = self._prepared.get(key)
        if name is not None:
            return _Bound(key, values, formats, name, is_new=False)
        if len(self._uses) > _PREPARED:
            self._uses.clear()
        uses = self._uses[key] = self._uses.get(key, 0) + 1
        is_fixed = statement.may_be_prepared and len(values) <= _FEW
        threshold = self._threshold if is_fixed else None
        if threshold is None or uses <= threshold or len(self._prepared) >= _PREPARED:
            return _Bound(key, values, formats, None, is_new=False)
        name = self._prepared[key] = b"reme_%d" % next(self._names)
        return _Bound(key, values, formats, name, is_new=True)

    def _answers(
        self, bound: Sequence[_Bound], results: Sequence[PGresult]
    ) -> tuple[list[StatementResult], psycopg.Error | None]:
        answers: list[StatementResult] = []
        following = iter(results)
        for place, statement in enumerate(bound):
            for is_last in (False, True) if statement.is_new else (True,):
                result = next(following, None)
                if result is None or result.status not in {ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK}:
                    self._forget(bound[place + is_last :])
                    lost = psycopg.OperationalError("the connection is lost")
                    return answers, lost if result is None else errors.error_from_result(result)
                if is_last:
                    answers.append(self._read(result))
        return answers, None

    def _forget(self, left_out: Iterable[_Bound]) -> None:
        """Forget the names that were meant for statements which the server has not prepared."""
        for statement in left_out:
            if statement.is_new:
                self._prepared.pop(statement.key, None)

    def _read(self, result: PGresult) -> StatementResult:
        self._values.set_pgresult(result)
        rows = self._values.load_rows(0, result.ntuples, tuple) if result.ntuples else []
        for column in range(result.nfields) if rows else ():
            if result.ftype(column) == _TEXT:
                rows = unescaped(rows, column)
        return StatementResult(rows, result.command_tuples or 0, (result.command_status or b"").decode())


class _Bound(NamedTuple):
    """A statement as it is sent: by its name, if it has one, which is new or not."""

    key: tuple[bytes, tuple[int, ...]]
    values: Sequence[Buffer | None]
    formats: Sequence[Format]
    name: bytes | None
    is_new: bool


def _exchanged(pgconn: PGconn, bound: Sequence[_Bound]) -> PQGen[list[PGresult]]:
    """Send statements; return a result for each, two for one that is prepared first, as far as there are any."""
    for (sql, types), values, formats, name, is_new in bound:
        if name is None:
            pgconn.send_query_params(sql, values, types, formats, Format.BINARY)
            continue
        if is_new:
            pgconn.send_prepare(name, sql, types)
        pgconn.send_query_prepared(name, values, formats, Format.BINARY)
    pgconn.pipeline_sync()
    yield from generators.send(pgconn)
    results: list[PGresult] = []
    while pgconn.status == ConnStatus.OK:
        try:
            result = yield from generators.fetch(pgconn)
        except psycopg.OperationalError:
            if any(result.status == ExecStatus.FATAL_ERROR for result in results):
                break  # what the server said last says more
            raise
        if result is None:  # the end of what belongs to one statement
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            break
        results.append(result)
    return results


class LazyRows:
    """The rows of a statement, as plain tuples; the server is asked once somebody looks at them."""

    __slots__ = ("_answer", "_ask", "_place")

    def __init__(self, ask: Callable[[], None]) -> None:
        """Take what has the server asked, so that `answer` is called."""
        self._ask = ask
        self._answer: StatementResult | None = None
        self._place = 0

    def answer(self, answer: StatementResult) -> None:
        """Take what the server has answered."""
        self._answer = answer

    def _found(self) -> StatementResult:
        if self._answer is None:
            self._ask()
        if self._answer is None:  # it failed before
            msg = "a statement before this one has failed"
            raise errors.InFailedSqlTransaction(msg)
        return self._answer

    @property
    def done(self) -> str:
        """What the server says that it did: its first words."""
        return self._found().done

    @property
    def rowcount(self) -> int:
        """How many rows the statement read or changed."""
        return self._found().changed

    def fetchmany(self, size: int = 1, /) -> list[Any]:
        """Return the next rows, fewer where there are no more."""
        rows = self._found().rows[self._place : self._place + size]
        self._place += len(rows)
        return rows

    def fetchone(self) -> Any:  # noqa: ANN401  # as the driver has it
        """Return the next row, None where there is none."""
        return next(iter(self.fetchmany(1)), None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        return self.fetchmany(len(self._found().rows))

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""
        yield from self.fetchall()

    def close(self) -> None:
        """Nothing: the server has sent all there is, or is not asked."""
