"""Import of what another memory holds: its sessions as messages and blocks, its memories as memories."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeAlias

from pydantic import ValidationError

from reme_core.errors import InvalidInputError
from reme_core.ports import Embedder, Matrix, PutMemory, Store, Summarizer, SummaryRequest, WriteBatch
from reme_core.retrieval.embedding import try_embedding
from reme_core.rules import claim_of
from reme_core.schema import (
    ImportedUser,
    ImportReport,
    LoadedLibrary,
    Memory,
    Message,
    Scope,
    UnreadableItem,
    describe,
    new_id,
)
from reme_core.steps.message_lines import find_all
from reme_core.transfer.deleted_memories import deleted_memories
from reme_core.transfer.importers.claim_cache import ClaimCache, digest_of
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, ImportedSession, ImportSource, Unreadable
from reme_core.transfer.importers.recipients import Recipients
from reme_core.transfer.importers.renewals import ACTOR, find_renewed
from reme_core.transfer.importers.stored_form import place_of, session_id, stored_memory, stored_messages
from reme_core.transfer.library_plan import FindClaims
from reme_core.transfer.memory_library import load_lines, plan_lines
from reme_core.transfer.transfer_file import Library, LibraryLine

_AT_ONCE = 500
"""Memories of one write: what was interrupted goes on behind the last one."""

_ReadItem: TypeAlias = ImportedSession | ImportedMemory

_NAMED_UNREADABLE = 1000
"""So many are named; the others are counted."""

_SHOWN_CHARS = 300


async def import_items(
    store: Store,
    embedder: Embedder | None,
    record: Summarizer,
    source: ImportSource,
    recipients: Recipients,
    *,
    at: datetime,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Take over what a source holds.

    Each session, and each page of memories, is one durable write. All ids follow from the name of the source and its
    own ids: what was imported before is known again, and what was interrupted is completed by importing again.

    Args:
        store: Where it goes.
        embedder: Gives memories vectors; None: they are found by their words.
        record: Puts messages and blocks on disk.
        source: What is read; it is read twice.
        recipients: Who gets it.
        at: The time of writing.
        dry_run: Write nothing, and tell what would be.
        progress: Told how many items are read, and then, from the first again, how many are done.

    Raises:
        InvalidInputError: It is nothing that the source reads, or has several users and none is named.
        StoreAccessError: It can't be read.
        ConflictError: Other writers took ids three times meanwhile; import again.
    """
    users = set[str | None]()
    async for batch in _batches(source, progress):
        users |= _users(batch)
    scopes = recipients.choose(source.name, users)
    run = _Run(store=store, embedder=embedder, record=record, name=source.name, at=at, dry_run=dry_run)
    async for batch in _batches(source, progress):
        for item in batch:
            if isinstance(item, Unreadable):
                run.refuse(item)
        told = [item for item in batch if not isinstance(item, Unreadable)]
        for user in dict.fromkeys(item.user for item in told):
            items = [item for item in told if item.user == user]
            run.count(user, items)
            if user in scopes:
                await run.take(scopes[user], items)
    return run.report(scopes)


def _users(batch: Sequence[ImportedItem]) -> set[str | None]:
    return {item.user for item in batch if not isinstance(item, Unreadable)}


async def _batches(source: ImportSource, progress: Callable[[int], None] | None) -> AsyncIterator[list[ImportedItem]]:
    """Yield the items of a source in batches, read in threads: a session ends one, so that only one is held.

    `progress` is told how many were taken.
    """
    items, done = source.items(), 0
    while batch := await asyncio.to_thread(_next_batch, items):
        yield batch
        done += len(batch)
        if progress is not None:
            progress(done)


def _next_batch(items: Iterator[ImportedItem]) -> list[ImportedItem]:
    batch: list[ImportedItem] = []
    for item in items:
        batch.append(item)
        if isinstance(item, ImportedSession) or len(batch) == _AT_ONCE:
            break
    return batch


