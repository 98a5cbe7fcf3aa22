"""Preparation of a context before a model call: long results cut, old messages summarised, all of it on disk first."""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Literal

from reme_core.errors import ContextTooLongError
from reme_core.ports import HoldOffloads, ListOffloads
from reme_core.schema import Message, OffloadInfo, OffloadKind, OffloadRecord, PreparedContext, Scope, Usage
from reme_core.text import Language
from reme_core.working.check import ContextCheck, ContextLimits, check_context
from reme_core.working.fit import FittedContext, fit_messages
from reme_core.working.ports import WorkingPorts
from reme_core.working.record import find_wholes, record, with_ids
from reme_core.working.summary.compact import Compacted, CompactRequest, compact_memory
from reme_core.working.tool_results import (
    cited_at_a_glance,
    cited_references,
    compact_tool_result,
    known_offloads,
    renamed,
    store_offloads,
)

SUMMARY_NAME = "summary"
"""The name under which a summary that was replaced is offloaded."""

# What stays may take this share of the threshold; if it takes more, it is cut to the other one.
_ROOM, _CUT_TO = 0.9, 0.75
# Beyond this, cutting takes longer than the event loop may wait.
_LARGE_CHARS = 200_000
# After cutting old tool results alone, this share of the threshold may be taken: a context that is nearly full again
# would be cut at every turn, and its prefix would never be the same.
_ENOUGH = 0.5
_LISTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """A context before a model is asked.

    Attributes:
        session_id: The session whose context it is.
        messages: In order; leading system messages count as part of the system prompt.
        summary: The summary of what left before.
        system_prompt: What is sent before; it is counted and not changed.
        overhead_tokens: What else is sent: the tools' schemas, say.
        limits: How long it may get.
        language: Of the summariser's prompt; None follows the conversation.
    """

    session_id: str
    messages: Sequence[Message]
    summary: str = ""
    system_prompt: str = ""
    overhead_tokens: int = 0
    limits: ContextLimits = field(default_factory=ContextLimits)
    language: Language | None = None


async def pre_reasoning_hook(ports: WorkingPorts, scope: Scope, request: ContextRequest) -> PreparedContext:
    """Return the context as it is while it fits, and otherwise one that does.

    A tool result is cut when it is first seen, if it is very long. Once the threshold is passed, older results are cut
    further; if that isn't enough, the oldest messages leave for a summary; what must stay is cut last. Everything that
    is cut or leaves is on disk before this returns; if this raises, nothing has changed for the caller, and what was
    written is found again and not written twice.

    Raises:
        ContextTooLongError: System prompt and tools leave no room.
        StoreError: Something couldn't be written.
    """
    begun, begun_at = time.perf_counter(), ports.clock.now()
    _check_room(_check(ports, request))
    arrived, references = await _cut_results(ports, scope, request, old=False)
    check = _check(ports, arrived)
    prepared = await _compact(ports, scope, arrived) if check.is_over else _unsummarised(arrived, check)
    changed = _differ(request.messages, prepared.messages) or request.summary != prepared.compressed_summary
    cited = (
        frozenset[str]()
        if changed
        else cited_references([prepared.compressed_summary]).union(*map(cited_at_a_glance, prepared.messages))
    )
    if changed or not ports.held.holds(scope, request.session_id, cited):
        await _hold(ports, scope, request, prepared, begun_at)
    spent = (time.perf_counter() - begun) * 1000
    return prepared.model_copy(
        update={
            "has_changed": changed,
            "references": (*references, *prepared.references),
            "usage": prepared.usage.model_copy(update={"milliseconds": spent}),
        }
    )


async def _compact(ports: WorkingPorts, scope: Scope, request: ContextRequest) -> PreparedContext:
    cut, references = await _cut_results(ports, scope, request, old=True)
    check = _check(ports, cut)
    if check.tokens <= _ENOUGH * check.threshold:
        prepared = _unsummarised(cut, check)
    else:
        prepared = await _summarise(ports, scope, cut)
    compacted = prepared.compacted or _differ(request.messages, cut.messages)
    return prepared.model_copy(update={"references": (*references, *prepared.references), "compacted": compacted})


async def _cut_results(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, *, old: bool
) -> tuple[ContextRequest, tuple[str, ...]]:
    """Cut tool results, and return the context with them cut, and the references of what was stored for that."""
    plan = await compact_tool_result(
        request.messages,
        store=ports.store,
        scope=scope,
        session_id=request.session_id,
        limits=request.limits,
        now=ports.clock.now(),
        old=old,
    )
    return replace(request, messages=plan.messages), tuple(offload.reference for offload in plan.offloads)


