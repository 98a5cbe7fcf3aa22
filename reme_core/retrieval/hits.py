"""Results of a search as hits of the public face; passages of offloads beside messages, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reme_core.ports import ScoredBlock, ScoredMemory, ScoredMessage, ScoredOffload
from reme_core.schema import Hit, Memory, MemoryType, OffloadKind, Scope, StoredMessage, TrustClass
from reme_core.text import terms


def memory_hit(item: ScoredMemory, score: float) -> Hit:
    """Make the hit of a memory."""
    memory = item.memory
    blocks = (source.block_id for source in memory.sources if source.block_id is not None)
    return Hit(
        memory=memory.content,
        layer="memory",
        score=score,
        similarity=item.similarity,
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
        trust=memory.trust,
        metadata=memory.metadata,
    )


def message_hit(scope: Scope, item: ScoredMessage, score: float) -> Hit:
    """Make the hit of a message."""
    message, block_id = item.stored.message, item.stored.block_id
    return Hit(
        memory=message.full_text,
        layer="message",
        score=score,
        similarity=item.similarity,
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
        trust=message.trust,
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


def hit_of_memory(memory: Memory) -> Hit:
    """Make the hit of a memory that was listed, not found, for the text of an answer; its score is 0."""
    return memory_hit(ScoredMemory(memory=memory, score=0.0), 0.0)


def hit_of_message(scope: Scope, stored: StoredMessage) -> Hit:
    """Make the hit of a message that was listed, not found, for the text of an answer; its score is 0."""
    return message_hit(scope, ScoredMessage(stored=stored, score=0.0), 0.0)


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


# A passage leads the messages if it holds this share of the question's words, and more of them than any message: the
# share from which on a memory leads, too.
_LEADING_SHARE = 0.5
# Messages have scores up to this; memories that answer the question have higher ones.
_MOST = 0.5
# What stands right behind something has this share of its score, and right before it so much more.
_BEHIND, _BEFORE = 0.99, 1.01


class MessageMatch(NamedTuple):
    """A message that was found: the share of the question's words that it holds, and its score in [0, 0.5]."""

    share: float
    score: float


def word_share(asked: frozenset[str], text: str) -> float:
    """Return the share of the words asked for that a text holds, in [0, 1]; 1 where nothing is asked for."""
    return len(asked.intersection(terms(text))) / len(asked) if asked else 1.0


def passage_score(share: float, told: Sequence[MessageMatch]) -> float:
    """Return the score in [0, 0.5] of a passage beside messages.

    Scores of messages add up what stands around them, who speaks and when, none of which a passage has, so the two are
    compared by the words of the question that they hold. A passage stands behind every message that holds as many;
    one that holds more than any, and half of them at least, comes first; another one falls behind by what it lacks.
    """
    as_good = [item.score for item in told if item.share >= share]
    if as_good:
        return min(as_good) * _BEHIND
    best = max((item.score for item in told), default=_MOST)
    if share < _LEADING_SHARE:
        return best * share
    return max(share * _MOST, min(_MOST, best * _BEFORE)) if told else share * _MOST


def passage_scores(shares: Sequence[float], told: Sequence[MessageMatch]) -> list[float]:
    """Return the scores of passages beside messages, in their order, so that they don't crowd them out.

    The best passage stands where `passage_score` puts it; each further one behind one message more, at best.
    """
    alone = [passage_score(share, told) for share in shares]
    ladder = sorted((item.score for item in told), reverse=True)
    scores = list(alone)
    for place, index in enumerate(sorted(range(len(alone)), key=lambda index: -alone[index])):
        if place and ladder:
            scores[index] = min(alone[index], ladder[min(place, len(ladder) - 1)] * _BEHIND)
    return scores


def reload_line(reference: str) -> str:
    """Return the line behind a passage that says what loads the whole."""
    return f"[… reload {reference}]"


def passage_hit(scope: Scope, found: ScoredOffload, score: float) -> Hit:
    """Make the hit of a passage: its text, and in a line of its own what loads the whole."""
    info = found.info
    line_end = "" if found.passage.endswith("\n") else "\n"
    return Hit(
        memory=f"{found.passage}{line_end}{reload_line(info.reference)}",
        layer="message",
        score=score,
        message_ids=() if info.message_id is None else (info.message_id,),
        memory_type=MemoryType.HISTORY,
        name=info.name,
        role="tool" if info.kind is OffloadKind.TOOL_RESULT else None,
        session_id=info.session_id,
        reference=info.reference,
        user_id=scope.user_id,
        created_at=info.said_at or info.created_at,
        observed_at=info.said_at or info.created_at,
        trust=TrustClass.TOOL if info.kind is OffloadKind.TOOL_RESULT else TrustClass.ASSISTANT,
    )


def text_of(hit: Hit) -> str:
    """Return what a hit says, the line of a passage that loads the whole apart."""
    return hit.memory if hit.reference is None else hit.memory.removesuffix(reload_line(hit.reference)).rstrip("\n")
