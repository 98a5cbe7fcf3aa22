"""Messages, offloads and jobs on the facade: what is kept of what was said, and what is still to be done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from reme_core.facade.parts import MemoryParts
from reme_core.schema import Blob, Block, CleanedOffloads, Cost, Erased, Job, OffloadInfo, StoredMessage, Usage
from reme_core.steps import user_input as inputs
from reme_core.telemetry import traced

if TYPE_CHECKING:
    from reme_core.ports import Counts, MessagePage


class MessageMethods:
    """The methods of `ReMe` on what was said."""

    async def get_messages(
        self: MemoryParts, message_ids: Sequence[str], *, user_id: str | None = None, shared: bool = False
    ) -> list[StoredMessage]:
        """Return messages by id, in the order asked (MessageNotFoundError)."""
        ids = inputs.read_ids(message_ids, "message_ids")
        return await self._ports.store.get_messages(self._scope(user_id, shared=shared), ids)

    async def find_messages(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        keyword: str | None = None,
        session_id: str | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        limit: int = 50,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> MessagePage:
        """Return a page of the messages that hold every word of a keyword, in the order in which they were kept."""
        from reme_core.ports import FindMessages

        query = FindMessages(
            keyword=None if keyword is None else inputs.read_query(keyword, "keyword"),
            session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
            said_from=inputs.read_time(start_time, "start_time"),
            said_to=inputs.read_time(end_time, "end_time"),
            limit=inputs.read_count(limit, "limit"),
            newest_first=inputs.read_flag(newest_first, "newest_first"),
            cursor=cursor,
        )
        return await self._ports.store.find_messages(self._scope(user_id, shared=shared), query)

    async def read_blob(self: MemoryParts, ref: str, *, user_id: str | None = None, shared: bool = False) -> Blob:
        """Return the bytes of an image or a file, by the reference that the block of a message holds as its `url`.

        Raises:
            BlobNotFoundError: This user has no such bytes.
            CorruptDataError: They are not those that were written.
        """
        return await self._ports.store.get_blob(self._scope(user_id, shared=shared), inputs.read_id(ref, "ref"))

    async def get_block(self: MemoryParts, block_id: str, *, user_id: str | None = None, shared: bool = False) -> Block:
        """Return a block with its index entry and the ids of its messages (BlockNotFoundError)."""
        [block] = await self._ports.store.get_blocks(
            self._scope(user_id, shared=shared), [inputs.read_id(block_id, "block_id")]
        )
        return block

    async def list_blocks(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[Sequence[Block], str | None]:
        """Return a page of the block index, oldest first, and the cursor of the next one."""
        from reme_core.ports import ListBlocks

        page = await self._ports.store.list_blocks(
            self._scope(user_id, shared=shared),
            ListBlocks(
                session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
                limit=inputs.read_count(limit, "limit"),
                cursor=cursor,
            ),
        )
        return page.blocks, page.next_cursor

    async def stats(self: MemoryParts, *, user_id: str | None = None, shared: bool = False) -> Counts:
        """Return how much a user's memory holds."""
        return await self._ports.store.count(self._scope(user_id, shared=shared))

    async def costs(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
    ) -> list[Cost]:
        """Return what a user's memory spent on chat models, by day (UTC) and purpose.

        Args:
            user_id: Whose memory.
            shared: The shared scope of the space, in place of a user.
            start_time: From its day on.
            end_time: Up to its day, which is not counted any more.
        """
        scope = self._scope(user_id, shared=shared)
        since, until = inputs.read_time(start_time, "start_time"), inputs.read_time(end_time, "end_time")
        return await self._costs.read(
            scope.memory_space,
            user_id=scope.user_id,
            since=None if since is None else since.date(),
            until=None if until is None else until.date(),
        )

    @traced("delete_memory")
    async def delete_all_memories(self: MemoryParts, *, user_id: str | None = None, shared: bool = False) -> Erased:
        """Remove everything of a user for good: messages, blocks, memories, events, vectors and texts.

        What adapters keep of the user goes too: LangGraph's threads and items, AgentScope's sessions and files. The
        answer tells what was removed from where.

        Raises:
            StoreUnavailableError: It is deleted, but another process holds old pages; call again.
        """
        return await self._ports.store.erase(self._scope(user_id, shared=shared))


RETENTION_DAYS = 3
"""Tool results older than this are cleaned up when asked to. Source: design.md, section 6."""

