"""Methods of the facade about working memory: the context of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol, cast, get_args

from reme_core.errors import InvalidInputError
from reme_core.ports import CleanOffloads, HoldOffloads, ListOffloads
from reme_core.schema import (
    CleanedOffloads,
    CompactedContext,
    Message,
    OffloadedContext,
    OffloadInfo,
    OffloadKind,
    OffloadRecord,
    PreparedContext,
    ReloadResult,
    Scope,
    new_id,
    parse_messages,
    shown,
)
from reme_core.steps import user_input as inputs
from reme_core.steps.load_offloaded import ReloadRequest, reload_context
from reme_core.text import Language
from reme_core.working.check import ContextCheck, check_context
from reme_core.working.in_context import InContextMemory
from reme_core.working.limits import ContextLimits
from reme_core.working.ports import WorkingPorts
from reme_core.working.prepare import ContextRequest, compact_messages, offload_summary, pre_reasoning_hook
from reme_core.working.record import offload_context
from reme_core.working.references import store_offloads
from reme_core.working.summary.shown_summary import is_shown_summary, shown_text
from reme_core.working.tool_results import compact_tool_result

RETENTION_DAYS = 3
"""Tool results older than this are cleaned up when asked to. Source: design.md, section 6."""

IDLE_DAYS = 30
"""A session whose context was not compacted for so long counts as closed."""

# Reading a message from a dictionary takes some 20 microseconds.
_MANY = 500
# A hundred years: what lies further back no clock has written.
_MOST_DAYS = 36_500


class WorkingMemoryHost(Protocol):
    """What the facade has besides, and this part of it uses."""

    def _scope(self, user_id: object) -> Scope: ...

    def _working_ports(self) -> WorkingPorts: ...

    async def _recover(self) -> None: ...


class WorkingMemoryMethods:
    """Working memory on the facade: check, compact, offload and reload the context of a session.

    Limits: either `max_input_length`, the model's window in tokens, with everything else by default, or `limits`.
    """

    async def check_context(
        self: WorkingMemoryHost,
        messages: Sequence[object],
        *,
        system_prompt: str = "",
        compressed_summary: str = "",
        overhead_tokens: int = 0,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
    ) -> ContextCheck:
        """Count a context, and say what would leave it. Nothing is written, nothing changes.

        Args:
            messages: In order, in the forms that `summary` takes.
            system_prompt: What is sent before.
            compressed_summary: The summary of what left before.
            overhead_tokens: What else is sent: the tools' schemas, say.
            max_input_length: The model's window, in tokens.
            limits: Instead: all the numbers.

        Raises:
            InvalidInputError: A message or number that can't be used, naming it.
        """
        ports = self._working_ports()
        # Nothing is written, so ids may stand twice: to look for that takes longer than the check of a known context.
        is_read = isinstance(messages, (list, tuple)) and set(map(type, messages)) == {Message}
        return check_context(
            cast("Sequence[Message]", messages) if is_read else await _read_messages(messages, ports),
            limits=_limits(max_input_length, limits),
            ledger=ports.ledger,
            system_prompt=inputs.read_text(system_prompt, "system_prompt"),
            summary=inputs.read_text(compressed_summary, "compressed_summary"),
            overhead_tokens=_overhead(overhead_tokens),
        )

    async def pre_reasoning_hook(
        self: WorkingMemoryHost,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str,
        system_prompt: str = "",
        compressed_summary: str = "",
        overhead_tokens: int = 0,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
        language: Language | None = None,
    ) -> PreparedContext:
        """Bring a context below its limit before a model is asked; what fits comes back as it was.

        Long tool results are cut, the oldest messages leave for a summary, what must stay is cut last. What is cut or
        leaves is on disk first, under a reference that `reload_context` and the `reload` tool take; memories are made
        of what left in the background.

        Args:
            messages: In order, in the forms that `summary` takes. Hand in again what the last call answered, and what
                came since: messages are known by their ids, and one without gets a new id each time it is handed in.
            user_id: Whose they are.
            session_id: The session.
            system_prompt: What is sent before; counted only.
            compressed_summary: The summary that the last call answered.
            overhead_tokens: What else is sent: the tools' schemas, say.
            max_input_length: The model's window, in tokens.
            limits: Instead: all the numbers.
            language: Of the summariser's prompt, `en` or `zh`; None follows the conversation.

        Raises:
            InvalidInputError: A message or number that can't be used, naming it.
            ContextTooLongError: System prompt and tools leave no room.
            StoreError: Something couldn't be written; hand in the same again later.
        """
        ports, scope = self._working_ports(), self._scope(user_id)
        read, shown_before = await _read_context(messages, ports)
        request = ContextRequest(
            session_id=inputs.read_id(session_id, "session_id"),
            messages=read,
            summary=inputs.read_text(compressed_summary, "compressed_summary") or shown_before,
            system_prompt=inputs.read_text(system_prompt, "system_prompt"),
            overhead_tokens=_overhead(overhead_tokens),
            limits=_limits(max_input_length, limits),
            language=_language(language),
        )
        await self._recover()
        return await pre_reasoning_hook(ports, scope, request)

    async def compact_tool_result(
        self: WorkingMemoryHost,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
    ) -> list[Message]:
        """Cut tool results: the newest to `recent_max_bytes`, older ones to `old_max_bytes`.

        Each keeps head and tail, and between them the reference that loads the whole, which is on disk first.
        """
        ports, scope = self._working_ports(), self._scope(user_id)
        read, chosen = await _read_messages(messages, ports), _limits(max_input_length, limits)
        session = inputs.read_id(session_id, "session_id")
        await self._recover()
        plan = await compact_tool_result(
            read,
            store=ports.store,
            scope=scope,
            session_id=session,
            limits=chosen,
            now=ports.clock.now(),
            old=True,
        )
        return list(plan.messages)

    async def compact_memory(
        self: WorkingMemoryHost,
        messages: Sequence[object],
        *,
        user_id: str,
        session_id: str,
        previous_summary: str = "",
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
        language: Language | None = None,
    ) -> CompactedContext:
        """Summarise messages together with the summary so far; they are on disk first.

        With a chat model it writes the summary, from all of the text; without one, or where its answers can't be used,
        the summary is an extract of what was said.

        Raises:
            InvalidInputError: A message or number that can't be used, naming it.
            StoreError: Something couldn't be written; nothing was summarised.
        """
        ports, scope = self._working_ports(), self._scope(user_id)
        request = ContextRequest(
            session_id=inputs.read_id(session_id, "session_id"),
            messages=await _read_messages(messages, ports),
            summary=inputs.read_text(previous_summary, "previous_summary"),
            limits=_limits(max_input_length, limits),
            language=_language(language),
        )
        await self._recover()
        compacted, names = await compact_messages(ports, scope, request, request.messages, kept=())
        return CompactedContext(
            session_id=request.session_id,
            compressed_summary=compacted.summary,
            reference=names[0] if request.messages else None,
            method=compacted.method,
            problems=tuple(str(failure) for failure in compacted.failures),
            usage=compacted.usage,
        )

    async def offload_context(
        self: WorkingMemoryHost, messages: Sequence[object], *, user_id: str, session_id: str | None = None
    ) -> OffloadedContext:
        """Put messages on disk that are to leave a context; the answer names what loads them again.

        Args:
            messages: In order, in the forms that `summary` takes. Memories are made of them in the background.
            user_id: Whose they are.
            session_id: The session; by default a new one.

        Raises:
            InvalidInputError: A message that can't be read, naming it; nothing was kept.
            StoreError: Nothing was kept.
        """
        ports, scope = self._working_ports(), self._scope(user_id)
        read, shown_before = await _read_context(messages, ports)
        session = new_id() if session_id is None else inputs.read_id(session_id, "session_id")
        await self._recover()
        await offload_summary(ports, scope, session, shown_before)
        return await offload_context(ports, scope, session, read)

    async def offload_text(
        self: WorkingMemoryHost, text: str, *, user_id: str, session_id: str, name: str | None = None
    ) -> OffloadInfo:
        """Put a text on disk, such as a tool's output before it becomes a message; the same again is kept once.

        It is held, so that no clean-up takes it, until the session's context is compacted without it, or
        `close_context`.

        Raises:
            InvalidInputError: The text is empty or can't be kept as it is.
        """
        ports, scope = self._working_ports(), self._scope(user_id)
        whole = inputs.read_text(text, "text")
        if not whole:
            msg = "text: is empty, there is nothing to offload"
            raise InvalidInputError(msg)
        offload = OffloadRecord(
            session_id=inputs.read_id(session_id, "session_id"),
            kind=OffloadKind.TOOL_RESULT,
            text=whole,
            name=None if name is None else inputs.read_query(name, "name"),
            created_at=ports.clock.now(),
        )
        await self._recover()
        [reference] = (await store_offloads(ports.store, scope, [offload])).values()
        return offload.info.model_copy(update={"reference": reference})

    async def reload_context(
        self: WorkingMemoryHost,
        *,
        user_id: str,
        reference: str | None = None,
        query: str | None = None,
        session_id: str | None = None,
        start_line: int | None = None,
        end_line: int | None = None,
        offset: int | None = None,
        limit_chars: int = 4000,
        limit: int = 5,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
    ) -> ReloadResult:
        """Load again what left a context: by reference, by search, or by time.

        Args:
            user_id: Whose it is.
            reference: What was offloaded: whole, or the piece that lines, offset or query choose.
            query: Words to search for: within the reference, or in everything that was offloaded or said.
            session_id: Only of this session.
            start_line: The first line of the piece, from 1.
            end_line: The last line of the piece.
            offset: Where the piece begins, in characters; `next_offset` of the last answer goes on.
            limit_chars: At most so many characters of each piece.
            limit: At most so many results of a search, or of a time.
            start_time: Said or offloaded at this time or later; without a query, what was, in the order of time.
            end_time: Said or offloaded before this time.

        Raises:
            OffloadNotFoundError: No such reference in this scope or session, or it was cleaned up.
            InvalidInputError: Options that don't go together, naming them.
        """
        ports, scope = self._working_ports(), self._scope(user_id)
        request = ReloadRequest(
            reference=None if reference is None else inputs.read_id(reference, "reference"),
            query=None if query is None else inputs.read_query(query),
            session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
            start_line=start_line,
            end_line=end_line,
            offset=offset,
            limit_chars=inputs.read_count(limit_chars, "limit_chars"),
            limit=inputs.read_count(limit, "limit"),
            said_from=inputs.read_time(start_time, "start_time"),
            said_to=inputs.read_time(end_time, "end_time"),
        )
        await self._recover()
        return await reload_context(ports.store, scope, request)

    async def list_offloads(
        self: WorkingMemoryHost,
        *,
        user_id: str,
        session_id: str | None = None,
        limit: int = 100,
        newest_first: bool = False,
        cursor: str | None = None,
    ) -> tuple[Sequence[OffloadInfo], str | None]:
        """Return a page of what was offloaded, oldest first unless told otherwise, and the cursor of the next one."""
        page = await self._working_ports().store.list_offloads(
            self._scope(user_id),
            ListOffloads(
                session_id=None if session_id is None else inputs.read_id(session_id, "session_id"),
                limit=inputs.read_count(limit, "limit"),
                newest_first=inputs.read_flag(newest_first, "newest_first"),
                cursor=cursor,
            ),
        )
        return page.offloads, page.next_cursor

    async def clean_offloads(
        self: WorkingMemoryHost,
        *,
        user_id: str,
        older_than_days: float | None = RETENTION_DAYS,
        max_bytes: int | None = None,
        idle_days: float = IDLE_DAYS,
        dry_run: bool = False,
    ) -> CleanedOffloads:
        """Remove the texts of old offloads for good; messages stay. Nothing is removed unless this is called.

        What the context of an open session refers to stays, and is listed as `held`. Words of removed texts may stay in
        the file's search index until it is merged; `delete_all_memories` clears everything.

        Args:
            user_id: Whose.
            older_than_days: Texts older than this go; None: age doesn't matter.
            max_bytes: Beyond this many bytes of text, the oldest go, whatever their age; None: no bound.
            idle_days: A session whose context was not compacted for so long counts as closed.
            dry_run: Only say what would go.
        """
        ports, scope = self._working_ports(), self._scope(user_id)
        now = ports.clock.now()
        clean = CleanOffloads(
            older_than=None if older_than_days is None else now - _days(older_than_days, "older_than_days"),
            max_bytes=None if max_bytes is None else _whole(max_bytes, "max_bytes"),
            idle_since=now - _days(idle_days, "idle_days"),
            dry_run=inputs.read_flag(dry_run, "dry_run"),
        )
        return await ports.store.clean_offloads(scope, clean)

    async def close_context(self: WorkingMemoryHost, session_id: str, *, user_id: str) -> None:
        """Say that a session's context is no more: clean-ups may take what it referred to."""
        ports, scope = self._working_ports(), self._scope(user_id)
        session = inputs.read_id(session_id, "session_id")
        ports.held.forget(scope, session)
        await ports.store.hold_offloads(
            scope, HoldOffloads(session_id=session, references=frozenset(), now=ports.clock.now())
        )

    def in_context_memory(
        self: WorkingMemoryHost,
        *,
        user_id: str,
        session_id: str | None = None,
        system_prompt: str = "",
        overhead_tokens: int = 0,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
        language: Language | None = None,
        unrecorded_marks: Iterable[str] = (),
    ) -> InContextMemory:
        """Return an object that holds the context of one session: messages with marks, and the summary.

        Args:
            user_id: Whose session it is.
            session_id: The session; by default a new one.
            system_prompt: What is sent before; counted only.
            overhead_tokens: What else is sent: the tools' schemas, say.
            max_input_length: The model's window, in tokens.
            limits: Instead: all the numbers.
            language: Of the summariser's prompt, `en` or `zh`; None follows the conversation.
            unrecorded_marks: Messages with one of these marks stay in a compaction, and are not written to the
                transcript when they are taken out.
        """
        return InContextMemory(
            ports=self._working_ports(),
            scope=self._scope(user_id),
            session_id=new_id() if session_id is None else inputs.read_id(session_id, "session_id"),
            limits=_limits(max_input_length, limits),
            system_prompt=inputs.read_text(system_prompt, "system_prompt"),
            overhead_tokens=_overhead(overhead_tokens),
            language=_language(language),
            unrecorded_marks=unrecorded_marks,
        )


