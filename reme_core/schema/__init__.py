"""Values: everything that crosses disk, network, a prompt or the public face.

Names are loaded on first use: who needs messages alone, as the adapters do, pays for no other model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.schema.blocks import EXTRACTIVE, Block, StoredMessage
    from reme_core.schema.context import CompactedContext, ContextUse, OffloadedContext, PreparedContext
    from reme_core.schema.hits import (
        ChatReply,
        Erased,
        Hit,
        Layer,
        MemoryPage,
        RejectedFact,
        RetrieveResult,
        SummaryResult,
        UndoResult,
    )
    from reme_core.schema.ids import new_id
    from reme_core.schema.jobs import Job, JobState
    from reme_core.schema.library import DumpedLibrary, LineProblem, LoadedLibrary
    from reme_core.schema.memories import STATEMENTS, Event, EventKind, Memory, MemoryType, Source
    from reme_core.schema.messages import (
        ContentBlock,
        FileBlock,
        ImageBlock,
        Message,
        OtherBlock,
        Role,
        TextBlock,
        ToolCallBlock,
        ToolResultBlock,
        parse_messages,
        read_stored_message,
    )
    from reme_core.schema.notes import found_line, found_text
    from reme_core.schema.offloads import (
        CleanedOffloads,
        OffloadInfo,
        OffloadKind,
        OffloadRecord,
        Reloaded,
        ReloadResult,
        new_reference,
    )
    from reme_core.schema.problems import describe, shown
    from reme_core.schema.queries import QUERY_CHARS, bounded_query
    from reme_core.schema.scope import Scope, make_scope
    from reme_core.schema.times import (
        UTC_NAME,
        PartialTime,
        TimePrecision,
        UtcTime,
        format_time,
        last_part,
        parse_partial_time,
        parse_time,
        read_zone,
        shown_time,
        utc_now,
    )
    from reme_core.schema.tool_calls import (
        RecordedToolCalls,
        ToolCallResult,
        ToolError,
        ToolMemories,
        ToolMemory,
        ToolStatistics,
        ToolSummary,
        parse_tool_call_results,
        shown_input,
    )
    from reme_core.schema.trajectories import (
        Feedback,
        Forgotten,
        RejectedExperience,
        TaskMemories,
        TaskSummary,
        Trajectory,
        Verdict,
        parse_trajectories,
    )
    from reme_core.schema.usage import Usage
    from reme_core.schema.validity import shown_beginning, shown_end, shown_validity, with_validity

__all__ = [
    "EXTRACTIVE",
    "QUERY_CHARS",
    "STATEMENTS",
    "UTC_NAME",
    "Block",
    "ChatReply",
    "CleanedOffloads",
    "CompactedContext",
    "ContentBlock",
    "ContextUse",
    "DumpedLibrary",
    "Erased",
    "Event",
    "EventKind",
    "Feedback",
    "FileBlock",
    "Forgotten",
    "Hit",
    "ImageBlock",
    "Job",
    "JobState",
    "Layer",
    "LineProblem",
    "LoadedLibrary",
    "Memory",
    "MemoryPage",
    "MemoryType",
    "Message",
    "OffloadInfo",
    "OffloadKind",
    "OffloadRecord",
    "OffloadedContext",
    "OtherBlock",
    "PartialTime",
    "PreparedContext",
    "RecordedToolCalls",
    "RejectedExperience",
    "RejectedFact",
    "ReloadResult",
    "Reloaded",
    "RetrieveResult",
    "Role",
    "Scope",
    "Source",
    "StoredMessage",
    "SummaryResult",
    "TaskMemories",
    "TaskSummary",
    "TextBlock",
    "TimePrecision",
    "ToolCallBlock",
    "ToolCallResult",
    "ToolError",
    "ToolMemories",
    "ToolMemory",
    "ToolResultBlock",
    "ToolStatistics",
    "ToolSummary",
    "Trajectory",
    "UndoResult",
    "Usage",
    "UtcTime",
    "Verdict",
    "bounded_query",
    "describe",
    "format_time",
    "found_line",
    "found_text",
    "last_part",
    "make_scope",
    "new_id",
    "new_reference",
    "parse_messages",
    "parse_partial_time",
    "parse_time",
    "parse_tool_call_results",
    "parse_trajectories",
    "read_stored_message",
    "read_zone",
    "shown",
    "shown_beginning",
    "shown_end",
    "shown_input",
    "shown_time",
    "shown_validity",
    "utc_now",
    "with_validity",
]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__ = lazy_names(
        __name__,
        {
            "blocks": "EXTRACTIVE Block StoredMessage",
            "context": "CompactedContext ContextUse OffloadedContext PreparedContext",
            "notes": "found_line found_text",
            "hits": "ChatReply Erased Hit Layer MemoryPage RejectedFact RetrieveResult SummaryResult UndoResult",
            "ids": "new_id",
            "jobs": "Job JobState",
            "library": "DumpedLibrary LineProblem LoadedLibrary",
            "memories": "STATEMENTS Event EventKind Memory MemoryType Source",
            "messages": (
                "ContentBlock FileBlock ImageBlock Message OtherBlock Role TextBlock ToolCallBlock ToolResultBlock "
                "parse_messages read_stored_message"
            ),
            "offloads": "CleanedOffloads OffloadRecord OffloadInfo OffloadKind Reloaded ReloadResult new_reference",
            "problems": "describe shown",
            "queries": "QUERY_CHARS bounded_query",
            "scope": "Scope make_scope",
            "times": (
                "UTC_NAME PartialTime TimePrecision UtcTime format_time last_part parse_partial_time parse_time "
                "read_zone shown_time utc_now"
            ),
            "tool_calls": (
                "RecordedToolCalls ToolCallResult ToolError ToolMemories ToolMemory ToolStatistics ToolSummary "
                "parse_tool_call_results shown_input"
            ),
            "trajectories": (
                "Feedback Forgotten RejectedExperience TaskMemories TaskSummary Trajectory Verdict parse_trajectories"
            ),
            "usage": "Usage",
            "validity": "shown_beginning shown_end shown_validity with_validity",
        },
    )


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
