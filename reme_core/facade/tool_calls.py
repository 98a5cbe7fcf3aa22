"""Tool memory on the facade: recorded calls, and what they teach."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reme_core.facade.parts import MemoryParts
from reme_core.schema import RecordedToolCalls, ToolMemories, ToolSummary
from reme_core.steps import user_input as inputs

if TYPE_CHECKING:
    from reme_core.ports import ToolCallPage, ToolPage


class ToolMethods:
    """The methods of `ReMe` on calls of tools."""

    async def add_tool_call_results(
        self: MemoryParts,
        tool_call_results: Sequence[object] = (),
        *,
        user_id: str,
        messages: Sequence[object] = (),
    ) -> RecordedToolCalls:
        """Record calls of tools; no model is asked.

        Args:
            tool_call_results: `ToolCallResult` objects or dictionaries of its fields. A `call_id` that is recorded
                already is not recorded again. Where `success` is left out (or None), the output tells it: one that
                looks like an error has failed.
            user_id: Whose.
            messages: A conversation: each tool call in it that has a result is recorded. Handing it in again records
                nothing more, where its messages bring their ids, whatever was done to their texts meanwhile.

        Raises:
            InvalidInputError: A call that can't be read, or was made more than a day from now, naming it; nothing was
                recorded.
            ConflictError: A `call_id` among the results that belongs to another call; nothing was recorded.
        """
        from reme_core.toolstats.record_calls import read_handed_in, record

        scope, store, now = self._scope(user_id), self._ports.store, self._clock.now()
        given, read = await asyncio.to_thread(read_handed_in, tool_call_results, messages, now)
        known = await record(store, scope, given, read.calls)
        calls = (*given, *read.calls)
        return RecordedToolCalls(
            call_ids=tuple(call.call_id for call in calls),
            known_call_ids=tuple(call.call_id for call in calls if call.call_id in known),
            tool_names=tuple(dict.fromkeys(call.tool_name for call in calls)),
            open_call_ids=read.open_call_ids,
            skipped_call_ids=read.skipped_call_ids,
        )

    async def summarize_tool_memory(
        self: MemoryParts, tool_names: str | Sequence[str], *, user_id: str, background: bool = False
    ) -> ToolSummary:
        """Have the model write guidelines for tools from their recorded calls; without one, say what they add up to.

        A tool of which nothing was recorded since its guideline was written is left as it is.

        Args:
            tool_names: A name or several, exact.
            user_id: Whose calls.
            background: Return at once; the guidelines follow.

        Raises:
            PartialFailureError: Some failed and are tried again later; `done` is the result so far.
        """
        await self._work.recover()
        names = inputs.read_names(tool_names, "tool_names")
        return await self._learning.guidelines(
            self._scope(user_id), names, background=inputs.read_flag(background, "background")
        )

    async def retrieve_tool_memory(self: MemoryParts, tool_names: str | Sequence[str], *, user_id: str) -> ToolMemories:
        """Return what is known of tools, by exact name: guideline, statistics, and errors and examples without one.

        Args:
            tool_names: A name or several; case counts, blanks at the ends don't.
            user_id: Whose.
        """
        from reme_core.toolstats.tool_lookup import retrieve_tool_memories

        names = inputs.read_names(tool_names, "tool_names")
        return await retrieve_tool_memories(self._ports.store, self._scope(user_id), names)

    async def list_tool_calls(
        self: MemoryParts,
        *,
        user_id: str,
        tool_name: str | None = None,
        success: bool | None = None,
        error: str | None = None,
        limit: int = 100,
        newest_first: bool = True,
        cursor: str | None = None,
    ) -> ToolCallPage:
        """Return a page of recorded calls.

        Args:
            user_id: Whose.
            tool_name: Of this tool.
            success: Those that succeeded, or those that failed.
            error: Failures of this kind, as the statistics name it.
            limit: At most this many.
            newest_first: By the time of the call.
            cursor: From the page before.

        Raises:
            InvalidInputError: Something can't be read, or a cursor that is not of this list.
        """
        from reme_core.ports import ListToolCalls

        query = ListToolCalls(
            tool_name=None if tool_name is None else inputs.read_name(tool_name, "tool_name"),
            success=None if success is None else inputs.read_flag(success, "success"),
            error=None if error is None else inputs.read_text(error, "error"),
            limit=inputs.read_count(limit, "limit"),
            cursor=cursor,
            newest_first=inputs.read_flag(newest_first, "newest_first"),
        )
        return await self._ports.store.list_tool_calls(self._scope(user_id), query)

    async def list_tools(self: MemoryParts, *, user_id: str, limit: int = 100, cursor: str | None = None) -> ToolPage:
        """Return a page of the tools that were called, by name, with the number of their recorded calls."""
        from reme_core.ports import ListTools

        query = ListTools(limit=inputs.read_count(limit, "limit"), cursor=cursor)
        return await self._ports.store.list_tools(self._scope(user_id), query)
