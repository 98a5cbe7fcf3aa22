"""Offloads on the facade: what left the contexts of sessions, listed and cleaned up."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.facade.parts import MemoryParts
from reme_core.schema import CleanedOffloads, OffloadInfo
from reme_core.steps import user_input as inputs

RETENTION_DAYS = 3
"""Tool results older than this are cleaned up when asked to. Source: design.md, section 6."""

IDLE_DAYS = 30
"""A session whose context was not compacted for so long counts as closed."""


class OffloadMethods:
    """The methods of `ReMe` on what was offloaded."""

    async def list_offloads(
        self: MemoryParts,
        *,
        user_id: str,
        session_id: str | None = None,
        limit: int = 100,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> tuple[Sequence[OffloadInfo], str | None]:
        """Return a page of what was offloaded, oldest first unless told otherwise, and the cursor of the next one."""
        from reme_core.ports import ListOffloads

        page = await self._working_ports().store.list_offloads(
            self._scope(user_id),
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
        user_id: str,
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
            older_than_days: Texts older than this go; None: age doesn't matter.
            max_bytes: Beyond this many bytes of text, the oldest go, whatever their age; None: no bound.
            idle_days: A session whose context was not compacted for so long counts as closed.
            dry_run: Only say what would go.
        """
        from reme_core.ports import CleanOffloads
        from reme_core.working.context_input import read_days, read_whole

        ports, scope = self._working_ports(), self._scope(user_id)
        now = ports.clock.now()
        clean = CleanOffloads(
            older_than=None if older_than_days is None else now - read_days(older_than_days, "older_than_days"),
            max_bytes=None if max_bytes is None else read_whole(max_bytes, "max_bytes"),
            idle_since=now - read_days(idle_days, "idle_days"),
            dry_run=inputs.read_flag(dry_run, "dry_run"),
        )
        return await ports.store.clean_offloads(scope, clean)

    async def close_context(self: MemoryParts, session_id: str, *, user_id: str) -> None:
        """Say that a session's context is no more: clean-ups may take what it referred to."""
        from reme_core.ports import HoldOffloads

        ports, scope = self._working_ports(), self._scope(user_id)
        session = inputs.read_id(session_id, "session_id")
        ports.held.forget(scope, session)
        await ports.store.hold_offloads(
            scope, HoldOffloads(session_id=session, references=frozenset(), now=ports.clock.now())
        )
