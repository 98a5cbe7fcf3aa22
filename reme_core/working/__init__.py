"""Working memory: the context of one session, kept below its limit without losing a word.

Plain functions over `WorkingPorts` (`ReMe.working`), a scope and values. `pre_reasoning_hook` puts the others together:
adapters of agent frameworks call that. `ReMe` has the same as methods, and `InContextMemory` holds the context of a
session as an object.
"""

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names

if TYPE_CHECKING:
    from reme_core.working.messages_to_keep import Asides, ContextCheck, ContextLimits, check_context
    from reme_core.working.ports import WorkingPorts, off_loop
    from reme_core.working.prepare import BeforeChange, ContextRequest, pre_reasoning_hook
    from reme_core.working.record import offload_context
    from reme_core.working.reload import PieceRequest, reload_piece, unknown_handle, with_rest
    from reme_core.working.tokens import IMAGE_TOKENS, TokenLedger
    from reme_core.working.tool_results import compact_tool_result

__all__ = [
    "IMAGE_TOKENS",
    "Asides",
    "BeforeChange",
    "ContextCheck",
    "ContextLimits",
    "ContextRequest",
    "PieceRequest",
    "TokenLedger",
    "WorkingPorts",
    "check_context",
    "compact_tool_result",
    "off_loop",
    "offload_context",
    "pre_reasoning_hook",
    "reload_piece",
    "unknown_handle",
    "with_rest",
]

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "messages_to_keep": "Asides ContextCheck ContextLimits check_context",
            "ports": "WorkingPorts off_loop",
            "prepare": "BeforeChange ContextRequest pre_reasoning_hook",
            "record": "offload_context",
            "reload": "PieceRequest reload_piece unknown_handle with_rest",
            "tokens": "IMAGE_TOKENS TokenLedger",
            "tool_results": "compact_tool_result",
        },
    )
