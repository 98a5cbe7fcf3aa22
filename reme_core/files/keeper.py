"""Folders beside a store: what a call has put on disk is written into the files of its user, in the background."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

from reme_core.errors import ConfigurationError, ConflictError, ReMeError, StoreAccessError
from reme_core.files.agent_page import write_block
from reme_core.files.erased_lines import ErasedLines
from reme_core.files.file_index import scope_key
from reme_core.files.file_memory import FileMemory
from reme_core.files.folder import (
    AGENT_PAGES,
    CONFLICT_COPY,
    OUR_FOLDER,
    FileProblem,
    UnreadableFileError,
    is_marked,
    mapped_errors,
    open_folder,
)
from reme_core.files.record import RETENTION_DAYS
from reme_core.files.sync import SyncReport
from reme_core.files.targets import MEMORY_PAGE
from reme_core.jobs.job_service import BackgroundTasks
from reme_core.ports import (
    Appended,
    AppendMessages,
    Clock,
    Embedder,
    PutOffloads,
    SettleJob,
    Store,
    TokenCounter,
    WriteBatch,
)
from reme_core.ports.wrapped_store import WrappedStore
from reme_core.private_drafts import remove_left_drafts
from reme_core.schema import Erased, Memory, Scope, shown

_LOG = logging.getLogger("reme")
T = TypeVar("T")
_UNFIT = re.compile(r"[^\w@.-]|^\.|\.$")  # what no name of a folder may have somewhere; the shared scope's has a "+"
_SHARED = "+shared"
_NAME_BYTES, _CUT_BYTES = 255, 200  # what file systems take as a name; what of a longer one is kept beside a digest
_TRIES, _PAUSE_S = 20, 0.05  # while another process syncs the folder, which takes some milliseconds
_KEPT = (MEMORY_PAGE, "targets", "memory", "dialog", "tool_result")


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Which folder belongs to whom: one user of one space each.

    Attributes:
        root: Each user has a folder in this one, called after the user id; the shared scope has `+shared`. A sign that
            no name of a folder may have stands as `%` and two digits for each of its bytes, as in addresses.
        users: Folders of single users, by their ids, wherever they are. Who is in neither has no files.
        retention_days: How long the files of tool results stay.
    """

    root: str | Path | None = None
    users: Mapping[str, str | Path] = field(default_factory=dict)
    retention_days: float = RETENTION_DAYS

    @classmethod
    def read(cls, value: object) -> Folders:
        """Read the setting `files` (ConfigurationError)."""
        if isinstance(value, cls):
            return value
        if isinstance(value, (str, Path)) and str(value).strip() and "\0" not in str(value):
            return cls(root=value)
        msg = f"files: wanted the path of a folder, or Folders(...), found {shown(value)}"
        raise ConfigurationError(msg)

    def of(self, scope: Scope) -> Path | None:
        """Return the folder of a scope, None where it has none."""
        if scope.user_id in self.users:
            return Path(self.users[scope.user_id]).expanduser()
        if self.root is None:
            return None
        name = _UNFIT.sub(lambda sign: "".join(f"%{byte:02x}" for byte in sign[0].encode()), scope.user_id) or _SHARED
        if len(name.encode()) > _NAME_BYTES:
            name = f"{name.encode()[:_CUT_BYTES].decode(errors='ignore')}+{scope_key(scope, '')}"
        return Path(self.root).expanduser() / name


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPorts:
    """What folders stand on: a memory, and its store as it is when no file follows."""

    memory_space: str
    store: Store
    resting_embedder: Embedder | None
    clock: Clock
    token_counter: TokenCounter
    start_waiting: Callable[[Scope], None]


