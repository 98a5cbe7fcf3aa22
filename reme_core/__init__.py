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
    from reme_core.background_loop import EventLoopThread as EventLoopThread
    from reme_core.errors import ReMeError as ReMeError
    from reme_core.facade.reme import ReMe as ReMe
    from reme_core.facade.strategies import AgenticRetriever as AgenticRetriever
    from reme_core.facade.strategies import AgenticSummarizer as AgenticSummarizer
    from reme_core.facade.strategies import RerankingRetriever as RerankingRetriever
    from reme_core.facade.strategies import SimpleSummarizer as SimpleSummarizer
    from reme_core.facade.sync import SyncInContextMemory as SyncInContextMemory
    from reme_core.facade.sync import SyncReMe as SyncReMe
    from reme_core.files import FileMemory as FileMemory
    from reme_core.files.keeper import Folders as Folders
    from reme_core.jobs.retry_policy import RetryPolicy as RetryPolicy
    from reme_core.jobs.retry_policy import holder as holder
    from reme_core.jobs.retry_policy import is_gone as is_gone
    from reme_core.models.defaults import CharacterTokenCounter as CharacterTokenCounter
    from reme_core.models.foreign_calls import CallOptions as CallOptions
    from reme_core.models.foreign_calls import SpokenAnswer as SpokenAnswer
    from reme_core.models.foreign_calls import SpokenCall as SpokenCall
    from reme_core.models.foreign_calls import checked_choice as checked_choice
    from reme_core.models.foreign_calls import foreign_chat as foreign_chat
    from reme_core.models.foreign_calls import function_schema as function_schema
    from reme_core.models.foreign_calls import sent_messages as sent_messages
    from reme_core.models.foreign_failures import model_error as model_error
    from reme_core.models.foreign_failures import unit_rows as unit_rows
    from reme_core.ports import Counts as Counts
    from reme_core.ports import ToolCallPage as ToolCallPage
    from reme_core.ports import ToolPage as ToolPage
    from reme_core.schema import Block as Block
    from reme_core.schema import ChangedMemories as ChangedMemories
    from reme_core.schema import ChangeKind as ChangeKind
    from reme_core.schema import ChatReply as ChatReply
    from reme_core.schema import CleanedOffloads as CleanedOffloads
    from reme_core.schema import CompactedContext as CompactedContext
    from reme_core.schema import ContextUse as ContextUse
    from reme_core.schema import Cost as Cost
    from reme_core.schema import DumpedLibrary as DumpedLibrary
    from reme_core.schema import Erased as Erased
    from reme_core.schema import Event as Event
    from reme_core.schema import Evolution as Evolution
    from reme_core.schema import FactPreview as FactPreview
    from reme_core.schema import Feedback as Feedback
    from reme_core.schema import Forgotten as Forgotten
    from reme_core.schema import Hit as Hit
    from reme_core.schema import ImportReport as ImportReport
    from reme_core.schema import Job as Job
    from reme_core.schema import JobState as JobState
    from reme_core.schema import LineProblem as LineProblem
    from reme_core.schema import LoadedLibrary as LoadedLibrary
    from reme_core.schema import Memory as Memory
    from reme_core.schema import MemoryBlock as MemoryBlock
    from reme_core.schema import MemoryChange as MemoryChange
    from reme_core.schema import MemoryGroup as MemoryGroup
    from reme_core.schema import MemoryPage as MemoryPage
    from reme_core.schema import MemoryType as MemoryType
    from reme_core.schema import MergedMemories as MergedMemories
    from reme_core.schema import Message as Message
    from reme_core.schema import Neighbours as Neighbours
    from reme_core.schema import OffloadedContext as OffloadedContext
    from reme_core.schema import OffloadInfo as OffloadInfo
    from reme_core.schema import OffloadKind as OffloadKind
    from reme_core.schema import PreparedContext as PreparedContext
    from reme_core.schema import RecordedToolCalls as RecordedToolCalls
    from reme_core.schema import RejectedExperience as RejectedExperience
    from reme_core.schema import RejectedFact as RejectedFact
    from reme_core.schema import Relation as Relation
    from reme_core.schema import RelationPath as RelationPath
    from reme_core.schema import RelationStep as RelationStep
    from reme_core.schema import Reloaded as Reloaded
    from reme_core.schema import ReloadResult as ReloadResult
    from reme_core.schema import RetrieveResult as RetrieveResult
    from reme_core.schema import Scope as Scope
    from reme_core.schema import Source as Source
    from reme_core.schema import StoredMessage as StoredMessage
    from reme_core.schema import SummaryPreview as SummaryPreview
    from reme_core.schema import SummaryResult as SummaryResult
    from reme_core.schema import TaskMemories as TaskMemories
    from reme_core.schema import TaskSummary as TaskSummary
    from reme_core.schema import TidiedLink as TidiedLink
    from reme_core.schema import ToolCallResult as ToolCallResult
    from reme_core.schema import ToolError as ToolError
    from reme_core.schema import ToolMemories as ToolMemories
    from reme_core.schema import ToolMemory as ToolMemory
    from reme_core.schema import ToolStatistics as ToolStatistics
    from reme_core.schema import ToolSummary as ToolSummary
    from reme_core.schema import Trajectory as Trajectory
    from reme_core.schema import TransferCounts as TransferCounts
    from reme_core.schema import UndoResult as UndoResult
    from reme_core.schema import Usage as Usage
    from reme_core.schema import Verdict as Verdict
    from reme_core.steps.records import MemorySchema as MemorySchema
    from reme_core.steps.records import Record as Record
    from reme_core.steps.slicing import Slicing as Slicing
    from reme_core.stores import Database as Database
    from reme_core.stores import IndexedStore as IndexedStore
    from reme_core.stores import LocalStore as LocalStore
    from reme_core.stores import QdrantIndex as QdrantIndex
    from reme_core.stores import SpacePart as SpacePart
    from reme_core.stores import SqlConnection as SqlConnection
    from reme_core.stores import SqlDatabase as SqlDatabase
    from reme_core.working.in_context import InContextMemory as InContextMemory
    from reme_core.working.messages_to_keep import ContextCheck as ContextCheck
    from reme_core.working.messages_to_keep import ContextLimits as ContextLimits

