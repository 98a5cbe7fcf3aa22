"""Undo of one run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reme_core.errors import ConflictError, MemoryNotFoundError, RunNotFoundError
from reme_core.ports import DeleteMemory, Embedder, PutMemory, Store, WriteBatch
from reme_core.remember.memory_editor import vectors_of
from reme_core.schema import Event, Memory, Scope, UndoResult, new_id
from reme_core.steps.distillation import run_events


async def undo_run(store: Store, embedder: Embedder | None, scope: Scope, run_id: str, *, at: datetime) -> UndoResult:
    """Put every memory that a run changed back to what it was before, in one atomic write with a run id of its own.

    Raises:
        RunNotFoundError: Nothing in this scope was changed by such a run.
        ConflictError: Something else has changed one of the memories since; nothing was undone.
    """
    changes: dict[str, list[Event]] = {}
    for event in await run_events(store, scope, run_id):
        changes.setdefault(event.memory_id, []).append(event)
    if not changes:
        raise RunNotFoundError([run_id])
    deletes: list[DeleteMemory] = []
    restored: list[tuple[Memory, int]] = []
    for memory_id, events in changes.items():
        before, after = events[0].before, events[-1].after
        present = await _find(store, scope, memory_id)
        revision = 0 if present is None else present.revision
        if not _is_same(present, after):
            msg = f"memory {memory_id!r} was changed after run {run_id!r}: undo that change first, or edit it by hand"
            raise ConflictError(msg)
        if before is not None:
            restored.append((before, revision))
        elif revision:
            deletes.append(DeleteMemory(memory_id=memory_id, expected_revision=revision))
    undo_run_id = new_id()
    await store.put(
        scope,
        WriteBatch(
            puts=await _puts(embedder, restored, at),
            deletes=deletes,
            reason=f"undo of run {run_id}",
            run_id=undo_run_id,
            at=at,
        ),
    )
    return UndoResult(
        run_id=run_id,
        undo_run_id=undo_run_id,
        restored=tuple(memory.memory_id for memory, _ in restored),
        removed=tuple(item.memory_id for item in deletes),
    )


async def _find(store: Store, scope: Scope, memory_id: str) -> Memory | None:
    try:
        [memory] = await store.get(scope, [memory_id])
    except MemoryNotFoundError:
        return None
    return memory


def _is_same(present: Memory | None, after: Memory | None) -> bool:
    """Tell whether a memory is what a run left.

    A later change that was undone leaves a revision and nothing else, and a use is no change.
    """
    if present is None or after is None:
        return present is after
    beside = {"revision": after.revision, "updated_at": after.updated_at, "freq": after.freq, "utility": after.utility}
    return present.model_copy(update=beside) == after


async def _puts(embedder: Embedder | None, restored: Sequence[tuple[Memory, int]], at: datetime) -> list[PutMemory]:
    memories = [memory.model_copy(update={"updated_at": at}) for memory, _ in restored]
    return [
        PutMemory(
            memory=memory,
            vector=vector,
            wants_vector=embedder is not None,
            expected_revision=revision,
            on_duplicate="raise",
        )
        for memory, vector, (_, revision) in zip(memories, await vectors_of(embedder, memories), restored, strict=True)
    ]
