"""One transaction as the shared rows use it, and how it begins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg.sql import Literal as Quoted

from reme_core.schema import Scope
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.postgres.translate import bound, translate

if TYPE_CHECKING:
    from reme_core.stores.sql.connection import Boundary, Dialect

RawConnection = psycopg.Connection[tuple[Any, ...]]
Kind = Literal["read", "write", "unsettled", "freeing"]
ANY_OF_SPACE = "*"
"""The value of `reme.scope` in a transaction of a whole memory space."""


def lock_number(*names: str) -> int:
    """Return the number of an advisory lock, in [-2^63, 2^63): of 64 bits of a digest."""
    digest = hashlib.blake2b(repr(names).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a transaction begins: its kind, time-outs, boundary and locks, all in one message to the server."""

    settings: ServerSettings
    kind: Kind
    within: Boundary

    def run(self, raw: RawConnection) -> str | None:
        """Begin; return the transaction's number, of one that writes.

        The scope's number is looked up after its lock is held, in a snapshot of its own: the writer before this one
        may have made it.
        """
        if self.kind == "read":
            mode, number = "REPEATABLE READ READ ONLY", ""
        else:
            mode, number = "READ COMMITTED", "SELECT pg_current_xact_id()::text;"
        cursor = raw.execute(
            f"BEGIN ISOLATION LEVEL {mode};{self._settings(raw)}{self._locks()}{self._scope(raw)}{number}".encode(),
            prepare=False,  # several statements
        )
        if not number:
            return None
        while cursor.nextset():
            pass
        found = cursor.fetchone()
        return None if found is None else str(found[0])

    def _settings(self, raw: RawConnection) -> str:
        limit_ms = 0 if self.kind == "freeing" else round(self.settings.statement_timeout_s * 1000)
        lock_ms = round(self.settings.lock_timeout_s * 1000)
        values = {
            "search_path": self.settings.schema,
            "statement_timeout": str(limit_ms),
            "lock_timeout": str(lock_ms),
            # A process that was stopped, or a machine that went, holds its scope's lock no longer than this.
            "idle_in_transaction_session_timeout": str(limit_ms),
            "reme.space": "",
            "reme.user": "",
            "reme.scope": "",
        }
        match self.within:
            case Scope():
                values |= {"reme.space": self.within.memory_space, "reme.user": self.within.user_id}
            case str():
                values |= {"reme.space": self.within, "reme.scope": ANY_OF_SPACE}
        if self.kind == "unsettled":
            values["synchronous_commit"] = "off"
        calls = [f"set_config('{name}', {_quoted(raw, value)}, true)" for name, value in values.items()]
        if self.kind in {"write", "freeing"}:  # what is acknowledged is on disk, whatever the server's setting is
            calls.append(
                "CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')"
                " THEN set_config('synchronous_commit', 'on', true) END"
            )
        return f"SELECT {', '.join(calls)};"

    def _locks(self) -> str:
        """Scopes are written to one by one, and side by side with others; items by one writer of their space."""
        if self.kind == "read":
            return ""
        schema = self.settings.schema
        match self.within:
            case Scope():
                space, user = self.within.memory_space, self.within.user_id
                return (
                    f"SELECT pg_advisory_xact_lock_shared({lock_number(schema, space)}),"
                    f" pg_advisory_xact_lock({lock_number(schema, space, user)});"
                )
            case str():
                return f"SELECT pg_advisory_xact_lock({lock_number(schema, self.within)});"
        return f"SELECT pg_advisory_xact_lock({lock_number(schema)});"

    def _scope(self, raw: RawConnection) -> str:
        if not isinstance(self.within, Scope):
            return ""
        space, user = _quoted(raw, self.within.memory_space), _quoted(raw, self.within.user_id)
        return (
            "SELECT set_config('reme.scope', coalesce((SELECT scope::text FROM scopes"  # noqa: S608  # quoted
            f" WHERE memory_space = {space} AND user_id = {user}), '0'), true);"
        )


def _quoted(raw: RawConnection, value: str) -> str:
    return Quoted(value).as_string(raw)


class PgConnection:
    """A transaction of a connection, as the shared rows use it."""

    def __init__(self, raw: RawConnection, beginning: Beginning, dialect: Dialect) -> None:
        """Take a connection on which a transaction has begun."""
        self._raw = raw
        self._beginning = beginning
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

    def renew(self) -> None:
        """End the snapshot and begin another one: what others have written meanwhile is seen from now on."""
        self._raw.execute(b"COMMIT")
        self._beginning.run(self._raw)


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
