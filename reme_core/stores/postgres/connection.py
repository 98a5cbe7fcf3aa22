"""One transaction as the shared rows use it, and how it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import psycopg

from reme_core.schema import Scope
from reme_core.stores.postgres.adapters import escape
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.postgres.translate import bound, translate
from reme_core.stores.sql.connection import ItemsWithin, SpacePart

if TYPE_CHECKING:
    from reme_core.stores.sql.connection import Boundary, Dialect

RawConnection = psycopg.Connection[tuple[Any, ...]]
RawCursor = psycopg.Cursor[tuple[Any, ...]]
Kind = Literal["read", "write", "unsettled", "freeing"]


def lock_number(*names: str) -> int:
    """Return the number of an advisory lock, in [-2^63, 2^63): of 64 bits of a digest."""
    digest = hashlib.blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class Begun(NamedTuple):
    """What is known of a transaction's scope from its beginning.

    Attributes:
        scope: Its number; None for one that nothing was ever stored in, and for a whole space.
        newest: For a reader, the number of the newest change of each layer, by the number of the layer less one.
    """

    scope: int | None = None
    newest: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a transaction begins: its kind, time-outs, boundary and locks."""

    settings: ServerSettings
    kind: Kind
    within: Boundary

    def run(self, raw: RawConnection) -> Begun:
        """Begin (`reme_begin` of the schema does it), in one message to the server."""
        mode = "REPEATABLE READ READ ONLY" if self.kind == "read" else "READ COMMITTED"
        values = ", ".join(f"{name} => {_quoted(raw, value)}" for name, value in self._values().items())
        text = f"BEGIN ISOLATION LEVEL {mode}; SELECT number, newest FROM {self.settings.schema}.reme_begin({values})"  # noqa: S608
        cursor = raw.execute(text.encode(), prepare=False)  # two statements
        cursor.nextset()
        return Begun(*(cursor.fetchone() or ()))

    def _values(self) -> dict[str, str | int | list[int] | None]:
        limit_ms = 0 if self.kind == "freeing" else round(self.settings.statement_timeout_s * 1000)
        values: dict[str, str | int | list[int] | None] = {
            "path": self.settings.schema,
            "statement_ms": str(limit_ms),
            "lock_ms": str(round(self.settings.lock_timeout_s * 1000)),
            "kind": self.kind,
        }
        match self.within:
            case Scope():
                values |= {"space": self.within.memory_space, "user_name": self.within.user_id}
            case SpacePart() | ItemsWithin():
                values |= {"space": self.within.memory_space}
            case str():
                values |= {"space": self.within}
        return values if self.kind == "read" else {**values, **self._locks()}

    def _locks(self) -> dict[str, int | list[int]]:
        """Scopes are written to one by one, and side by side with others; so are namespaces of items.

        A part of a space has rows of its own, that neither of them writes to: erasures apart, which lock its rows.
        """
        schema = self.settings.schema
        match self.within:
            case Scope():
                space, user = self.within.memory_space, self.within.user_id
                return {"shared_lock": lock_number(schema, space), "own_locks": [lock_number(schema, space, user)]}
            case SpacePart(space, name):
                return {"own_locks": [lock_number(schema, space, "part", name)]}
            case ItemsWithin(space, paths, scopes):
                of_scopes = sorted(lock_number(schema, scope.memory_space, scope.user_id) for scope in set(scopes))
                return {
                    "shared_lock": lock_number(schema, space),
                    "own_locks": [*of_scopes, *self.path_locks((space, path) for path in paths)],
                }
            case str():
                return {"own_locks": [lock_number(schema, self.within)]}
        return {"own_locks": [lock_number(schema)]}

    def path_locks(self, paths: Iterable[tuple[str, str]]) -> list[int]:
        """Return the numbers of the locks of namespaces, in the order of taking them, behind those of scopes."""
        return sorted(lock_number(self.settings.schema, space, "", path) for space, path in set(paths))


def _quoted(raw: RawConnection, value: object) -> str:
    """Return the literal of a number, a text, numbers as an array, or None, as the server reads it.

    The driver's own way takes some 50 us for each value.
    """
    match value:
        case None:
            return "NULL"
        case int():
            return str(int(value))
        case str():
            escaped = psycopg.pq.Escaping(raw.pgconn).escape_literal(escape(value).encode())
            return bytes(escaped).decode()
        case list():
            return f"'{{{','.join(str(int(part)) for part in value)}}}'"
    msg = f"{type(value).__name__}: no value of a function"
    raise TypeError(msg)


