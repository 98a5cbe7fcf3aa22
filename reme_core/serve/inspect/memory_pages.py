"""Pages about memories: the list, one memory with what it rests on and its history, and the map of targets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from starlette.responses import Response

from reme_core.errors import MemoryNotFoundError
from reme_core.ports import EventQuery
from reme_core.schema import Memory, MemoryType, StoredMessage
from reme_core.serve.access import Right
from reme_core.serve.inspect.differences import CHARS_IN_LIST, DiffPiece, changes, marked
from reme_core.serve.inspect.name_map import read_map
from reme_core.serve.inspect.view import View
from reme_core.steps import user_input as inputs
from reme_core.steps.message_lines import find_all
from reme_core.text import shortened

_PAGE = 50
_EVENTS = 30
_MESSAGES = 30
_QUOTED_CHARS = 20_000
"""Of all messages that a memory rests on."""


async def memories(view: View) -> Response:
    """List memories, the newest first, by type, target, words and time."""
    page = await view.memory.list_memories(
        **view.whose,
        memory_type=view.ask("type") or "auto",
        memory_target=view.ask("target") or None,
        keyword=view.ask("keyword") or None,
        as_of=view.ask("as_of") or None,
        include_superseded=bool(view.ask("replaced")),
        limit=_PAGE,
        cursor=view.cursor(),
    )
    return view.page("memories", memories=page.memories, types=list(MemoryType), more=view.next_page(page.next_cursor))


async def memory(view: View) -> Response:
    """Show one memory, the messages it rests on, and its history; of a deleted one the history alone."""
    memory_id = inputs.read_id(view.ask("id"), "id")
    query = EventQuery(memory_id=memory_id, newest_first=True, limit=_EVENTS + 1, before=view.number())
    events = await view.memory.store.events(view.scope, query)
    item = await find(view, memory_id)
    if item is None and not events:
        raise MemoryNotFoundError([memory_id])
    state = item or events[0].before or events[0].after
    sources = [] if item is None else await sources_of(view, item)
    more = str(events[_EVENTS - 1].sequence) if len(events) > _EVENTS else None
    return view.page(
        "memory",
        memory=item,
        state=state,
        sources=[(said, quoted(said, item, _QUOTED_CHARS // len(sources))) for said in sources] if item else [],
        events=[(event, changes(event.before, event.after, CHARS_IN_LIST)) for event in events[:_EVENTS]],
        more=view.next_page(more),
        writes=view.may(Right.WRITE),
        erases=view.may(Right.ADMIN),
    )


async def find(view: View, memory_id: str) -> Memory | None:
    """Return a memory of the user, None if there is none of this id."""
    try:
        return await view.memory.get_memory(memory_id, **view.whose)
    except MemoryNotFoundError:
        return None


async def sources_of(view: View, item: Memory) -> list[StoredMessage]:
    """Return the first messages that a memory rests on; those that are gone are left out."""
    ids = dict.fromkeys(name for source in item.sources for name in source.message_ids)
    if not ids:
        block_ids = [source.block_id for source in item.sources if source.block_id is not None]
        blocks = await view.memory.store.get_blocks(view.scope, block_ids[:1])
        ids = dict.fromkeys(name for block in blocks for name in block.message_ids)
    return await find_all(partial(view.memory.get_messages, **view.whose), list(ids)[:_MESSAGES])


def quoted(said: StoredMessage, item: Memory, chars: int) -> Sequence[DiffPiece]:
    """Return the beginning of a message with the words marked that the memory has."""
    return marked(shortened(said.message.full_text, chars), f"{item.when_to_use} {item.content}")


async def targets(view: View) -> Response:
    """Show whom and what the memories are about, and how these are related."""
    return view.page("map", map=await read_map(view.memory, view.scope, view.ask_time("as_of"), view.link))
