"""Memories written and changed by hand, and the undo of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError, RunNotFoundError
from reme_core.ports import DeleteMemory, Embedder, PutMemory, Store, WriteBatch
from reme_core.retrieval.embedding import vectors_or_none
from reme_core.rules import is_unchanged, join_relations, replaced
from reme_core.schema import NO_VECTORS, Event, Memory, MemoryType, Scope, UndoResult, describe, new_id, shown
from reme_core.schema.checks import check_numbers, kind_of, merge_json
from reme_core.steps.distillation import run_events
from reme_core.steps.memory_blocks import is_grant
from reme_core.steps.records import SINGLE_ID
from reme_core.steps.user_input import check_time_not_future

# What a caller may set; the rest is the scope's, the clock's or the store's.
_GIVEN = frozenset(
    {
        "memory_id",
        "memory_type",
        "memory_target",
        "content",
        "when_to_use",
        "observed_at",
        "valid_from",
        "valid_from_precision",
        "valid_to",
        "valid_to_precision",
        "author",
        "importance",
        "confidence",
        "trust",
        "sources",
        "relations",
        "metadata",
    }
)
_CHANGEABLE = _GIVEN - {"memory_id", "observed_at", "sources"}
UNDO_REASON = "undo of run"
"""Begins the reason of what an undo does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """Writes memories of one store with vectors of one embedder; where that fails they wait for theirs.

    Attributes:
        store: Where they go.
        embedder: Gives vectors; None leaves them to their words.
        start: Has what waits filled in later.
    """

    store: Store
    embedder: Embedder | None
    start: Callable[[Scope], None]

    async def add(
        self, scope: Scope, drafts: Sequence[object], *, run_id: str | None, reason: str, at: datetime
    ) -> list[Memory]:
        """Write new memories, all or none; one that says what a current one says is answered with that one.

        Every change is part of a run, so that `undo` can take it back: of `run_id`, or of one of its own.

        Raises:
            InvalidInputError: Naming the place of the bad field.
            ConflictError: An id that is taken.
        """
        memories = [_draft(scope, fields, place, at) for place, fields in enumerate(drafts)]
        for place, memory in enumerate(memories):
            check_time_not_future(memory.observed_at, f"memories[{place}].observed_at", at)
        run = run_id or new_id()
        return await self.put(scope, memories, expected=[0] * len(memories), run_id=run, reason=reason, at=at)

    async def update(
        self,
        scope: Scope,
        memory_id: str,
        changes: Mapping[str, object],
        *,
        expected_revision: int | None,
        reason: str,
        at: datetime,
    ) -> Memory:
        """Change fields of a memory, its metadata key by key; id and creation time stay.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            InvalidInputError: A field that can't be changed, or a value that it can't have.
            ConflictError: Another revision than expected, or another memory that says the same.
        """
        if not changes:
            msg = f"update_memory: nothing to change; give some of {', '.join(sorted(_CHANGEABLE))}"
            raise InvalidInputError(msg)
        [before] = await self.store.get(scope, [memory_id])
        _refuse_checked(before)
        fields = {**before.model_dump(), **changes, "updated_at": at}
        if "content" in changes and "relations" not in changes:
            fields["relations"] = join_relations(before.relations, (), content=str(changes["content"]))
        for name in {"valid_from", "valid_to"} & changes.keys():
            fields[f"{name}_precision"] = changes.get(f"{name}_precision")
        memory = _memory(fields, "memory")
        _refuse_checked(memory)
        if "metadata" in changes:
            memory = _memory({**fields, "metadata": merge_json(before.metadata, memory.metadata)}, "memory")
        expected = before.revision if expected_revision is None else expected_revision
        if memory.index_text == before.index_text:  # the vector stays as well, so no model is needed
            put = PutMemory(memory=memory, expected_revision=expected)
            [stored] = await self.store.put(scope, WriteBatch(puts=[put], reason=reason, run_id=new_id(), at=at))
        else:
            [stored] = await self.put(scope, [memory], expected=[expected], run_id=new_id(), reason=reason, at=at)
        return stored

    async def supersede(
        self, scope: Scope, memory_id: str, changes: Mapping[str, object], *, reason: str, at: datetime
    ) -> Memory:
        """Close a memory at the time from which a new one holds, and add that one, in one write; see `rules.replaced`.

        The new one is about the same type and target; what `changes` leaves out is the clock's or the default.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            InvalidInputError: A field that can't be used, or a time before that from which the old one holds already.
            ConflictError: The old one was replaced already, or another current memory says what the new one says.
        """
        [old] = await self.store.get(scope, [memory_id])
        if old.superseded_by is not None:
            msg = f"memory {memory_id!r} was replaced by {old.superseded_by!r} already: supersede that one"
            raise ConflictError(msg)
        about = {"memory_type": old.memory_type, "memory_target": old.memory_target}
        new = _draft(scope, {**about, **changes}, 0, at)
        check_time_not_future(new.observed_at, "observed_at", at)
        if new.valid_from < old.valid_from <= at:
            msg = (
                f"valid_from: {new.valid_from} lies before {old.valid_from}, since when the memory to be replaced holds"
            )
            raise InvalidInputError(msg)
        closed = replaced(old, new).model_copy(update={"updated_at": at})
        [_, stored] = await self.put(
            scope, [closed, new], expected=[old.revision, 0], run_id=new_id(), reason=reason, at=at
        )
        return stored

    async def delete(self, scope: Scope, memory_id: str, *, reason: str, at: datetime, erase: bool = False) -> None:
        """Remove a memory; unless it is erased, its events stay, and it can be brought back.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            InvalidInputError: The grant of a memory block, which only erasing takes away like this.
        """
        if not erase and is_grant(await _find(self.store, scope, memory_id)):
            msg = f"memory {memory_id!r} is the grant of a memory block: take it back by revoke_memory_block"
            raise InvalidInputError(msg)
        deletes = [DeleteMemory(memory_id=memory_id, erase=erase)]
        await self.store.put(scope, WriteBatch(deletes=deletes, reason=reason, run_id=new_id(), at=at))

    async def put(
        self,
        scope: Scope,
        memories: Sequence[Memory],
        *,
        expected: Sequence[int],
        run_id: str | None,
        reason: str,
        at: datetime,
    ) -> list[Memory]:
        """Write memories, each of the revision that is expected (0: new), with vectors (ConflictError)."""
        if not memories:
            return []
        vectors = await vectors_or_none(self.embedder, [memory.index_text for memory in memories])
        puts = [
            PutMemory(memory=memory, vector=vector, wants_vector=self.embedder is not None, expected_revision=revision)
            for memory, vector, revision in zip(memories, vectors, expected, strict=True)
        ]
        stored = await self.store.put(scope, WriteBatch(puts=puts, reason=reason, run_id=run_id, at=at))
        if self.embedder is not None and any(vector is None for vector in vectors):
            self.start(scope)
        return stored