class PgConnection:
    """A transaction of a connection, as the shared rows use it."""

    def __init__(self, raw: RawConnection, beginning: Beginning, begun: Begun, dialect: Dialect) -> None:
        """Take a connection on which a transaction has begun."""
        self._raw = raw
        self._beginning = beginning
        self._begun = begun
        self._names = count()
        self._later: list[tuple[str, Sequence[object]]] = []
        self.dialect = dialect
        self.is_of_scope = isinstance(beginning.within, Scope)

    def execute(self, sql: str, parameters: Sequence[object] = (), /) -> RawCursor:
        """Run a statement with `?` for its parameters; all rows that it returns are read."""
        self.flush()
        text, lists = translate(sql)
        return self._raw.cursor(binary=True).execute(text.encode(), bound(lists, parameters))

    def executemany(self, sql: str, rows: Iterable[Sequence[object]], /) -> RawCursor:
        """Run a statement for each row of parameters, without waiting for one to send the next."""
        self.flush()
        text, lists = translate(sql)
        cursor = self._raw.cursor(binary=True)
        cursor.executemany(text.encode(), [bound(lists, row) for row in rows])
        return cursor

    def call_later(self, function: str, values: Sequence[object]) -> None:
        """Call a function of the schema before the next statement, or, in one message with it, before the commit.

        Nobody waits for what it returns, and nothing is acknowledged if it fails. Functions alone, as they are planned
        once a connection: a statement that is not prepared takes three times as long below the walls.
        """
        self._later.append((function, values))

    def lock_beside(self, space: str) -> None:
        """Go on beside the writers of another memory space, but not beside one that has the whole of it."""
        self.execute("SELECT pg_advisory_xact_lock_shared(?)", (lock_number(self._beginning.settings.schema, space),))

    def lock_paths(self, paths: Iterable[tuple[str, str]]) -> None:
        """Take the locks of namespaces of items, by their spaces and paths."""
        for number in self._beginning.path_locks(paths):
            self.execute("SELECT pg_advisory_xact_lock(?)", (number,))

    def flush(self) -> None:
        """Do now what was to be done later (psycopg.Error)."""
        if self._later:
            self._send(b"")

    def commit(self, writer: str, signature: int) -> str | None:
        """Do what is left, note which transaction of a writer this is, if it has changed anything, and commit it.

        Numbers of transactions would not do: after a crash the server gives those anew whose commit it had not written.

        Returns:
            What the server did: `COMMIT`, or `ROLLBACK`, if a statement had failed.
        """
        self.call_later("reme_sign", (writer, signature))
        return self._send(b"; COMMIT")

    def _send(self, end: bytes) -> str | None:
        """Send what is left, with its values in it, in one message; return what the last statement did."""
        later, self._later = self._later, []
        calls = [f"SELECT {name}({', '.join(_quoted(self._raw, value) for value in values)})" for name, values in later]
        cursor = self._raw.execute("; ".join(calls).encode() + end, prepare=False)
        while cursor.nextset():
            pass
        return cursor.statusmessage

    def end_reading(self) -> None:
        """Have the server end the transaction, which has changed nothing; whoever takes the connection next waits."""
        self.flush()
        self._raw.pgconn.send_query(b"COMMIT")
        self._raw.pgconn.flush()

    @property
    def is_lost(self) -> bool:
        """Whether the server is gone, so that nobody knows what it has done last."""
        return self._raw.info.transaction_status == psycopg.pq.TransactionStatus.UNKNOWN

    def stream(self, sql: str, parameters: Sequence[object] = (), /) -> Stream:
        """Run a query whose rows stay on the server until they are fetched, and may never be."""
        self.flush()
        text, lists = translate(sql)
        name = f"reme_{next(self._names)}"
        declare = f"DECLARE {name} NO SCROLL CURSOR FOR {text}"
        self._raw.execute(declare.encode(), bound(lists, parameters), prepare=False)
        return Stream(self._raw, name)

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
        self.flush()
        self._raw.execute(b"COMMIT")
        self._begun = self._beginning.run(self._raw)

    def known_scope(self, scope: Scope) -> int | None:
        """Return the number of the transaction's scope, if it was there when the transaction began."""
        return self._begun.scope if scope == self._beginning.within else None

    def known_change(self, scope: Scope, layer: int) -> tuple[int, int] | None:
        """Return the number of the transaction's scope and that of a layer's newest change, if it reads that scope."""
        number, newest = self._begun
        if number is None or newest is None or scope != self._beginning.within:
            return None
        return number, newest[layer - 1]


class Stream:
    """Rows of a query that are fetched a few at a time; ends with its transaction."""

    _ITERATED = 100

    def __init__(self, raw: RawConnection, name: str) -> None:
        """Take a cursor that was declared."""
        self._raw = raw
        self._name = name
        self._is_open = True

    @property
    def rowcount(self) -> int:
        """Unknown, as it is of any query that is not read to its end."""
        return -1

    def fetchmany(self, size: int = 1, /) -> list[Any]:
        """Return the next rows, fewer where there are no more."""
        cursor = self._raw.cursor(binary=True)
        return cursor.execute(f"FETCH FORWARD {size:d} FROM {self._name}".encode(), prepare=False).fetchall()

    def fetchone(self) -> Any:  # noqa: ANN401  # as the driver has it
        """Return the next row, None where there is none."""
        return next(iter(self.fetchmany(1)), None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        cursor = self._raw.cursor(binary=True)
        return cursor.execute(f"FETCH ALL FROM {self._name}".encode(), prepare=False).fetchall()

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""
        while some := self.fetchmany(self._ITERATED):
            yield from some

    def close(self) -> None:
        """Let the server forget it; harmless twice, and behind the transaction's end."""
        if self._is_open and self._raw.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
            self._raw.execute(f"CLOSE {self._name}".encode(), prepare=False)
        self._is_open = False
