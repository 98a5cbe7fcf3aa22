"""Tool results in a context: long ones are cut, the whole of each being a row of the store under its reference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from reme_core.errors import OffloadNotFoundError
from reme_core.ports import ListOffloads, PutOffloads, Store
from reme_core.schema import Message, OffloadInfo, OffloadKind, OffloadRecord, Scope, ToolResultBlock
from reme_core.steps.load_offloaded import all_offloads
from reme_core.steps.message_lines import pieces_of
from reme_core.text import cut_middle, is_cut_of
from reme_core.working.messages_to_keep import ContextLimits
from reme_core.working.ports import off_loop

_HINT = re.compile(r"\breload ([0-9a-f]{16})\b")
# A hint as views and summaries write it. In a quotation the words around a reference stay, but for our own form.
_QUOTED_HINT = re.compile(
    r"\s*[(（\[]?\bdetails: reload (?P<ours>[0-9a-f]{16})\b[)）\]]?|\breload (?P<bare>[0-9a-f]{16})\b"
)
# The same with whatever name for a reference, and a reference that stands alone.
_NAMED_HINT = re.compile(
    r"\s*[(（\[]?\b(?:details: reload (?P<name>[^\s)）\]]+)|reload (?P<bare>[0-9a-f]{16})\b)[)）\]]?", re.IGNORECASE
)
_REFERENCE = re.compile(r"(?<![\w/-])[0-9a-f]{16}(?![\w/-])", re.IGNORECASE)
_MARKS = "`'\"<>.,;"
# What a long line is cut between: words, each with the blanks before it; a hint is one of them.
_WHOLE = r"[(（]?(?:details: )?reload [0-9a-f]{16}[)）]?"
_UNIT = re.compile(rf"\s*(?:{_WHOLE}|(?:(?!{_WHOLE})\S)+)")
# More than a hint has.
_HINT_CHARS = 64
_SENTENCE_ENDS = (".", "!", "?", ";", "。", "！", "？", "；")


def cited_references(texts: Iterable[str]) -> frozenset[str]:
    """Return what stands in texts in the form of a reference. Whether there is such an offload, only a store knows."""
    return frozenset(found for text in texts for found in _HINT.findall(text))


def cited_in(message: Message) -> frozenset[str]:
    """Return what stands in a message in the form of a reference; see `cited_references`."""
    return cited_references([message.full_text])


def cited_at_a_glance(message: Message) -> frozenset[str]:
    """Return the same as `cited_in`; most messages cite nothing, which is told without putting their text together."""
    for block in message.content:
        match block.type:
            case "text":
                cites = "reload " in block.text
            case "tool_result":
                cites = "reload " in block.output
            case "tool_call":
                cites = "whole" in block.arguments
            case _:
                continue
        if cites:
            return cited_in(message)
    return frozenset()


def drop_references(text: str, allowed: frozenset[str]) -> str:
    """Return a text without hints ("details: reload …") at references that aren't allowed.

    Nothing else goes: of "reload 0123456789abcdef" without "details:" before it only the reference does, for "…".
    """

    def kept(match: re.Match[str]) -> str:
        if (match["ours"] or match["bare"]) in allowed:
            return match[0]
        return "reload …" if match["bare"] else ""

    return _QUOTED_HINT.sub(kept, text)


def drop_unknown_references(line: str, allowed: frozenset[str], given: Sequence[str]) -> str:
    """Return a line of a model without hints and references that aren't allowed.

    What has the form of a reference and stands in a text that was given may mean something else: it stays.
    """

    def hinted(match: re.Match[str]) -> str:
        return match[0] if (match["name"] or match["bare"]).strip(_MARKS) in allowed else ""

    def known(match: re.Match[str]) -> str:
        return match[0] if match[0] in allowed or any(match[0] in text for text in given) else "…"

    return _REFERENCE.sub(known, _NAMED_HINT.sub(hinted, line)).strip()


def split_line(line: str, most_chars: int) -> list[str]:
    """Cut a long line into several, between sentences where it can be; never within a hint, and nothing is left out."""
    pieces, rest = list[str](), line
    while len(rest) > most_chars:
        end = _place_to_cut(rest[: most_chars + _HINT_CHARS], most_chars)
        pieces.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [piece for piece in (*pieces, rest) if piece]


def _place_to_cut(text: str, most_chars: int) -> int:
    """Return where a text is cut, at `most_chars` or before."""
    end = sentence_end = 0
    for unit in _UNIT.finditer(text):
        if unit.end() > most_chars:
            break
        end = unit.end()
        sentence_end = end if unit[0].endswith(_SENTENCE_ENDS) else sentence_end
    return (sentence_end if sentence_end > most_chars // 2 else end) or most_chars


async def store_offloads(store: Store, scope: Scope, items: Sequence[OffloadRecord]) -> dict[str, str]:
    """Keep offloads for a context that is about to refer to them.

    Returns:
        For the reference of each item the one that the store has for it: another one if it was there already.
    """
    if not items:
        return {}
    stored = await store.put_offloads(scope, PutOffloads(offloads=items, hold=True))
    return dict(zip((item.reference for item in items), stored, strict=True))


def renamed(messages: Sequence[Message], names: Mapping[str, str]) -> tuple[Message, ...]:
    """Write the store's references into views in place of those that they were made with."""
    changes = {new: stored for new, stored in names.items() if new != stored}
    if not changes:
        return tuple(messages)
    return tuple(_renamed(message, changes) for message in messages)