IDLE_DAYS = 30
"""A session whose context was not compacted for so long counts as closed."""


class OffloadMethods:
    """The methods of `ReMe` on what was offloaded."""

    async def list_offloads(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
        limit: int = 100,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> tuple[Sequence[OffloadInfo], str | None]:
        """Return a page of what was offloaded, oldest first unless told otherwise, and the cursor of the next one."""
        from reme_core.ports import ListOffloads

        page = await self._working_ports().store.list_offloads(
            self._scope(user_id, shared=shared),
            ListOffloads(
                session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
                limit=inputs.read_count(limit, "limit"),
                newest_first=inputs.read_flag(newest_first, "newest_first"),
                cursor=cursor,
            ),
        )
        return page.offloads, page.next_cursor

    async def clean_offloads(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
        older_than_days: float | None = RETENTION_DAYS,
        max_bytes: int | None = None,
        idle_days: float = IDLE_DAYS,
        dry_run: bool = False,
    ) -> CleanedOffloads:
        """Remove the texts of old offloads for good; messages stay. Nothing is removed unless this is called.

        What the context of an open session refers to stays, and is listed as `held`. Words of removed texts may stay in
        the file's search index until it is merged; `delete_all_memories` clears everything.

        Args:
            user_id: Whose.
            shared: The shared scope of the space, in place of a user.
            older_than_days: Texts older than this go; None: age doesn't matter.
            max_bytes: Beyond this many bytes of text, the oldest go, whatever their age; None: no bound.
            idle_days: A session whose context was not compacted for so long counts as closed.
            dry_run: Only say what would go.
        """
        from reme_core.ports import CleanOffloads
        from reme_core.working.ports import read_days, read_whole

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
        now = ports.clock.now()
        clean = CleanOffloads(
            older_than=None if older_than_days is None else now - read_days(older_than_days, "older_than_days"),
            max_bytes=None if max_bytes is None else read_whole(max_bytes, "max_bytes"),
            idle_since=now - read_days(idle_days, "idle_days"),
            dry_run=inputs.read_flag(dry_run, "dry_run"),
        )
        return await ports.store.clean_offloads(scope, clean)

    async def close_context(
        self: MemoryParts, session_id: str, *, user_id: str | None = None, shared: bool = False
    ) -> None:
        """Say that a session's context is no more: clean-ups may take what it referred to."""
        from reme_core.ports import HoldOffloads

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
        session = inputs.read_id(session_id, "session_id")
        ports.held.forget(scope, session)
        await ports.store.hold_offloads(
            scope, HoldOffloads(session_id=session, references=frozenset(), now=ports.clock.now())
        )


class JobMethods:
    """The methods of `ReMe` on jobs."""

    async def flush(self: MemoryParts) -> Usage:
        """Finish what is left to do in this memory space: jobs, and vectors of messages that wait for one.

        Jobs that failed before are tried again now, each once; those that others are at are waited for.

        Where files are kept, they have followed when this returns.

        Raises:
            PartialFailureError: Some of it still waits; `failures` says why, `done` what was spent.
        """
        try:
            return await self._work.flush()
        finally:
            if self._files is not None:
                await self._files.join()

    async def list_jobs(self: MemoryParts, *, user_id: str | None = None, shared: bool = False) -> list[Job]:
        """Return a user's jobs, oldest first: pending, running, and dead ones with the reason."""
        return await self._work.list_jobs(self._scope(user_id, shared=shared))

    async def users_with_jobs(self: MemoryParts) -> list[str]:
        """Return the users of this memory space that have jobs; `""` stands for the shared scope."""
        return await self._work.users_with_jobs()

    async def retry_job(self: MemoryParts, job_id: str, *, user_id: str | None = None, shared: bool = False) -> None:
        """Have a job tried again as if it were new, a dead one too.

        Raises:
            JobNotFoundError: This user has no such job.
            ConflictError: It is being done.
        """
        await self._work.retry_job(self._scope(user_id, shared=shared), inputs.read_id(job_id, "job_id"))

    async def drop_job(self: MemoryParts, job_id: str, *, user_id: str | None = None, shared: bool = False) -> None:
        """Give a job up for good; its messages stay.

        Raises:
            JobNotFoundError: This user has no such job.
            ConflictError: It is being done.
        """
        await self._work.drop_job(self._scope(user_id, shared=shared), inputs.read_id(job_id, "job_id"))
