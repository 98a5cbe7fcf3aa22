"""Tools: atomic memory operations that a model may call, and what those who write tools build on.

A tool gets two things that never meet: the arguments, which a model has written, and the context, which we have made.
See `BaseMemoryToolOp` for tools of one's own.
"""

from reme_core.steps.draft_store import DraftStore
from reme_core.steps.targets import find_target, may_touch, read_meta
from reme_core.tools.base import (
    BaseMemoryToolOp,
    NoArguments,
    ToolItem,
)
from reme_core.tools.function_tool import FunctionTool, tool
from reme_core.tools.handsoff import HandsOffOp
from reme_core.tools.history import (
    AddHistoryMemoryOp,
    ReadHistoryMemoryOp,
    RetrieveBlockOp,
    RetrieveMessageOp,
    TimeAwareRetrieveOp,
)
from reme_core.tools.memory_blocks import MemoryInsertOp, MemoryReplaceOp, MemoryRethinkOp
from reme_core.tools.meta import (
    AddMetaMemoryOp,
    ReadIdentityMemoryOp,
    ReadMetaMemoryOp,
    UpdateIdentityMemoryOp,
)
from reme_core.tools.reload import ReloadOp
from reme_core.tools.reviser import ReviseMemoryOp, revise
from reme_core.tools.search import VectorRetrieveMemoryOp
from reme_core.tools.update import UpdateMemoryOp
from reme_core.tools.without_memory import DatetimeToolOp, ThinkToolOp
from reme_core.tools.write import AddMemoryOp, AddSummaryMemoryOp, DeleteMemoryOp

__all__ = [
    "AddHistoryMemoryOp",
    "AddMemoryOp",
    "AddMetaMemoryOp",
    "AddSummaryMemoryOp",
    "BaseMemoryToolOp",
    "DatetimeToolOp",
    "DeleteMemoryOp",
    "DraftStore",
    "FunctionTool",
    "HandsOffOp",
    "MemoryInsertOp",
    "MemoryReplaceOp",
    "MemoryRethinkOp",
    "NoArguments",
    "ReadHistoryMemoryOp",
    "ReadIdentityMemoryOp",
    "ReadMetaMemoryOp",
    "ReloadOp",
    "RetrieveBlockOp",
    "RetrieveMessageOp",
    "ReviseMemoryOp",
    "ThinkToolOp",
    "TimeAwareRetrieveOp",
    "ToolItem",
    "UpdateIdentityMemoryOp",
    "UpdateMemoryOp",
    "VectorRetrieveMemoryOp",
    "find_target",
    "may_touch",
    "read_meta",
    "revise",
    "tool",
]
