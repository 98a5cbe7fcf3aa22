"""Memories on the facade: add, read, change, delete, list, changes, history and undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.facade.parts import MemoryParts
from reme_core.schema import STATEMENTS, WATCHED, ChangedMemories, Event, Memory, MemoryPage, Relation, UndoResult
from reme_core.steps import user_input as inputs
from reme_core.telemetry import traced

_HISTORY_PAGE = 1000


class MemoryMethods:
    """The methods of `ReMe` on single memories."""

    @traced("upsert_memory")
    async def add_memory(
        self: MemoryParts,
        content: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        memory_type: str = "personal",
        memory_target: str = "self",
        when_to_use: str = "",
        metadata: Mapping[str, JsonValue] | None = None,
        observed_at: datetime | str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        importance: float = 0.5,
        confidence: float = 1.0,
        trust: str | None = None,
        relations: Sequence[Relation | tuple[str, str, str]] = (),
        reason: str = "",
    ) -> Memory:
        """Add one memory. If a current one of this type and target says the same, that one is the answer.

        `valid_from` and `valid_to` are the statement's own time, known to a year (`2023`), a month (`2023-01`), a day
        (`2023-01-05`) or exactly; an end lasts until the end of its year, month or day. They hide nothing: what is over
        is found like what holds. Of two that say the same of times that lie apart, the later one supersedes the other.
        `trust` says whose words it rests on, where they are not the user's: `assistant`, `tool` or `web`.
        `relations` are up to eight of what it tells, such as `("Lea", "sister of", "Ann")`; see `neighbours`.

        Raises:
            InvalidInputError: A field that can't be used, naming it.
        """
        fields: dict[str, object] = {
            "content": content,
            "memory_type": memory_type,
            "memory_target": memory_target,
            "when_to_use": when_to_use,
            "metadata": metadata,
            "observed_at": observed_at,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "importance": importance,
            "confidence": confidence,
            "trust": trust,
            "relations": relations,
        }
        why = inputs.read_text(reason, "reason")
        [memory] = await self._editor.add(
            self._scope(user_id, shared=shared), [fields], run_id=None, reason=why, at=self._clock.now()
        )
        return memory

    @traced("upsert_memory")
    async def add_memories(
        self: MemoryParts,
        memories: Sequence[Mapping[str, object]],
        *,
        user_id: str | None = None,
        shared: bool = False,
        run_id: str | None = None,
        reason: str = "",
    ) -> list[Memory]:
        """Add memories, all or none, in one write; each a mapping of the fields that `add_memory` takes.

        Also `memory_id`, `author` and `sources`. With a `run_id`, `undo` takes them back together.

        A call that is cut off (cancelled, or by Ctrl-C where it blocks) keeps all or none: a write that has not begun
        never begins, one that has is completed after the call has ended, by the end of `close` at the latest. Which of
        them it was, `list_memories` tells then; the same call again, without ids of its own, keeps none of them twice.

        Raises:
            InvalidInputError: A field that can't be used, naming it.
            ConflictError: A memory id that is taken.
        """
        run = None if run_id is None else inputs.read_id(run_id, "run_id")
        drafts = inputs.read_list(memories, "memories")
        why = inputs.read_text(reason, "reason")
        return await self._editor.add(
            self._scope(user_id, shared=shared), drafts, run_id=run, reason=why, at=self._clock.now()
        )

    async def get_memory(
        self: MemoryParts, memory_id: str, *, user_id: str | None = None, shared: bool = False
    ) -> Memory:
        """Return a memory, current or not (MemoryNotFoundError)."""
        wanted = inputs.read_id(memory_id, "memory_id")
        [memory] = await self._ports.store.get(await self._looked_up(user_id, shared=shared), [wanted])
        return memory

    @traced("update_memory")
    async def update_memory(
        self: MemoryParts,
        memory_id: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        content: str | None = None,
        when_to_use: str | None = None,
        memory_type: str | None = None,
        memory_target: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        importance: float | None = None,
        confidence: float | None = None,
        trust: str | None = None,
        relations: Sequence[Relation | tuple[str, str, str]] | None = None,
        expected_revision: int | None = None,
        reason: str = "",
    ) -> Memory:
        """Change what is given and keep the rest. `metadata` is merged: a key set to None goes, one not named stays.

        An object in it is merged likewise, anything else replaces what its key had (RFC 7396). `relations` replaces
        all of them; a new `content` without it keeps those whose ends it still names.

        `valid_to` tells when the statement was or will be over, which leaves it found as before; what is not to be
        found any more is deleted, or superseded by what holds now. Both times are read as in `add_memory`. `trust` is
        never more than the messages that it comes from allow.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            InvalidInputError: Nothing to change, or a value that can't be used.
            ConflictError: It has another revision than expected, or another current memory says the same.
        """
        given: dict[str, object] = {
            "content": content,
            "when_to_use": when_to_use,
            "memory_type": memory_type,
            "memory_target": memory_target,
            "metadata": metadata,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "importance": importance,
            "confidence": confidence,
            "trust": trust,
            "relations": relations,
        }
        return await self._editor.update(
            self._scope(user_id, shared=shared),
            inputs.read_id(memory_id, "memory_id"),
            {name: value for name, value in given.items() if value is not None},
            expected_revision=None if expected_revision is None else inputs.read_revision(expected_revision),
            reason=inputs.read_text(reason, "reason"),
            at=self._clock.now(),
        )

    @traced("update_memory")
    async def supersede_memory(
        self: MemoryParts,
        memory_id: str,
        content: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        when_to_use: str = "",
        metadata: Mapping[str, JsonValue] | None = None,
        observed_at: datetime | str | None = None,
        valid_from: datetime | str | None = None,
        valid_to: datetime | str | None = None,
        trust: str | None = None,
        relations: Sequence[Relation | tuple[str, str, str]] = (),
        reason: str = "",
    ) -> Memory:
        """Replace a memory by one that holds from `valid_from` on (by default from `observed_at`, or now).

        The old one is closed at that time, if it was not over before, and kept: `retrieve(as_of=...)` finds it for
        times before. One that has not begun is closed before it begins.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            InvalidInputError: A field that can't be used, or a time before that from which the old one holds already.
            ConflictError: The old one was replaced already, or another current memory says the same.
        """
        given = {
            "content": content,
            "when_to_use": when_to_use,
            "metadata": metadata,
            "observed_at": observed_at,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "trust": trust,
            "relations": relations,
        }
        return await self._editor.supersede(
            self._scope(user_id, shared=shared),
            inputs.read_id(memory_id, "memory_id"),
            given,
            reason=inputs.read_text(reason, "reason"),
            at=self._clock.now(),
        )

    @traced("delete_memory")
    async def delete_memory(
        self: MemoryParts,
        memory_id: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        reason: str = "",
        erase: bool = False,
    ) -> None:
        """Remove a memory; its history stays.

        With `erase=True` its history goes too, that of one deleted before as well, and the file is cleared of both,
        which `undo` can't take back. The messages that it comes from stay, and so do other memories that say the same.

        Raises:
            MemoryNotFoundError: No such memory in this scope.
            StoreUnavailableError: It is erased, but another process holds old pages; the next start clears them.
        """
        await self._editor.delete(
            self._scope(user_id, shared=shared),
            inputs.read_id(memory_id, "memory_id"),
            reason=inputs.read_text(reason, "reason"),
            at=self._clock.now(),
            erase=inputs.read_flag(erase, "erase"),
        )

    async def list_memories(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        metadata: Mapping[str, str | int | float | bool | None] | None = None,
        keyword: str | None = None,
        trust: str | Sequence[str] | None = None,
        as_of: datetime | str | None = None,
        include_superseded: bool = False,
        known_at: datetime | str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> MemoryPage:
        """Return a page of memories, newest first; `next_cursor` of the answer asks for the next one.

        Args:
            user_id: Whose they are.
            shared: Those of the shared scope, in place of a user's.
            memory_type: One or several types; "auto" is any.
            memory_target: One or several targets.
            metadata: Keys and the values that they have.
            keyword: Words that all stand in the memory.
            trust: One or several classes: `user`, `assistant`, `tool`, `web`.
            as_of: Those that held at this time, by their own time, whenever that became known.
            include_superseded: Also those that were replaced.
            known_at: As the memory stood at this time: what was written before it, as it was then, whatever was
                changed, replaced or deleted since. With `as_of`, what was then thought to hold at that time.
            limit: At most so many.
            cursor: From the page before.

        Raises:
            InvalidInputError: Something can't be read, or a cursor that is not of this list.
        """
        from reme_core.ports import ListMemories, MemoryFilter

        wanted = MemoryFilter(
            types=STATEMENTS if (types := inputs.read_types(memory_type)) is None else types,
            targets=inputs.read_targets(memory_target),
            metadata=inputs.read_metadata_filter(metadata),
            keyword=None if keyword is None else inputs.read_query(keyword, "keyword"),
            trust=inputs.read_trust(trust),
            as_of=inputs.read_time(as_of, "as_of"),
            include_superseded=inputs.read_flag(include_superseded, "include_superseded"),
        )
        most, known = inputs.read_count(limit, "limit"), inputs.read_time(known_at, "known_at")
        scope, store = await self._looked_up(user_id, shared=shared), self._ports.store
        if known is None:
            return await store.list_memories(scope, ListMemories(filter=wanted, limit=most, cursor=cursor))
        from reme_core.recall.changes import list_known

        return await list_known(store, scope, wanted, at=known, limit=most, cursor=cursor)

    async def changes(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        every: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ChangedMemories:
        """Return what changed between two times of writing, newest first; `text` tells it to people and prompts.

        Each memory is told once, with what it was and what it came to: added, updated, replaced, deleted or restored.
        One that came and went between the two times is not told, nor one that is again what it was. Each change names
        its run, which `undo` takes back. `next_cursor` asks for the next page, of what there was at the first one.

        Args:
            user_id: Whose memories.
            shared: Those of the shared scope, in place of a user's.
            since: Written at this time or later; from the beginning unless given.
            until: Written before this time; up to now unless given.
            memory_type: One or several types, as the change leaves them; "auto" is any, memory blocks among them.
            memory_target: One or several targets, likewise.
            every: Each change for itself, what came and went included.
            limit: At most so many.
            cursor: From the page before.

        Raises:
            InvalidInputError: Something can't be read, or times that don't rise, or a cursor that is not of this list.
        """
        from reme_core.recall.changes import ChangesRequest, list_changes

        begin, end = inputs.read_time(since, "since"), inputs.read_time(until, "until")
        if begin is not None and end is not None and end <= begin:
            msg = f"until: {end} does not lie behind since, {begin}"
            raise InvalidInputError(msg)
        request = ChangesRequest(
            since=begin,
            until=end,
            types=WATCHED if (types := inputs.read_types(memory_type)) is None else types,
            targets=inputs.read_targets(memory_target),
            every=inputs.read_flag(every, "every"),
            limit=inputs.read_count(limit, "limit"),
            cursor=cursor,
        )
        return await list_changes(self._ports.store, await self._looked_up(user_id, shared=shared), request)

    async def history(
        self: MemoryParts, memory_id: str, *, user_id: str | None = None, shared: bool = False
    ) -> list[Event]:
        """Return every change of a memory, oldest first; also of one that was deleted.

        Raises:
            MemoryNotFoundError: This scope never held such a memory.
        """
        from reme_core.ports import EventQuery

        scope, wanted = self._scope(user_id, shared=shared), inputs.read_id(memory_id, "memory_id")
        events: list[Event] = []
        while True:
            after = events[-1].sequence if events else 0
            page = await self._ports.store.events(scope, EventQuery(memory_id=wanted, after=after, limit=_HISTORY_PAGE))
            events += page
            if len(page) < _HISTORY_PAGE:
                break
        if not events:
            await self._ports.store.get(scope, [wanted])
        return events

    async def undo(self: MemoryParts, run_id: str, *, user_id: str | None = None, shared: bool = False) -> UndoResult:
        """Put back what a run changed, in one write that can itself be undone.

        Raises:
            RunNotFoundError: No such run in this scope.
            ConflictError: One of its memories was changed since; nothing was undone.
        """
        from reme_core.remember.memory_editor import undo_run

        return await undo_run(
            self._ports.store,
            self._embedder,
            self._scope(user_id, shared=shared),
            inputs.read_id(run_id, "run_id"),
            at=self._clock.now(),
        )
