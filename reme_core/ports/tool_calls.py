"""The port of tool calls: recorded one by one, added up when asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from reme_core.schema import Scope, ToolCallResult, ToolStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedToolCalls:
    """What an addition did.

    Attributes:
        added: Ids of the calls that were recorded.
        known: Ids of those that were recorded already.
    """

    added: tuple[str, ...]
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListToolCalls:
    """Which calls of a scope; every condition holds at once, None means any.

    Attributes:
        tool_name: Of this tool, compared character by character.
        success: Those that succeeded, or those that failed.
        error: Failures of this kind, as `ToolError.error` names it.
        limit: At most this many, at least 1.
        cursor: From the page before, of the same query.
        newest_first: Latest `create_time` first, ties: recorded last first; otherwise the reverse.
    """

    tool_name: str | None = None
    success: bool | None = None
    error: str | None = None
    limit: int = 100
    cursor: str | None = None
    newest_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPage:
    """One page of calls; `next_cursor` is None on the last."""

    calls: tuple[ToolCallResult, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTools:
    """A page of the tools that were called: by name (code points). `cursor` comes from the page before."""

    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage:
    """One page of tools with the number of their calls; `next_cursor` is None on the last."""

    tools: tuple[tuple[str, int], ...]
    next_cursor: str | None = None


@runtime_checkable
class ToolCallStore(Protocol):
    """Tool calls of many scopes: added, never rewritten. Guarantees as `MemoryStore`."""

    async def add_tool_calls(self, scope: Scope, calls: Sequence[ToolCallResult]) -> AddedToolCalls:
        """Record calls, all or none. Recording the same call again changes nothing.

        A call whose `create_time` was left out (it is not in `model_fields_set`) is the same whenever it was made.

        Raises:
            ConflictError: An id of this scope that belongs to a call with other content.
        """
        ...

    async def get_tool_calls(self, scope: Scope, call_ids: Sequence[str]) -> list[ToolCallResult]:
        """Return calls by id, in the order asked.

        Raises:
            ToolCallNotFoundError: Naming every id that this scope doesn't hold.
        """
        ...

    async def tool_statistics(self, scope: Scope, tool_names: Sequence[str]) -> list[ToolStatistics]:
        """Add up the calls of each tool, in the order asked; one without calls has zero of them."""
        ...

    async def list_tool_calls(self, scope: Scope, query: ListToolCalls) -> ToolCallPage:
        """Return one page of calls (InvalidInputError: a cursor that is not one of ours)."""
        ...

    async def list_tools(self, scope: Scope, query: ListTools) -> ToolPage:
        """Return one page of the tools that were called (InvalidInputError: a cursor that is not one of ours)."""
        ...