async def _summarise(ports: WorkingPorts, scope: Scope, request: ContextRequest) -> PreparedContext:
    """Move the oldest messages into the summary, and cut what stays if even so it is too much."""
    check = _check(ports, request, force=True)
    compacted, offloaded = None, list[str]()
    summary = request.summary
    if check.to_compact or ports.ledger.count_text(summary) > request.limits.summary_room(check.taken):
        compacted, offloaded = await compact_messages(
            ports, scope, request, check.to_compact, kept=check.to_keep, taken=check.taken
        )
        summary = compacted.summary
    left = replace(request, messages=check.to_keep, summary=summary)
    kept, cut = await _fitted(ports, scope, left)
    final = _check(ports, replace(left, messages=kept))
    return PreparedContext(
        session_id=request.session_id,
        messages=kept,
        compressed_summary=summary,
        tokens=final.tokens,
        threshold=final.threshold,
        removed_message_ids=tuple(message.message_id for message in check.to_compact),
        references=(*offloaded, *cut),
        compacted=compacted is not None or _differ(check.to_keep, kept),
        method=None if compacted is None else compacted.method,
        problems=() if compacted is None else tuple(str(failure) for failure in compacted.failures),
        usage=Usage() if compacted is None else compacted.usage,
    )


async def compact_messages(
    ports: WorkingPorts,
    scope: Scope,
    request: ContextRequest,
    messages: Sequence[Message],
    *,
    kept: Sequence[Message],
    taken: int = 0,
) -> tuple[Compacted, list[str]]:
    """Put messages on disk, then have them summarised together with the summary so far.

    `kept` are those that stay, and `taken` the tokens of system prompt and tools.

    Returns:
        The summary, and the references of what was offloaded.
    """
    offloads = await _leaving(ports, scope, request, messages)
    stored = await store_offloads(ports.store, scope, list(offloads.values()))
    names = {what: stored[offload.reference] for what, offload in offloads.items()}
    texts = [request.summary, *(message.full_text for message in messages)]
    compacted = await compact_memory(
        CompactRequest(
            messages=messages,
            previous_summary=request.summary,
            kept=kept,
            reference=names.get("messages"),
            references=frozenset(await _known(ports, scope, cited_references(texts))),
            earlier=names.get("summary"),
            limit_tokens=request.limits.summary_room(taken),
            window_tokens=request.limits.max_input_length,
            language=request.language,
        ),
        model=ports.model,
        counter=ports.ledger.counter,
    )
    return compacted, list(names.values())


async def _leaving(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, messages: Sequence[Message]
) -> dict[Literal["messages", "summary"], OffloadRecord]:
    """Put what leaves into the transcript, and return what points at it and keeps the summary that is replaced."""
    offloads: dict[Literal["messages", "summary"], OffloadRecord] = {}
    now = ports.clock.now()
    if messages:
        recorded = await record(ports, scope, request.session_id, messages)
        if recorded.message_ids:
            offloads["messages"] = OffloadRecord(
                session_id=request.session_id,
                kind=OffloadKind.MESSAGES,
                message_ids=recorded.message_ids,
                created_at=now,
            )
    if request.summary.strip():
        offloads["summary"] = _summary_offload(ports, request.session_id, request.summary)
    return offloads


async def offload_summary(ports: WorkingPorts, scope: Scope, session_id: str, summary: str) -> str | None:
    """Keep a summary that is about to be replaced; return its reference, None where there is nothing to keep."""
    if not summary.strip():
        return None
    offload = _summary_offload(ports, session_id, summary)
    [reference] = (await store_offloads(ports.store, scope, [offload])).values()
    return reference


def _summary_offload(ports: WorkingPorts, session_id: str, summary: str) -> OffloadRecord:
    return OffloadRecord(
        session_id=session_id,
        kind=OffloadKind.TEXT,
        name=SUMMARY_NAME,
        text=summary,
        created_at=ports.clock.now(),
    )


async def _fitted(ports: WorkingPorts, scope: Scope, request: ContextRequest) -> tuple[tuple[Message, ...], list[str]]:
    """Cut what stays, if it leaves next to no room beside system prompt and summary.

    Once something has to be cut, it is cut to leave some room: else the next message would be one too many again.
    """
    check = _check(ports, request)
    if check.tokens <= _ROOM * check.threshold:
        return tuple(request.messages), []
    fixed = check.tokens - check.message_tokens
    _check_room(check, fixed=fixed)
    wholes = await find_wholes(ports, scope, request.session_id, request.messages)
    messages = [
        wholes[message.message_id].message if message.message_id in wholes else message for message in request.messages
    ]
    known = await known_offloads(ports.store, scope, request.session_id, messages, over_bytes=0)
    pointers = {name: whole.reference for name, whole in wholes.items() if whole.reference is not None}
    is_large = sum(len(message.full_text) for message in messages) > _LARGE_CHARS

    async def fit(share: float) -> FittedContext:
        """Cut the messages, away from the event loop where that takes long."""
        cut = partial(
            fit_messages,
            messages,
            allowance=int(share * check.threshold) - fixed,
            ledger=ports.ledger,
            session_id=request.session_id,
            known=known,
            now=ports.clock.now(),
            pointers=pointers,
        )
        return await asyncio.to_thread(cut) if is_large else cut()

    try:
        fitted = await fit(_CUT_TO)
    except ContextTooLongError:
        if check.tokens <= check.threshold:
            return tuple(request.messages), []
        fitted = await fit(1.0)
    offloads = await _pointing(ports, scope, request.session_id, messages, fitted)
    stored = await store_offloads(ports.store, scope, offloads)
    return renamed(fitted.messages, stored), list(stored.values())