class FolderKeeper:
    """Keeps the folders of users and the store in step.

    What fails about files never fails a call: it is logged, told by `FileMemory.check`, and done by the next sync.
    """

    def __init__(self, files: object, memory: FolderPorts) -> None:
        """Keep the settings; `files` as `Folders.read` takes it (ConfigurationError)."""
        self._folders = Folders.read(files)
        self._memory = memory
        self._background = BackgroundTasks(self._follow)
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Scope, FileMemory]] = WeakKeyDictionary()
        self._erased = ErasedLines(memory.store, memory.clock)
        self._has_resumed = False
        self._told: dict[Scope, Sequence[FileProblem | str]] = {}

    def start(self, scope: Scope) -> None:
        """Have the files of a scope follow, in the background."""
        if self._folder(scope) is not None:
            self._background.start(scope)

    @asynccontextmanager
    async def erasing(self, scope: Scope, memory_ids: Sequence[str]) -> AsyncIterator[None]:
        """Note memories whose lines go when they are erased within; what is not erased is noted no more."""
        if not memory_ids or self._folder(scope) is None:
            yield
            return
        await self._erased.note(scope, memory_ids)
        try:
            yield
        except ReMeError:
            await self._erased.forget(scope, memory_ids)
            raise

    async def look(self, scope: Scope) -> None:
        """Take over what a person has written into files, before it is asked for."""
        if not self._has_resumed:
            self._has_resumed = True
            for noted in await self._erased.scopes(self._memory.memory_space):
                self.start(noted)
        if self._folder(scope) is not None:
            await self._sync(scope, self._files(scope).sync_if_changed)

    async def join(self) -> None:
        """Wait until the files have followed."""
        await self._background.join()

    async def stop(self) -> None:
        """Leave what is still to be written to the next start."""
        await self._background.cancel()

    async def erase(self, scope: Scope) -> int:
        """Remove the files kept of a scope, and tell how many; other notes in its folder stay (StoreAccessError)."""
        folder = self._folder(scope)
        if folder is None or not (folder / OUR_FOLDER).is_dir():
            return 0
        await asyncio.to_thread(open_folder, folder, scope, make=False)  # or it is somebody else's
        self._opened.clear()
        await self._background.join()
        return await asyncio.to_thread(_remove_kept, folder)

    def _folder(self, scope: Scope) -> Path | None:
        return self._folders.of(scope) if scope.memory_space == self._memory.memory_space else None

    async def _follow(self, scope: Scope) -> None:
        for _ in range(_TRIES):
            if await self._sync(scope, self._files(scope).sync):
                return
            await asyncio.sleep(_PAUSE_S)

    async def _sync(self, scope: Scope, sync: Callable[[], Awaitable[SyncReport]]) -> bool:
        """Sync; tell whether nobody else was at it."""
        try:
            report = await sync()
        except ConflictError as exc:
            _LOG.debug("%s", exc)
            return False
        except ReMeError as exc:
            self._tell(scope, [exc.message])
        else:
            self._tell(scope, report.problems)
        return True

    def _files(self, scope: Scope) -> FileMemory:
        opened = self._opened.setdefault(asyncio.get_running_loop(), {})
        if scope not in opened:
            folder = self._folders.of(scope)
            assert folder is not None  # noqa: S101  # asked before
            opened[scope] = FileMemory(
                folder,
                memory=self._memory,
                user_id=scope.user_id or None,
                shared=not scope.user_id,
                with_record=True,
                retention_days=self._folders.retention_days,
            )
        return opened[scope]

    def _tell(self, scope: Scope, problems: Sequence[FileProblem | str]) -> None:
        """Log what is wrong, once as long as it stays so."""
        before, self._told[scope] = self._told.get(scope, ()), problems
        for problem in problems:
            if problem not in before:
                told = problem if isinstance(problem, str) else f"{problem.path}: {problem.message}"
                _LOG.error("files of a user did not follow the memory: %s", told)


class FollowedStore(WrappedStore):
    """A store whose writes have files follow."""

    def __init__(self, store: Store, keeper: FolderKeeper) -> None:
        """Keep both."""
        super().__init__(store)
        self._keeper = keeper

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        """See `Store.put`."""
        async with self._keeper.erasing(scope, [delete.memory_id for delete in batch.deletes if delete.erase]):
            return self._followed(scope, await self._store.put(scope, batch))

    async def put_and_settle(self, scope: Scope, batch: WriteBatch, settle: SettleJob) -> list[Memory]:
        """See `Store.put_and_settle`."""
        return self._followed(scope, await self._store.put_and_settle(scope, batch, settle))

    async def append(self, scope: Scope, request: AppendMessages) -> Appended:
        """See `Store.append`."""
        return self._followed(scope, await self._store.append(scope, request))

    async def put_offloads(self, scope: Scope, put: PutOffloads) -> list[str]:
        """See `Store.put_offloads`."""
        return self._followed(scope, await self._store.put_offloads(scope, put))

    async def erase(self, scope: Scope) -> Erased:
        """See `Store.erase`: the files that were kept go first, so that nothing is taken over from them again."""
        files = await self._keeper.erase(scope)
        erased = await self._store.erase(scope)
        files += await self._keeper.erase(scope)  # of another process that was just writing one
        return erased.model_copy(update={"files": erased.files + files})

    def _followed(self, scope: Scope, done: T) -> T:
        self._keeper.start(scope)
        return done


def _remove_kept(folder: Path) -> int:
    """Remove what we have written into a folder: files, copies of conflicts, left drafts, blocks in pages of agents."""
    with mapped_errors(folder):
        kept = [folder / name for name in _KEPT if (folder / name).exists() and not (folder / name).is_symlink()]
        count = sum(1 for path in kept for file in (path, *path.rglob("*")) if file.is_file())
        for path in kept:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for place, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".") and not is_marked(Path(place, name))]
            remove_left_drafts(Path(place))
            copies = [Path(place, name) for name in names if CONFLICT_COPY.fullmatch(name)]
            for copy in copies:
                copy.unlink()
            count += len(copies)
    for name in AGENT_PAGES:
        try:
            write_block(folder, name, make=False, told=())
        except UnreadableFileError as exc:
            msg = (
                f"{str(folder / name)!r} may hold what is to be erased, and {exc.message}; nothing else was erased yet"
            )
            raise StoreAccessError(msg) from exc
    return count
