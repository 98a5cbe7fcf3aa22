"""Notes of tools in the trace of a run: the hits that they found."""

from __future__ import annotations

from collections.abc import Iterable

from reme_core.ports import ToolContext
from reme_core.schema import Hit

READ_SCORE = 0.5
"""The score of what was read because its id or time was asked for: it was not ranked."""


def note_hits(context: ToolContext, hits: Iterable[Hit]) -> None:
    """Add hits to the trace, each thing once."""
    known = {_identity(hit) for hit in context.trace.hits}
    for hit in hits:
        if _identity(hit) not in known:
            known.add(_identity(hit))
            context.trace.hits.append(hit)


def _identity(hit: Hit) -> tuple[object, ...]:
    match hit.layer:
        case "memory":
            return hit.layer, hit.user_id, hit.memory_id
        case "summary":
            return hit.layer, hit.user_id, hit.block_id
        case "message":
            return hit.layer, hit.user_id, hit.reference, hit.message_ids
