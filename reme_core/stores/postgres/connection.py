"""One transaction as the shared rows use it, and how it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import psycopg

from reme_core.schema import Scope
from reme_core.stores.postgres.pipeline import LazyRows, Pipeline, SqlStatement, StatementResult
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.postgres.translate import array, bound, translate
from reme_core.stores.sql.connection import ItemsWithin, SpacePart

if TYPE_CHECKING:
    from reme_core.stores.sql.connection import Boundary, Dialect

# Statements at most, and bytes of their values, unless it is one: what is sent lies in memory, twice.
_TOGETHER, _BYTES_TOGETHER = 200, 1 << 22
Kind = Literal["read", "write", "unsettled", "freeing"]
# Signs a transaction, unless a later one of this writer has been signed: it then divides by zero.
_SIGN = b"""SELECT reme_sign($1, $2),
    1 / (NOT EXISTS (SELECT FROM last_writes WHERE writer = $1 AND signature > $2))::int"""


def lock_number(*names: str) -> int:
    """Return the number of an advisory lock, in [-2^63, 2^63): of 64 bits of a digest."""
    digest = hashlib.blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a transaction begins: its kind, time-outs, boundary and locks."""

    settings: ServerSettings
    kind: Kind
    within: Boundary

    def statements(self) -> tuple[SqlStatement, SqlStatement]:
        """Return what begins it; the second one (`reme_begin`) tells the number of the scope, if it has one."""
        mode = "REPEATABLE READ READ ONLY" if self.kind == "read" else "READ COMMITTED"
        begin = f"SELECT number FROM {self.settings.schema}.reme_begin($1, $2, $3, $4, $5, $6, $7, $8)"  # noqa: S608
        return SqlStatement(f"BEGIN ISOLATION LEVEL {mode}".encode()), SqlStatement(begin.encode(), self._values())

    def _values(self) -> tuple[str | int | None, ...]:
        limit_ms = 0 if self.kind == "freeing" else round(self.settings.statement_timeout_s * 1000)
        lock_ms = round(self.settings.lock_timeout_s * 1000)
        space, user, shared, own = "", None, None, None
        match self.within:
            case Scope():
                space, user = self.within.memory_space, self.within.user_id
            case SpacePart() | ItemsWithin():
                space = self.within.memory_space
            case str():
                space = self.within
        if self.kind != "read":
            shared, locks = self._locks()
            own = array(locks)
        return (self.settings.schema, str(limit_ms), str(lock_ms), self.kind, space, user, shared, own)

    def _locks(self) -> tuple[int | None, list[int]]:
        """Return the lock that is shared, if any, and those of its own.

        Scopes are written to one by one, and side by side with others; so are namespaces of items.

        A part of a space has rows of its own, that neither of them writes to: erasures apart, which lock its rows.
        """
        schema = self.settings.schema
        match self.within:
            case Scope():
                space, user = self.within.memory_space, self.within.user_id
                return lock_number(schema, space), [lock_number(schema, space, user)]
            case SpacePart(space, name):
                return None, [lock_number(schema, space, "part", name)]
            case ItemsWithin(space, paths, scopes):
                of_scopes = sorted(lock_number(schema, scope.memory_space, scope.user_id) for scope in set(scopes))
                return lock_number(schema, space), [*of_scopes, *self.path_locks((space, path) for path in paths)]
            case str():
                return None, [lock_number(schema, self.within)]
        return None, [lock_number(schema)]

    def path_locks(self, paths: Iterable[tuple[str, str]]) -> list[int]:
        """Return the numbers of the locks of namespaces, in the order of taking them, behind those of scopes."""
        return sorted(lock_number(self.settings.schema, space, "", path) for space, path in set(paths))


class ScopeMadeAnewError(Exception):
    """The scope of a transaction has another number than it had before, or none: others have erased it meanwhile."""


