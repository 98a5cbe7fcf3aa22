"""Recording of the messages that leave a context: they are in the transcript first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from reme_core.ports import PutOffloads, SummaryRequest
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OffloadedContext,
    OffloadInfo,
    OffloadKind,
    OffloadRecord,
    Scope,
    StoredMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.schema.messages import ORIGINAL_ID, renamings
from reme_core.steps.message_lines import find_messages_by_id
from reme_core.text import is_cut_of, is_shorter_cut
from reme_core.working.late_results import tell_late_results, words_of
from reme_core.working.messages_to_keep import Asides
from reme_core.working.ports import WorkingPorts, off_loop
from reme_core.working.summary.sections import is_shown_summary
from reme_core.working.tool_results import cited_in, cited_references, known_rows, store_offloads


async def record(ports: WorkingPorts, scope: Scope, session_id: str, messages: Sequence[Message]) -> OffloadedContext:
    """Put messages on disk, in order, and what follows from them into the queue. Those there already stay as they are.

    A view whose whole is there already is not written again. A message whose id is taken by something else is kept
    under another id, always the same one: nothing that leaves a context may be lost, nor stop it from being compacted.
    A summary that was shown as a message is nobody's words, and kept elsewhere.

    Returns:
        The ids under which the messages lie, in their order; no reference.

    Raises:
        StoreError: Nothing was written.
    """
    said = await off_loop(lambda: [item for item in messages if not is_shown_summary(item)], len(messages))
    taken = await _place(ports, scope, session_id, said)
    under = [taken[message.message_id].message if message.message_id in taken else message for message in said]
    known = {place.message.message_id for place in taken.values() if place.stored is not None}
    fresh = [message for message in under if message.message_id not in known]
    job_ids: tuple[str, ...] = ()
    if fresh:
        request = SummaryRequest(session_id=session_id, messages=fresh, ends_session=False, background=True)
        job_ids = (await ports.keep(scope, request)).job_ids
    ids = tuple(message.message_id for message in under)
    return OffloadedContext(session_id=session_id, message_ids=ids, job_ids=job_ids)


async def offload_context(
    ports: WorkingPorts, scope: Scope, session_id: str, messages: Sequence[Message]
) -> OffloadedContext:
    """Put messages on disk as `record` does; the answer names what loads them again, if there were any.

    Raises:
        StoreError: Not all of it was written; do it again, and nothing is written twice.
    """
    recorded = await record(ports, scope, session_id, messages)
    if not recorded.message_ids:
        return recorded
    offload = OffloadRecord(
        session_id=session_id,
        kind=OffloadKind.MESSAGES,
        message_ids=recorded.message_ids,
        created_at=ports.clock.now(),
    )
    [reference] = await ports.store.put_offloads(scope, PutOffloads(offloads=[offload]))
    return recorded.model_copy(update={"reference": reference})


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeMessage:
    """The whole of which a message is a view: as it is stored, under the id it has in the context.

    `reference` loads it; None where nothing points at it.
    """

    message: Message
    reference: str | None


async def find_wholes(
    ports: WorkingPorts, scope: Scope, session_id: str, messages: Sequence[Message]
) -> dict[str, WholeMessage]:
    """Return the wholes of those messages that are views of what is stored, by the id that they have in the context."""
    views = [message for message in messages if cited_in(message)]
    found = {}
    taken = await _place(ports, scope, session_id, views)
    for view in views:
        item = taken.get(view.message_id)
        if item is None or item.stored is None or item.stored.content == view.content:
            continue
        whole = view.model_copy(update={"content": item.stored.content})
        found[view.message_id] = WholeMessage(message=whole, reference=item.pointer)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessageLocation:
    """Where a message lies, or would: under which id, what is there (itself, if equal), and what points at it."""

    message: Message
    stored: Message | None
    pointer: str | None


async def _place(
    ports: WorkingPorts, scope: Scope, session_id: str, messages: Sequence[Message]
) -> dict[str, _MessageLocation]:
    """Return where those messages lie, or would, whose ids are there already, by their ids."""
    found = await find_messages_by_id(ports.store, scope, [message.message_id for message in messages])
    cited = await off_loop(partial(_cited_where_they_differ, messages, found), len(found))
    rows = await known_rows(ports.store, scope, cited)
    placed, others = await off_loop(partial(_in_their_places, messages, found, session_id, rows), len(found))
    for message in others:
        placed[message.message_id] = await _renamed(ports, scope, session_id, message, rows)
    return placed


def _cited_where_they_differ(messages: Sequence[Message], found: Mapping[str, StoredMessage]) -> frozenset[str]:
    """Return what those messages cite that are not what is stored under their id."""
    there = (message for message in messages if message.message_id in found)
    differing = (message for message in there if not message.repeats(found[message.message_id].message))
    return frozenset[str]().union(*map(cited_in, differing))


def _in_their_places(
    messages: Sequence[Message],
    found: dict[str, StoredMessage],
    session_id: str,
    rows: Mapping[str, OffloadInfo],
) -> tuple[dict[str, _MessageLocation], list[Message]]:
    """Return the locations of those messages that lie under their own id, by this; and those whose id is taken.

    Empties `found`: to free fifty thousand messages takes long, which is not to be done on the event loop.
    """
    there = [message for message in messages if message.message_id in found]
    held = [message for message in there if _holds(found[message.message_id], session_id, message, rows)]
    placed = {message.message_id: _location(message, found[message.message_id], rows) for message in held}
    found.clear()
    return placed, [message for message in there if message.message_id not in placed]


async def _renamed(
    ports: WorkingPorts, scope: Scope, session_id: str, message: Message, rows: Mapping[str, OffloadInfo]
) -> _MessageLocation:
    """Return where a message lies, or would, whose id is taken by another one."""
    others = renamings(message, session_id)
    while True:
        candidate = next(others)
        name = candidate.message_id
        stored = (await find_messages_by_id(ports.store, scope, [name])).get(name)
        if stored is None or _holds(stored, session_id, candidate, rows):
            return _location(candidate, stored, rows)


def _location(message: Message, stored: StoredMessage | None, rows: Mapping[str, OffloadInfo]) -> _MessageLocation:
    if stored is None:
        return _MessageLocation(message=message, stored=None, pointer=None)
    whole = message if message.repeats(stored.message) else stored.message
    return _MessageLocation(message=message, stored=whole, pointer=_pointer(message, rows))


def _pointer(message: Message, rows: Mapping[str, OffloadInfo]) -> str | None:
    """Return the reference in a view that loads the whole message."""
    pointers = [name for name in sorted(cited_in(message)) if name in rows and _is_pointer(rows[name], message)]
    return pointers[0] if pointers else None


def _is_pointer(info: OffloadInfo, message: Message) -> bool:
    return info.kind is OffloadKind.MESSAGES and info.message_ids == (message.message_id,)


def _holds(stored: StoredMessage, session_id: str, message: Message, rows: Mapping[str, OffloadInfo]) -> bool:
    """Tell whether what is stored is this message, or the whole of which this is a view."""
    if stored.session_id != session_id:
        return False
    message, whole = message.apart()[0], stored.message.apart()[0]  # images of a context may hold their bytes
    if message.repeats(whole):
        return True
    # All but the content is the same; thinking and vendors' data may lack in a view, and nothing is new there.
    if not message.model_copy(update={"content": whole.content}).repeats(whole):
        return False
    others = [block for block in whole.content if block.type == "other"]
    if any(block not in others for block in message.content if block.type == "other"):
        return False
    view, blocks = _read_blocks(message), _read_blocks(whole)
    names = {name for name, info in rows.items() if _is_about(info, message)}
    if not blocks:
        return len(view) == 1 and view[0].type == "text" and view[0].text in {f"[… reload {name}]" for name in names}
    return len(view) == len(blocks) and all(_is_view(*pair, names) for pair in zip(view, blocks, strict=True))


def _is_about(info: OffloadInfo, message: Message) -> bool:
    original = message.metadata.get(ORIGINAL_ID, message.message_id)
    return _is_pointer(info, message) or info.message_id == original


def _read_blocks(message: Message) -> list[ContentBlock]:
    """Return what stays in a view, whatever is cut: all but thinking and vendors' data."""
    return [block for block in message.content if block.type != "other"]


