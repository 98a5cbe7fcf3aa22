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
        ItemValue,
        ListItemNamespaces,
        Namespace,
        PutItem,
        RecordPlace,
        SearchItems,
        WriteItems,
    )
    from reme_core.ports.jobs import ClaimJob, SettleJob
    from reme_core.ports.memory_index import (
        ChangesQuery,
        DeleteEntries,
        IndexEntry,
        IndexHit,
        MemoryChanges,
        MemoryIndex,
        UpsertEntries,
    )
    from reme_core.ports.memory_store import (
        Counts,
        DeleteMemory,
        EventQuery,
        ListMemories,
        Matrix,
        MemoryFilter,
        MemorySearch,
        PutMemory,
        Scalar,
        ScoredMemory,
        Target,
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
        PutOffloads,
        ScoredOffload,
    )
    from reme_core.ports.pipelines import Retriever, RetrieveRequest, Summarizer, SummaryRequest
    from reme_core.ports.store import Store
    from reme_core.ports.tool_calls import (
        AddedToolCalls,
        ListToolCalls,
        ListTools,
        ToolCallPage,
        ToolPage,
    )
    from reme_core.ports.tools import (
        AgentResult,
        AgentTask,
        MemoryAgent,
        MetaMemory,
        RunTrace,
        Tool,
        ToolContext,
    )
    from reme_core.ports.transcript import (
        WAITING,
        Appended,
        AppendMessages,
        BlockPage,
        BlockSummary,
        FindMessages,
        ListBlocks,
        MessagePage,
        MessageSearch,
        MessageVector,
        PendingText,
        Planner,
        ScoredBlock,
        ScoredMessage,
        Slicer,
    )
    from reme_core.ports.wrapped_store import WrappedStore

__all__ = [
    "WAITING",
    "AddedToolCalls",
    "AgentResult",
    "AgentTask",
    "AppendMessages",
    "Appended",
    "BlockPage",
    "BlockSummary",
    "ChangesQuery",
    "ChatModel",
    "ChatRequest",
    "ChatResult",
    "ClaimJob",
    "CleanOffloads",
    "Clock",
    "Counts",
    "DeleteEntries",
    "DeleteMemory",
    "Embedder",
    "EmbedsQueries",
    "EventQuery",
    "FilterOperator",
    "FindMessages",
    "GetItems",
    "HoldOffloads",
    "IndexEntry",
    "IndexHit",
    "IndexedBy",
    "Item",
    "ItemAddress",
    "ItemCondition",
    "ItemNamespaces",
    "ItemRecord",
    "ItemValue",
    "ListBlocks",
    "ListItemNamespaces",
    "ListMemories",
    "ListOffloads",
    "ListToolCalls",
    "ListTools",
    "Matrix",
    "MemoryAgent",
    "MemoryChanges",
    "MemoryFilter",
    "MemoryIndex",
    "MemorySearch",
    "MessagePage",
    "MessageSearch",
    "MessageVector",
    "MetaMemory",
    "NamedEmbedder",
    "Namespace",
    "OffloadPage",
    "OffloadSearch",
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
    "Slicer",
    "Store",
    "StreamingChatModel",
    "Summarizer",
    "SummaryRequest",
    "Target",
    "TokenCounter",
    "Tool",
    "ToolCallPage",
    "ToolContext",
    "ToolPage",
    "ToolSpec",
    "UpsertEntries",
    "UseMemory",
    "Uselessness",
    "Vector",
    "WrappedStore",
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
                "ItemValue ListItemNamespaces Namespace PutItem RecordPlace SearchItems WriteItems"
            ),
            "jobs": "ClaimJob SettleJob",
            "memory_index": ("ChangesQuery DeleteEntries IndexEntry IndexHit MemoryChanges MemoryIndex UpsertEntries"),
            "memory_store": (
                "Counts DeleteMemory EventQuery ListMemories Matrix MemoryFilter MemorySearch "
                "PutMemory Scalar ScoredMemory Target Uselessness UseMemory Vector WriteBatch"
            ),
            "offloads": ("CleanOffloads HoldOffloads ListOffloads OffloadPage OffloadSearch PutOffloads ScoredOffload"),
            "pipelines": "Retriever RetrieveRequest Summarizer SummaryRequest",
            "store": "Store",
            "tool_calls": "AddedToolCalls ListToolCalls ListTools ToolCallPage ToolPage",
            "tools": "AgentResult AgentTask MemoryAgent MetaMemory RunTrace Tool ToolContext",
            "transcript": (
                "WAITING Appended AppendMessages BlockPage BlockSummary FindMessages "
                "ListBlocks MessagePage MessageSearch MessageVector PendingText Planner ScoredBlock ScoredMessage "
                "Slicer"
            ),
            "wrapped_store": "WrappedStore",
        },
    )


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
