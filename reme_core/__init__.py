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

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reme_core.background_loop import EventLoopThread
    from reme_core.errors import ReMeError
    from reme_core.facade.reme import ReMe
    from reme_core.facade.strategies import (
        AgenticDistillation,
        AgenticRetriever,
        RerankingRetriever,
        SimpleDistillation,
    )
    from reme_core.facade.sync import SyncReMe
    from reme_core.facade.sync_context import SyncInContextMemory
    from reme_core.jobs.process_identity import holder, is_gone
    from reme_core.jobs.retry_policy import RetryPolicy
    from reme_core.models.foreign_failures import model_error
    from reme_core.models.json_text import parse_answer
    from reme_core.models.openai.embedding_answer import unit_rows
    from reme_core.models.openai.endpoint_dialect import json_instruction
    from reme_core.ports import Counts, ToolCallPage, ToolPage
    from reme_core.schema import (
        Block,
        ChatReply,
        CleanedOffloads,
        CompactedContext,
        ContextUse,
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
        UndoResult,
        Usage,
        Verdict,
    )
    from reme_core.steps.slicing import Slicing
    from reme_core.stores import Database, IndexedStore, LocalStore, QdrantIndex
    from reme_core.transfer.scope_export import TransferCounts
    from reme_core.working.check import ContextCheck
    from reme_core.working.in_context import InContextMemory
    from reme_core.working.limits import ContextLimits

__version__ = "0.1.0"

__all__ = [
    "AgenticDistillation",
    "AgenticRetriever",
    "Block",
    "ChatReply",
    "CleanedOffloads",
    "CompactedContext",
    "ContextCheck",
    "ContextLimits",
    "ContextUse",
    "Counts",
    "Database",
    "DumpedLibrary",
    "Erased",
    "Event",
    "EventLoopThread",
    "Feedback",
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
    "SimpleDistillation",
    "Slicing",
    "Source",
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
    "holder",
    "is_gone",
    "json_instruction",
    "model_error",
    "parse_answer",
    "unit_rows",
]

_ELSEWHERE = MappingProxyType(
    {
        "AgenticRetriever": "reme_core.facade.strategies",
        "AgenticDistillation": "reme_core.facade.strategies",
        "EventLoopThread": "reme_core.background_loop",
        "ContextCheck": "reme_core.working.check",
        "ContextLimits": "reme_core.working.limits",
        "Counts": "reme_core.ports",
        "ToolCallPage": "reme_core.ports",
        "ToolPage": "reme_core.ports",
        "Database": "reme_core.stores",
        "InContextMemory": "reme_core.working.in_context",
        "LocalStore": "reme_core.stores",
        "TransferCounts": "reme_core.transfer.scope_export",
        "QdrantIndex": "reme_core.stores",
        "IndexedStore": "reme_core.stores",
        "ReMe": "reme_core.facade.reme",
        "ReMeError": "reme_core.errors",
        "RerankingRetriever": "reme_core.facade.strategies",
        "SimpleDistillation": "reme_core.facade.strategies",
        "Slicing": "reme_core.steps.slicing",
        "SyncInContextMemory": "reme_core.facade.sync_context",
        "SyncReMe": "reme_core.facade.sync",
        "RetryPolicy": "reme_core.jobs.retry_policy",
        "json_instruction": "reme_core.models.openai.endpoint_dialect",
        "model_error": "reme_core.models.foreign_failures",
        "unit_rows": "reme_core.models.openai.embedding_answer",
        "parse_answer": "reme_core.models.json_text",
        "holder": "reme_core.jobs.process_identity",
        "is_gone": "reme_core.jobs.process_identity",
    }
)


def __getattr__(name: str) -> object:
    """Load a public name on first use (AttributeError, MissingExtraError)."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_ELSEWHERE.get(name, "reme_core.schema")), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