def _is_view(view: ContentBlock, whole: ContentBlock, names: set[str]) -> bool:
    """Tell whether a block is another one cut, as `fit_messages` and `compact_tool_result` do it.

    A cut text says itself what it is a cut of. `names` are the references of what is kept of this message.
    """
    if view == whole:
        return True
    match view, whole:
        case TextBlock(), TextBlock():
            return any(is_cut_of(view.text, whole.text, name) for name in cited_references([view.text]))
        case TextBlock(), ToolResultBlock():
            return _is_told(view.text, whole)
        case TextBlock(), ImageBlock() | FileBlock():
            return any(view.text.endswith(f" reload {name}]") for name in names) and "\n" not in view.text
        case ToolResultBlock(), ToolResultBlock():
            same = view.model_copy(update={"output": whole.output}) == whole
            return same and any(
                is_cut_of(view.output, whole.output, name)
                or (name in names and is_shorter_cut(view.output, whole.output, name))
                for name in cited_references([view.output])
            )
        case ToolCallBlock(), ToolCallBlock():
            same = view.model_copy(update={"arguments": whole.arguments}) == whole
            cut = view.arguments if isinstance(view.arguments, dict) else {}
            return same and cut.keys() == {"shortened", "whole"} and cut["whole"] in {f"reload {n}" for n in names}
        case _:
            return False


