"""Files on the facade: a user's memory as a whole, libraries of memories; and all vectors anew by another model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.facade.parts import MemoryParts, file_path, local_file
from reme_core.schema import DumpedLibrary, FileCheck, ImportReport, LoadedLibrary, Reembedded, Scope, TransferCounts
from reme_core.steps import user_input as inputs

if TYPE_CHECKING:
    from reme_core.transfer.importers.items import ImportSource
    from reme_core.transfer.json_lines import NoteDraft
    from reme_core.transfer.reembed import ItemTexts, OnProgress


def _noting(memory: MemoryParts, scope: Scope) -> NoteDraft:
    """Return what notes drafts in the store, so that one left by a killed process goes with the scope.

    A file that can only be read takes no notes, and nothing is erased from it either.
    """
    from reme_core.stores import FileNotes, is_read_only
    from reme_core.transfer.json_lines import unnoted

    file = memory._ports.file  # noqa: SLF001  # this is a part of the memory
    store = memory._ports.base if file is None else file  # noqa: SLF001
    if not isinstance(store, FileNotes) or (file is not None and is_read_only(Path(file.database.path))):
        return unnoted

    @asynccontextmanager
    async def noting(draft: Path) -> AsyncIterator[None]:
        await store.note_file(scope, draft)
        try:
            yield
        finally:
            await store.forget_file(scope, draft)

    return noting


class EmbeddingMethods:
    """The methods of `ReMe` that change the embedding model."""

    async def reembed(
        self: MemoryParts, *, on_progress: OnProgress | None = None, item_texts: ItemTexts | None = None
    ) -> Reembedded:
        """Replace all vectors of this memory space by those of this memory's embedding model.

        The old vectors serve searches until all new ones are there, and are replaced at once. A run that was killed is
        gone on with by the next one. Meanwhile others write and search with the model of before; what they write is
        embedded, too. Processes that still have that model afterwards go on by words, until they are started anew.

        Args:
            on_progress: Is told after each batch how many messages, memories and items are done, of how many.
            item_texts: What is embedded of an item (LangGraph's store): by default its whole value, as there.

        Raises:
            ConfigurationError: This memory has no embedding model.
            ConflictError: A change to another model is under way; see `abandon_reembedding`.
            ModelError: The model fails; what is done is kept.
        """
        from reme_core.ports import IndexedBy
        from reme_core.transfer.reembed import reembed, whole_value

        if self._embedder is None:
            msg = "this memory has no embedding model: give the new one as `embedding`"
            raise ConfigurationError(msg)
        target = IndexedBy(dimension=self._embedder.dimension, model=self._embedder.name)
        return await reembed(
            self._ports.store,
            self._embedder,
            self._memory_space,
            target,
            item_texts=item_texts or whole_value,
            on_progress=on_progress,
        )

    async def abandon_reembedding(self: MemoryParts) -> None:
        """Give up a change of the embedding model that is under way: the vectors that serve searches stay."""
        await self._ports.store.end_reembedding(self._memory_space, None)


class TransferMethods:
    """The methods of `ReMe` that write and read files."""

    async def backup(self: MemoryParts, path: str | Path, *, overwrite: bool = False) -> FileCheck:
        """Copy the local file, with all spaces and users, as it is now; others may write meanwhile.

        The copy is readable by its owner alone, and put in place once it has been checked as `check` does.

        Raises:
            StoreAccessError: There is a file already, and `overwrite` is not said; or it can't be written.
            CorruptDataError: The file is damaged; nothing is put in place.
        """
        from reme_core.stores import copy_file

        source, target = await local_file(self._ports), file_path(path)
        may_overwrite = inputs.read_flag(overwrite, "overwrite")
        return await asyncio.to_thread(copy_file, source, target, overwrite=may_overwrite)

    async def check(self: MemoryParts, *, repair_digests: bool = False) -> FileCheck:
        """Read all of the local file, and name what is damaged in it: even one changed byte of a stored text.

        Args:
            repair_digests: Take the texts as they are now for right ones, and write their digests anew, afterwards.

        Raises:
            CorruptDataError: The file can't be read at all.
        """
        from reme_core.stores import check_file, fill_digests

        path = await local_file(self._ports)
        checked = await asyncio.to_thread(check_file, path)
        if inputs.read_flag(repair_digests, "repair_digests") and self._ports.file is not None:
            await self._ports.file.database.write(fill_digests)
        return checked

    async def export(
        self: MemoryParts, path: str | Path, *, user_id: str | None = None, shared: bool = False
    ) -> TransferCounts:
        """Write everything of a user to a file of JSON Lines (StoreAccessError)."""
        from reme_core.transfer.scope_transfer import export_scope

        scope = self._scope(user_id, shared=shared)
        return await export_scope(self._ports.store, scope, file_path(path), noting=_noting(self, scope))

    async def import_(
        self: MemoryParts,
        path: str | Path,
        *,
        user_id: str | None = None,
        shared: bool = False,
        skip_bad_lines: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> TransferCounts:
        """Read a file that `export` wrote into a user's memory; doing it twice changes nothing more.

        It is written in pages: one that was killed or cancelled has written some of them, and doing it again writes the
        others.

        Args:
            path: The file.
            user_id: Whose memory it becomes.
            shared: The shared scope of the space, in place of a user.
            skip_bad_lines: Leave lines out that can't be used, and name them in the result; otherwise one refuses all.
                An image or file whose bytes are broken, or lack, costs a message that alone: words stand in its place.
            progress: Told now and then how many lines are read, and then, from the first again, how many are done.

        Raises:
            InvalidLinesError: Lines that are wrong, by number; nothing was imported.
            StoreAccessError: The file can't be read.
            ConflictError: An id that is taken by something else.
        """
        from reme_core.transfer.scope_transfer import import_scope

        scope = self._scope(user_id, shared=shared)
        moved = await import_scope(
            self._ports.store,
            self._embedder,
            scope,
            file_path(path),
            skip_bad_lines=inputs.read_flag(skip_bad_lines, "skip_bad_lines"),
            progress=progress,
        )
        await self._record.embed(scope)
        if self._embedder is not None and self._embedder.is_resting:
            self._work.start(scope)  # what has no vector yet gets it later
        return moved

    async def import_from(
        self: MemoryParts,
        source: str | ImportSource,
        path: str | Path = "",
        *,
        user_id: str | None = None,
        shared: bool = False,
        source_user: str | None = None,
        every_user: bool = False,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Take over what another memory holds; nothing there is changed, and doing it twice changes nothing more.

        Each session, and each page of memories, is one durable write: what was interrupted is completed by doing it
        again. Messages are kept as they were said; no model is asked. `undo` with the `run_id` of the report takes
        memories back.

        Args:
            source: The other memory, by name, such as `mem0`; or an `ImportSource` of your own.
            path: What it wrote: a file, a folder, or the URL of a database.
            user_id: Whose memory it becomes.
            shared: The shared scope of the space, in place of a user.
            source_user: Take over what this user has there, and nothing else.
            every_user: Each user there goes to the user of the same name here; what names no user goes to `user_id`,
                and is left out without one.
            dry_run: Write nothing, and report what would be.
            progress: Told now and then how many items are read, and then, from the first again, how many are done.

        Raises:
            InvalidInputError: It is nothing that the source reads; or several users have something there, and neither
                `source_user` nor `every_user` is said: whose is never guessed.
            MissingExtraError: Reading it needs a library that is not installed.
            StoreAccessError: It can't be read.
            ConflictError: Other writers took ids three times meanwhile; import again.
        """
        from reme_core.transfer.importers.import_items import import_items
        from reme_core.transfer.importers.named_sources import open_source
        from reme_core.transfer.importers.recipients import Recipients

        is_every = inputs.read_flag(every_user, "every_user")
        if is_every and source_user is not None:
            msg = f"source_user {source_user!r} and every_user=True say two things: leave one of them out"
            raise InvalidInputError(msg)
        is_open = is_every and user_id is None and not shared
        scope = None if is_open else self._scope(user_id, shared=shared)
        is_dry = inputs.read_flag(dry_run, "dry_run")
        report = await import_items(
            self._ports.store,
            self._embedder,
            self._record,
            open_source(source, path) if isinstance(source, str) else source,
            Recipients(memory_space=self._memory_space, scope=scope, source_user=source_user, every_user=is_every),
            at=self._clock.now(),
            dry_run=is_dry,
            progress=progress,
        )
        if self._embedder is not None and self._embedder.is_resting and not is_dry:
            for user in report.users:
                if user.is_imported:  # what has no vector yet gets it later
                    self._work.start(self._scope(user.user_id, shared=user.user_id is None))
        return report

    async def dump(
        self: MemoryParts,
        path: str | Path,
        *,
        user_id: str | None = None,
        shared: bool = False,
        memory_type: str | Sequence[str] = "auto",
        memory_target: str | Sequence[str] | None = None,
        include_superseded: bool = False,
    ) -> DumpedLibrary:
        """Write memories to a file of JSON Lines that `load` reads, into this scope or any other.

        Unlike `export` it takes no messages along, and names no scope: a library to be handed on. A file that is there
        is replaced once all is written, and keeps its permissions. `meta` and `history` memories are written only where
        they are named, and `load` refuses them.

        Raises:
            StoreAccessError: The file can't be written, is no regular file (a pipe, say), or is a database.
        """
        from reme_core.transfer.scope_transfer import dump_library

        scope = self._scope(user_id, shared=shared)
        return await dump_library(
            self._ports.store,
            scope,
            file_path(path),
            types=inputs.read_types(memory_type),
            targets=inputs.read_targets(memory_target),
            include_superseded=inputs.read_flag(include_superseded, "include_superseded"),
            noting=_noting(self, scope),
        )

    async def load(
        self: MemoryParts,
        path: str | Path,
        *,
        user_id: str | None = None,
        shared: bool = False,
        task_name: str | None = None,
        skip_bad_lines: bool = False,
        deduplicate: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> LoadedLibrary:
        """Read memories from a file of JSON Lines: of `dump`, or of the form that earlier tools wrote.

        All memories are one write, which `undo` takes back. Tool calls of earlier tools are recorded after it in
        further writes, which `undo` leaves; if one of those fails, loading the file again completes them. A call that
        is cancelled while it writes ends its writing first. Loading a file twice changes nothing more.

        Args:
            path: The file; a regular one, no pipe.
            user_id: Whose memory it becomes.
            shared: The shared scope of the space, in place of a user.
            task_name: The target of procedural memories; by default the one they bring.
            skip_bad_lines: Leave lines out that can't be used, and name them in the result; otherwise one refuses all.
            deduplicate: Leave out what says nearly the same as another; equal ones are left out in any case.
            progress: Told how many lines are ready to be written, now and then; the last time all of them, before
                anything is written. What it raises ends the call, and nothing is loaded.

        Raises:
            InvalidLinesError: Lines that can't be used, by number; nothing was loaded.
            StoreAccessError: The file can't be read, or is no regular file.
            ConflictError: Other writers took ids of the file three times meanwhile; no memory was loaded, call again.
        """
        from reme_core.steps.similar_memories import SIMILARITY
        from reme_core.transfer.memory_library import load_library

        return await load_library(
            self._ports.store,
            self._embedder,
            self._scope(user_id, shared=shared),
            file_path(path),
            memory_target=None if task_name is None else inputs.read_name(task_name, "task_name"),
            skip_bad_lines=inputs.read_flag(skip_bad_lines, "skip_bad_lines"),
            deduplicate=inputs.read_flag(deduplicate, "deduplicate"),
            similarity=SIMILARITY,
            at=self._clock.now(),
            progress=progress,
        )