class PgConnection:
    """A transaction of a connection, as the shared rows use it.

    What is to be run waits until somebody looks at rows, and then goes to the server together, the beginning of the
    transaction included.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        beginning: Beginning,
        dialect: Dialect,
        *,
        scope: int | None = None,
        begun: bool = False,
    ) -> None:
        """Take a connection.

        Args:
            pipeline: The connection.
            beginning: How the transaction begins.
            dialect: Its dialect.
            scope: The number that its scope has had the last time.
            begun: Whether the transaction has begun, in another way.
        """
        self._pipeline = pipeline
        self._beginning = beginning
        self._expected = scope
        self._has_begun = begun
        self._has_ended = False
        self._scope: int | None = None
        self._names = count()
        self._waiting: list[tuple[SqlStatement, LazyRows]] = []
        self._bytes = 0  # of what waits, about
        self.dialect = dialect
        self.is_of_scope = isinstance(beginning.within, Scope)

    def execute(self, sql: str, parameters: Sequence[object] = (), /) -> LazyRows:
        """Take a statement with `?` for its parameters, which is run once somebody looks at its rows, or at others."""
        text, lists = translate(sql)
        return self._take(SqlStatement(text, bound(lists, parameters)))

    def executemany(self, sql: str, rows: Iterable[Sequence[object]], /) -> LazyRows:
        """Take a statement for each row of parameters."""
        last = LazyRows(self.flush)
        last.answer(StatementResult([], 0, ""))
        for row in rows:
            last = self.execute(sql, row)
        return last

    def call_later(self, function: str, values: Sequence[object]) -> None:
        """Call a function of the schema: a few statements, for whose rows nobody waits."""
        marks = ", ".join(f"${place}" for place in range(1, len(values) + 1))
        self._take(SqlStatement(f"SELECT {function}({marks})".encode(), values))

    def _take(self, statement: SqlStatement) -> LazyRows:
        size = sum(len(value) for value in statement.values if isinstance(value, str | bytes))
        if len(self._waiting) >= _TOGETHER or (self._waiting and self._bytes + size > _BYTES_TOGETHER):
            self.flush()
        self._bytes += size
        rows = LazyRows(self.flush)
        self._waiting.append((statement, rows))
        return rows

    def lock_beside(self, space: str) -> None:
        """Go on beside the writers of another memory space, but not beside one that has the whole of it."""
        self.execute("SELECT pg_advisory_xact_lock_shared(?)", (lock_number(self._beginning.settings.schema, space),))

    def lock_paths(self, paths: Iterable[tuple[str, str]]) -> None:
        """Take the locks of namespaces of items, by their spaces and paths."""
        for number in self._beginning.path_locks(paths):
            self.execute("SELECT pg_advisory_xact_lock(?)", (number,))

    def flush(self) -> None:
        """Run now what waits, behind the beginning of the transaction if that is still to come (psycopg.Error)."""
        if self._has_ended:
            msg = "the transaction has ended"
            raise psycopg.InterfaceError(msg)
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        beginning = () if self._has_begun else self._beginning.statements()
        answers, failed = self._pipeline.run([*beginning, *(statement for statement, _ in waiting)])
        if len(answers) >= len(beginning) > 0:
            self._has_begun, self._scope = True, answers[len(beginning) - 1].rows[0][0]
            if self._expected is not None and self._scope != self._expected:
                raise ScopeMadeAnewError
        for (_, rows), answer in zip(waiting, answers[len(beginning) :], strict=False):
            rows.answer(answer)
        if failed is not None:
            raise failed

    def commit(self, writer: str, signature: int) -> str:
        """Do what is left, note which transaction of a writer this is, if it has changed anything, and commit it.

        Numbers of transactions would not do: after a crash the server gives those anew whose commit it had not written.
        Where all of it goes in one message, this may reach the server behind a later attempt, and then fails.

        Returns:
            What the server did: `COMMIT`, or `ROLLBACK`, if a statement had failed.
        """
        if not self._has_begun and self._expected is not None:
            self.flush()  # nothing is committed by a number that the scope has no more
        self._take(SqlStatement(_SIGN, (writer, signature)))
        done = self._take(SqlStatement(b"COMMIT"))
        self.flush()
        return done.done

    def end_reading(self) -> None:
        """Have the server end the transaction, which has changed nothing; whoever takes the connection next waits."""
        if self._waiting or (not self._has_begun and self._expected is not None):
            self.flush()  # what was read may rest on the number that the scope is expected to have
        if self._has_begun:
            self._pipeline.raw.pgconn.send_query(b"COMMIT")
            self._pipeline.raw.pgconn.flush()

    def close(self) -> None:
        """Refuse what comes now: others may have the connection (psycopg.InterfaceError)."""
        self._has_ended = True

    @property
    def is_lost(self) -> bool:
        """Whether the server is gone, so that nobody knows what it has done last."""
        return self._pipeline.raw.info.transaction_status == psycopg.pq.TransactionStatus.UNKNOWN

    def stream(self, sql: str, parameters: Sequence[object] = (), /) -> Stream:
        """Run a query whose rows stay on the server until they are fetched, and may never be."""
        text, lists = translate(sql)
        name = b"reme_%d" % next(self._names)
        declare = b"DECLARE %b NO SCROLL CURSOR FOR %b" % (name, text)
        self._take(SqlStatement(declare, bound(lists, parameters), may_be_prepared=False))
        return Stream(self, name)

    def of_stream(self, sql: bytes) -> LazyRows:
        """Take a statement about a stream; not prepared, as it would be of the rows of the first of this name."""
        return self._take(SqlStatement(sql, may_be_prepared=False))

    @contextmanager
    def within(self, boundary: Boundary) -> Iterator[None]:
        """Go on within another boundary, then within the one before; after a failure there is nothing to go on with."""
        before = self.execute(
            "SELECT current_setting('reme.space'), current_setting('reme.user'), current_setting('reme.scope')"
        ).fetchone()
        match boundary:
            case Scope():
                self._set(boundary.memory_space, boundary.user_id, "0")
                (number,) = self.execute("SELECT max(scope) FROM scopes").fetchone() or (None,)  # its own, if any
                self._set(boundary.memory_space, boundary.user_id, str(number or 0))
            case str():
                self._set(boundary, "", "*")
            case _:
                self._set("", "", "")
        yield
        self._set(*(before or ("", "", "")))

    def _set(self, space: str, user: str, scope: str) -> None:
        setting = "SELECT set_config('reme.space', ?, true), set_config('reme.user', ?, true)"
        self.execute(f"{setting}, set_config('reme.scope', ?, true)", (space, user, scope))

    def renew(self) -> None:
        """End the snapshot and begin another one: what others have written meanwhile is seen from now on."""
        if self._has_begun:
            self._take(SqlStatement(b"COMMIT"))
            self.flush()
            self._has_begun, self._expected = False, None

    def known_scope(self, scope: Scope) -> int | None:
        """Return the number of the transaction's scope, if it was there when the transaction began."""
        if scope != self._beginning.within:
            return None
        if not self._has_begun and self._expected is not None:
            return self._expected
        if not self._has_begun:
            self.flush()
        return self._scope

    @property
    def found_scope(self) -> tuple[Boundary, int | None]:
        """The boundary of the transaction, and the number of the scope that it is, as far as they are known."""
        return self._beginning.within, self._scope


class Stream:
    """Rows of a query that are fetched a few at a time; ends with its transaction."""

    _ITERATED = 100

    def __init__(self, connection: PgConnection, name: bytes) -> None:
        """Take a cursor that was declared."""
        self._connection = connection
        self._name = name

    @property
    def rowcount(self) -> int:
        """Unknown, as it is of any query that is not read to its end."""
        return -1

    def fetchmany(self, size: int = 1, /) -> list[Any]:
        """Return the next rows, fewer where there are no more."""
        return self._connection.of_stream(b"FETCH FORWARD %d FROM %b" % (size, self._name)).fetchall()

    def fetchone(self) -> Any:  # noqa: ANN401  # as the driver has it
        """Return the next row, None where there is none."""
        return next(iter(self.fetchmany(1)), None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        return self._connection.of_stream(b"FETCH ALL FROM %b" % self._name).fetchall()

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""
        while some := self.fetchmany(self._ITERATED):
            yield from some

    def close(self) -> None:
        """Nothing: the server forgets it at the transaction's end."""