def _renamed(message: Message, changes: Mapping[str, str]) -> Message:
    body = message.model_dump_json(include={"content"})
    if not any(new in body for new in changes):
        return message
    for new, stored in changes.items():
        body = body.replace(new, stored)
    content = Message.model_validate({**message.model_dump(), **json.loads(body)}).content
    return message.model_copy(update={"content": content})


Place: TypeAlias = tuple[str, int]
"""Where a tool result stands: the id of its message, and the index of the content block."""

_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultPlan:
    """What cutting comes to.

    Attributes:
        messages: All of them in order; those that don't change are the same objects.
        offloads: The whole texts of what is cut for the first time, to be stored before the messages are used.
    """

    messages: tuple[Message, ...]
    offloads: tuple[OffloadRecord, ...] = ()


async def known_offloads(
    store: Store, scope: Scope, session_id: str, messages: Sequence[Message], *, over_bytes: int
) -> dict[Place, OffloadRecord]:
    """Return the rows of tool results of more than `over_bytes` bytes that are stored already, by where they stand now.

    A row belongs to a result of its message that is the row's text or a cut of it; where it stood in the message when
    it was stored doesn't matter, since a view may lack parts before it. A cut names its row, of whichever session: a
    context may be loaded under another one. Where there is no such result nothing is asked, otherwise one page of rows
    (of up to 1,000), and the text of each that may be it.
    """
    long = [message for message in messages if has_over(message, over_bytes)]
    outputs = {place: block.output for place, block in _results(long) if _is_over(block.output, over_bytes)}
    cited = {place: cited_references([output]) for place, output in outputs.items()}
    by_message: dict[str, list[Place]] = {}
    for place in outputs:
        by_message.setdefault(place[0], []).append(place)
    found: dict[Place, OffloadRecord] = {}
    for info in await rows_of_messages(store, scope, tuple(by_message)):
        places = [
            place
            for place in by_message.get(info.message_id or "", ())
            if place not in found
            and (
                info.reference in cited[place] or (info.session_id == session_id and info.chars == len(outputs[place]))
            )
        ]
        if not places or info.kind is not OffloadKind.TOOL_RESULT:
            continue
        try:
            row = await store.get_offload(scope, info.reference)
        except OffloadNotFoundError:  # cleaned up since it was listed: what stands there is then all there is
            continue
        found |= {place: row for place in places if is_of(row, outputs[place])}
    return found


def plan_tool_results(
    messages: Sequence[Message],
    *,
    limits: ContextLimits,
    session_id: str,
    known: Mapping[Place, OffloadRecord],
    now: datetime,
    old: bool,
) -> ToolResultPlan:
    """Cut tool results that are too long.

    Those above `limits.recent_bytes` are cut to that; with `old`, those in all but the newest `limits.recent_n`
    messages with tool results to `limits.old_bytes`. What is a cut of its known row is cut from the row's text, under
    the same reference; any other text is taken as it is, whatever it says of itself.

    Args:
        messages: A context, in order.
        limits: How long they may be.
        session_id: The session whose context it is.
        known: What `known_offloads` has found.
        now: The time that new offloads bear.
        old: Cut older results further.
    """
    least = limits.old_bytes if old else limits.recent_bytes
    # Most contexts have none, and this is asked before each call of a model.
    long = [place for place, message in enumerate(messages) if has_over(message, least)]
    if not long:
        return ToolResultPlan(messages=tuple(messages))
    recent = frozenset(_newest_results(messages, limits.recent_n)) if old else frozenset[int]()
    names: dict[str, str] = {}
    read = 0
    planned = list(messages)
    made: list[OffloadRecord] = []
    for place in long:
        for message in messages[read : place + 1]:
            names.update((block.call_id, block.name) for block in message.content if block.type == "tool_call")
        message, read = messages[place], place + 1
        limit = limits.old_bytes if old and place not in recent else limits.recent_bytes
        views: dict[int, ToolResultBlock] = {}
        for (_, index), block in _results([message]):
            if not _is_over(block.output, limit):
                continue
            row = _row_of(message, block, known.get((message.message_id, index)))
            if row is None:
                row = OffloadRecord(
                    session_id=session_id,
                    kind=OffloadKind.TOOL_RESULT,
                    text=block.output,
                    name=block.name or names.get(block.call_id),
                    message_id=message.message_id,
                    place=index,
                    created_at=now,
                    said_at=message.created_at,
                )
            view = cut_middle(row.text, limit, reference=row.reference)
            if view == block.output:
                continue
            views[index] = block.model_copy(update={"output": view})
            if row is not known.get((message.message_id, index)):
                made.append(row)
        planned[place] = _with_views(message, views)
    return ToolResultPlan(messages=tuple(planned), offloads=tuple(made))