__version__ = "1.0.0rc1"

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    _NAMES = {
        "background_loop": "EventLoopThread",
        "errors": "ReMeError",
        "facade.reme": "ReMe",
        "facade.strategies": "AgenticRetriever AgenticSummarizer RerankingRetriever SimpleSummarizer",
        "facade.sync": "SyncInContextMemory SyncReMe",
        "files": "FileMemory Folders",
        "jobs.retry_policy": "RetryPolicy holder is_gone",
        "models.defaults": "CharacterTokenCounter",
        "models.foreign_failures": "model_error unit_rows",
        "models.foreign_calls": (
            "CallOptions SpokenAnswer SpokenCall checked_choice foreign_chat function_schema sent_messages"
        ),
        "ports": "Counts ToolCallPage ToolPage",
        "schema": (
            "Block ChangedMemories ChangeKind ChatReply CleanedOffloads CompactedContext ContextUse Cost DumpedLibrary "
            "Erased Event Evolution FactPreview Feedback Forgotten Hit ImportReport Job JobState LineProblem "
            "LoadedLibrary Memory MemoryBlock MemoryChange MemoryGroup MemoryPage MemoryType MergedMemories Message "
            "Neighbours OffloadedContext OffloadInfo OffloadKind PreparedContext RecordedToolCalls RejectedExperience "
            "RejectedFact Relation RelationPath RelationStep Reloaded ReloadResult RetrieveResult Scope Source "
            "StoredMessage SummaryPreview SummaryResult TaskMemories TaskSummary TidiedLink ToolCallResult ToolError "
            "ToolMemories ToolMemory ToolStatistics ToolSummary Trajectory TransferCounts UndoResult Usage Verdict"
        ),
        "steps.records": "MemorySchema Record",
        "steps.slicing": "Slicing",
        "stores": "Database IndexedStore LocalStore QdrantIndex SpacePart SqlConnection SqlDatabase",
        "working.messages_to_keep": "ContextCheck ContextLimits",
        "working.in_context": "InContextMemory",
    }
    __getattr__, __dir__ = lazy_names(__name__, _NAMES)
    __all__ = ["__version__", *" ".join(_NAMES.values()).split()]
