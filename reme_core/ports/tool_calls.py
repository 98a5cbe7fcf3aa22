"""The port of tool calls: recorded one by one, added up when asked."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.schema import ToolCallResult


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