async def _read_messages(messages: Sequence[object], ports: WorkingPorts) -> Sequence[Message]:
    """Read messages, without a summary that is shown as one of them."""
    read, _ = await _read_context(messages, ports)
    return read


async def _read_context(messages: Sequence[object], ports: WorkingPorts) -> tuple[Sequence[Message], str]:
    """Read messages, away from the event loop where they are many, and the summary that is shown as one of them."""
    now = ports.clock.now()
    read = partial(parse_messages, messages, now=lambda: now)
    is_long = isinstance(messages, (list, tuple)) and len(messages) > _MANY and set(map(type, messages)) != {Message}
    parsed = await asyncio.to_thread(read) if is_long else read()
    summaries = [text for message in parsed if (text := shown_text(message)) is not None]
    said = [message for message in parsed if not is_shown_summary(message)]
    return said, summaries[-1] if summaries else ""


def _limits(max_input_length: int | None, limits: object) -> ContextLimits:
    if limits is None:
        return ContextLimits() if max_input_length is None else ContextLimits(max_input_length=max_input_length)
    if not isinstance(limits, ContextLimits):
        msg = f"limits: wanted ContextLimits, found {shown(limits)}"
        raise InvalidInputError(msg)
    return limits if max_input_length is None else replace(limits, max_input_length=max_input_length)


def _language(language: object) -> Language | None:
    if language is None:
        return None
    for known in get_args(Language):
        if language == known:
            return cast("Language", known)
    msg = f"language: wanted 'en', 'zh' or None, found {shown(language)}"
    raise InvalidInputError(msg)


def _overhead(value: object) -> int:
    return _whole(value, "overhead_tokens")


def _whole(value: object, name: str) -> int:
    if type(value) is int and value >= 0:
        return value
    msg = f"{name}: wanted a whole number of at least 0, found {value!r}"
    raise InvalidInputError(msg)


def _days(value: object, name: str) -> timedelta:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST_DAYS:
        return timedelta(days=value)
    msg = f"{name}: wanted a number of days from 0 to {_MOST_DAYS:,}, found {value!r}"
    raise InvalidInputError(msg)
