"""Pages about users: who is there, how much is kept, what it cost by day, and everything of a user as a file."""

from __future__ import annotations

from starlette.responses import Response, StreamingResponse

from reme_core.errors import ConfigurationError
from reme_core.ports import Counts
from reme_core.schema import make_scope
from reme_core.serve.access import Right
from reme_core.serve.http.export import MEDIA_TYPE, line_pieces
from reme_core.serve.inspect.day_charts import cost_chart, growth
from reme_core.serve.inspect.view import HEADERS, View
from reme_core.stores.sql.bookkeeping import list_users
from reme_core.transfer.scope_transfer import scope_lines

_USERS = 25


async def users(view: View) -> Response:
    """Show the user's sizes and costs; who looks after the space sees its other users, too."""
    names, more = await _names(view) if Right.ADMIN in view.caller.rights else ([view.scope.user_id], None)
    counts = [(name, await _count(view, name)) for name in names]
    costs = await view.memory.costs(**view.whose)
    return view.page(
        "users",
        counts=counts,
        own=await _count(view, view.scope.user_id),
        costs=cost_chart(costs),
        growth=await growth(view.memory, view.scope),
        can_switch=Right.ACT_AS in view.caller.rights,
        deletes=view.may(Right.ADMIN),
        more=view.next_page(more),
    )


async def _names(view: View) -> tuple[list[str], str | None]:
    try:
        database = view.memory.database
    except ConfigurationError:  # a store of somebody else, which lists no users
        return [view.scope.user_id], None
    space, after = view.scope.memory_space, view.cursor() or ""
    names = await database.read(lambda c: list_users(c, space, after, _USERS + 1), within=space)
    return names[:_USERS], names[_USERS - 1] if len(names) > _USERS else None


async def _count(view: View, user_id: str) -> Counts:
    return await view.memory.store.count(make_scope(view.scope.memory_space, user_id))


async def export(view: View) -> Response:
    """Answer with everything of the user as JSON Lines."""
    lines = scope_lines(view.memory.store, view.scope)
    headers = {**HEADERS, "Content-Disposition": "attachment; filename=reme-export.jsonl"}
    return StreamingResponse(line_pieces(lines), headers=headers, media_type=MEDIA_TYPE)
