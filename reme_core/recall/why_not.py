"""Explanation of a search, and of why one thing is no result of it, if it was not even compared with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reme_core.errors import BlockNotFoundError, MemoryNotFoundError, MessageNotFoundError
from reme_core.ports import EventQuery, RetrieveRequest, ScoredBlock, ScoredMemory, ScoredMessage, Store, TokenCounter
from reme_core.recall.search_account import AskedFor, SearchAccount, why_among
from reme_core.recall.shares import share_and_base, share_of_memory
from reme_core.retrieval.hits import block_hit, memory_hit, message_hit
from reme_core.rules import check_filter, matches
from reme_core.schema import (
    Block,
    Explanation,
    Hit,
    Layer,
    LeftOut,
    Memory,
    Scope,
    StoredMessage,
    WhyNot,
    shown_successor,
)


async def explain_search(
    store: Store,
    counter: TokenCounter,
    scopes: Sequence[Scope],
    request: RetrieveRequest,
    compared: Sequence[Hit],
    results: Sequence[Hit],
    account: SearchAccount,
) -> Explanation:
    """Return how an answer came about, and why the id asked about is no result."""
    explanation = account.explanation(request, compared, results, counter)
    name = request.why_not
    if name is None:
        return explanation
    why = why_among(explanation, name)
    for scope in scopes:
        if why is None or why.left_out is LeftOut.UNKNOWN:
            why = await why_not_compared(store, scope, name, account)
    return explanation.model_copy(update={"why_not": why})


async def why_not_compared(store: Store, scope: Scope, name: str, account: SearchAccount) -> WhyNot:
    """Tell why something of a scope was not compared with the others."""
    asked = account.asked[scope]
    item = await _find(store, scope, name)
    if item is None:
        was = await store.events(scope, EventQuery(memory_id=name, take="last"))
        gone = f": the memory was deleted on {was[-1].at:%Y-%m-%d}" if was else ""
        return _why(name, LeftOut.UNKNOWN, gone)
    layer = _layer(item)
    if layer not in asked.layers:
        return _why(name, LeftOut.LAYER, f": it is a {layer}, and {' and '.join(asked.layers)} were")
    if excluded := _excluded(item, asked):
        return _why(name, LeftOut.FILTER, f": {excluded}")
    if asked.messages.by_time:
        return _why(name, LeftOut.NO_MATCH, ": it is not of the time asked for, or too much else is")
    found = await _ranked(store, scope, item, asked)
    if found is None:
        return _why(name, LeftOut.NO_MATCH)
    hit, item_, factor, base = found
    account.found([hit], [item_], factor=factor, base=base)
    account.moved("bounded", [hit])
    place = item_.place
    of_layer = "" if place is None else f": it is number {place} of its layer"
    explained = account.explained(hit, rank=0, left_out=LeftOut.CANDIDATES)
    return _why(name, LeftOut.CANDIDATES, of_layer).model_copy(update={"place": place, "found": explained})


def _why(name: str, rule: LeftOut, more: str = "") -> WhyNot:
    return WhyNot(id=name, left_out=rule, reason=f"{rule.words}{more}")


async def _find(store: Store, scope: Scope, name: str) -> Memory | StoredMessage | Block | None:
    try:
        return (await store.get(scope, [name]))[0]
    except MemoryNotFoundError:
        pass
    try:
        return (await store.get_messages(scope, [name]))[0]
    except MessageNotFoundError:
        pass
    try:
        return (await store.get_blocks(scope, [name]))[0]
    except BlockNotFoundError:
        return None


def _layer(item: Memory | StoredMessage | Block) -> Layer:
    if isinstance(item, Memory):
        return "memory"
    return "summary" if isinstance(item, Block) else "message"


def _excluded(item: Memory | StoredMessage | Block, asked: AskedFor) -> str:
    """Say which condition excludes something; empty where none does."""
    if isinstance(item, Memory):
        wanted = asked.memories.filter
        if matches(item, check_filter(wanted)):
            return ""
        everything = replace(wanted, as_of=None, include_superseded=True)
        if not matches(item, check_filter(everything)):
            return "its type, target, time or metadata is another"
        if item.superseded_by is not None and wanted.as_of is None:
            return f"it was {shown_successor(item)}"
        return "it did not hold at the time asked for"
    said, search = item.started_at if isinstance(item, Block) else item.message.created_at, asked.messages
    if search.session_id not in {None, item.session_id}:
        return f"it is of session {item.session_id}"
    if search.trust is not None and isinstance(item, StoredMessage) and item.message.trust not in search.trust:
        return f"it is of trust {item.message.trust}"
    is_early = search.said_from is not None and said < search.said_from
    is_late = search.said_to is not None and said >= search.said_to
    return f"it was said at {said:%Y-%m-%d %H:%M}" if is_early or is_late else ""


async def _ranked(
    store: Store, scope: Scope, item: Memory | StoredMessage | Block, asked: AskedFor
) -> tuple[Hit, ScoredMemory | ScoredMessage | ScoredBlock, float, float] | None:
    """Rank something among all; return its hit, and what its score was multiplied and raised by. None: not found."""
    search = replace(asked.messages, explain=True, limit=1)
    match item:
        case Memory():
            about = replace(asked.memories, only=item.memory_id, explain=True, limit=1)
            for told in await store.search(scope, about):
                share = share_of_memory(told, asked.words, about.vector)
                return memory_hit(told, share), told, *share_and_base(told, asked.words, about.vector)
        case Block():
            for summed in await store.search_blocks(scope, replace(search, only=item.block_id)):
                return block_hit(scope, summed, summed.score / 2), summed, 0.5, 0.0
        case StoredMessage():
            for said in await store.search_messages(scope, replace(search, only=item.message.message_id)):
                return message_hit(scope, said, said.score / 2), said, 0.5, 0.0
    return None