def _draft(scope: Scope, fields: object, place: int, at: datetime) -> Memory:
    if not isinstance(fields, Mapping):
        msg = f"memories[{place}]: wanted a mapping of fields, found {kind_of(fields)}"
        raise InvalidInputError(msg)
    unknown = set(fields) - _GIVEN
    if unknown:
        msg = f"memories[{place}]: {sorted(map(str, unknown))[0]!r} can't be set; there are {', '.join(sorted(_GIVEN))}"
        raise InvalidInputError(msg)
    given = {name: value for name, value in fields.items() if value is not None}
    if str(given.get("memory_id", "")).startswith(SINGLE_ID):
        msg = f"memories[{place}].memory_id: {shown(given['memory_id'])} is that of a record, which put_record writes"
        raise InvalidInputError(msg)
    whole = {**given, **scope.model_dump(), "created_at": at, "updated_at": at}
    return _refuse_checked(_memory(whole, f"memories[{place}]"))


def _refuse_checked(memory: Memory) -> Memory:
    """Return what anybody may write: not what a limit, a grant or a class has to check (InvalidInputError)."""
    if memory.memory_type is MemoryType.BLOCK:
        msg = f"memory_type: {memory.memory_target!r} is a memory block: use set_memory_block, which keeps its limit"
        raise InvalidInputError(msg)
    if memory.memory_type is MemoryType.RECORD:
        msg = f"memory_type: {memory.memory_target!r} is of a record: use put_record or patch_record, which check it"
        raise InvalidInputError(msg)
    return memory