@dataclass(slots=True, kw_only=True)
class _Run:
    """One import, and what it has come to so far."""

    store: Store
    embedder: Embedder | None
    record: Summarizer
    name: str
    at: datetime
    dry_run: bool
    run_id: str = field(default_factory=new_id)
    sums: Counter[str] = field(default_factory=Counter)
    users: dict[str | None, Counter[str]] = field(default_factory=dict)
    unreadable: list[UnreadableItem] = field(default_factory=list)
    span: list[datetime] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)
    claims: dict[Scope, ClaimCache] = field(default_factory=dict)

    def count(self, user: str | None, items: Sequence[_ReadItem]) -> None:
        sums = self.users.setdefault(user, Counter())
        for item in items:
            if isinstance(item, ImportedSession):
                sums.update(sessions=1, messages=len(item.messages))
            else:
                sums["memories"] += 1

    async def take(self, scope: Scope, items: Sequence[_ReadItem]) -> None:
        for item in items:
            if isinstance(item, ImportedSession):
                await self._take_session(scope, item)
        if memories := [item for item in items if isinstance(item, ImportedMemory)]:
            await self._take_memories(scope, memories)

    def refuse(self, item: Unreadable) -> None:
        self.sums["unreadable_count"] += 1
        if len(self.unreadable) < _NAMED_UNREADABLE:
            self.unreadable.append(UnreadableItem(where=_shown(item.where), reason=_shown(item.reason)))

    async def _take_session(self, scope: Scope, item: ImportedSession) -> None:
        if self._is_repeated(scope, "session", item.source_id):
            self.refuse(Unreadable(f"session {item.source_id[:80]!r}", "its id stands there twice: the first is taken"))
            return
        messages: list[Message] = []
        for message in stored_messages(self.name, item, self.at):
            if isinstance(message, Unreadable):
                self.refuse(message)
            else:
                messages.append(message)
        ids = [message.message_id for message in messages]
        known = {held.message.message_id for held in await find_all(partial(self.store.get_messages, scope), ids)}
        new = [message for message in messages if message.message_id not in known]
        if new and not self.dry_run:
            session = session_id(self.name, item)
            await self.record.summarize(scope, SummaryRequest(session_id=session, messages=new))
        self.sums.update(sessions=1, messages=len(ids), known_messages=len(ids) - len(new), added_messages=len(new))
        self._spans(message.created_at for message in messages)

    async def _take_memories(self, scope: Scope, items: Sequence[ImportedMemory]) -> None:
        made = list(self._memories(scope, items))
        self.sums["memories"] += len(made)
        self._spans(memory.observed_at for _, memory in made)
        fresh = [(item, memory) for item, memory in made if not self._says_again(scope, memory)]
        gone = await deleted_memories(self.store, scope, {memory.memory_id for _, memory in fresh})
        find_claims = self.claims.setdefault(scope, ClaimCache(self.store, scope)).find
        kept = [memory for _, memory in fresh if memory.memory_id not in gone]
        renewed = await find_renewed(self.store, scope, kept, find_claims)
        repeated = len(made) - len(fresh)
        fresh = [(item, memory) for item, memory in fresh if not {memory.memory_id} & (gone | renewed.keys())]
        entries = tuple(
            LibraryLine(line=line, memory=memory, memory_id=memory.memory_id) for line, (_, memory) in enumerate(fresh)
        )
        self.sums.update(forgotten_memories=len(gone), repeated_memories=repeated, renewed_memories=len(renewed))
        loaded = await self._write(scope, entries, find_claims)
        if renewed and not self.dry_run:
            await self._renew(scope, [*renewed.values()])
        self.sums.update(
            added_memories=len(loaded.memory_ids),
            known_memories=len(loaded.known_memory_ids),
            repeated_memories=len(loaded.duplicates),
        )
        for problem in loaded.problems:
            self.refuse(Unreadable(place_of(fresh[problem.line][0]), problem.reason))

    async def _renew(self, scope: Scope, memories: Sequence[Memory]) -> None:
        vectors: Matrix | str = ""
        if self.embedder is not None:
            vectors = await try_embedding(self.embedder, [memory.index_text for memory in memories])
        puts = [
            PutMemory(
                memory=memory,
                vector=None if isinstance(vectors, str) else vectors[place],
                wants_vector=self.embedder is not None,
                expected_revision=memory.revision,
            )
            for place, memory in enumerate(memories)
        ]
        reason = f"import from {self.name}"
        await self.store.put(scope, WriteBatch(puts=puts, reason=reason, run_id=self.run_id, actor=ACTOR, at=self.at))

    async def _write(self, scope: Scope, entries: tuple[LibraryLine, ...], find_claims: FindClaims) -> LoadedLibrary:
        if self.dry_run:
            return await plan_lines(self.store, scope, entries, find_claims=find_claims)
        return await load_lines(
            self.store,
            self.embedder,
            scope,
            Library(entries=entries, problems=()),
            refused=None,
            similarity=None,
            at=self.at,
            run_id=self.run_id,
            reason=f"import from {self.name}",
            find_claims=find_claims,
        )

    def _memories(self, scope: Scope, items: Sequence[ImportedMemory]) -> Iterator[tuple[ImportedMemory, Memory]]:
        for item in items:
            try:
                yield item, stored_memory(self.name, item, scope, self.at)
            except ValidationError as exc:
                self.refuse(Unreadable(place_of(item), describe(exc, "memory")))
            except InvalidInputError as exc:
                self.refuse(Unreadable(place_of(item), exc.message))

    def _says_again(self, scope: Scope, memory: Memory) -> bool:
        claim = claim_of(memory)
        same_id = self._is_repeated(scope, "memory", memory.memory_id)
        return same_id or (claim is not None and self._is_repeated(scope, "claim", *map(str, claim)))

    def _is_repeated(self, scope: Scope, *parts: str) -> bool:
        """Tell whether the source has said this to the same user before, and note it."""
        digest = digest_of(scope.user_id, *parts)
        is_repeated = digest in self.seen
        self.seen.add(digest)
        return is_repeated

    def _spans(self, times: Iterable[datetime]) -> None:
        if moments := [*self.span, *(moment for moment in times if moment != self.at)]:  # no source has told this one
            self.span = [min(moments), max(moments)]

    def report(self, scopes: Mapping[str | None, Scope]) -> ImportReport:
        wrote = self.sums["added_memories"] + self.sums["renewed_memories"] and not self.dry_run
        return ImportReport(
            source=self.name,
            dry_run=self.dry_run,
            users=tuple(
                ImportedUser(
                    source_user=None if user is None else _shown(user),
                    user_id=scopes[user].user_id or None if user in scopes else None,
                    is_imported=user in scopes,
                    **sums,
                )
                for user, sums in self.users.items()
            ),
            first_at=self.span[0] if self.span else None,
            last_at=self.span[1] if self.span else None,
            unreadable=tuple(self.unreadable),
            run_id=self.run_id if wrote else None,
            **self.sums,
        )


def _shown(text: str) -> str:
    """Return a text of a source as it can be told: bounded, and whole UTF-8."""
    return text[:_SHOWN_CHARS].encode(errors="replace").decode()
