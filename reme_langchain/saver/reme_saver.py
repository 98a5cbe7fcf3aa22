"""A checkpointer in the memory's file: LangGraph's threads, with each message kept once."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from reme_core import SqlConnection
from reme_core.errors import InvalidInputError
from reme_langchain._opening import ClosedOnExit, MemoryOrPath, NothingToDo, is_server
from reme_langchain.saver._checkpoint_rows import (
    PutRow,
    StoredTuple,
    find_row,
    list_rows,
    put_row,
    put_writes,
    read_rows,
    rebuild,
)
from reme_langchain.saver._declared_types import DeclaredTypes
from reme_langchain.saver._delta_channels import read_history, rebuild_history
from reme_langchain.saver._message_blobs import KnownDigests
from reme_langchain.saver._saver_file import SaverFile
from reme_langchain.saver._saver_requests import (
    RemovalCalls,
    list_request,
    place_of,
    put_request,
    text,
    write_requests,
)
from reme_langchain.saver._thread_history import History, HistorySink
from reme_langchain.saver._value_codec import Allowed, TypeName, ValueCodec, make_serde

_PAGE = 16  # checkpoints that `list` reads at once
_LARGE = 1 << 18  # bytes; to rebuild more takes so long that it is not done on the event loop
_WIDTH = 16  # digits of a version's number


class ReMeSaver(ClosedOnExit, RemovalCalls, BaseCheckpointSaver[str]):
    """A checkpointer for compiled graphs: `compile(checkpointer=ReMeSaver())`.

    Bound to no event loop: every method, sync or async, may be called from any thread, loop and process, the sync ones
    from within a running loop as well. What a call wrote is on disk when it returns. Lists of messages are kept message
    by message, so a conversation grows by what is new in it.

    Only known types are rebuilt when a checkpoint is read, and those that the graph declares which calls. Others are
    refused when it is written, with a `TypeError` that names the entry of `allow` to add, and when it is read, with a
    `ConfigurationError`. A serialiser of yours that rebuilds everything is not restricted. Errors of the file are
    `StoreError`s.
    """

    def __init__(
        self,
        store: MemoryOrPath = None,
        *,
        serde: SerializerProtocol | None = None,
        allow: Collection[Allowed] = (),
        history: HistorySink | None = None,
    ) -> None:
        """Keep the settings; nothing is opened.

        Args:
            store: The memory in whose file the checkpoints lie, which stays open; or a path, as `ReMe` takes it.
            serde: A serialiser in place of the strict one, such as an `EncryptedSerializer`.
            allow: Classes, modules, or pairs (module, name), that are rebuilt beside the known ones and those that
                the graph declares.
            history: What gets the messages that are new in a thread: a `MemoryHistory`, which has them as soon as their
                checkpoint is kept, or a sink of yours, in the background; None: nothing does.
        """
        super().__init__(serde=make_serde(serde, allow))
        self._file = SaverFile(store)
        self._codec = ValueCodec(self.serde)
        self._learning = threading.Lock()
        self._declared = DeclaredTypes()
        self._allowed: frozenset[TypeName] = frozenset()
        self._history = None if history is None else History(self._file, history, self._codec)
        if self._history is not None:
            self._file.when_opened = self._history.begin

    @classmethod
    def from_path(
        cls,
        path: str | Path,
        *,
        serde: SerializerProtocol | None = None,
        allow: Collection[Allowed] = (),
        history: HistorySink | None = None,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
    ) -> Self:
        """Return a saver of its own file, to be used in `with` or `async with`.

        Args:
            path: The file, or the folder in which it is `memory.db`; or the URL of a database.
            serde: As in the constructor.
            allow: As in the constructor.
            history: As in the constructor.
            synchronous: FULL: an acknowledged write survives a power cut. NORMAL: it survives a killed process.
        """
        saver = cls(path, serde=serde, allow=allow, history=history)
        saver._file.be_synchronous(synchronous)
        return saver

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """Do what `from_path` does, of a path or of the URL of a database: `postgresql://user:password@host/database`.

        To be used in `with` or `async with`, as the savers of LangGraph are.
        """
        return cls.from_path(conn_string)

    def setup(self) -> NothingToDo:
        """Make the tables of a database that are missing, with or without `await`; a file is made when it is opened.

        Nobody has to call it: the first use of a database does it.
        """
        if is_server(self._file.database.path):
            self._file.read(lambda _: None)
        return NothingToDo()

    def __repr__(self) -> str:
        """Name the file."""
        return f"ReMeSaver({self._file.memory!r})"

    # -- reading ---------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of the config's id, or without one the newest; None if there is none."""
        self._allow_declared()
        found = self._file.read(self._finding(config))
        return None if found is None else rebuild(found, self._codec)

    def _finding(self, config: RunnableConfig) -> Callable[[SqlConnection], StoredTuple | None]:
        return partial(find_row, place=place_of(config), blobs=self._file.blobs)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do what `get_tuple` does, without blocking the event loop."""
        self._allow_declared()
        found = await self._file.aread(self._finding(config))
        return None if found is None else await self._rebuilt(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # the parent's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first: of a thread, namespace and id, or with None as config of all threads.

        Nothing is held between two of them: what is deleted meanwhile is left out, what is new is not seen.

        Args:
            config: Where to look.
            filter: Metadata that they have, all of it.
            before: Only those with a smaller id than that of this config.
            limit: At most so many, 0 or more.
        """
        self._allow_declared()
        query = list_request(config, filter, before, limit)
        places = self._file.read(partial(list_rows, query=query))
        for start in range(0, len(places), _PAGE):
            for found in self._file.read(
                partial(read_rows, places=places[start : start + _PAGE], blobs=self._file.blobs)
            ):
                yield rebuild(found, self._codec)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # the parent's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do what `list` does, without blocking the event loop."""
        self._allow_declared()
        query = list_request(config, filter, before, limit)
        places = await self._file.aread(partial(list_rows, query=query))
        for start in range(0, len(places), _PAGE):
            for found in await self._file.aread(
                partial(read_rows, places=places[start : start + _PAGE], blobs=self._file.blobs)
            ):
                yield await self._rebuilt(found)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what delta channels are rebuilt from: the ancestors' writes, and the value that they start from."""
        read = partial(read_history, place=place_of(config), channels=tuple(channels))
        return rebuild_history(self._file.read(read), self._codec)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do what `get_delta_channel_history` does, without blocking the event loop."""
        read = partial(read_history, place=place_of(config), channels=tuple(channels))
        return rebuild_history(await self._file.aread(read), self._codec)

    # -- writing ---------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint as child of the config's, in place of one with its id; return the config of it.

        Raises:
            TypeError: A value can't be serialised, or would not be rebuilt; nothing was written.
            InvalidInputError: An id or version can't be kept; nothing was written.
        """
        request = partial(
            put_request, config, checkpoint, metadata, new_versions, self._codec, self._file.memory.memory_space
        )
        row = request()
        wanted = self._file.write(self._put(row), row.place.thread)
        if wanted:
            self._file.write(self._put(request(wanted)), row.place.thread)
        if (handed := self._hand_over(row)) is not None:
            handed.result()
        return _answer(config, row)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do what `put` does, without blocking the event loop on the file. Cancelling it does not undo it."""
        request = partial(
            put_request, config, checkpoint, metadata, new_versions, self._codec, self._file.memory.memory_space
        )
        row = request()
        wanted = await self._file.awrite(self._put(row), row.place.thread)
        if wanted:
            await self._file.awrite(self._put(request(wanted)), row.place.thread)
        if (handed := self._hand_over(row)) is not None:
            await asyncio.wrap_future(handed)
        return _answer(config, row)

    def _put(self, row: PutRow) -> Callable[[SqlConnection, KnownDigests], frozenset[str]]:
        return partial(put_row if self._history is None else self._history.put, row=row, codec=self._codec)

    def _begin(self) -> None:
        if self._history is not None:
            self._history.begin()

    def _hand_over(self, row: PutRow) -> Future[bool] | None:
        return None if self._history is None else self._history.hand_over(row.place.thread)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote, beside the config's checkpoint.

        The first write of a (task, position) stays; those of errors, interrupts and the like are replaced.

        Raises:
            TypeError: A value can't be serialised, or would not be rebuilt; nothing was written.
            InvalidInputError: The config names no checkpoint, or an id can't be kept; nothing was written.
        """
        self._file.write(*self._writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do what `put_writes` does, without blocking the event loop on the file."""
        await self._file.awrite(*self._writes(config, writes, task_id, task_path))

    def _writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[Callable[[SqlConnection, KnownDigests], None], str]:
        place = place_of(config)
        if place.checkpoint_id is None:
            msg = "config['configurable']['checkpoint_id'] is missing: writes belong to a checkpoint"
            raise InvalidInputError(msg)
        task = (text(task_id, "task_id"), text(task_path, "task_path"))
        rows = write_requests(writes, self._codec)
        return partial(put_writes, place=place, task=task, rows=rows, codec=self._codec), place.thread

    # -- the rest --------------------------------------------------------------------------------------------------

    def get_next_version(self, current: str | None, channel: None) -> str:  # the parent's signature
        """Return a version that is greater, as text, and that no other branch will make."""
        number = "0" if current is None else str(current).partition(".")[0]
        width = max(_WIDTH, len(number))  # a thread that another saver began keeps its width
        return f"{int(number) + 1:0{width}}.{secrets.token_hex(6)}"

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """Return a saver of the same file that rebuilds more types; closing either closes both.

        One whose serialiser has no list of types returns itself.
        """
        clone = cast(Self, super().with_allowlist(extra_allowlist))
        if clone is not self:
            clone._codec = ValueCodec(clone.serde, self._allowed)  # noqa: SLF001  # its own
            if self._history is not None:
                self._history.allow(extra_allowlist)
        return clone

    def close(self) -> None:
        """Close the file, unless it is that of a memory that was handed in. Closing twice does nothing."""
        if self._history is not None:
            self._history.close()
        self._file.close()

    async def aclose(self) -> None:
        """Do what `close` does, without blocking the event loop."""
        if self._history is not None:
            await asyncio.to_thread(self._history.close)
        await self._file.aclose()

    def __enter__(self) -> Self:
        """Return the saver; the file is opened with the first call, or now to deliver what waits for a history."""
        self._begin()
        return self

    async def __aenter__(self) -> Self:
        """Return the saver; the file is opened with the first call, or now to deliver what waits for a history."""
        self._begin()
        return self

    def _allow_declared(self) -> None:
        if not self._codec.is_strict:
            return
        with self._learning:
            names = self._declared.of_callers() - self._allowed
            if not names:
                return
            self.serde = super().with_allowlist(names).serde
            self._allowed |= names
            self._codec = ValueCodec(self.serde, self._allowed)
            if self._history is not None:
                self._history.allow(names)

    async def _rebuilt(self, found: StoredTuple) -> CheckpointTuple:
        if found.size > _LARGE:
            return await asyncio.to_thread(rebuild, found, self._codec)
        return rebuild(found, self._codec)


@asynccontextmanager
async def open_saver() -> AsyncIterator[ReMeSaver]:
    """Open a saver for the Agent Server: `"checkpointer": {"path": "reme_langchain/saver/reme_saver.py:open_saver"}`.

    The file, or the URL of the database, is that of REME_SAVER_PATH; else the file lies in REME_WORKING_DIR, else where
    `ReMeSaver()` has it.
    """
    async with ReMeSaver(os.environ.get("REME_SAVER_PATH") or os.environ.get("REME_WORKING_DIR") or None) as saver:
        yield saver


def _answer(config: RunnableConfig, row: PutRow) -> RunnableConfig:
    thread = config["configurable"]["thread_id"]  # as it was given
    return {"configurable": {"thread_id": thread, "checkpoint_ns": row.place.ns, "checkpoint_id": row.checkpoint_id}}
