"""Results of a search as hits of the public face."""

from __future__ import annotations

from reme_core.ports import ScoredBlock, ScoredMemory, ScoredMessage
from reme_core.schema import Hit, MemoryType, Scope


def memory_hit(item: ScoredMemory, score: float) -> Hit:
    """Make the hit of a memory."""
    memory = item.memory
    blocks = (source.block_id for source in memory.sources if source.block_id is not None)
    return Hit(
        memory=memory.content,
        layer="memory",
        score=score,
        memory_id=memory.memory_id,
        message_ids=tuple(dict.fromkeys(m for source in memory.sources for m in source.message_ids)),
        block_ids=tuple(dict.fromkeys(blocks)),
        memory_type=memory.memory_type,
        memory_target=memory.memory_target,
        when_to_use=memory.when_to_use,
        user_id=memory.user_id,
        created_at=memory.created_at,
        observed_at=memory.observed_at,
        valid_from=memory.valid_from,
        valid_from_precision=memory.valid_from_precision,
        valid_to=memory.valid_to,
        valid_to_precision=memory.valid_to_precision,
        superseded_by=memory.superseded_by,
        metadata=memory.metadata,
    )


def message_hit(scope: Scope, item: ScoredMessage, score: float) -> Hit:
    """Make the hit of a message."""
    message, block_id = item.stored.message, item.stored.block_id
    return Hit(
        memory=message.full_text,
        layer="message",
        score=score,
        block_id=block_id,
        message_ids=(message.message_id,),
        block_ids=() if block_id is None else (block_id,),
        memory_type=MemoryType.HISTORY,
        name=message.name,
        role=message.role,
        session_id=item.stored.session_id,
        passage=item.passage,
        user_id=scope.user_id,
        created_at=message.created_at,
        observed_at=message.created_at,
        metadata=message.metadata,
    )


def passage_of(hit: Hit) -> Hit:
    """Return the hit of a long message cut to the passage that says most; any other one as it is."""
    if hit.passage is None:
        return hit
    start, end = hit.passage
    before = "[…] " if start else ""
    after = " […]" if end < len(hit.memory) else ""
    text = f"{before}{hit.memory[start:end].strip()}{after}"
    return hit.model_copy(update={"memory": text, "is_passage": True})


def block_hit(scope: Scope, item: ScoredBlock, score: float) -> Hit:
    """Make the hit of a block, found by its summary."""
    block = item.block
    return Hit(
        memory=block.summary,
        layer="summary",
        score=score,
        block_id=block.block_id,
        message_ids=block.message_ids,
        block_ids=(block.block_id,),
        memory_type=MemoryType.HISTORY,
        session_id=block.session_id,
        user_id=scope.user_id,
        created_at=block.started_at,
        observed_at=block.started_at,
    )
