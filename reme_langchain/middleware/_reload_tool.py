"""The tool that loads again what left a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from langchain.tools import BaseTool, InjectedToolArg, ToolRuntime
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field

from reme_core import EventLoopThread, OffloadInfo, Reloaded, ReMe
from reme_core.errors import InvalidInputError, NotFoundError
from reme_core.schema.plain import clean_text
from reme_langchain._place import HookContext, Injected
from reme_langchain.middleware._offloading import RELOAD_TOOL

_DESCRIPTION = (
    "Load again what was left out of this conversation: a long tool result or earlier messages. `handle` is named "
    "where it was left out. Without `pattern`, `limit` characters from `offset` on; with it, the places where those "
    "words stand."
)
# A model that asks for more has mistaken the number; all of it is there, piece by piece.
_MOST_CHARS = 200_000
_LISTED = 20


class _ReloadArguments(BaseModel):
    """What the model may give; `runtime` is given by the graph."""

    handle: str
    offset: int = 0
    limit: int = 4000
    pattern: str | None = None
    # Excluded, since LangChain dumps the arguments of each call, and a runtime holds the whole state.
    runtime: Annotated[object, InjectedToolArg] = Field(default=None, exclude=True)


def create_reload_tool(
    memory: ReMe, loop: EventLoopThread, find_place: Callable[[ToolRuntime | None], HookContext]
) -> BaseTool:
    """Make the tool for a middleware.

    Args:
        memory: What keeps the texts.
        loop: Where sync calls run.
        find_place: Says whose call it is and of which thread.
    """

    def reload_context(
        handle: str, runtime: Injected = None, offset: int = 0, limit: int = 4000, pattern: str | None = None
    ) -> str:
        place = find_place(runtime)
        return loop.run(_reload(memory, place, handle, offset=offset, limit=limit, pattern=pattern))

    async def areload_context(
        handle: str, runtime: Injected = None, offset: int = 0, limit: int = 4000, pattern: str | None = None
    ) -> str:
        return await _reload(memory, find_place(runtime), handle, offset=offset, limit=limit, pattern=pattern)

    return StructuredTool(
        name=RELOAD_TOOL,
        description=_DESCRIPTION,
        args_schema=_ReloadArguments,
        func=reload_context,
        coroutine=areload_context,
    )


async def _reload(
    memory: ReMe, place: HookContext, handle: str, *, offset: int, limit: int, pattern: str | None
) -> str:
    """Answer in words, whatever the model asks for."""
    wanted = clean_text(handle).strip()
    words = clean_text(pattern or "").strip()
    most = min(max(1, limit), _MOST_CHARS)
    try:
        if words:
            piece = await _load(memory, place, wanted, query=words, limit_chars=most)
            return piece.memory or f"{words!r} is not in {wanted}."
        piece = await _load(memory, place, wanted, offset=max(0, offset), limit_chars=most)
        text = piece.memory
        # The core ends a piece where a line ends; who asks for the next one may count from `limit`.
        while piece.next_offset is not None and len(text) < most:
            piece = await _load(memory, place, wanted, offset=piece.next_offset, limit_chars=most - len(text))
            text += piece.memory
    except (NotFoundError, InvalidInputError) as exc:
        return await _refusal(memory, place, wanted, exc)
    if piece.next_offset is None:
        return text
    gap = "" if text.endswith("\n") else "\n"
    return f"{text}{gap}[… goes on at offset={piece.next_offset} of {piece.chars} …]"


async def _load(
    memory: ReMe,
    place: HookContext,
    handle: str,
    *,
    limit_chars: int,
    query: str | None = None,
    offset: int | None = None,
) -> Reloaded:
    found = await memory.reload_context(
        user_id=place.user_id,
        session_id=place.session_id,
        reference=handle,
        query=query,
        offset=offset,
        limit_chars=limit_chars,
    )
    [piece] = found.results
    return piece


async def _refusal(memory: ReMe, place: HookContext, handle: str, failure: NotFoundError | InvalidInputError) -> str:
    infos, _ = await memory.list_offloads(
        user_id=place.user_id, session_id=place.session_id, limit=_LISTED, newest_first=True
    )
    known = [info.reference for info in infos]
    if handle in known and isinstance(failure, InvalidInputError):
        return f"That can't be loaded: {failure}"
    listed = "\n".join(map(_line, infos)) if infos else "there are none in this conversation"
    return f"There is no handle {handle!r:.80} in this conversation. Known handles, newest first:\n{listed}"


def _line(info: OffloadInfo) -> str:
    size = f"{info.chars} characters" if info.chars else f"{len(info.message_ids)} messages"
    return f"- {info.reference}: {info.name or info.kind}, {size}"
