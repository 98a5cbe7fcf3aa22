"""Long tool results on disk: the thread gets their beginning, their end, and the tool that loads the rest."""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, TypeAlias, cast

from langchain.tools import BaseTool, InjectedToolArg, ToolRuntime
from langchain_core.messages import ToolMessage, convert_to_messages
from langchain_core.tools import StructuredTool
from langgraph.types import Command
from pydantic import BaseModel, Field

from reme_core import ContextLimits, EventLoopThread, ReMe
from reme_core.adapting import RELOAD_DESCRIPTION, RELOAD_TOOL
from reme_core.errors import ToolFeedback
from reme_core.schema import make_scope
from reme_core.schema.plain import clean_text
from reme_core.working.reload import PieceRequest, reload_piece
from reme_langchain._place import HookContext, Injected
from reme_langchain.middleware._settings import Offload

_LOG = logging.getLogger("reme")


Result: TypeAlias = ToolMessage | Command[object]

_MARK = "reme"
# What no store keeps is written as JSON writes it: nothing of a result is lost.
_UNKEPT = re.compile("[\0\ud800-\udfff]")


async def shorten_result(memory: ReMe, settings: Offload, place: HookContext, result: Result, *, tool: str) -> Result:
    """Return a tool's result with long texts shortened, also inside a command; the same object where none is long."""
    if tool == RELOAD_TOOL:
        return result
    # A tool may return several, of which LangChain's type of this hook knows nothing.
    return cast("Result", await _shortened(result, partial(_shorten, memory, settings, place, tool=tool)))


async def _shortened(value: object, shorten: Callable[[ToolMessage], Awaitable[ToolMessage]]) -> object:
    """Shorten a message, those in a list, and those of a command; what has nothing long comes back itself."""
    if isinstance(value, list):
        items = [await _shortened(item, shorten) for item in value]
        return value if _are_same(value, items) else items
    if isinstance(value, Command) and isinstance(value.update, Mapping | list | tuple):
        pairs = list(value.update.items() if isinstance(value.update, Mapping) else value.update)
        changed = [(key, await _shortened(item, shorten)) for key, item in pairs]
        if _are_same([item for _, item in pairs], [item for _, item in changed]):
            return value
        return replace(value, update=dict(changed) if isinstance(value.update, Mapping) else changed)
    message = _result_in(value)
    shortened = None if message is None else await shorten(message)
    return value if shortened is message else shortened


def _are_same(before: Sequence[object], after: Sequence[object]) -> bool:
    return all(map(operator.is_, before, after))


def _result_in(value: object) -> ToolMessage | None:
    """Return a tool's message, also one that is written as a dictionary; None for anything else."""
    if isinstance(value, dict) and "tool" in (value.get("role"), value.get("type")):
        try:
            [value] = convert_to_messages([value])
        except (ValueError, TypeError, KeyError):  # the graph says what is wrong with it
            return None
    return value if isinstance(value, ToolMessage) else None


async def _shorten(
    memory: ReMe, settings: Offload, place: HookContext, message: ToolMessage, *, tool: str
) -> ToolMessage:
    texts, others = _split(message.content)
    whole = "\n".join(texts)
    if message.status == "error" or len(whole) <= settings.over_chars or _MARK in message.additional_kwargs:
        return message
    stored = _UNKEPT.sub(lambda found: f"\\u{ord(found[0]):04x}", whole)
    try:
        info = await memory.offload_text(
            stored, user_id=place.user_id, session_id=place.session_id, name=clean_text(tool).strip()[:200] or None
        )
    except Exception as exc:  # noqa: BLE001  # the result is what the agent waits for: it stays whole, and in the thread
        _LOG.warning("a result of tool %r was not offloaded: %s: %s", tool, type(exc).__name__, exc)
        return message
    preview = _preview(stored, info.reference, settings)
    content: str | list[str | dict[str, object]] = preview
    if others:
        content = [{"type": "text", "text": preview}, *others]
    kwargs = {**message.additional_kwargs, _MARK: {"handle": info.reference, "chars": len(stored)}}
    return message.model_copy(update={"content": content, "additional_kwargs": kwargs})


def _split(content: str | Sequence[str | dict[str, object]]) -> tuple[list[str], list[str | dict[str, object]]]:
    """Return the texts of a message's content, and its other parts."""
    if isinstance(content, str):
        return [content], []
    texts: list[str] = []
    others: list[str | dict[str, object]] = []
    for block in content:
        text = block if isinstance(block, str) else block.get("text")
        if isinstance(text, str):
            texts.append(text)
        else:
            others.append(block)
    return texts, others


def _preview(text: str, handle: str, settings: Offload) -> str:
    head, tail = text[: settings.head_chars], text[len(text) - settings.tail_chars :]
    left_out = len(text) - len(head) - len(tail)
    return (
        f"{head}\n[… {left_out} of {len(text)} characters left out. The whole result: "
        f'{RELOAD_TOOL}(handle="{handle}", offset={len(head)}), or with pattern="words" to search in it …]\n{tail}'
    )


class _ReloadArguments(BaseModel):
    """What the model may give; `runtime` is given by the graph."""

    handle: str
    offset: int = 0
    limit: int = 4000
    pattern: str | None = None
    # Excluded, since LangChain dumps the arguments of each call, and a runtime holds the whole state.
    runtime: Annotated[object, InjectedToolArg] = Field(default=None, exclude=True)


def create_reload_tool(
    memory: ReMe,
    loop: EventLoopThread,
    find_place: Callable[[ToolRuntime | None], HookContext],
    limits: ContextLimits,
) -> BaseTool:
    """Make the tool for a middleware.

    Args:
        memory: What keeps the texts.
        loop: Where sync calls run.
        find_place: Says whose call it is and of which thread.
        limits: Of the context into which is loaded: an answer has at most the bytes of a new tool result.
    """

    def asked(handle: str, offset: int, limit: int, pattern: str | None) -> PieceRequest:
        return PieceRequest(
            handle=handle, offset=offset, limit_chars=limit, pattern=pattern or "", most_bytes=limits.recent_bytes
        )

    def reload_context(
        handle: str, runtime: Injected = None, offset: int = 0, limit: int = 4000, pattern: str | None = None
    ) -> str:
        return loop.run(_reload(memory, find_place(runtime), asked(handle, offset, limit, pattern)))

    async def areload_context(
        handle: str, runtime: Injected = None, offset: int = 0, limit: int = 4000, pattern: str | None = None
    ) -> str:
        return await _reload(memory, find_place(runtime), asked(handle, offset, limit, pattern))

    return StructuredTool(
        name=RELOAD_TOOL,
        description=RELOAD_DESCRIPTION,
        args_schema=_ReloadArguments,
        func=reload_context,
        coroutine=areload_context,
    )


async def _reload(memory: ReMe, place: HookContext, request: PieceRequest) -> str:
    """Answer in words, whatever the model asks for."""
    scope = make_scope(memory.memory_space, place.user_id)
    try:
        return await reload_piece(memory.working.store, scope, replace(request, sessions=(place.session_id,)))
    except ToolFeedback as exc:
        return str(exc)
