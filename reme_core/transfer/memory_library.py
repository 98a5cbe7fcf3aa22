"""Loading of memory libraries: memories of a file, taken over by a scope that has some already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from reme_core.errors import ConflictError
from reme_core.ports import (
    Embedder,
    PutMemory,
    Store,
    Vector,
    WriteBatch,
)
from reme_core.retrieval.embedding import try_embedding
from reme_core.schema import (
    LineProblem,
    LoadedLibrary,
    Memory,
    Scope,
    ToolCallResult,
    new_id,
)
from reme_core.steps.message_lines import find_all, pieces_of
from reme_core.steps.similar_memories import NewMemory, find_duplicates
from reme_core.steps.targets import target_of
from reme_core.transfer.library_plan import (
    FindClaims,
    LibraryPlan,
    NewLine,
    read_held,
    sort_entries,
    with_held_sources,
)
from reme_core.transfer.transfer_file import Library, LibraryLine, read_library, refusal

T = TypeVar("T")

_EMBEDDED_AT_ONCE = 256
# Another load of the same file is the likely reason of a conflict: what it wrote is known when looked at again.
_TRIES = 3
_REFUSED = "nothing was loaded; correct them, or give skip_bad_lines=True"


async def load_library(
    store: Store,
    embedder: Embedder | None,
    scope: Scope,
    path: Path,
    *,
    memory_target: str | None,
    skip_bad_lines: bool,
    deduplicate: bool,
    similarity: float,
    at: datetime,
    progress: Callable[[int], None] | None = None,
) -> LoadedLibrary:
    """Take over the memories of a file that `dump_library` wrote, or an earlier tool; loading it twice adds nothing.

    All memories are one write. Tool calls are written after them in further ones, which `undo` doesn't take back; what
    failed in between is completed by loading the file again. Once writing has begun, a cancelled load ends it before it
    raises. A memory that is current here, or stands in an earlier line, isn't written again, nor one that was changed
    here since it was loaded; one whose id is taken by something else gets a new one. What a line says of its origin
    that isn't held here (sources, say, or of how many calls a guideline was written) is kept in `metadata.origin`. Of
    each tool one memory is its guideline: the one that is there, then the first.

    Args:
        store: Where they are written, recorded calls of older libraries after the memories.
        embedder: Gives vectors; None: they are found by their words.
        scope: Whose they become.
        path: JSON Lines, or one JSON list, of our own form or the older one; a regular file.
        memory_target: The target of procedural memories; None: the one that they bring.
        skip_bad_lines: Tell of bad lines in the answer, and take over the rest.
        deduplicate: Leave out what says nearly the same as another one; what says the same is left out always.
        similarity: The least cosine of two that say nearly the same.
        at: The time of writing.
        progress: Told how many lines are ready to be written, as it goes on; all of them, before anything is. What it
            raises ends the load.

    Raises:
        InvalidLinesError: Lines that can't be used; nothing was written.
        StoreAccessError: The file can't be read, or is no regular file.
        ConflictError: Other writers took ids three times meanwhile; nothing was written, call again.
    """
    read = await asyncio.to_thread(read_library, path, scope, memory_target=memory_target, at=at)
    return await load_lines(
        store,
        embedder,
        scope,
        read,
        refused=None if skip_bad_lines else partial(refusal, path, outcome=_REFUSED),
        similarity=similarity if deduplicate else None,
        at=at,
        run_id=new_id(),
        progress=progress,
    )


async def load_lines(
    store: Store,
    embedder: Embedder | None,
    scope: Scope,
    read: Library,
    *,
    refused: Callable[[Sequence[LineProblem]], Exception] | None,
    similarity: float | None,
    at: datetime,
    run_id: str,
    reason: str = "load",
    find_claims: FindClaims | None = None,
    progress: Callable[[int], None] | None = None,
) -> LoadedLibrary:
    """Take over the lines of a library as one write; see `load_library`.

    Args:
        store: As there.
        embedder: As there.
        scope: As there.
        read: The lines.
        refused: The error to raise for bad lines; None: they are told in the answer.
        similarity: The least cosine of two that say nearly the same; None: only equal ones are left out.
        at: As there.
        run_id: The run that writes.
        reason: What the history says of it.
        find_claims: As for `read_held`.
        progress: As there.

    Raises:
        ConflictError: As there.
    """
    entries, unsourced = await with_held_sources(store, scope, read.entries)
    given = (*read.problems, *unsourced)
    ready = _PreparedWrite(told=_Progress(progress, len(read.entries) + len(read.problems)))
    tries = 0
    while True:
        tries += 1
        sorting = await asyncio.to_thread(
            sort_entries, entries, await read_held(store, scope, entries, find_claims=find_claims)
        )
        problems = sorted((*given, *sorting.problems), key=lambda item: item.line)
        if problems and refused is not None:
            raise refused(problems)
        await _embed(embedder, sorting.fresh, ready)
        if similarity is not None:
            await _drop_near(store, scope, sorting, ready.vectors, similarity)
        ready.told.left(0)
        spoilt = {problem.line for problem in problems}
        calls = [call for entry in entries if entry.line not in spoilt for call in entry.calls]
        batch = _batch(sorting, ready.vectors, run_id, at, reason, want_vectors=embedder is not None)
        outcome = await _to_its_end(_write(store, scope, batch, calls))
        if isinstance(outcome, ConflictError):
            if tries < _TRIES:
                continue
            raise outcome
        written = _take_in(sorting, outcome.memories)
        return LoadedLibrary(
            memory_ids=written,
            known_memory_ids=tuple(sorting.known),
            duplicates=tuple(sorted(sorting.duplicates)),
            tool_calls=outcome.tool_calls,
            problems=tuple(problems),
            run_id=run_id if written else None,
        )


async def plan_lines(
    store: Store, scope: Scope, entries: Sequence[LibraryLine], *, find_claims: FindClaims | None = None
) -> LoadedLibrary:
    """Return what `load_lines` would answer, near-equal memories aside, and write nothing."""
    plan = sort_entries(entries, await read_held(store, scope, entries, find_claims=find_claims))
    return LoadedLibrary(
        memory_ids=tuple(item.memory.memory_id for item in plan.fresh),
        known_memory_ids=tuple(plan.known),
        duplicates=tuple(plan.duplicates),
        problems=tuple(plan.problems),
    )


@dataclass(slots=True)
class _Progress:
    """Tells how many lines are ready, never fewer than before."""

    tell: Callable[[int], None] | None
    lines: int
    most: int = -1

    def left(self, lines: int) -> None:
        if self.tell is not None and self.lines - lines > self.most:
            self.most = self.lines - lines
            self.tell(self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedWrite:
    """What has been made ready for writing, and is so when it is tried again: vectors by line."""

    told: _Progress
    vectors: dict[int, Vector] = field(default_factory=dict)


async def _embed(embedder: Embedder | None, fresh: Sequence[NewLine], ready: _PreparedWrite) -> None:
    waiting = [item for item in fresh if item.line not in ready.vectors]
    ready.told.left(len(waiting))
    if embedder is None:
        return
    done = 0
    for page in pieces_of(waiting, _EMBEDDED_AT_ONCE):
        matrix = await try_embedding(embedder, [item.memory.index_text for item in page])
        if isinstance(matrix, str):  # they are compared by their words, and get their vectors later
            return
        ready.vectors.update({item.line: row for item, row in zip(page, matrix, strict=True)})
        done += len(page)
        ready.told.left(len(waiting) - done)


async def _drop_near(
    store: Store, scope: Scope, sorting: LibraryPlan, vectors: Mapping[int, Vector], similarity: float
) -> None:
    """Leave out what says nearly the same as a current memory, or as one of an earlier line."""
    compared = [item for item in sorting.fresh if item.memory.is_current]
    newcomers = [
        NewMemory(
            target=target_of(item.memory),
            content=item.memory.content,
            index_text=item.memory.index_text,
            vector=vectors.get(item.line),
        )
        for item in compared
    ]
    instead: dict[str, str] = {}
    for item, known in zip(
        compared, await find_duplicates(store, scope, newcomers, similarity=similarity), strict=True
    ):
        if known is None:
            continue
        same = known.memory if known.place is None else compared[known.place].memory
        if same is not None:
            instead[item.memory.memory_id] = same.memory_id
            sorting.duplicates.append(item.line)
    sorting.fresh = [item for item in sorting.fresh if item.memory.memory_id not in instead]
    sorting.ids = {given: instead.get(here, here) for given, here in sorting.ids.items()}


def _batch(
    sorting: LibraryPlan, vectors: Mapping[int, Vector], run_id: str, at: datetime, reason: str, *, want_vectors: bool
) -> WriteBatch:
    puts = [
        PutMemory(
            memory=_relinked(item.memory, sorting.ids),
            vector=vectors.get(item.line),
            wants_vector=want_vectors,
            expected_revision=0,
        )
        for item in sorting.fresh
    ]
    return WriteBatch(puts=puts, reason=reason, run_id=run_id, actor="import", at=at)


def _relinked(memory: Memory, ids: Mapping[str, str]) -> Memory:
    successor = None if memory.superseded_by is None else ids.get(memory.superseded_by, memory.superseded_by)
    return memory if successor == memory.superseded_by else memory.model_copy(update={"superseded_by": successor})


@dataclass(frozen=True, slots=True, kw_only=True)
class _WriteResult:
    """What a write came to: the memories stored for its puts, and how many tool calls were recorded."""

    memories: Sequence[Memory]
    tool_calls: int


async def _write(
    store: Store,
    scope: Scope,
    batch: WriteBatch,
    calls: Sequence[ToolCallResult],
) -> _WriteResult | ConflictError:
    """Write the memories, then the calls; a conflict of the memories is returned, and nothing was written."""
    try:
        stored = await store.put(scope, batch) if batch.puts else []
    except ConflictError as exc:
        return exc
    return _WriteResult(memories=stored, tool_calls=await _add_calls(store, scope, calls))


async def _to_its_end(work: Coroutine[object, object, T]) -> T:
    """Do what must not be left half-done: who is cancelled meanwhile is so when it has ended, whatever its end."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: the cancellation is what is raised
        raise


def _take_in(sorting: LibraryPlan, stored: Sequence[Memory]) -> tuple[str, ...]:
    """Return the ids of the memories that were added; other writers may have added equal ones."""
    pairs = list(zip(sorting.fresh, stored, strict=True))
    sorting.duplicates += [item.line for item, memory in pairs if memory.memory_id != item.memory.memory_id]
    return tuple(memory.memory_id for item, memory in pairs if memory.memory_id == item.memory.memory_id)


async def _add_calls(store: Store, scope: Scope, calls: Sequence[ToolCallResult]) -> int:
    """Record calls and return how many were new; an id that is known is that of the same call."""
    return sum([await _add_page(store, scope, page) for page in pieces_of(calls)])


async def _add_page(store: Store, scope: Scope, calls: Sequence[ToolCallResult]) -> int:
    tries = 0
    while True:
        tries += 1
        ids = [call.call_id for call in calls]
        known = {call.call_id for call in await find_all(partial(store.get_tool_calls, scope), ids)}
        new = [call for call in calls if call.call_id not in known]
        try:
            return len((await store.add_tool_calls(scope, new)).added) if new else 0
        except ConflictError:  # another load has recorded one meanwhile, of which its file notes something else
            if tries >= _TRIES:
                raise
