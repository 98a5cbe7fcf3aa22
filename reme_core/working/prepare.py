"""Preparation of a context before a model call: long results cut, old messages summarised, all of it on disk first."""

from __future__ import annotations

import operator
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from reme_core.errors import ContextTooLongError
from reme_core.ports import HoldOffloads
from reme_core.schema import Message, OffloadRecord, PreparedContext, Scope, Usage
from reme_core.steps.costs import CostBook
from reme_core.steps.message_lines import find_messages_by_id
from reme_core.steps.web_results import mark_web
from reme_core.text import Language
from reme_core.working.fit import FittedContext, fit_messages
from reme_core.working.late_results import tell_late_results
from reme_core.working.messages_to_keep import ROOM, Asides, ContextCheck, ContextLimits, check_context
from reme_core.working.ports import WorkingPorts, off_loop
from reme_core.working.record import find_wholes, record, record_leaving, tell_recorded, with_ids
from reme_core.working.summary.compact import Compacted, compact_memory
from reme_core.working.summary.summary_fit import CompactRequest
from reme_core.working.tool_results import (
    cited_at_a_glance,
    cited_references,
    compact_tool_result,
    has_over,
    known_offloads,
    known_rows,
    renamed,
    rows_of_messages,
    store_offloads,
)

# What stays is cut to this share of the threshold if it takes more than `ROOM`.
_CUT_TO = 0.75
# Of the texts of a context that is cut: so many take as long as one message that is looked at.
_CHARS_AN_ITEM = 400
# After cutting old tool results alone, this share of the threshold may be taken: a context that is nearly full again
# would be cut at every turn, and its prefix would never be the same.
_ENOUGH = 0.5


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
        asides: Messages that nobody has said.
        extracts: Where the model fails, the summary quotes what leaves; False: the messages stay, and `problems` says
            why.
    """

    session_id: str
    messages: Sequence[Message]
    summary: str = ""
    system_prompt: str = ""
    overhead_tokens: int = 0
    limits: ContextLimits = field(default_factory=ContextLimits)
    language: Language | None = None
    asides: Asides = field(default_factory=Asides)
    extracts: bool = True


BeforeChange: TypeAlias = Callable[[Sequence[Message]], Awaitable[None]]


async def pre_reasoning_hook(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, *, before: BeforeChange | None = None
) -> PreparedContext:
    """Return the context as it is while it fits, and otherwise one that does.

    A tool result is cut when it is first seen, if it is very long, and told in words, if its call has left. Once the
    threshold is passed, older results are cut further; then the oldest messages leave for a summary; what must stay is
    cut last. Everything that is cut or leaves is on disk before this returns; if this raises, nothing has changed for
    the caller, and what was written is found again and not written twice. A long context is looked through in a thread.

    Args:
        ports: What it stands on.
        scope: Whose context it is.
        request: The context.
        before: Awaited before anything is written or changed: first with no messages, then with those that leave.

    Raises:
        ContextTooLongError: System prompt and tools leave no room.
        StoreError: Something couldn't be written.
    """
    begun, begun_at = time.perf_counter(), ports.clock.now()
    found = await off_loop(partial(_look_through, ports, request), len(request.messages))
    _check_room(found.check)
    if found.check.is_over or found.is_untidy:
        if before is not None:
            await before(())
        request = replace(request, messages=await _with_stored_times(ports, scope, request.messages))
        prepared = await _shortened(ports, scope, request, before)
    else:
        prepared = _unsummarised(request, found.check)
    changed = _differ(request.messages, prepared.messages) or request.summary != prepared.compressed_summary
    if changed or not ports.held.holds(scope, request.session_id, found.cited):
        await _hold(ports, scope, request, prepared, begun_at)
    spent = (time.perf_counter() - begun) * 1000
    usage = prepared.usage.model_copy(update={"milliseconds": spent})
    return prepared.model_copy(update={"has_changed": changed, "usage": usage})


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundContext:
    """State of a context: how full, whether a result is too long or has no call, and the references it cites."""

    check: ContextCheck
    is_untidy: bool
    cited: frozenset[str]


def _look_through(ports: WorkingPorts, request: ContextRequest) -> _FoundContext:
    longest = request.limits.recent_bytes
    return _FoundContext(
        check=_check(ports, request),
        is_untidy=any(has_over(message, longest) for message in request.messages)
        or _differ(request.messages, tell_late_results(request.messages, request.summary)),
        cited=cited_references([request.summary]).union(*map(cited_at_a_glance, request.messages)),
    )


async def _with_stored_times(ports: WorkingPorts, scope: Scope, messages: Sequence[Message]) -> Sequence[Message]:
    """Give messages that came without a time the one under which they are in the transcript."""
    untimed = [message.message_id for message in messages if "created_at" not in message.model_fields_set]
    stored = await find_messages_by_id(ports.store, scope, untimed)

    def timed(message: Message) -> Message:
        found = stored.get(message.message_id)
        if found is None or found.message.created_at == message.created_at:
            return message
        view = message.model_copy(update={"created_at": found.message.created_at})
        view.model_fields_set.discard("created_at")  # it is still not its sender's
        return view

    return await off_loop(lambda: list(map(timed, messages)), len(messages)) if stored else messages


async def _shortened(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, before: BeforeChange | None
) -> PreparedContext:
    cut, references = await _cut_results(ports, scope, request, old=False)
    told = await tell_recorded(ports, scope, request.session_id, cut.messages, request.summary, request.asides)
    arrived = replace(cut, messages=told)
    check = await _checked(ports, arrived)
    prepared = await _compact(ports, scope, arrived, before) if check.is_over else _unsummarised(arrived, check)
    return prepared.model_copy(update={"references": (*references, *prepared.references)})


async def _compact(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, before: BeforeChange | None
) -> PreparedContext:
    cut, references = await _cut_results(ports, scope, request, old=True)
    check = await _checked(ports, cut)
    if check.tokens <= _ENOUGH * check.threshold:
        prepared = _unsummarised(cut, check)
    else:
        prepared = await _summarise(ports, scope, cut, before)
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


async def _summarise(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, before: BeforeChange | None
) -> PreparedContext:
    """Move the oldest messages into the summary, and cut what stays if even so it is too much."""
    check = await _checked(ports, request, force=True)
    if before is not None and check.to_compact:
        await before(check.to_compact)
    said = [message for message in check.to_compact if not request.asides.hold(message)]
    compacted, offloaded = None, list[str]()
    if said or ports.ledger.count_text(request.summary) > request.limits.summary_room(check.taken):
        compacted, offloaded = await compact_messages(
            ports, scope, request, said, kept=check.to_keep, taken=check.taken
        )
    problems = () if compacted is None else tuple(str(failure) for failure in compacted.failures)
    usage = Usage() if compacted is None else compacted.usage
    if problems and not request.extracts:
        return _unsummarised(request, check).model_copy(update={"problems": problems, "usage": usage})
    summary = request.summary if compacted is None else compacted.summary
    told = await tell_recorded(ports, scope, request.session_id, check.to_keep, summary, request.asides)
    left = replace(request, messages=told, summary=summary)
    kept, cut = await _fitted(ports, scope, left)
    final = await _checked(ports, replace(left, messages=kept))
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
        problems=problems,
        usage=usage,
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
    offloads = await record_leaving(ports, scope, request.session_id, messages, request.summary)
    stored = await store_offloads(ports.store, scope, list(offloads.values()))
    names = {what: stored[offload.reference] for what, offload in offloads.items()}
    cited = await off_loop(partial(_cited, [request.summary], messages), len(messages))
    compacted = await compact_memory(
        CompactRequest(
            messages=mark_web(messages, ports.web_tools),
            previous_summary=request.summary,
            kept=kept,
            reference=names.get("messages"),
            references=frozenset(await known_rows(ports.store, scope, cited)),
            earlier=names.get("summary"),
            limit_tokens=request.limits.summary_room(taken),
            window_tokens=request.limits.max_input_length,
            language=request.language,
        ),
        model=ports.model,
        counter=ports.ledger.counter,
    )
    await CostBook(ports.store, ports.clock).add(scope, "compaction", compacted.usage)
    return compacted, list(names.values())


async def _fitted(ports: WorkingPorts, scope: Scope, request: ContextRequest) -> tuple[tuple[Message, ...], list[str]]:
    """Cut what stays, if it leaves next to no room beside system prompt and summary.

    Once something has to be cut, it is cut to leave some room: else the next message would be one too many again.
    """
    check = await _checked(ports, request)
    if check.tokens <= ROOM * check.threshold:
        return tuple(request.messages), []
    said = [message for message in request.messages if not request.asides.hold(message)]
    fixed = check.tokens - ports.ledger.count_messages(said)
    _check_room(check, fixed=fixed)
    wholes = await find_wholes(ports, scope, request.session_id, said)
    whole = [wholes[item.message_id].message if item.message_id in wholes else item for item in said]
    messages = tell_late_results(whole, request.summary)
    known = await known_offloads(ports.store, scope, request.session_id, messages, over_bytes=0)
    pointers = {name: whole.reference for name, whole in wholes.items() if whole.reference is not None}
    chars = sum(len(message.full_text) for message in messages)

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
        return await off_loop(cut, chars // _CHARS_AN_ITEM)

    try:
        fitted = await fit(_CUT_TO)
    except ContextTooLongError:
        if check.tokens <= check.threshold:
            return tuple(request.messages), []
        fitted = await fit(1.0)
    offloads = await _pointing(ports, scope, request.session_id, messages, fitted)
    stored = await store_offloads(ports.store, scope, offloads)
    views = {message.message_id: message for message in renamed(fitted.messages, stored)}
    return tuple(views.get(message.message_id, message) for message in request.messages), list(stored.values())


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


async def _checked(ports: WorkingPorts, request: ContextRequest, *, force: bool = False) -> ContextCheck:
    return await off_loop(partial(_check, ports, request, force=force), len(request.messages))


def _check(ports: WorkingPorts, request: ContextRequest, *, force: bool = False) -> ContextCheck:
    return check_context(
        request.messages,
        limits=request.limits,
        ledger=ports.ledger,
        system_prompt=request.system_prompt,
        summary=request.summary,
        overhead_tokens=request.overhead_tokens,
        asides=request.asides,
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


async def _hold(
    ports: WorkingPorts, scope: Scope, request: ContextRequest, prepared: PreparedContext, begun_at: datetime
) -> None:
    """Say what this session's context refers to, so that no clean-up takes it.

    That is what the context refers to now, and what it did before, since nobody knows yet whether the caller gets to
    use the new one; and the tool results of messages that the summary leads to.
    """
    messages = (*request.messages, *prepared.messages)
    summaries = (request.summary, prepared.compressed_summary)
    cited = await off_loop(partial(_cited, summaries, messages), len(messages))
    known = await known_rows(ports.store, scope, cited)
    left = tuple(name for info in known.values() for name in info.message_ids)
    references = {*known, *(info.reference for info in await rows_of_messages(ports.store, scope, left))}
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


def _cited(summaries: Iterable[str], messages: Iterable[Message]) -> frozenset[str]:
    return cited_references((*summaries, *(message.full_text for message in messages)))