def _is_told(text: str, result: ToolResultBlock) -> bool:
    """Tell whether a text is a late result told in words, whether the output was cut before, or the text after."""
    words = words_of(result)
    output = text.removeprefix(words)
    if output != text and output == result.output:
        return True
    names = cited_references([text])
    return any(
        is_cut_of(text, words + result.output, name) or (output != text and is_cut_of(output, result.output, name))
        for name in names
    )


def with_ids(messages: Sequence[Message], recorded: OffloadedContext) -> dict[str, str]:
    """Return under which id each message lies, by the id that it has in the context."""
    said = [message for message in messages if not is_shown_summary(message)]
    return {message.message_id: name for message, name in zip(said, recorded.message_ids, strict=True)}


async def tell_recorded(
    ports: WorkingPorts, scope: Scope, session_id: str, messages: Sequence[Message], summary: str, asides: Asides
) -> Sequence[Message]:
    """Tell late results in words; all up to the last of them is in the transcript before that, as it is."""
    told = tell_late_results(messages, summary)
    late = [place for place, message in enumerate(messages) if message is not told[place]]
    if late:
        said = [message for message in messages[: late[-1] + 1] if not asides.hold(message)]
        await record(ports, scope, session_id, said)
    return told


SUMMARY_NAME = "summary"
"""The name under which a summary that was replaced is offloaded."""


async def record_leaving(
    ports: WorkingPorts, scope: Scope, session_id: str, messages: Sequence[Message], summary: str
) -> dict[Literal["messages", "summary"], OffloadRecord]:
    """Put what leaves into the transcript, and return what points at it and keeps the summary that is replaced."""
    offloads: dict[Literal["messages", "summary"], OffloadRecord] = {}
    now = ports.clock.now()
    if messages:
        recorded = await record(ports, scope, session_id, messages)
        if recorded.message_ids:
            offloads["messages"] = await off_loop(
                partial(
                    OffloadRecord,
                    session_id=session_id,
                    kind=OffloadKind.MESSAGES,
                    message_ids=recorded.message_ids,
                    created_at=now,
                ),
                len(recorded.message_ids),
            )
    if summary.strip():
        offloads["summary"] = _summary_offload(ports, session_id, summary)
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