async def _pointing(
    ports: WorkingPorts, scope: Scope, session_id: str, messages: Sequence[Message], fitted: FittedContext
) -> list[OffloadRecord]:
    """Put the messages on disk, whole, that views refer to; return what is to be kept for the views.

    They go in the order in which they were said: with those that stand before the last one of them.
    """
    if not fitted.recorded:
        return list(fitted.offloads)
    last = max(place for place, message in enumerate(messages) if message.message_id in fitted.recorded)
    said = messages[: last + 1]
    names = with_ids(said, await record(ports, scope, session_id, said))
    return [
        offload.model_copy(update={"message_ids": tuple(names.get(name, name) for name in offload.message_ids)})
        for offload in fitted.offloads
    ]


def _check_room(check: ContextCheck, *, fixed: int | None = None) -> None:
    """Refuse a context whose fixed parts leave nothing for messages (ContextTooLongError)."""
    taken = check.taken if fixed is None else fixed
    if taken >= check.threshold:
        msg = (
            f"system prompt, tools, summary and messages that may not leave take {taken} tokens, which leaves nothing "
            f"of the {check.threshold} that a context may take: shorten them, or raise max_input_length"
        )
        raise ContextTooLongError(msg)


def _differ(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Tell whether messages are others than before: what doesn't change is the same object."""
    return len(before) != len(after) or any(map(operator.is_not, before, after))


def _check(ports: WorkingPorts, request: ContextRequest, *, force: bool = False) -> ContextCheck:
    return check_context(
        request.messages,
        limits=request.limits,
        ledger=ports.ledger,
        system_prompt=request.system_prompt,
        summary=request.summary,
        overhead_tokens=request.overhead_tokens,
        force=force,
    )


def _unsummarised(request: ContextRequest, check: ContextCheck) -> PreparedContext:
    return PreparedContext(
        session_id=request.session_id,
        messages=tuple(request.messages),
        compressed_summary=request.summary,
        tokens=check.tokens,
        threshold=check.threshold,
    )


async def _known(ports: WorkingPorts, scope: Scope, references: frozenset[str]) -> dict[str, OffloadInfo]:
    """Return those offloads that there are. A state may be loaded under another session: all of the scope count."""
    found: dict[str, OffloadInfo] = {}
    names = sorted(references)
    for start in range(0, len(names), _LISTED):
        some = tuple(names[start : start + _LISTED])
        page = await ports.store.list_offloads(scope, ListOffloads(references=some, limit=len(some)))
        found |= {info.reference: info for info in page.offloads}
    return found


async def _hold(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, prepared: PreparedContext, begun_at: datetime
) -> None:
    """Say what this session's context refers to, so that no clean-up takes it.

    That is what the context refers to now, and what it did before, since nobody knows yet whether the caller gets to
    use the new one; and the tool results of messages that the summary leads to.
    """
    messages = (*request.messages, *prepared.messages)
    texts = (request.summary, prepared.compressed_summary, *(message.full_text for message in messages))
    cited = cited_references(texts)
    known = await _known(ports, scope, cited)
    left = tuple(name for info in known.values() for name in info.message_ids)
    references = {*known, *[info.reference async for info in _results_of(ports, scope, left)]}
    await ports.store.hold_offloads(
        scope,
        HoldOffloads(
            session_id=request.session_id,
            references=frozenset(references),
            now=ports.clock.now(),
            keep_since=begun_at,
        ),
    )
    ports.held.remember(scope, request.session_id, cited | references)


async def _results_of(ports: WorkingPorts, scope: Scope, message_ids: tuple[str, ...]) -> AsyncIterator[OffloadInfo]:
    """Yield the tool results that were cut out of messages."""
    for start in range(0, len(message_ids), _LISTED):
        query = ListOffloads(message_ids=message_ids[start : start + _LISTED], limit=_LISTED)
        while True:
            page = await ports.store.list_offloads(scope, query)
            for info in page.offloads:
                yield info
            if page.next_cursor is None:
                break
            query = replace(query, cursor=page.next_cursor)
