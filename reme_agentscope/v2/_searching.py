"""Search for a question, as far as its results may be shown to any session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reme_core import Hit, ReMe

# Found besides, in the place of what is left out.
_SPARE_HITS = 20
_MOST_HITS = 10_000  # that `retrieve` gives at once


async def search_memories(memory: ReMe, query: str, *, user_id: str, limit: int) -> list[Hit]:
    """Return up to `limit` results and some spare ones, best first.

    Left out are passages of what was offloaded: they are parts of a context with everything that was put into it, and
    only the session that they left can load the rest.

    Raises:
        ReMeError: What `retrieve` raises.
    """
    found = await memory.retrieve(query, user_id=user_id, limit=min(limit + _SPARE_HITS, _MOST_HITS))
    return [hit for hit in found.results if hit.reference is None]
