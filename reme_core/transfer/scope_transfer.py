"""Transfer of a whole scope to a file and back, and of memories of it as a library.

Memories of every type go along with a scope, entries of the routing table (`meta`) included. Events are written for
reading and are not read back: a history belongs to the store in which it happened. Jobs are not written: what is still
to be done is done by the store that promised it, and a copy would do it a second time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from reme_core.errors import BlobNotFoundError, ConflictError, InvalidInputError, OffloadNotFoundError
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
from reme_core.retrieval.embedding import vectors_or_none
from reme_core.rules import settle_equal
from reme_core.schema import (
    NO_VECTORS,
    STATEMENTS,
    Block,
    DumpedLibrary,
    LineProblem,
    Memory,
    MemoryType,
    OffloadRecord,
    Scope,
    StoredMessage,
    ToolCallResult,
    TransferCounts,
    utc_now,
)
from reme_core.steps.memory_blocks import is_grant
from reme_core.steps.message_bytes import with_bytes
from reme_core.steps.message_lines import all_pages, find_all, pieces_of
from reme_core.text import with_broken_media_told
from reme_core.transfer.json_lines import NoteDraft, unnoted
from reme_core.transfer.transfer_file import Contents, ScopeLine, file_lines, read_scope, refusal, write_file

T = TypeVar("T")


_DUMPED = tuple(kind for kind in STATEMENTS if kind not in {MemoryType.HISTORY, MemoryType.RECORD})
_PAGE = 500
# Texts of calls and offloads may be megabytes each, and a page of them is held at once.
_PAGE_OF_TEXTS = 20


async def export_scope(store: Store, scope: Scope, path: Path, *, noting: NoteDraft = unnoted) -> TransferCounts:
    """Write everything a scope holds to a file, which is replaced once all of it is on disk; `noting` its draft.

    Raises:
        StoreAccessError: The file can't be written, is no regular file, or is a database.
    """
    return transfer_counts(await write_file(path, Contents.SCOPE, _everything(store, scope), noting=noting))


def scope_lines(store: Store, scope: Scope) -> AsyncIterator[str]:
    """Yield the lines that `export_scope` writes."""
    return file_lines(Contents.SCOPE, _everything(store, scope), Counter())


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
    noting: NoteDraft = unnoted,
) -> DumpedLibrary:
    """Write memories to a file, newest first, one a line; the file is replaced once all of them are on disk.

    `meta`, `history` and `record` memories are written only where they are asked for by name, and `load_library`
    refuses them.

    Args:
        store: Where they are.
        scope: Whose memories; the file names neither space nor user.
        path: The file.
        types: Of these types; None: of every type but `meta`, `history` and `record`.
        targets: About these; None: about any.
        include_superseded: Also those that were replaced.
        noting: Notes the draft of the file.

    Raises:
        StoreAccessError: The file can't be written, is no regular file, or is a database.
    """
    wanted = MemoryFilter(
        types=_DUMPED if types is None else tuple(types),
        targets=None if targets is None else tuple(targets),
        include_superseded=include_superseded,
    )
    counts = await write_file(path, Contents.LIBRARY, _memories(store, scope, wanted), noting=noting)
    return DumpedLibrary(memories=counts["memory"])


async def _everything(store: Store, scope: Scope) -> AsyncIterator[tuple[str, BaseModel]]:
    # Messages last: what is said meanwhile must not give a block, an offload or a call whose messages are not there.
    async for blocks in all_pages(lambda cursor: store.list_blocks(scope, ListBlocks(limit=_PAGE, cursor=cursor))):
        for block in blocks.blocks:
            yield "block", block
    async for offloads in all_pages(
        lambda cursor: store.list_offloads(scope, ListOffloads(limit=_PAGE, cursor=cursor))
    ):
        for info in offloads.offloads:
            try:
                yield "offload", await store.get_offload(scope, info.reference)
            except OffloadNotFoundError:  # cleaned up since the page was read
                continue
    async for calls in all_pages(
        lambda cursor: store.list_tool_calls(
            scope, ListToolCalls(limit=_PAGE_OF_TEXTS, cursor=cursor, newest_first=False)
        )
    ):
        for call in calls.calls:
            yield "tool_call", call
    # The bytes of an image stand in the first message that has it, so that they are there when the others are read.
    written = set[str]()
    async for said in all_pages(lambda cursor: store.find_messages(scope, FindMessages(limit=_PAGE, cursor=cursor))):
        for stored in said.messages:
            refs = stored.message.blob_references
            [whole] = await with_bytes(store, scope, [stored.message], without=written) if refs else [stored.message]
            written.update(refs)
            yield "message", stored.model_copy(update={"message": whole})
    async for item in _memories(store, scope, MemoryFilter(include_superseded=True)):
        yield item
    after = 0
    while events := await store.events(scope, EventQuery(after=after, limit=_PAGE)):
        for event in events:
            yield "event", event
        after = events[-1].sequence


async def _memories(store: Store, scope: Scope, wanted: MemoryFilter) -> AsyncIterator[tuple[str, Memory]]:
    async for page in all_pages(
        lambda cursor: store.list_memories(scope, ListMemories(filter=wanted, limit=_PAGE, cursor=cursor))
    ):
        for memory in page.memories:
            yield "memory", memory


async def import_scope(
    store: Store,
    embedder: Embedder | None,
    scope: Scope,
    path: Path,
    *,
    skip_bad_lines: bool = False,
    progress: Callable[[int], None] | None = None,
) -> TransferCounts:
    """Read a file that `export_scope` wrote.

    The whole file is checked before anything is written. Importing it twice changes nothing more. `progress` is told
    how many lines are read, and then, from the first again, how many are done. With `skip_bad_lines` what can't be used
    is left out and named; an image or a file whose bytes are broken, or lack, costs a message that alone: words stand
    in its place.

    Raises:
        InvalidLinesError: Naming the lines that are wrong, where they are not to be skipped.
        StoreAccessError: The file can't be read.
        ConflictError: An id that this scope holds with other content.
    """
    lines, problems = await _read_lines(path, scope, progress)
    if problems and not skip_bad_lines:
        raise refusal(path, problems, "nothing was imported; correct them, or skip bad lines")
    items, lacking = await _check_lines(store, scope, lines)
    if lacking and not skip_bad_lines:
        raise refusal(path, lacking, "nothing was imported; export anew, or skip bad lines")
    problems = sorted((*problems, *lacking), key=lambda problem: problem.line)
    counts, known = Counter[str](), Counter[str]()

    def done(kind: str, page: Sequence[BaseModel]) -> None:
        counts[kind] += len(page)
        if progress is not None:
            progress(counts.total())

    # In the order in which they need each other.
    for said in pieces_of(_of(StoredMessage, items)):
        known["message"] += await _import_messages(store, scope, said, embedder)
        done("message", said)
    for calls in pieces_of(_of(ToolCallResult, items)):
        await store.add_tool_calls(scope, calls)
        done("tool_call", calls)
    for blocks in pieces_of(_of(Block, items)):
        await store.put_blocks(scope, blocks)
        done("block", blocks)
    for offloads in pieces_of(_of(OffloadRecord, items), _PAGE_OF_TEXTS):
        await store.put_offloads(scope, PutOffloads(offloads=offloads, exact=True))
        done("offload", offloads)
    for page in pieces_of(_of(Memory, items)):
        known["memory"] += await _import_memories(store, embedder, scope, page)
        done("memory", page)
    told = {"known_messages": known["message"], "known_memories": known["memory"], "problems": tuple(problems)}
    return transfer_counts(counts).model_copy(update=told)


async def _read_lines(
    path: Path, scope: Scope, progress: Callable[[int], None] | None
) -> tuple[list[ScopeLine], list[LineProblem]]:
    """Return the lines of a file that can be read, and what is wrong with the others."""
    lines, problems = list[ScopeLine](), list[LineProblem]()
    read = read_scope(path, scope)
    while batch := await asyncio.to_thread(lambda: list(islice(read, _PAGE))):
        lines += [line for line in batch if isinstance(line, ScopeLine)]
        problems += [problem for problem in batch if isinstance(problem, LineProblem)]
        if progress is not None:
            progress(batch[-1].line)
    return lines, problems


async def _check_lines(
    store: Store, scope: Scope, lines: Sequence[ScopeLine]
) -> tuple[list[BaseModel], list[LineProblem]]:
    """Return what lines bring that can be used, and what the others lack, in the order of lines."""
    media = _Media()
    lacking = await asyncio.to_thread(lambda: list(_missing_parts(lines, media)))
    lacking += [problem async for problem in _unknown_bytes(store, scope, media)]
    lacking.sort(key=lambda problem: problem.line)
    usable = _usable(lines, {problem.line for problem in lacking}, media)
    return _with_one_of_each([*usable]), lacking


@dataclass(frozen=True, slots=True)
class _Media:
    """The bytes of images and files by reference: what is brought by a file, or held, and what its lines refer to."""

    known: set[str] = field(default_factory=set)
    borrowed: dict[str, list[int]] = field(default_factory=dict)


async def _unknown_bytes(store: Store, scope: Scope, media: _Media) -> AsyncIterator[LineProblem]:
    """Find the lines whose bytes neither the file brings nor the scope holds; what it holds is known from then on."""
    for ref, lines in media.borrowed.items():
        try:
            await store.get_blob(scope, ref)
            media.known.add(ref)
        except BlobNotFoundError:
            reason = f"{ref!r} is an image or file whose bytes no line before it brings"
            for line in lines:
                yield LineProblem(line=line, reason=reason)


def _usable(lines: Sequence[ScopeLine], bad: Collection[int], media: _Media) -> Iterator[BaseModel]:
    """Yield what lines bring; of bad ones messages alone, without the images and files that are bad in them."""
    for line in lines:
        item = line.item
        if line.line not in bad:
            yield item
        elif isinstance(item, StoredMessage):
            told = with_broken_media_told(item.message, known=media.known)
            yield item.model_copy(update={"message": told})


def _of(model: type[T], items: Sequence[object]) -> list[T]:
    return [item for item in items if isinstance(item, model)]


def _with_one_of_each(items: Sequence[BaseModel]) -> list[BaseModel]:
    """Let one of the memories that say the same be current: an earlier release wrote all that had an end beside it."""
    settled = {memory.memory_id: memory for memory in settle_equal(_of(Memory, items))}
    return [settled.get(item.memory_id, item) if isinstance(item, Memory) else item for item in items]


def _missing_parts(lines: Sequence[ScopeLine], media: _Media) -> Iterator[LineProblem]:
    """Find what points at messages that the file lacks, and what stands in it twice; note what bytes there are."""
    said = {line.item.message.message_id for line in lines if isinstance(line.item, StoredMessage)}
    first: dict[str, int] = {}
    for line in lines:
        item = line.item
        if isinstance(item, StoredMessage):
            try:
                message, taken = item.message.apart()
            except InvalidInputError as exc:
                yield LineProblem(line=line.line, reason=str(exc))
                told = with_broken_media_told(item.message, known=item.message.blob_references)
                message, taken = told.apart()
            media.known.update(taken)
            for ref in message.blob_references:
                if ref not in media.known:
                    media.borrowed.setdefault(ref, []).append(line.line)
        if isinstance(item, (Block, OffloadRecord)) and not said.issuperset(item.message_ids):
            yield LineProblem(line=line.line, reason=f"{_name(item)} points at messages that the file lacks")
        # What stands twice as a message or a block is written once in any case.
        if isinstance(item, (Memory, OffloadRecord, ToolCallResult)):
            name = _name(item)
            if first.setdefault(name, line.line) != line.line:
                yield LineProblem(line=line.line, reason=f"{name} stands twice, in line {first[name]} already")


def _name(item: Block | Memory | OffloadRecord | ToolCallResult) -> str:
    match item:
        case Block():
            return f"block {item.block_id!r}"
        case Memory():
            return f"memory {item.memory_id!r}"
        case OffloadRecord():
            return f"offload {item.reference!r}"
        case ToolCallResult():
            return f"tool call {item.call_id!r}"


async def _import_messages(
    store: Store, scope: Scope, items: Sequence[StoredMessage], embedder: Embedder | None
) -> int:
    """Add messages, and return how many were there already."""
    start = known = 0
    for end in range(1, len(items) + 1):
        if end == len(items) or items[end].session_id != items[start].session_id:
            request = AppendMessages(
                session_id=items[start].session_id,
                messages=[stored.message for stored in items[start:end]],
                want_vectors=embedder is not None,
            )
            known += len((await store.append(scope, request)).known)
            start = end
    return known


async def _import_memories(store: Store, embedder: Embedder | None, scope: Scope, items: Sequence[Memory]) -> int:
    """Add memories, and return how many were there already."""
    unknown = await _unknown(store, scope, items)
    # A grant is the application's to give: an old export would bring back one that was revoked.
    fresh = [memory for memory in unknown if not is_grant(memory)]
    statements = [memory for memory in fresh if memory.memory_type not in NO_VECTORS]
    found = await vectors_or_none(embedder, [memory.index_text for memory in statements])
    vectors = {memory.memory_id: vector for memory, vector in zip(statements, found, strict=True)}
    puts = [
        PutMemory(
            memory=memory,
            vector=vectors.get(memory.memory_id),
            wants_vector=embedder is not None and memory.memory_id in vectors,
            expected_revision=0,
            on_duplicate="raise" if memory.memory_type is MemoryType.BLOCK else "existing",  # one has other words
        )
        for memory in fresh
    ]
    await store.put(scope, WriteBatch(puts=puts, reason="import", actor="import", at=utc_now()))
    return len(items) - len(unknown)


async def _unknown(store: Store, scope: Scope, items: Sequence[Memory]) -> list[Memory]:
    """Return those memories that the scope doesn't hold yet (ConflictError where it holds another under the id)."""
    held = await find_all(partial(store.get, scope), [memory.memory_id for memory in items])
    known = {memory.memory_id: memory for memory in held}
    for memory in items:
        other = known.get(memory.memory_id)
        if other is not None and (other.content, other.valid_to) != (memory.content, memory.valid_to):
            msg = f"memory {memory.memory_id!r} exists here and says something else: import into another scope"
            raise ConflictError(msg)
    return [memory for memory in items if memory.memory_id not in known]
