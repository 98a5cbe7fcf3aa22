"""The local store: memories, messages, blocks, jobs, offloads, tool calls and items of many scopes in one file."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Literal

from reme_core.errors import StoreError
from reme_core.schema import Erased, Scope
from reme_core.stores.local.file.database import Database
from reme_core.stores.local.file.file_location import FileSettings
from reme_core.stores.local.file.purging import forget_file, note_file, noted_files
from reme_core.stores.local.file.whole_scope import erase_name
from reme_core.stores.noted_files import remove_files
from reme_core.stores.sql.bookkeeping import find_scope
from reme_core.stores.sql.store import SqlStore


class LocalStore(SqlStore):
    """The `Store` on one file.

    The file is opened with the first call. Several stores, threads, event loops and processes may use it at once: each
    call sees what was acknowledged before it, by whomever. Searches rank in memory: a partition (one layer of one
    scope) is read at its first search and follows the file from then on.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout_s: float = 10.0,
        max_bytes: int | None = None,
        cache_bytes: int = 1 << 30,
        loading_wait_s: float = 0.5,
    ) -> None:
        """Keep the settings.

        Args:
            path: The file.
            synchronous: FULL (safe against power cuts) or NORMAL (against killed processes); see `FileSettings`.
            busy_timeout_s: Seconds to wait for another process that is writing.
            max_bytes: The size that the file may reach, if it is to be bounded.
            cache_bytes: What the partitions in memory may take together, and again what the vectors of items may; the
                largest one may take more.
            loading_wait_s: Seconds that a search whose caller takes a partial answer (`on_degraded`) waits for a scope
                that is too large to be loaded at once; it is then answered from the newest rows.
        """
        self._file = Database(
            FileSettings(path=Path(path), synchronous=synchronous, busy_timeout_s=busy_timeout_s, max_bytes=max_bytes)
        )
        super().__init__(self._file, cache_bytes=cache_bytes, loading_wait_s=loading_wait_s)

    def __repr__(self) -> str:
        """Name the file."""
        return f"LocalStore({self._file.path!r})"

    @property
    def database(self) -> Database:
        """The file itself, for tables of adapters that are to live in it; it closes with this store."""
        return self._file

    async def erase(self, scope: Scope) -> Erased:
        """Remove everything of the scope, of all layers, from the file and its log, and the files that were noted.

        Raises:
            StoreUnavailableError: The rows are gone, but another process is reading the log; call again.
        """
        number = await self._file.read(lambda c: find_scope(c, scope))
        files = [] if number is None else await self._file.read(lambda c: noted_files(c, number))
        erased = await self._file.write(lambda c: erase_name(c, scope), frees=True)
        self._forget(number)
        removed = 0
        with suppress(StoreError):  # what can't be removed is told by the purge, which tries it again
            removed = await asyncio.to_thread(remove_files, files)
        await self._purge("the scope")
        return erased.model_copy(update={"files": removed, "pages_cleared": True})

    async def note_file(self, scope: Scope, path: Path) -> None:
        """Note a file outside that goes with a scope, if there is such a scope."""
        number = await self._file.read(lambda c: find_scope(c, scope))
        if number is not None:
            await self._file.write(lambda c: note_file(c, number, path))

    async def forget_file(self, scope: Scope, path: Path) -> None:
        """Take such a note back."""
        number = await self._file.read(lambda c: find_scope(c, scope))
        if number is not None:
            await self._file.write(lambda c: forget_file(c, number, path))
