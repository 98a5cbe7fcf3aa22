"""Reports of imports from other memories."""

from __future__ import annotations

from reme_core.schema.mapping import MappingModel
from reme_core.schema.times import UtcTime


class UnreadableItem(MappingModel):
    """A record that was not taken over: its place in the source, and why."""

    where: str
    reason: str


class ImportedUser(MappingModel):
    """What a source holds of one of its users.

    Attributes:
        source_user: The user there; None: what names no user.
        user_id: Whose it becomes; None: it is left out, or the shared scope's.
        is_imported: Whether it is taken over.
        sessions: Conversations.
        messages: Messages in them.
        memories: Memories.
    """

    source_user: str | None
    user_id: str | None = None
    is_imported: bool = True
    sessions: int = 0
    messages: int = 0
    memories: int = 0


class ImportReport(MappingModel):
    """The answer of `import_from`; after a dry run, what the real one would answer.

    Attributes:
        source: The other system.
        dry_run: Nothing was written.
        users: What is there, by user.
        sessions: Conversations that are taken over, those known already among them, as in the next two.
        messages: Messages.
        memories: Memories.
        added_messages: Messages written.
        added_memories: Memories written.
        known_messages: Messages that were there already.
        known_memories: Memories that were there already, changed since or not.
        repeated_memories: Memories that say what another one says.
        renewed_memories: Memories that the source has changed since they were imported, and nobody here; they say now
            what it says.
        forgotten_memories: Memories that were deleted here since they were imported, and stay so.
        first_at: When the first of the messages and memories was said.
        last_at: When the last one was.
        unreadable: What could not be taken over; the first thousand.
        unreadable_count: How many there are.
        run_id: The run that wrote memories, for `undo`; None where it wrote none.
    """

    source: str
    dry_run: bool = False
    users: tuple[ImportedUser, ...] = ()
    sessions: int = 0
    messages: int = 0
    memories: int = 0
    added_messages: int = 0
    added_memories: int = 0
    known_messages: int = 0
    known_memories: int = 0
    repeated_memories: int = 0
    renewed_memories: int = 0
    forgotten_memories: int = 0
    first_at: UtcTime | None = None
    last_at: UtcTime | None = None
    unreadable: tuple[UnreadableItem, ...] = ()
    unreadable_count: int = 0
    run_id: str | None = None
