"""Values: everything that crosses disk, network, a prompt or the public face."""

from reme_core.schema.blocks import EXTRACTIVE, Block, StoredMessage
from reme_core.schema.context import CompactedContext, ContextUse, OffloadedContext, PreparedContext
from reme_core.schema.hits import ChatReply, Erased, Hit, Layer, MemoryPage, RetrieveResult, SummaryResult, UndoResult
from reme_core.schema.ids import new_id
from reme_core.schema.jobs import Job, JobState
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
from reme_core.schema.offloads import (
    CleanedOffloads,
    Offload,
    OffloadInfo,
    OffloadKind,
    Reloaded,
    ReloadResult,
    new_reference,
)
from reme_core.schema.problems import describe, shown
from reme_core.schema.scope import Scope, make_scope
from reme_core.schema.times import UtcTime, format_time, parse_time, utc_now
from reme_core.schema.usage import Usage

__all__ = [
    "EXTRACTIVE",
    "STATEMENTS",
    "Block",
    "ChatReply",
    "CleanedOffloads",
    "CompactedContext",
    "ContentBlock",
    "ContextUse",
    "Erased",
    "Event",
    "EventKind",
    "FileBlock",
    "Hit",
    "ImageBlock",
    "Job",
    "JobState",
    "Layer",
    "Memory",
    "MemoryPage",
    "MemoryType",
    "Message",
    "Offload",
    "OffloadInfo",
    "OffloadKind",
    "OffloadedContext",
    "OtherBlock",
    "PreparedContext",
    "ReloadResult",
    "Reloaded",
    "RetrieveResult",
    "Role",
    "Scope",
    "Source",
    "StoredMessage",
    "SummaryResult",
    "TextBlock",
    "ToolCallBlock",
    "ToolResultBlock",
    "UndoResult",
    "Usage",
    "UtcTime",
    "describe",
    "format_time",
    "make_scope",
    "new_id",
    "new_reference",
    "parse_messages",
    "parse_time",
    "read_stored_message",
    "shown",
    "utc_now",
]
