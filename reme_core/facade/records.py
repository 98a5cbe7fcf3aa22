"""Records on the facade: instances of the application's own schemas put, patched and listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from reme_core.facade.parts import MemoryParts
from reme_core.steps import user_input as inputs
from reme_core.telemetry import traced

if TYPE_CHECKING:
    from reme_core.ports import Scalar
    from reme_core.remember.record_editor import RecordChange
    from reme_core.schema import Scope
    from reme_core.steps.records import Record

T = TypeVar("T", bound=BaseModel)


class RecordMethods:
    """The methods of `ReMe` on records; their classes are those of `ReMe(schemas=...)`.

    A record is a memory as well: `retrieve` finds it, `history`, `undo` and `delete_memory` take its `memory_id`.
    """

    @traced("upsert_memory")
    async def put_record(
        self: MemoryParts,
        instance: T,
        *,
        user_id: str | None = None,
        shared: bool = False,
        record_id: str | None = None,
        messages: Sequence[str] = (),
        expected_revision: int | None = None,
        reason: str = "",
    ) -> Record[T]:
        """Write an instance as it is: in place of the one of its class or, where there may be many, as a new one.

        Of many, one that says what a current one says is answered with that one.

        Args:
            instance: Of a class of `ReMe(schemas=...)`.
            user_id: Whose it is.
            shared: Of the shared scope, in place of a user's.
            record_id: The record whose place it takes.
            messages: The ids of the messages that it rests on.
            expected_revision: That of the record that is replaced; None: whatever there is.
            reason: Why, for the history.

        Raises:
            InvalidInputError: A class that is no schema here, or a value that can't be kept as JSON.
            MemoryNotFoundError: There is no record of this id and class in this scope.
            MessageNotFoundError: There are no such messages in this scope.
            ConflictError: Another revision than expected, or another record says the same.
        """
        from reme_core.remember.record_editor import put_record

        scope = self._scope(user_id, shared=shared)
        change = _change(self, scope, type(instance), record_id, messages, expected_revision, reason)
        return await put_record(self._editor, change, instance)

    @traced("update_memory")
    async def patch_record(
        self: MemoryParts,
        model: type[T],
        fields: Mapping[str, object],
        *,
        user_id: str | None = None,
        shared: bool = False,
        record_id: str | None = None,
        messages: Sequence[str] = (),
        expected_revision: int | None = None,
        reason: str = "",
    ) -> Record[T]:
        """Set fields of a record and keep the others, all or none; each value replaces what its field had.

        None is set where the class takes it; elsewhere it empties the field, which then has its default. Without
        `expected_revision` a change by somebody else at the same moment is read again, so that no field is lost.

        Args:
            model: The class.
            fields: Names and values.
            user_id: Whose it is.
            shared: Of the shared scope, in place of a user's.
            record_id: Which record; needed where there may be many of the class.
            messages: The ids of the messages that the change rests on.
            expected_revision: That of the record as it was read; None: whatever there is.
            reason: Why, for the history.

        Raises:
            InvalidInputError: A field that there is not, or a value that the class refuses; nothing was written.
            RecordMismatchError: Another field does not fit the class, which has changed since.
            MemoryNotFoundError: There is no such record in this scope.
            MessageNotFoundError: There are no such messages in this scope.
            ConflictError: Another revision than expected, or another record says the same.
        """
        from reme_core.remember.record_editor import patch_record

        scope = self._scope(user_id, shared=shared)
        change = _change(self, scope, model, record_id, messages, expected_revision, reason)
        return await patch_record(self._editor, change, model, fields)

    async def records(
        self: MemoryParts,
        model: type[T],
        *,
        user_id: str | None = None,
        shared: bool = False,
        metadata: Mapping[str, Scalar] | None = None,
    ) -> list[Record[T]]:
        """Return all records of a class, newest first; `metadata`: only those whose fields have these values.

        Raises:
            InvalidInputError: A class that is no schema here, or a filter that can't be read.
            RecordMismatchError: A stored record does not fit the class, which has changed since; it names the fields.
        """
        from reme_core.remember.record_editor import list_records
        from reme_core.steps.records import find_schema

        scope = self._scope(user_id, shared=shared)
        schema, wanted = find_schema(self._runtime.schemas, model), inputs.read_metadata_filter(metadata)
        return await list_records(self._ports.store, scope, model, schema, wanted)


def _change(
    memory: MemoryParts,
    scope: Scope,
    model: type[BaseModel],
    record_id: str | None,
    messages: Sequence[str],
    expected_revision: int | None,
    reason: str,
) -> RecordChange:
    """Read what a change of a record is given (InvalidInputError)."""
    from reme_core.remember.record_editor import RecordChange
    from reme_core.steps.records import find_schema

    return RecordChange(
        schema=find_schema(memory._runtime.schemas, model),  # noqa: SLF001  # of the class that this is a part of
        scope=scope,
        record_id=None if record_id is None else inputs.read_id(record_id, "record_id"),
        expected_revision=None if expected_revision is None else inputs.read_revision(expected_revision),
        message_ids=inputs.read_ids(messages, "messages"),
        reason=inputs.read_text(reason, "reason"),
        at=memory._clock.now(),  # noqa: SLF001
    )
