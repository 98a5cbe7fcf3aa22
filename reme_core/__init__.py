"""reme: durable, scoped memory for agents.

```python
from reme_core import ReMe

async with ReMe(memory_space="remy") as memory:
    await memory.summary(messages, user_id="Alice")
    found = await memory.retrieve("What does Alice like?", user_id="Alice")
```

Names are loaded on first use: importing this package loads no library, opens no file and asks no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.background_loop import EventLoopThread
    from reme_core.errors import ReMeError
    from reme_core.facade.reme import ReMe
    from reme_core.facade.strategies import (
        AgenticRetriever,
        AgenticSummarizer,
        RerankingRetriever,
        SimpleSummarizer,
    )
    from reme_core.facade.sync import SyncInContextMemory, SyncReMe
    from reme_core.files import FileMemory
    from reme_core.jobs.retry_policy import RetryPolicy, holder, is_gone
    from reme_core.models.defaults import CharacterTokenCounter
    from reme_core.models.foreign_calls import (
        CallOptions,
        SpokenAnswer,
        SpokenCall,
        checked_choice,
        foreign_chat,
        function_schema,
        sent_messages,
    )
    from reme_core.models.foreign_failures import model_error, unit_rows
    from reme_core.ports import Counts, ToolCallPage, ToolPage
    from reme_core.schema import (
        Block,
        ChatReply,
        CleanedOffloads,
        CompactedContext,
        ContextUse,
        Cost,
        DumpedLibrary,
        Erased,
        Event,
        Feedback,
        Forgotten,
        Hit,
        Job,
        JobState,
        LineProblem,
        LoadedLibrary,
        Memory,
        MemoryPage,
        MemoryType,
        Message,
        OffloadedContext,
        OffloadInfo,
        OffloadKind,
        PreparedContext,
        RecordedToolCalls,
        RejectedExperience,
        RejectedFact,
        Reloaded,
        ReloadResult,
        RetrieveResult,
        Scope,
        Source,
        StoredMessage,
        SummaryResult,
        TaskMemories,
        TaskSummary,
        ToolCallResult,
        ToolError,
        ToolMemories,
        ToolMemory,
        ToolStatistics,
        ToolSummary,
        Trajectory,
        TransferCounts,
        UndoResult,
        Usage,
        Verdict,
    )
    from reme_core.steps.slicing import Slicing
    from reme_core.stores import Database, IndexedStore, LocalStore, QdrantIndex
    from reme_core.working.in_context import InContextMemory
    from reme_core.working.messages_to_keep import ContextCheck, ContextLimits

__version__ = "0.1.0"


__all__ = [
    "AgenticRetriever",
    "AgenticSummarizer",
    "Block",
    "CallOptions",
    "CharacterTokenCounter",
    "ChatReply",
    "CleanedOffloads",
    "CompactedContext",
    "ContextCheck",
    "ContextLimits",
    "ContextUse",
    "Cost",
    "Counts",
    "Database",
    "DumpedLibrary",
    "Erased",
    "Event",
    "EventLoopThread",
    "Feedback",
    "FileMemory",
    "Forgotten",
    "Hit",
    "InContextMemory",
    "IndexedStore",
    "Job",
    "JobState",
    "LineProblem",
    "LoadedLibrary",
    "LocalStore",
    "Memory",
    "MemoryPage",
    "MemoryType",
    "Message",
    "OffloadInfo",
    "OffloadKind",
    "OffloadedContext",
    "PreparedContext",
    "QdrantIndex",
    "ReMe",
    "ReMeError",
    "RecordedToolCalls",
    "RejectedExperience",
    "RejectedFact",
    "ReloadResult",
    "Reloaded",
    "RerankingRetriever",
    "RetrieveResult",
    "RetryPolicy",
    "Scope",
    "SimpleSummarizer",
    "Slicing",
    "Source",
    "SpokenAnswer",
    "SpokenCall",
    "StoredMessage",
    "SummaryResult",
    "SyncInContextMemory",
    "SyncReMe",
    "TaskMemories",
    "TaskSummary",
    "ToolCallPage",
    "ToolCallResult",
    "ToolError",
    "ToolMemories",
    "ToolMemory",
    "ToolPage",
    "ToolStatistics",
    "ToolSummary",
    "Trajectory",
    "TransferCounts",
    "UndoResult",
    "Usage",
    "Verdict",
    "__version__",
    "checked_choice",
    "foreign_chat",
    "function_schema",
    "holder",
    "is_gone",
    "model_error",
    "sent_messages",
    "unit_rows",
]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "background_loop": "EventLoopThread",
            "errors": "ReMeError",
            "facade.reme": "ReMe",
            "facade.strategies": "AgenticRetriever AgenticSummarizer RerankingRetriever SimpleSummarizer",
            "facade.sync": "SyncInContextMemory SyncReMe",
            "files": "FileMemory",
            "jobs.retry_policy": "RetryPolicy holder is_gone",
            "models.defaults": "CharacterTokenCounter",
            "models.foreign_failures": "model_error unit_rows",
            "models.foreign_calls": (
                "CallOptions SpokenAnswer SpokenCall checked_choice foreign_chat function_schema sent_messages"
            ),
            "ports": "Counts ToolCallPage ToolPage",
            "schema": (
                "Block ChatReply CleanedOffloads CompactedContext ContextUse Cost DumpedLibrary Erased Event Feedback "
                "Forgotten Hit Job JobState LineProblem LoadedLibrary Memory MemoryPage MemoryType Message "
                "OffloadedContext OffloadInfo OffloadKind PreparedContext RecordedToolCalls RejectedExperience "
                "RejectedFact Reloaded ReloadResult RetrieveResult Scope Source StoredMessage SummaryResult "
                "TaskMemories TaskSummary ToolCallResult ToolError ToolMemories ToolMemory ToolStatistics "
                "ToolSummary Trajectory TransferCounts UndoResult Usage Verdict"
            ),
            "steps.slicing": "Slicing",
            "stores": "Database IndexedStore LocalStore QdrantIndex",
            "working.messages_to_keep": "ContextCheck ContextLimits",
            "working.in_context": "InContextMemory",
        },
    )
