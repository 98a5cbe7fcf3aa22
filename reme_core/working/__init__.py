"""Working memory: the context of one session, kept below its limit without losing a word.

Plain functions over `WorkingPorts`, a scope and values; `ReMe` has the same as methods, and `InContextMemory` holds the
context of a session as an object. `pre_reasoning_hook` puts the others together.
"""

from reme_core.steps.load_offloaded import ReloadRequest, reload_context
from reme_core.working.check import ContextCheck, ContextLimits, check_context
from reme_core.working.fit import FittedContext, fit_messages
from reme_core.working.in_context import InContextMemory
from reme_core.working.ports import HeldContexts, WorkingPorts
from reme_core.working.prepare import ContextRequest, pre_reasoning_hook
from reme_core.working.record import offload_context
from reme_core.working.summary.compact import Compacted, CompactRequest, compact_memory
from reme_core.working.tokens import TokenLedger
from reme_core.working.tool_results import ToolResultPlan, compact_tool_result

__all__ = [
    "CompactRequest",
    "Compacted",
    "ContextCheck",
    "ContextLimits",
    "ContextRequest",
    "FittedContext",
    "HeldContexts",
    "InContextMemory",
    "ReloadRequest",
    "TokenLedger",
    "ToolResultPlan",
    "WorkingPorts",
    "check_context",
    "compact_memory",
    "compact_tool_result",
    "fit_messages",
    "offload_context",
    "pre_reasoning_hook",
    "reload_context",
]
