"""Records put and patched by hand: instances of an application's schemas, each change a revision of its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError
from reme_core.ports import MemoryFilter, Scalar, Store
from reme_core.remember.fact_extraction import join_sources
from reme_core.remember.memory_editor import Editor
from reme_core.schema import Memory, MemoryType, Scope, Source, new_id, shown
from reme_core.steps.records import (
    MemorySchema,
    Record,
    fields_of_instance,
    read_record,
    record_memory,
    set_fields,
)
from reme_core.steps.targets import all_memories

T = TypeVar("T", bound=BaseModel)

_MOST_TRIES = 50
"""Of a change that others overtake; each time one of them got through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChange:
    """A change of one record.

    Attributes:
        scope: Whose it is.
        schema: Its schema.
        record_id: Which; None: the one of its schema, or a new one where there may be many.
        expected_revision: What it has to have; None: whatever it has, and a change by others is taken up.
        message_ids: The messages that the change rests on.
        reason: Why.
        at: When.
    """

    scope: Scope
    schema: MemorySchema
    record_id: str | None
    expected_revision: int | None
    message_ids: Sequence[str]
    reason: str
    at: datetime


async def list_records(
    store: Store, scope: Scope, model: type[T], schema: MemorySchema, metadata: Mapping[str, Scalar]
) -> list[Record[T]]:
    """Return every instance of a class, newest first (RecordMismatchError: one does not fit it)."""
    wanted = MemoryFilter(types=(MemoryType.RECORD,), targets=(schema.name,), metadata=metadata)
    return [read_record(model, memory) for memory in await all_memories(store, scope, wanted)]


async def put_record(editor: Editor, change: RecordChange, value: T) -> Record[T]:
    """Write an instance as it is, new or in place of the one there is.

    Raises:
        InvalidInputError: It can't be kept as JSON.
        MemoryNotFoundError: There is no record of this id and schema.
        ConflictError: Another revision than expected, or another record says the same.
    """
    fields = fields_of_instance(change.schema, value)
    memory = await _written(editor, change, lambda held: fields)
    return read_record(type(value), memory)


async def patch_record(editor: Editor, change: RecordChange, model: type[T], given: object) -> Record[T]:
    """Set fields of an instance and keep the others.

    Raises:
        InvalidInputError: A field that there is not, or a value that the class refuses.
        RecordMismatchError: A field that is not among these does not fit the class.
        MemoryNotFoundError: There is no such record.
        ConflictError: As for `put_record`.
    """
    if change.record_id is None and change.schema.many:
        msg = f"record_id: there may be many of {change.schema.name}: name the one to be changed"
        raise InvalidInputError(msg)
    wanted = _as_json(given)

    def patched(held: Memory | None) -> dict[str, JsonValue]:
        if held is None:
            raise MemoryNotFoundError([str(change.schema.single_id)], advice="put the record first")
        came = set_fields(change.schema, held.metadata, wanted)
        if came.fields is not None and not came.problems:
            return came.fields
        if "" in came.problems and wanted:
            read_record(model, held)  # if it does not fit as it is, that is what is wrong
        told = "; ".join(f"{name or change.schema.name}: {problem}" for name, problem in came.problems.items())
        raise InvalidInputError(told)

    return read_record(model, await _written(editor, change, patched))


def _as_json(given: object) -> dict[str, JsonValue]:
    """Return fields as JSON; values may be dates, enums and models (InvalidInputError)."""
    try:
        fields = to_jsonable_python(given)
    except ValueError as exc:
        msg = f"fields: can't be written as JSON: {str(exc)[:200]}"
        raise InvalidInputError(msg) from exc
    if isinstance(fields, dict):
        return fields
    msg = f"fields: wanted a mapping of names to values, found {shown(given)}"
    raise InvalidInputError(msg)


async def _written(
    editor: Editor, change: RecordChange, fields_after: Callable[[Memory | None], dict[str, JsonValue]]
) -> Memory:
    """Read a record, work out its fields and write them; begin again where somebody else was faster."""
    sources, said_at = await _rests_on(editor.store, change)
    seen: int | None = None
    for _ in range(_MOST_TRIES):
        held = await _held(editor.store, change)
        revision = 0 if held is None else held.revision
        fields = fields_after(held)
        if (
            held is not None
            and held.metadata == fields
            and not sources
            and change.expected_revision in {None, revision}
        ):
            return held
        memory = record_memory(
            change.scope,
            change.schema,
            fields,
            held,
            sources=sources if held is None else join_sources(held.sources, sources),
            said_at=said_at,
            at=change.at,
            author="user",
        )
        expected = revision if change.expected_revision is None else change.expected_revision
        try:
            [stored] = await editor.put(
                change.scope, [memory], expected=[expected], run_id=new_id(), reason=change.reason, at=change.at
            )
        except ConflictError:
            if change.expected_revision is not None or seen == revision:
                raise
            seen = revision
        else:
            return stored
    msg = f"{change.schema.name} is changed by others without end: try again later"
    raise ConflictError(msg)


async def _held(store: Store, change: RecordChange) -> Memory | None:
    memory_id = change.record_id or change.schema.single_id
    if memory_id is None:
        return None
    try:
        [memory] = await store.get(change.scope, [memory_id])
    except MemoryNotFoundError:
        if change.record_id is not None and change.record_id != change.schema.single_id:
            raise
        return None
    if (memory.memory_type, memory.memory_target) != (MemoryType.RECORD, change.schema.name):
        raise MemoryNotFoundError([memory_id], advice=f"it is no record of {change.schema.name}")
    return memory


async def _rests_on(store: Store, change: RecordChange) -> tuple[tuple[Source, ...], datetime]:
    """Return messages as sources, and when the last of them was said, or now (MessageNotFoundError)."""
    said = await store.get_messages(change.scope, change.message_ids) if change.message_ids else []
    by_block: dict[str | None, list[str]] = {}
    for item in said:
        by_block.setdefault(item.block_id, []).append(item.message.message_id)
    sources = tuple(Source(block_id=block_id, message_ids=tuple(ids)) for block_id, ids in by_block.items())
    return sources, max((item.message.created_at for item in said), default=change.at)
