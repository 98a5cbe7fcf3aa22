"""Pages about what was said: the timeline, sessions, and what was made of each message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.responses import Response

from reme_core.errors import ConfigurationError
from reme_core.schema import Block, Memory, MemoryType, StoredMessage
from reme_core.serve.blob_response import blob_response
from reme_core.serve.inspect.time_axis import AskedAxis, made_in, read_axis, rests_on
from reme_core.serve.inspect.view import View
from reme_core.steps import user_input as inputs
from reme_core.stores.sql.bookkeeping import SessionRow, list_sessions

_SESSIONS = 40
_MESSAGES = 40


async def timeline(view: View) -> Response:
    """Show messages, memories, runs and jobs on one axis of time, the newest part first."""
    asked = AskedAxis(
        types=inputs.read_types(view.ask("type") or "auto"),
        session=view.ask("session") or None,
        as_of=view.ask_time("as_of"),
        cursor=view.cursor(),
        until=view.ask_time("until"),
    )
    axis = await read_axis(view.memory, view.scope, asked, view.link)
    until = "" if axis.begin is None else axis.begin.isoformat()
    more = view.next_page(axis.cursor, until=until)
    return view.page("timeline", axis=axis, as_of=asked.as_of, types=list(MemoryType), more=more)


async def sessions(view: View) -> Response:
    """List sessions, the newest first."""
    try:
        database = view.memory.database
    except ConfigurationError:  # a store of somebody else, which lists no sessions
        return view.page("sessions", sessions=[], more=None)
    before = view.number()
    rows: list[SessionRow] = await database.read(
        lambda c: list_sessions(c, view.scope, before, _SESSIONS + 1), within=view.scope
    )
    more = str(rows[_SESSIONS - 1].number) if len(rows) > _SESSIONS else None
    return view.page("sessions", sessions=[_timed(row) for row in rows[:_SESSIONS]], more=view.next_page(more))


def _timed(row: SessionRow) -> dict[str, object]:
    first, last = (
        None if moment is None else datetime.fromtimestamp(moment, UTC) for moment in (row.first_at, row.last_at)
    )
    return {"id": row.session_id, "messages": row.messages, "first": first, "last": last}


async def session(view: View) -> Response:
    """Show the messages of a session in their order, each with what was made of it."""
    session_id = inputs.read_id(view.ask("id"), "id")
    page = await view.memory.find_messages(**view.whose, session_id=session_id, limit=_MESSAGES, cursor=view.cursor())
    blocks = await _blocks_of(view, page.messages)
    made = await _made_of(view, page.messages, blocks)
    return view.page(
        "session",
        session_id=session_id,
        messages=[(item, made.get(item.message.message_id, [])) for item in page.messages],
        blocks={block.block_id: block for block in blocks},
        more=view.next_page(page.next_cursor),
    )


async def _blocks_of(view: View, messages: Sequence[StoredMessage]) -> list[Block]:
    block_ids = dict.fromkeys(item.block_id for item in messages if item.block_id is not None)
    return await view.memory.store.get_blocks(view.scope, list(block_ids))


async def _made_of(view: View, messages: Sequence[StoredMessage], blocks: Sequence[Block]) -> dict[str, list[Memory]]:
    """Return the memories of messages by the messages that they rest on.

    A memory is of the time of its last message, which may be a later one of the block.
    """
    times = [item.message.created_at for item in messages] + [block.ended_at for block in blocks]
    made: dict[str, list[Memory]] = {}
    for item in await made_in(view.memory, view.scope, min(times), max(times)) if times else ():
        for name in rests_on(item):
            made.setdefault(name, []).append(item)
    return made


async def message(view: View) -> Response:
    """Show one message with what was made of it."""
    [item] = await view.memory.get_messages([inputs.read_id(view.ask("id"), "id")], **view.whose)
    made = await _made_of(view, [item], await _blocks_of(view, [item]))
    return view.page("message", item=item, made=made.get(item.message.message_id, []))


async def blob(view: View) -> Response:
    """Answer with an image or a file of a message."""
    return blob_response(await view.memory.read_blob(view.ask("ref"), **view.whose))
