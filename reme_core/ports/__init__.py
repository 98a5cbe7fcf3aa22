"""Protocols and their request types: what reme calls and others may supply.

Names are loaded on first use: who supplies a chat model doesn't pay for the arrays of a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.ports.chat_model import (
        ChatModel,
        ChatRequest,
        ChatResult,
        ResponseSchema,
        StreamingChatModel,
        ToolSpec,
    )
    from reme_core.ports.embedder import Clock, Embedder, EmbedsQueries, NamedEmbedder, TokenCounter
    from reme_core.ports.items import (
        FilterOperator,
        GetItems,
        IndexedBy,
        Item,
        ItemAddress,
        ItemCondition,
        ItemNamespaces,
        ItemRecord,
        ItemStore,
        ItemValue,
        ListItemNamespaces,
        Namespace,
        PutItem,
        RecordPlace,
        SearchItems,
        WriteItems,
    )
    from reme_core.ports.jobs import ClaimJob, JobQueue, SettleJob, SettlesWrites
    from reme_core.ports.memory_store import (
        Countable,
        Counts,
        CountsUses,
        DeleteMemory,
        EventQuery,
        ListMemories,
        Matrix,
        MemoryFilter,
        MemorySearch,
        MemoryStore,
        PutMemory,
        Scalar,
        ScoredMemory,
        Uselessness,
        UseMemory,
        Vector,
        WriteBatch,
    )
    from reme_core.ports.offloads import (
        CleanOffloads,
        HoldOffloads,
        ListOffloads,
        OffloadPage,
        OffloadSearch,
        OffloadStore,
        PutOffloads,
        ScoredOffload,
    )
    from reme_core.ports.pipelines import Retriever, RetrieveRequest, Summarizer, SummaryRequest
    from reme_core.ports.tool_calls import (
        AddedToolCalls,
        ListToolCalls,
        ListTools,
        ToolCallPage,
        ToolCallStore,
        ToolPage,
    )
    from reme_core.ports.tools import (
        AgentResult,
        AgentTask,
        ListsTargets,
        MemoryAgent,
        MetaMemory,
        RunTrace,
        Target,
        Tool,
        ToolContext,
    )
    from reme_core.ports.transcript import (
        WAITING,
        Appended,
        AppendMessages,
        BlockPage,
        BlockSummary,
        FillsVectors,
        FindMessages,
        IndexedTranscript,
        ListBlocks,
        MessagePage,
        MessageSearch,
        MessageVector,
        OnConflict,
        PendingText,
        Planner,
        ScoredBlock,
        ScoredMessage,
        Slicer,
        Transcript,
        TranscriptIndex,
    )

__all__ = [
    "WAITING",
    "AddedToolCalls",
    "AgentResult",
    "AgentTask",
    "AppendMessages",
    "Appended",
    "BlockPage",
    "BlockSummary",
    "ChatModel",
    "ChatRequest",
    "ChatResult",
    "ClaimJob",
    "CleanOffloads",
    "Clock",
    "Countable",
    "Counts",
    "CountsUses",
    "DeleteMemory",
    "Embedder",
    "EmbedsQueries",
    "EventQuery",
    "FillsVectors",
    "FilterOperator",
    "FindMessages",
    "GetItems",
    "HoldOffloads",
    "IndexedBy",
    "IndexedTranscript",
    "Item",
    "ItemAddress",
    "ItemCondition",
    "ItemNamespaces",
    "ItemRecord",
    "ItemStore",
    "ItemValue",
    "JobQueue",
    "ListBlocks",
    "ListItemNamespaces",
    "ListMemories",
    "ListOffloads",
    "ListToolCalls",
    "ListTools",
    "ListsTargets",
    "Matrix",
    "MemoryAgent",
    "MemoryFilter",
    "MemorySearch",
    "MemoryStore",
    "MessagePage",
    "MessageSearch",
    "MessageVector",
    "MetaMemory",
    "NamedEmbedder",
    "Namespace",
    "OffloadPage",
    "OffloadSearch",
    "OffloadStore",
    "OnConflict",
    "PendingText",
    "Planner",
    "PutItem",
    "PutMemory",
    "PutOffloads",
    "RecordPlace",
    "ResponseSchema",
    "RetrieveRequest",
    "Retriever",
    "RunTrace",
    "Scalar",
    "ScoredBlock",
    "ScoredMemory",
    "ScoredMessage",
    "ScoredOffload",
    "SearchItems",
    "SettleJob",
    "SettlesWrites",
    "Slicer",
    "StreamingChatModel",
    "Summarizer",
    "SummaryRequest",
    "Target",
    "TokenCounter",
    "Tool",
    "ToolCallPage",
    "ToolCallStore",
    "ToolContext",
    "ToolPage",
    "ToolSpec",
    "Transcript",
    "TranscriptIndex",
    "UseMemory",
    "Uselessness",
    "Vector",
    "WriteBatch",
    "WriteItems",
]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__ = lazy_names(
        __name__,
        {
            "chat_model": "ChatModel ChatRequest ChatResult ResponseSchema StreamingChatModel ToolSpec",
            "embedder": "Clock Embedder EmbedsQueries NamedEmbedder TokenCounter",
            "items": (
                "FilterOperator GetItems IndexedBy Item ItemAddress ItemCondition ItemNamespaces ItemRecord "
                "ItemStore ItemValue ListItemNamespaces Namespace PutItem RecordPlace SearchItems WriteItems"
            ),
            "jobs": "ClaimJob JobQueue SettleJob SettlesWrites",
            "memory_store": (
                "Countable Counts CountsUses DeleteMemory EventQuery ListMemories Matrix MemoryFilter MemorySearch "
                "MemoryStore PutMemory Scalar ScoredMemory Uselessness UseMemory Vector WriteBatch"
            ),
            "offloads": (
                "CleanOffloads HoldOffloads ListOffloads OffloadPage OffloadSearch OffloadStore PutOffloads "
                "ScoredOffload"
            ),
            "pipelines": "Retriever RetrieveRequest Summarizer SummaryRequest",
            "tool_calls": "AddedToolCalls ListToolCalls ListTools ToolCallPage ToolCallStore ToolPage",
            "tools": "AgentResult AgentTask ListsTargets MemoryAgent MetaMemory RunTrace Target Tool ToolContext",
            "transcript": (
                "WAITING Appended AppendMessages BlockPage BlockSummary FillsVectors FindMessages IndexedTranscript "
                "ListBlocks MessagePage MessageSearch MessageVector OnConflict PendingText Planner ScoredBlock "
                "ScoredMessage Slicer Transcript TranscriptIndex"
            ),
        },
    )


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
