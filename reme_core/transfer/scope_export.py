"""Writing of transfer files: everything that a scope holds, or memories of it as a library.

Memories of every type go along with a scope, entries of the routing table (`meta`) included. Events are written for
reading and are not read back: a history belongs to the store in which it happened. Jobs are not written: what is still
to be done is done by the store that promised it, and a copy would do it a second time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from reme_core.errors import OffloadNotFoundError
from reme_core.ports import (
    EventQuery,
    FindMessages,
    ListBlocks,
    ListMemories,
    ListOffloads,
    ListToolCalls,
    MemoryFilter,
    Store,
)
from reme_core.schema import (
    STATEMENTS,
    DumpedLibrary,
    Memory,
    MemoryType,
    OffloadRecord,
    Scope,
    ToolCallResult,
    TransferCounts,
)
from reme_core.transfer.transfer_file import Contents, write_file

_DUMPED = tuple(kind for kind in STATEMENTS if kind is not MemoryType.HISTORY)
_PAGE = 500
# Texts of calls may be megabytes each, and a page of them is held at once.
_PAGE_OF_TEXTS = 20


async def export_scope(store: Store, scope: Scope, path: Path) -> TransferCounts:
    """Write everything a scope holds to a file, which is replaced once all of it is on disk.

    Raises:
        StoreAccessError: The file can't be written, is no regular file, or is a database.
    """
    return transfer_counts(await write_file(path, Contents.SCOPE, _everything(store, scope)))


def transfer_counts(counts: Mapping[str, int]) -> TransferCounts:
    """Name how many things of each kind there were."""
    return TransferCounts(
        messages=counts.get("message", 0),
        blocks=counts.get("block", 0),
        memories=counts.get("memory", 0),
        events=counts.get("event", 0),
        offloads=counts.get("offload", 0),
        tool_calls=counts.get("tool_call", 0),
    )


async def dump_library(
    store: Store,
    scope: Scope,
    path: Path,
    *,
    types: Sequence[MemoryType] | None = None,
    targets: Sequence[str] | None = None,
    include_superseded: bool = False,
) -> DumpedLibrary:
    """Write memories to a file, newest first, one a line; the file is replaced once all of them are on disk.

    `meta` and `history` memories are written only where they are asked for by name, and `load_library` refuses them.

    Args:
        store: Where they are.
        scope: Whose memories; the file names neither space nor user.
        path: The file.
        types: Of these types; None: of every type but `meta` and `history`.
        targets: About these; None: about any.
        include_superseded: Also those that were replaced.

    Raises:
        StoreAccessError: The file can't be written, is no regular file, or is a database.
    """
    wanted = MemoryFilter(
        types=_DUMPED if types is None else tuple(types),
        targets=None if targets is None else tuple(targets),
        include_superseded=include_superseded,
    )
    counts = await write_file(path, Contents.LIBRARY, _memories(store, scope, wanted))
    return DumpedLibrary(memories=counts["memory"])


async def _everything(store: Store, scope: Scope) -> AsyncIterator[tuple[str, BaseModel]]:
    cursor: str | None = None
    # Messages last: what is said meanwhile must not give a block, an offload or a call whose messages are not there.
    while True:
        blocks = await store.list_blocks(scope, ListBlocks(limit=_PAGE, cursor=cursor))
        for block in blocks.blocks:
            yield "block", block
        if (cursor := blocks.next_cursor) is None:
            break
    async for offload in _offloads(store, scope):
        yield "offload", offload
    async for call in _tool_calls(store, scope):
        yield "tool_call", call
    while True:
        messages = await store.find_messages(scope, FindMessages(limit=_PAGE, cursor=cursor))
        for stored in messages.messages:
            yield "message", stored
        if (cursor := messages.next_cursor) is None:
            break
    async for item in _memories(store, scope, MemoryFilter(include_superseded=True)):
        yield item
    after = 0
    while events := await store.events(scope, EventQuery(after=after, limit=_PAGE)):
        for event in events:
            yield "event", event
        after = events[-1].sequence


async def _offloads(store: Store, scope: Scope) -> AsyncIterator[OffloadRecord]:
    cursor: str | None = None
    while True:
        page = await store.list_offloads(scope, ListOffloads(limit=_PAGE, cursor=cursor))
        for info in page.offloads:
            try:
                yield await store.get_offload(scope, info.reference)
            except OffloadNotFoundError:  # cleaned up since the page was read
                continue
        if (cursor := page.next_cursor) is None:
            return


async def _tool_calls(store: Store, scope: Scope) -> AsyncIterator[ToolCallResult]:
    cursor: str | None = None
    while True:
        query = ListToolCalls(limit=_PAGE_OF_TEXTS, cursor=cursor, newest_first=False)
        page = await store.list_tool_calls(scope, query)
        for call in page.calls:
            yield call
        if (cursor := page.next_cursor) is None:
            return


async def _memories(store: Store, scope: Scope, wanted: MemoryFilter) -> AsyncIterator[tuple[str, Memory]]:
    cursor: str | None = None
    while True:
        page = await store.list_memories(scope, ListMemories(filter=wanted, limit=_PAGE, cursor=cursor))
        for memory in page.memories:
            yield "memory", memory
        if (cursor := page.next_cursor) is None:
            return
