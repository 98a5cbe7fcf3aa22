"""The store on PostgreSQL: all that the local store keeps, for many machines at once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from reme_core.errors import StoreAccessError
from reme_core.schema import Erased, Scope
from reme_core.stores.noted_files import remove_files
from reme_core.stores.postgres.database import PostgresDatabase
from reme_core.stores.postgres.dialect import POSTGRES
from reme_core.stores.postgres.erasure import (
    erase_rows,
    files_left,
    forget_file,
    forget_left,
    note_file,
)
from reme_core.stores.postgres.settings import ServerSettings
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.store import SqlStore

_LOG = logging.getLogger("reme")

LEFT_TO_OPERATOR = (
    "VACUUM: until PostgreSQL's own, or yours, has run, pages hold copies of deleted rows that no query finds",
    "backups, write-ahead logs and snapshots: they hold what was there until they are replaced",
)
"""What an erasure can't reach, as it tells it."""


class PostgresStore(SqlStore):
    """The `Store` on a database of PostgreSQL 15 or later.

    The database is opened with the first call, and its tables are made where there are none. Any number of processes
    and machines may use it at once. Searches rank in memory, as those of the local store do, with equal results.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "reme",
        max_connections: int = 10,
        idle_s: float = 30.0,
        connect_timeout_s: float = 10.0,
        statement_timeout_s: float = 60.0,
        lock_timeout_s: float = 10.0,
        retry_s: float = 20.0,
        prepare_threshold: int | None = 5,
        allow_superuser: bool = False,
        cache_bytes: int = 1 << 30,
        loading_wait_s: float = 0.5,
    ) -> None:
        """Keep the settings.

        Args:
            url: `postgresql://user:password@host:port/database`.
            schema: The schema of the tables: one database holds several memories side by side.
            max_connections: How many connections this process may have at once; none while it has nothing to do.
            idle_s: Seconds after which a connection that nobody uses is closed.
            connect_timeout_s: Seconds that a connection may take to be made.
            statement_timeout_s: Seconds that one statement may take; an erasure may take longer.
            lock_timeout_s: Seconds to wait for another writer of the same scope.
            retry_s: Seconds to go on trying when the server was lost: a failover, or a restart.
            prepare_threshold: After how many uses a statement is prepared; None for never.
            allow_superuser: Whether a role may be used that row level security doesn't bind.
            cache_bytes: What the partitions in memory may take together, and again what the vectors of items may; the
                largest one may take more.
            loading_wait_s: Seconds that a search whose caller takes a partial answer (`on_degraded`) waits for a scope
                that is too large to be loaded at once; it is then answered from the newest rows.
        """
        settings = ServerSettings(
            url=url,
            schema=schema,
            max_connections=max_connections,
            idle_s=idle_s,
            connect_timeout_s=connect_timeout_s,
            statement_timeout_s=statement_timeout_s,
            lock_timeout_s=lock_timeout_s,
            retry_s=retry_s,
            prepare_threshold=prepare_threshold,
            allow_superuser=allow_superuser,
        )
        self._server = PostgresDatabase(settings, POSTGRES)
        super().__init__(self._server, cache_bytes=cache_bytes, loading_wait_s=loading_wait_s)

    def __repr__(self) -> str:
        """Name the place, without password."""
        return f"PostgresStore({self._server.path!r})"

    @property
    def database(self) -> PostgresDatabase:
        """The database itself, for tables of adapters that are to live in it; it closes with this store."""
        return self._server

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope, of all layers, then the noted files that are on this machine.

        Files of other machines go when a process there notes a file or erases a scope of the same space; the answer
        names them. What deleted rows leave in pages and in the log of the server goes with its own VACUUM and
        checkpoints.

        Raises:
            StoreAccessError: The rows are gone, and a noted file can't be removed: call again, it is still noted.
        """
        number = await self._server.read(lambda c: find_scope(c, scope), within=scope)
        erased = await self._server.write(lambda c: erase_rows(c, scope), within=scope, frees=True)
        self._forget(number)
        removed = await self._remove_left(scope.memory_space)
        return erased.model_copy(update={"files": removed, "left_to_operator": LEFT_TO_OPERATOR})

    async def _remove_left(self, memory_space: str) -> int:
        """Remove the files of erased scopes that are on this machine (StoreAccessError); return how many there were."""
        left = await self._server.read(files_left, within=memory_space)
        if not left:
            return 0
        removed = await asyncio.to_thread(remove_files, left)
        await self._server.write(lambda c: forget_left(c, left), within=memory_space)
        return removed

    async def note_file(self, scope: Scope, path: Path) -> None:
        """Note a file outside that goes with a scope, if there is such a scope."""
        await self._server.write(lambda c: note_file(c, scope, path), within=scope)
        try:
            await self._remove_left(scope.memory_space)
        except StoreAccessError as exc:  # of users who are erased: no concern of this one
            _LOG.error("a file of an erased user stays noted, and is tried again: %s", exc)

    async def forget_file(self, scope: Scope, path: Path) -> None:
        """Take such a note back."""
        await self._server.write(lambda c: forget_file(c, scope, path), within=scope)
