"""Memory blocks as tools of LangChain agents: by them a model edits what stands in its own prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from langchain.tools import BaseTool, InjectedToolArg, ToolException, ToolRuntime
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, Field, create_model

from reme_core import EventLoopThread, ReMe
from reme_core.errors import ReMeError, ToolFeedback
from reme_core.ports import Tool
from reme_core.tools.prompt_blocks import PromptBlocks, ShownBlocks
from reme_langchain._owner import Owner, resolve_owner
from reme_langchain._place import BLOCKS, HookContext, Injected


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEditor:
    """Edits the memory blocks of the user whose run it is.

    Attributes:
        memory: What keeps them.
        blocks: Which may be edited.
        loop: Where sync calls run.
        owner: Whose they are.
        find_place: Says where a call is in a thread whose prompts show the blocks; None: no prompt does.
    """

    memory: ReMe
    blocks: PromptBlocks
    loop: EventLoopThread
    owner: Owner
    find_place: Callable[[ToolRuntime | None], HookContext] | None = None

    def tools(self) -> list[BaseTool]:
        """Return the tools."""
        return [self._tool(tool) for tool in self.blocks.tools()]

    def _tool(self, tool: Tool) -> BaseTool:
        # LangChain hands the checked arguments over by keyword, and the runtime beside them.
        async def edit(runtime: Injected = None, **given: object) -> str:
            return await self._edit(tool, given, resolve_owner(self.owner, runtime), self._seen(runtime))

        def edit_at_once(runtime: Injected = None, **given: object) -> str:
            user_id, seen = resolve_owner(self.owner, runtime), self._seen(runtime)  # the loop's thread knows no run
            return self.loop.run(self._edit(tool, given, user_id, seen))

        return StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=_with_runtime(tool.arguments),
            func=edit_at_once,
            coroutine=edit,
            handle_tool_error=True,
        )

    def _seen(self, runtime: ToolRuntime | None) -> Mapping[str, int] | None:
        return None if self.find_place is None else noted_revisions(self.find_place(runtime))

    async def _edit(self, tool: Tool, given: Mapping[str, object], user_id: str, seen: Mapping[str, int] | None) -> str:
        """Return what the model is told; what was not done is answered with status `error`."""
        try:
            return await self.blocks.edit(tool, given, self.memory.tool_context(user_id=user_id), seen=seen)
        except ToolFeedback as exc:
            raise ToolException(str(exc)) from exc
        except ReMeError as exc:
            if not exc.retryable:
                raise
            msg = f"the memory can't be reached for now: {exc.message}"
            raise ToolException(msg) from exc


def noted_revisions(place: HookContext) -> Mapping[str, int]:
    """Return the revisions of the blocks that the last prompt of a thread has shown."""
    noted: Mapping[str, int] = json.loads(place.notes.get(BLOCKS, "{}"))
    return noted


def revision_note(shown: ShownBlocks, place: HookContext) -> dict[str, str]:
    """Return the note of what a prompt shows; nothing where it is there already."""
    return {} if shown.revisions == noted_revisions(place) else {BLOCKS: json.dumps(dict(shown.revisions))}


class _WithRuntime(BaseModel):
    """Has the runtime beside what the model may give; the graph gives it, and no schema that a model sees has it."""

    # Excluded, since LangChain dumps the arguments of each call, and a runtime holds the whole state.
    runtime: Annotated[object, InjectedToolArg] = Field(default=None, exclude=True)


def _with_runtime(arguments: type[BaseModel]) -> type[BaseModel]:
    return create_model(arguments.__name__, __base__=(arguments, _WithRuntime))
