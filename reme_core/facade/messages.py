"""Messages and blocks on the facade, and what a user's memory holds in all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from reme_core.facade.parts import MemoryParts
from reme_core.schema import Block, Erased, StoredMessage
from reme_core.steps import user_input as inputs

if TYPE_CHECKING:
    from reme_core.ports import Counts, MessagePage


class MessageMethods:
    """The methods of `ReMe` on what was said."""

    async def get_messages(self: MemoryParts, message_ids: Sequence[str], *, user_id: str) -> list[StoredMessage]:
        """Return messages by id, in the order asked (MessageNotFoundError)."""
        ids = inputs.read_ids(message_ids, "message_ids")
        return await self._ports.store.get_messages(self._scope(user_id), ids)

    async def find_messages(
        self: MemoryParts,
        *,
        user_id: str,
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
        return await self._ports.store.find_messages(self._scope(user_id), query)

    async def get_block(self: MemoryParts, block_id: str, *, user_id: str) -> Block:
        """Return a block with its index entry and the ids of its messages (BlockNotFoundError)."""
        [block] = await self._ports.store.get_blocks(self._scope(user_id), [inputs.read_id(block_id, "block_id")])
        return block

    async def list_blocks(
        self: MemoryParts, *, user_id: str, session_id: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> tuple[Sequence[Block], str | None]:
        """Return a page of the block index, oldest first, and the cursor of the next one."""
        from reme_core.ports import ListBlocks

        page = await self._ports.store.list_blocks(
            self._scope(user_id),
            ListBlocks(
                session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
                limit=inputs.read_count(limit, "limit"),
                cursor=cursor,
            ),
        )
        return page.blocks, page.next_cursor

    async def stats(self: MemoryParts, *, user_id: str) -> Counts:
        """Return how much a user's memory holds."""
        return await self._ports.store.count(self._scope(user_id))

    async def delete_all_memories(self: MemoryParts, *, user_id: str) -> Erased:
        """Remove everything of a user for good: messages, blocks, memories, events, vectors and texts.

        Raises:
            StoreUnavailableError: It is deleted, but another process holds old pages; call again.
        """
        return await self._ports.store.erase(self._scope(user_id))
