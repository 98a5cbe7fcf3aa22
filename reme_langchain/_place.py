"""Place of a hook: whose run it is, in which thread, and what is noted there."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, NotRequired, TypeAlias

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain.agents.middleware.types import AgentState, PrivateStateAttr, ResponseT
from langchain.tools import InjectedToolArg, ToolRuntime
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.constants import TAG_NOSTREAM

from reme_core.schema import new_id
from reme_core.schema.plain import usable_id
from reme_langchain._owner import Owner, resolve_owner

# Needed at run time: LangChain resolves the annotations of a tool in the globals of its module.
Injected: TypeAlias = Annotated[ToolRuntime | None, InjectedToolArg]

Notes: TypeAlias = dict[str, dict[str, str]]

# What a middleware notes in a thread.
CAPTURED, SESSION, BLOCK, OWNER, LEFT, BLOCKS = "captured", "session", "block", "owner", "left", "blocks"


def merge_notes(before: Notes | None, new: Notes | None) -> Notes:
    """Add notes to those that there are; each middleware has its own, by its name."""
    merged = dict(before or {})
    for name, notes in (new or {}).items():
        merged[name] = {**merged.get(name, {}), **notes}
    return merged


class ReMeState(AgentState[ResponseT]):
    """An agent's state with our notes; they are neither input nor output.

    Attributes:
        reme: By the middleware's name: the id of the last captured message, whose run it was, the session of a run
            without a thread, the frozen block of the system prompt, the revisions of the memory blocks shown last.
    """

    reme: NotRequired[Annotated[Notes, PrivateStateAttr, merge_notes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """Where a hook works.

    Attributes:
        user_id: Whose memory.
        session_id: The thread, as the core takes it; a random one where there is none.
        has_thread: Whether what is noted here is there in the next run.
        notes: What this middleware has noted.
    """

    user_id: str
    session_id: str
    has_thread: bool
    notes: Mapping[str, str]


def find_hook_context(owner: Owner, name: str, state: object, runtime: object) -> HookContext:
    """Return where a hook works (ValueError: nobody says whose memory it is).

    Args:
        owner: As the middleware was given it.
        name: Of the middleware.
        state: Of the graph, as the hook was given it.
        runtime: As the hook was given it.
    """
    user_id = resolve_owner(owner, runtime)
    all_notes = state.get("reme") if isinstance(state, Mapping) else None
    notes = all_notes.get(name, {}) if isinstance(all_notes, Mapping) else {}
    thread = _thread_of(runtime)
    session = notes.get(SESSION) or new_id() if thread is None else usable_id(str(thread))
    return HookContext(user_id=user_id, session_id=session, has_thread=thread is not None, notes=notes)


def _thread_of(runtime: object) -> object:
    """Return the thread's id, None without one: a tool's runtime has the configuration, in other hooks the context."""
    for config in (getattr(runtime, "config", None), var_child_runnable_config.get()):
        configurable = config.get("configurable") if isinstance(config, Mapping) else None
        if isinstance(configurable, Mapping) and configurable.get("thread_id") is not None:
            thread: object = configurable["thread_id"]
            return thread
    return None


@contextmanager
def internal_calls() -> Generator[None]:
    """Mark models that are called in here as internal, so that nothing of them is in the user's stream."""
    config = var_child_runnable_config.get() or RunnableConfig()
    marked = config.copy()
    # The transformer knows the metadata; `stream_mode="messages"` knows the tag alone.
    marked["metadata"] = {**config.get("metadata", {}), **internal_call_metadata()}
    marked["tags"] = [*config.get("tags", []), TAG_NOSTREAM]
    token = var_child_runnable_config.set(marked)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
