"""Methods of the facade about working memory: the context of a session."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from reme_core.errors import InvalidInputError, PartialFailureError
from reme_core.facade.parts import MemoryParts
from reme_core.schema import (
    CompactedContext,
    Message,
    OffloadedContext,
    OffloadInfo,
    OffloadKind,
    OffloadRecord,
    PreparedContext,
    ReloadResult,
    Scope,
    SummaryResult,
    new_id,
)
from reme_core.steps import user_input as inputs

if TYPE_CHECKING:
    from reme_core.ports import SummaryRequest
    from reme_core.text import Language
    from reme_core.working.in_context import InContextMemory
    from reme_core.working.messages_to_keep import ContextCheck, ContextLimits

_LOG = logging.getLogger("reme")


class WorkingMemoryMethods:
    """Working memory on the facade: check, compact, offload and reload the context of a session.

    Limits: either `max_input_length`, the model's window in tokens, with everything else by default, or `limits`.
    """

    async def check_context(
        self: MemoryParts,
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
        from reme_core.working.messages_to_keep import check_context
        from reme_core.working.ports import read_limits, read_messages, read_overhead

        ports = self._working_ports()
        # Nothing is written, so ids may stand twice: to look for that takes longer than the check of a known context.
        is_read = isinstance(messages, (list, tuple)) and set(map(type, messages)) == {Message}
        return check_context(
            cast("Sequence[Message]", messages) if is_read else await read_messages(messages, ports),
            limits=read_limits(max_input_length, limits),
            ledger=ports.ledger,
            system_prompt=inputs.read_text(system_prompt, "system_prompt"),
            summary=inputs.read_text(compressed_summary, "compressed_summary"),
            overhead_tokens=read_overhead(overhead_tokens),
        )

    async def pre_reasoning_hook(
        self: MemoryParts,
        messages: Sequence[object],
        *,
        user_id: str | None = None,
        shared: bool = False,
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
            shared: The shared scope of the space, in place of a user.
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
        from reme_core.working.ports import read_context, read_language, read_limits, read_overhead
        from reme_core.working.prepare import ContextRequest, pre_reasoning_hook

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
        read, shown_before = await read_context(messages, ports)
        request = ContextRequest(
            session_id=inputs.read_id(session_id, "session_id"),
            messages=read,
            summary=inputs.read_text(compressed_summary, "compressed_summary") or shown_before,
            system_prompt=inputs.read_text(system_prompt, "system_prompt"),
            overhead_tokens=read_overhead(overhead_tokens),
            limits=read_limits(max_input_length, limits),
            language=read_language(language),
        )
        await self._work.recover()
        return await pre_reasoning_hook(ports, scope, request)

    async def compact_tool_result(
        self: MemoryParts,
        messages: Sequence[object],
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str,
        max_input_length: int | None = None,
        limits: ContextLimits | None = None,
    ) -> list[Message]:
        """Cut tool results: the newest to `recent_max_bytes`, older ones to `old_max_bytes`.

        Each keeps head and tail, and between them the reference that loads the whole, which is on disk first.
        """
        from reme_core.working.ports import read_limits, read_messages
        from reme_core.working.tool_results import compact_tool_result

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
        read, chosen = await read_messages(messages, ports), read_limits(max_input_length, limits)
        session = inputs.read_id(session_id, "session_id")
        await self._work.recover()
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
        self: MemoryParts,
        messages: Sequence[object],
        *,
        user_id: str | None = None,
        shared: bool = False,
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
        from reme_core.working.ports import read_language, read_limits, read_messages
        from reme_core.working.prepare import ContextRequest, compact_messages

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
        request = ContextRequest(
            session_id=inputs.read_id(session_id, "session_id"),
            messages=await read_messages(messages, ports),
            summary=inputs.read_text(previous_summary, "previous_summary"),
            limits=read_limits(max_input_length, limits),
            language=read_language(language),
        )
        await self._work.recover()
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
        self: MemoryParts,
        messages: Sequence[object],
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str | None = None,
    ) -> OffloadedContext:
        """Put messages on disk that are to leave a context; the answer names what loads them again.

        Args:
            messages: In order, in the forms that `summary` takes. Memories are made of them in the background.
            user_id: Whose they are.
            shared: The shared scope of the space, in place of a user.
            session_id: The session; by default a new one.

        Raises:
            InvalidInputError: A message that can't be read, naming it; nothing was kept.
            StoreError: Nothing was kept.
        """
        from reme_core.working.ports import read_context
        from reme_core.working.record import offload_context, offload_summary

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
        read, shown_before = await read_context(messages, ports)
        session = new_id() if session_id is None else inputs.read_id(session_id, "session_id")
        await self._work.recover()
        await offload_summary(ports, scope, session, shown_before)
        return await offload_context(ports, scope, session, read)

    async def offload_text(
        self: MemoryParts,
        text: str,
        *,
        user_id: str | None = None,
        shared: bool = False,
        session_id: str,
        name: str | None = None,
    ) -> OffloadInfo:
        """Put a text on disk, such as a tool's output before it becomes a message; the same again is kept once.

        It is held, so that no clean-up takes it, until the session's context is compacted without it, or
        `close_context`.

        Raises:
            InvalidInputError: The text is empty or can't be kept as it is.
        """
        from reme_core.working.tool_results import store_offloads

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
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
        await self._work.recover()
        [reference] = (await store_offloads(ports.store, scope, [offload])).values()
        return offload.info.model_copy(update={"reference": reference})

    async def reload_context(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
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
            shared: The shared scope of the space, in place of a user.
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
        from reme_core.steps.load_offloaded import ReloadRequest, reload_context

        ports, scope = self._working_ports(), self._scope(user_id, shared=shared)
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
        await self._work.recover()
        return await reload_context(ports.store, scope, request)

    def in_context_memory(
        self: MemoryParts,
        *,
        user_id: str | None = None,
        shared: bool = False,
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
            shared: The shared scope of the space, in place of a user.
            session_id: The session; by default a new one.
            system_prompt: What is sent before; counted only.
            overhead_tokens: What else is sent: the tools' schemas, say.
            max_input_length: The model's window, in tokens.
            limits: Instead: all the numbers.
            language: Of the summariser's prompt, `en` or `zh`; None follows the conversation.
            unrecorded_marks: Messages with one of these marks stay in a compaction, and are not written to the
                transcript when they are taken out.
        """
        from reme_core.working.in_context import InContextMemory
        from reme_core.working.ports import read_language, read_limits, read_overhead

        return InContextMemory(
            ports=self._working_ports(),
            scope=self._scope(user_id, shared=shared),
            session_id=new_id() if session_id is None else inputs.read_id(session_id, "session_id"),
            limits=read_limits(max_input_length, limits),
            system_prompt=inputs.read_text(system_prompt, "system_prompt"),
            overhead_tokens=read_overhead(overhead_tokens),
            language=read_language(language),
            unrecorded_marks=unrecorded_marks,
        )

    async def _keep(self: MemoryParts, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Take over messages that leave a context; what follows from them goes on in the background."""
        try:
            result = await self._summarizer.summarize(scope, request)
        except PartialFailureError as exc:
            if not isinstance(exc.done, SummaryResult):
                raise
            _LOG.warning("messages that left a context are kept; what follows from them failed: %s", exc)
            result = exc.done
        self._work.start(scope)
        return result
