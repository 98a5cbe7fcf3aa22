"""One transaction as the shared rows use it, and how it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg.sql import Literal as Quoted

from reme_core.schema import Scope
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.postgres.translate import bound, translate
from reme_core.stores.sql.connection import SpacePart

if TYPE_CHECKING:
    from reme_core.stores.sql.connection import Boundary, Dialect

RawConnection = psycopg.Connection[tuple[Any, ...]]
Kind = Literal["read", "write", "unsettled", "freeing"]


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

    def run(self, raw: RawConnection) -> int | None:
        """Begin (`reme_begin` of the schema does it), in one message to the server; return the scope's number.

        It is None for a scope that nothing was ever stored in, and for a whole space.
        """
        mode = "REPEATABLE READ READ ONLY" if self.kind == "read" else "READ COMMITTED"
        values = ", ".join(f"{name} => {_quoted(raw, value)}" for name, value in self._values().items())
        text = f"BEGIN ISOLATION LEVEL {mode}; SELECT {self.settings.schema}.reme_begin({values})"
        cursor = raw.execute(text.encode(), prepare=False)  # two statements
        cursor.nextset()
        (number,) = cursor.fetchone() or (None,)
        return None if number is None else int(number)

    def _values(self) -> dict[str, str | int | None]:
        limit_ms = 0 if self.kind == "freeing" else round(self.settings.statement_timeout_s * 1000)
        values: dict[str, str | int | None] = {
            "path": self.settings.schema,
            "statement_ms": str(limit_ms),
            "lock_ms": str(round(self.settings.lock_timeout_s * 1000)),
            "kind": self.kind,
        }
        match self.within:
            case Scope():
                values |= {"space": self.within.memory_space, "user_name": self.within.user_id}
            case SpacePart():
                values |= {"space": self.within.memory_space}
            case str():
                values |= {"space": self.within}
        return values if self.kind == "read" else {**values, **self._locks()}

    def _locks(self) -> dict[str, int]:
        """Scopes are written to one by one, and side by side with others; items by one writer of their space.

        A part of a space has rows of its own, that neither of them writes to: erasures apart, which lock its rows.
        """
        schema = self.settings.schema
        match self.within:
            case Scope():
                space, user = self.within.memory_space, self.within.user_id
                return {"shared_lock": lock_number(schema, space), "own_lock": lock_number(schema, space, user)}
            case SpacePart(space, name):
                return {"own_lock": lock_number(schema, space, "part", name)}
            case str():
                return {"own_lock": lock_number(schema, self.within)}
        return {"own_lock": lock_number(schema)}


def _quoted(raw: RawConnection, value: str | int | None) -> str:
    return Quoted(value).as_string(raw)


class PgConnection:
    """A transaction of a connection, as the shared rows use it."""

    def __init__(self, raw: RawConnection, beginning: Beginning, scope: int | None, dialect: Dialect) -> None:
        """Take a connection on which a transaction has begun, in the scope of this number."""
        self._raw = raw
        self._beginning = beginning
        self._scope = scope
        self._names = count()
        self.dialect = dialect

    def execute(self, sql: str, parameters: Sequence[object] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement with `?` for its parameters; all rows that it returns are read."""
        text, lists = translate(sql)
        return self._raw.cursor(binary=True).execute(text.encode(), bound(lists, parameters))

    def executemany(self, sql: str, rows: Iterable[Sequence[object]], /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement for each row of parameters, without waiting for one to send the next."""
        text, lists = translate(sql)
        cursor = self._raw.cursor(binary=True)
        cursor.executemany(text.encode(), [bound(lists, row) for row in rows])
        return cursor

    def stream(self, sql: str, parameters: Sequence[object] = (), /) -> Stream:
        """Run a query whose rows stay on the server until they are fetched, and may never be."""
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
        self._raw.execute(b"COMMIT")
        self._scope = self._beginning.run(self._raw)

    def known_scope(self, scope: Scope) -> int | None:
        """Return the number of the transaction's scope, if it was there when the transaction began."""
        return self._scope if scope == self._beginning.within else None


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
