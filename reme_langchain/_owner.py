"""Owner of a call: the user whose memory it touches, asked for anew each time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from langchain_core.runnables.config import var_child_runnable_config

from reme_core.schema import shown
from reme_core.schema.checks import check_scope_part

T = TypeVar("T")
Owner: TypeAlias = str | int | Callable[[object], str | int] | None
"""A user id; a function of the runtime (None outside a graph) that returns one; or None: the run names the user."""

_FIELD = "user_id"
_ADVICE = "pass owner=..., or run with context={'user_id': ...} or config={'configurable': {'user_id': ...}}"


def check_owner(owner: T) -> T:
    """Return the owner; refuse what can name no user in any call (ValueError)."""
    if owner is not None and not callable(owner):
        _user_id(owner, "owner")
    return owner


def resolve_owner(owner: Owner, runtime: object | None, config: Mapping[str, object] | None = None) -> str:
    """Return the user id of this call; nothing is remembered from one to the next.

    The argument counts first, then `user_id` of the runtime's context (attribute or key), then
    `config["configurable"]["user_id"]` of the run.

    Args:
        owner: See `Owner`.
        runtime: A `Runtime` or `ToolRuntime` of the framework; None: that of the graph that is running, if one is.
        config: Of this call; None: that of what is running.

    Raises:
        ValueError: Nobody is named, or by what can't be a user id: there is no user that memories fall back to.
    """
    runtime = _running_runtime() if runtime is None else runtime
    if owner is not None:
        return _user_id(owner(runtime) if callable(owner) else owner, "owner")
    named, where = _named_by(runtime, config)
    if named is None:
        msg = f"whose memory? no user is named: {_ADVICE}"
        raise ValueError(msg)
    return _user_id(named, where)


def find_owner(config: Mapping[str, Any] | None = None) -> str | None:
    """Return the user that a run names, None where it names none, or one that no memory can have.

    Args:
        config: As a checkpointer was given it; None: that of what is running.
    """
    runtime = ((config or {}).get("configurable") or {}).get("__pregel_runtime")
    named, where = _named_by(_running_runtime() if runtime is None else runtime, config)
    try:
        return None if named is None else _user_id(named, where)
    except ValueError:
        return None


def _named_by(runtime: object | None, config: Mapping[str, object] | None) -> tuple[object, str]:
    """Return what names the user, None if nothing does, and where it stands."""
    named = _named_in(getattr(runtime, "context", None))  # a foreign object, which may have none
    if named is not None:
        return named, "context.user_id"
    # A tool's runtime has the config of its call, also where a thread has lost it.
    for source in (config, getattr(runtime, "config", None), var_child_runnable_config.get()):
        named = _named_in(source.get("configurable")) if isinstance(source, dict | Mapping) else None
        if named is not None:
            return named, "config['configurable']['user_id']"
    return None, ""


def _named_in(place: object) -> object:
    return place.get(_FIELD) if isinstance(place, dict | Mapping) else getattr(place, _FIELD, None)


def _running_runtime() -> object | None:
    # LangGraph is no library of ours here; where nobody has loaded it, no graph is running.
    module = sys.modules.get("langgraph.runtime")
    if module is None or var_child_runnable_config.get() is None:
        return None
    try:
        runtime: object = module.get_runtime()
    except (RuntimeError, KeyError):  # outside a graph
        return None
    return runtime


def _user_id(value: object, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value:
        try:
            return check_scope_part(value)
        except ValueError as exc:
            msg = f"{where}: a user id that no memory can have: {exc}"
            raise ValueError(msg) from exc
    msg = f"{where}: wanted a user id, a text that is not empty or a number, found {shown(value)}: {_ADVICE}"
    raise ValueError(msg)