def _memory(fields: Mapping[str, object], where: str) -> Memory:
    """Make a memory of fields that somebody gave (InvalidInputError)."""
    try:
        memory = Memory.model_validate(fields)
        check_numbers(memory.metadata)
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, where)) from exc
    except ValueError as exc:
        msg = f"{where}.metadata: {exc}"
        raise InvalidInputError(msg) from exc
    return memory


async def undo_run(store: Store, embedder: Embedder | None, scope: Scope, run_id: str, *, at: datetime) -> UndoResult:
    """Put every memory that a run changed back to what it was before, in one atomic write with a run id of its own.

    Raises:
        RunNotFoundError: Nothing in this scope was changed by such a run.
        InvalidInputError: It gave or took the grant of a memory block, which is not the user's to put back.
        ConflictError: Something else has changed one of the memories since; nothing was undone.
    """
    changes: dict[str, list[Event]] = {}
    for event in await run_events(store, scope, run_id):
        changes.setdefault(event.memory_id, []).append(event)
    if not changes:
        raise RunNotFoundError([run_id])
    deletes: list[DeleteMemory] = []
    restored: list[tuple[Memory, Memory | None]] = []
    for memory_id, events in changes.items():
        before, after = events[0].before, events[-1].after
        if any(is_grant(state) for event in events for state in (event.before, event.after)):
            msg = f"run {run_id!r} is a grant: give it by grant_memory_block, or take it back by revoke_memory_block"
            raise InvalidInputError(msg)
        present = await _find(store, scope, memory_id)
        if not _is_same(present, after):
            msg = f"memory {memory_id!r} was changed after run {run_id!r}: undo that change first, or edit it by hand"
            raise ConflictError(msg)
        if before is not None:
            restored.append((before, present))
        elif present is not None:
            deletes.append(DeleteMemory(memory_id=memory_id, expected_revision=present.revision))
    undo_run_id = new_id()
    batch = WriteBatch(
        puts=await _puts(embedder, restored, at),
        deletes=deletes,
        reason=f"{UNDO_REASON} {run_id}",
        run_id=undo_run_id,
        at=at,
    )
    try:
        await store.put(scope, batch)
    except ConflictError:
        await store.put(scope, out_of_the_way(batch))
    return UndoResult(
        run_id=run_id,
        undo_run_id=undo_run_id,
        restored=tuple(memory.memory_id for memory, _ in restored),
        removed=tuple(item.memory_id for item in deletes),
    )


def out_of_the_way(batch: WriteBatch) -> WriteBatch:
    """Return a batch whose old states are deleted first: for where one memory says what another one said so far."""
    ways = [
        DeleteMemory(memory_id=put.memory.memory_id, expected_revision=put.expected_revision)
        for put in batch.puts
        if put.expected_revision
    ]
    puts = [replace(put, expected_revision=None) for put in batch.puts]
    return replace(batch, puts=puts, deletes=[*batch.deletes, *ways])


async def _find(store: Store, scope: Scope, memory_id: str) -> Memory | None:
    try:
        [memory] = await store.get(scope, [memory_id])
    except MemoryNotFoundError:
        return None
    return memory


def _is_same(present: Memory | None, after: Memory | None) -> bool:
    """Tell whether a memory is what a run left."""
    if present is None or after is None:
        return present is after
    return is_unchanged(present, after)


async def _puts(
    embedder: Embedder | None, restored: Sequence[tuple[Memory, Memory | None]], at: datetime
) -> list[PutMemory]:
    """Return the puts of states over what there is; one whose text is the same keeps its vector."""
    said_anew = [
        memory
        for memory, present in restored
        if memory.memory_type not in NO_VECTORS and (present is None or present.index_text != memory.index_text)
    ]
    found = await vectors_or_none(embedder, [memory.index_text for memory in said_anew])
    vectors = {memory.memory_id: vector for memory, vector in zip(said_anew, found, strict=True)}
    return [
        PutMemory(
            memory=memory.model_copy(update={"updated_at": at}),
            vector=vectors.get(memory.memory_id),
            wants_vector=embedder is not None and memory.memory_type not in NO_VECTORS,
            expected_revision=0 if present is None else present.revision,
            on_duplicate="raise",
        )
        for memory, present in restored
    ]
