"""Messages that an agent is given from outside a pipeline: kept before anything else is done with them."""

from __future__ import annotations

from collections.abc import Sequence

from reme_core.ports import AppendMessages, ToolContext
from reme_core.rules import block_from
from reme_core.schema import Message, Source, new_id
from reme_core.steps.messages_by_id import find_messages_by_id


async def keep_messages(messages: Sequence[Message], context: ToolContext) -> tuple[Source, ...]:
    """Store those messages that are not stored yet, as one block of a session of their own; return where all lie.

    As `AddHistoryMemoryOp` does with what a model writes; these keep their ids, their tool calls and everything else.

    Raises:
        ConflictError: The id of a message is taken by one with other content.
    """
    held = await find_messages_by_id(context.store, context.scope, [message.message_id for message in messages])
    new = [message for message in messages if message.message_id not in held]
    if new:
        session_id, now = new_id(), context.clock.now()
        request = AppendMessages(
            session_id=session_id,
            messages=new,
            want_vectors=context.embedder is not None,
            slicer=lambda waiting: [block_from(session_id, waiting, created_at=now)],
        )
        await context.store.append(context.scope, request)
    stored = await context.store.get_messages(context.scope, [message.message_id for message in messages])
    by_block: dict[str | None, list[str]] = {}
    for item in stored:
        by_block.setdefault(item.block_id, []).append(item.message.message_id)
    return tuple(Source(block_id=block_id, message_ids=tuple(ids)) for block_id, ids in by_block.items())
