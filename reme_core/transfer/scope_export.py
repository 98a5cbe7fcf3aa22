"""Export and import of a scope as JSON Lines: a header, then a line for each thing that it holds.

Memories of every type go along, entries of the routing table (`meta`) included. Events are written for reading and are
not read back: a history belongs to the store in which it happened. Jobs are not written: what is still to be done is
done by the store that promised it, and a copy would do it a second time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from reme_core.errors import (
    ConflictError,
    InvalidInputError,
    MemoryNotFoundError,
    OffloadNotFoundError,
    StoreAccessError,
)
from reme_core.ports import (
    AppendMessages,
    Embedder,
    EventQuery,
    FindMessages,
    ListBlocks,
    ListMemories,
    ListOffloads,
    ListToolCalls,
    MemoryFilter,
    PutMemory,
    PutOffloads,
    Store,
    WriteBatch,
)
from reme_core.remember.memory_editor import vectors_of
from reme_core.rules import replaced_elsewhere, settle_equal
from reme_core.schema import (
    Block,
    Memory,
    MemoryType,
    OffloadRecord,
    Scope,
    StoredMessage,
    ToolCallResult,
    describe,
    utc_now,
)
from reme_core.schema.mapping import MappingModel
from reme_core.transfer.json_lines import check_regular, write_lines

FORMAT = "reme-export"
VERSION = 1
_PAGE = 500
# Texts of offloads and calls may be megabytes each, and a page of them is held at once.
_PAGE_OF_TEXTS = 20
# In the order in which they need each other.
_KINDS = ("message", "tool_call", "block", "offload", "memory")

M = TypeVar("M", bound=BaseModel)


class TransferCounts(MappingModel):
    """How many things an export wrote, or an import read (those that were there already included)."""

    messages: int = 0
    blocks: int = 0
    memories: int = 0
    events: int = 0
    offloads: int = 0
    tool_calls: int = 0


async def export_scope(store: Store, scope: Scope, path: Path) -> TransferCounts:
    """Write everything a scope holds to a file, which is replaced once all of it is on disk.

    Raises:
        StoreAccessError: The file can't be written.
    """
    counts = dict.fromkeys((*_KINDS, "event"), 0)
    await write_lines(path, _lines(store, scope, counts))
    return _moved(counts)


async def _lines(store: Store, scope: Scope, counts: dict[str, int]) -> AsyncIterator[str]:
    yield json.dumps({"kind": "header", "format": FORMAT, "version": VERSION})
    async for kind, item in _everything(store, scope):
        counts[kind] += 1
        yield json.dumps({"kind": kind, "value": item.model_dump(mode="json")}, ensure_ascii=False)


def _moved(counts: Mapping[str, int]) -> TransferCounts:
    return TransferCounts(
        messages=counts["message"],
        blocks=counts["block"],
        memories=counts["memory"],
        events=counts.get("event", 0),
        offloads=counts["offload"],
        tool_calls=counts["tool_call"],
    )


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
    everything = MemoryFilter(include_superseded=True)
    while True:
        page = await store.list_memories(scope, ListMemories(filter=everything, limit=_PAGE, cursor=cursor))
        for memory in page.memories:
            yield "memory", memory
        if (cursor := page.next_cursor) is None:
            break
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


async def import_scope(
    store: Store,
    embedder: Embedder | None,
    scope: Scope,
    path: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> TransferCounts:
    """Read a file that `export_scope` wrote into a scope, which may be another one than it came from.

    The whole file is checked before anything is written. Importing it twice changes nothing more. `progress` is told
    how many lines are done.

    Raises:
        InvalidInputError: Naming the line that is wrong.
        StoreAccessError: The file can't be read.
        ConflictError: An id that this scope holds with other content.
    """
    lines = await asyncio.to_thread(_read_lines, path, scope)
    done = 0
    counts = dict.fromkeys(_KINDS, 0)
    for kind, items in _runs(lines):
        match kind:
            case "message":
                await _import_messages(store, scope, [i for i in items if isinstance(i, StoredMessage)], embedder)
            case "tool_call":
                await store.add_tool_calls(scope, [item for item in items if isinstance(item, ToolCallResult)])
            case "block":
                await store.put_blocks(scope, [item for item in items if isinstance(item, Block)])
            case "offload":
                offloads = [item for item in items if isinstance(item, OffloadRecord)]
                await store.put_offloads(scope, PutOffloads(offloads=offloads, exact=True))
            case "memory":
                await _import_memories(store, embedder, scope, [i for i in items if isinstance(i, Memory)])
        counts[kind] += len(items)
        done += len(items)
        if progress is not None:
            progress(done)
    return _moved(counts)


def _read_lines(path: Path, scope: Scope) -> list[tuple[str, BaseModel]]:
    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        msg = f"{str(path)!r} can't be read ({exc.strerror}): check the path"
        raise StoreAccessError(msg) from exc
    except UnicodeDecodeError as exc:
        msg = f"{str(path)!r} is not UTF-8 text (byte {exc.start}): give a file that `reme export` wrote"
        raise InvalidInputError(msg) from exc
    lines: list[tuple[str, BaseModel]] = []
    # Only line feeds end a line: texts may hold U+2028 and its like.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        item = _read_line(line, number, scope)
        if item is not None:
            lines.append(item)
    _check_whole(lines)
    return _with_one_of_each(lines)


def _with_one_of_each(lines: Sequence[tuple[str, BaseModel]]) -> list[tuple[str, BaseModel]]:
    """Let one of the memories that say the same be current: an earlier release wrote all that had an end beside it."""
    memories = (item for _, item in lines if isinstance(item, Memory))
    settled = {memory.memory_id: memory for memory in settle_equal(memories)}
    return [(kind, settled.get(item.memory_id, item) if isinstance(item, Memory) else item) for kind, item in lines]


def _check_whole(lines: Sequence[tuple[str, BaseModel]]) -> None:
    """Refuse a file that lacks a part of itself, before any of it is written (InvalidInputError)."""
    said = {item.message.message_id for _, item in lines if isinstance(item, StoredMessage)}
    memories: set[str] = set()
    references: set[str] = set()
    calls: set[str] = set()
    for _, item in lines:
        if isinstance(item, Block) and not said.issuperset(item.message_ids):
            msg = f"block {item.block_id!r} has messages that the file lacks: nothing was imported; export anew"
            raise InvalidInputError(msg)
        if isinstance(item, OffloadRecord):
            if not said.issuperset(item.message_ids):
                msg = f"offload {item.reference!r} points at messages that the file lacks: nothing was imported"
                raise InvalidInputError(msg)
            if item.reference in references:
                msg = f"offload {item.reference!r} stands twice in the file: nothing was imported; remove one of them"
                raise InvalidInputError(msg)
            references.add(item.reference)
        if isinstance(item, Memory):
            if item.memory_id in memories:
                msg = f"memory {item.memory_id!r} stands twice in the file: nothing was imported; remove one of the two"
                raise InvalidInputError(msg)
            memories.add(item.memory_id)
        if isinstance(item, ToolCallResult):
            if item.call_id in calls:
                msg = f"tool call {item.call_id!r} stands twice in the file: nothing was imported; remove one of them"
                raise InvalidInputError(msg)
            calls.add(item.call_id)


def _read_line(line: str, number: int, scope: Scope) -> tuple[str, BaseModel] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as exc:
        msg = f"line {number} is not JSON: nothing was imported; correct or remove the line"
        raise InvalidInputError(msg) from exc
    if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
        msg = f"line {number} has no 'kind': nothing was imported; give a file that `reme export` wrote"
        raise InvalidInputError(msg)
    value = entry.get("value")
    match entry["kind"]:
        case "header":
            if entry.get("format") != FORMAT or entry.get("version") != VERSION:
                msg = f"line {number}: {entry.get('format')!r:.40} version {entry.get('version')!r:.20} is not known"
                raise InvalidInputError(msg)
            return None
        case "event":
            return None
        case "message":
            return "message", _value(StoredMessage, value, number)
        case "block":
            return "block", _value(Block, value, number)
        case "offload":
            return "offload", _value(OffloadRecord, value, number)
        case "tool_call":
            return "tool_call", _value(ToolCallResult, value, number)
        case "memory" if isinstance(value, dict):
            mine = {**value, "memory_space": scope.memory_space, "user_id": scope.user_id}
            return "memory", replaced_elsewhere(_value(Memory, mine, number))
        case kind:
            msg = f"line {number}: kind {kind!r:.40} is not known: nothing was imported"
            raise InvalidInputError(msg)


def _value(model: type[M], value: object, number: int) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as exc:
        msg = f"{describe(exc, f'line {number}')}: nothing was imported"
        raise InvalidInputError(msg) from exc


def _runs(lines: Sequence[tuple[str, BaseModel]]) -> Iterator[tuple[str, list[BaseModel]]]:
    """Group lines of one kind into batches, in the order in which they need each other."""
    for kind in _KINDS:
        items = [item for name, item in lines if name == kind]
        size = _PAGE_OF_TEXTS if kind == "offload" else _PAGE
        for start in range(0, len(items), size):
            yield kind, items[start : start + size]


async def _import_messages(
    store: Store, scope: Scope, items: Sequence[StoredMessage], embedder: Embedder | None
) -> None:
    start = 0
    for end in range(1, len(items) + 1):
        if end == len(items) or items[end].session_id != items[start].session_id:
            request = AppendMessages(
                session_id=items[start].session_id,
                messages=[stored.message for stored in items[start:end]],
                want_vectors=embedder is not None,
            )
            await store.append(scope, request)
            start = end


async def _import_memories(store: Store, embedder: Embedder | None, scope: Scope, items: Sequence[Memory]) -> None:
    fresh = await _unknown(store, scope, items)
    statements = [memory for memory in fresh if memory.memory_type is not MemoryType.META]  # only these have vectors
    found = await vectors_of(embedder, statements)
    vectors = {memory.memory_id: vector for memory, vector in zip(statements, found, strict=True)}
    puts = [
        PutMemory(
            memory=memory,
            vector=vectors.get(memory.memory_id),
            wants_vector=embedder is not None and memory.memory_id in vectors,
            expected_revision=0,
        )
        for memory in fresh
    ]
    await store.put(scope, WriteBatch(puts=puts, reason="import", actor="import", at=utc_now()))


async def _unknown(store: Store, scope: Scope, items: Sequence[Memory]) -> list[Memory]:
    """Return those memories that the scope doesn't hold yet (ConflictError where it holds another under the id)."""
    ids = [memory.memory_id for memory in items]
    try:
        held = await store.get(scope, ids)
    except MemoryNotFoundError as exc:
        missing = set(exc.missing)
        held = await store.get(scope, [memory_id for memory_id in ids if memory_id not in missing])
    known = {memory.memory_id: memory for memory in held}
    for memory in items:
        other = known.get(memory.memory_id)
        if other is not None and (other.content, other.valid_to) != (memory.content, memory.valid_to):
            msg = f"memory {memory.memory_id!r} exists here and says something else: import into another scope"
            raise ConflictError(msg)
    return [memory for memory in items if memory.memory_id not in known]