async def compact_tool_result(
    messages: Sequence[Message],
    *,
    store: Store,
    scope: Scope,
    session_id: str,
    limits: ContextLimits,
    now: datetime,
    old: bool = True,
) -> ToolResultPlan:
    """Cut tool results as `plan_tool_results` says; what is cut is stored first, and held for the session.

    The references in the answer are those of the store. Doing it again changes nothing.

    Raises:
        StoreError: Nothing is to be cut: what could not be stored would be lost.
    """
    limit = limits.old_bytes if old else limits.recent_bytes
    if not await off_loop(lambda: any(has_over(message, limit) for message in messages), len(messages)):
        return ToolResultPlan(messages=tuple(messages))
    known = await known_offloads(store, scope, session_id, messages, over_bytes=limit)
    plan = plan_tool_results(messages, limits=limits, session_id=session_id, known=known, now=now, old=old)
    if not plan.offloads:
        return plan
    names = await store_offloads(store, scope, plan.offloads)
    return ToolResultPlan(
        messages=renamed(plan.messages, names),
        offloads=tuple(item.model_copy(update={"reference": names[item.reference]}) for item in plan.offloads),
    )


def has_over(message: Message, limit_bytes: int) -> bool:
    """Tell whether a tool result in a message has more bytes than a limit."""
    for block in message.content:  # noqa: SIM110  # a generator for each message takes twice as long
        if block.type == "tool_result" and _is_over(block.output, limit_bytes):
            return True
    return False


def _newest_results(messages: Sequence[Message], count: int) -> Iterator[int]:
    """Yield the places of the newest messages with tool results."""
    for place in range(len(messages) - 1, -1, -1):
        if count <= 0:
            return
        if messages[place].result_ids:
            count -= 1
            yield place


def _results(messages: Sequence[Message]) -> Iterator[tuple[Place, ToolResultBlock]]:
    for message in messages:
        for index, block in enumerate(message.content):
            if block.type == "tool_result":
                yield (message.message_id, index), block


def _is_over(text: str, limit_bytes: int) -> bool:
    """Tell whether a text has more bytes than the limit; most are told by their length."""
    if len(text) > limit_bytes or len(text) * 4 <= limit_bytes:
        return len(text) > limit_bytes
    return len(text.encode()) > limit_bytes


async def rows_of_messages(store: Store, scope: Scope, message_ids: Sequence[str]) -> list[OffloadInfo]:
    """Return what is offloaded of the tool results in messages, newest first."""
    rows: list[OffloadInfo] = []
    for piece in pieces_of(message_ids):
        query = ListOffloads(message_ids=tuple(piece), limit=_PAGE, newest_first=True)
        rows += await all_offloads(store, scope, query)
    return rows


async def known_rows(store: Store, scope: Scope, references: Iterable[str]) -> dict[str, OffloadInfo]:
    """Return those offloads that there are. A state may be loaded under another session: all of the scope count."""
    found: dict[str, OffloadInfo] = {}
    for piece in pieces_of(sorted(references)):
        page = await store.list_offloads(scope, ListOffloads(references=tuple(piece), limit=len(piece)))
        found |= {info.reference: info for info in page.offloads}
    return found


def is_of(row: OffloadRecord, output: str) -> bool:
    """Tell whether an output is the text of a row, or a cut of it."""
    return row.text == output or is_cut_of(output, row.text, row.reference)


def _row_of(message: Message, block: ToolResultBlock, row: OffloadRecord | None) -> OffloadRecord | None:
    """Return the row if it is that of this result."""
    return row if row is not None and row.message_id == message.message_id and is_of(row, block.output) else None


def _with_views(message: Message, views: Mapping[int, ToolResultBlock]) -> Message:
    if not views:
        return message
    content = tuple(views.get(index, block) for index, block in enumerate(message.content))
    return message.model_copy(update={"content": content})
