"""Tools by which an agent looks into its user's memory, and writes to it."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from langchain.tools import BaseTool, InjectedToolArg, ToolException
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from reme_core import EventLoopThread
from reme_core.errors import ReMeError
from reme_langchain._kinds import check_kinds, check_words
from reme_langchain._opening import MemoryOrPath, open_memory
from reme_langchain._owner import Owner, check_owner, resolve_owner
from reme_langchain._place import Injected, internal_calls
from reme_langchain.tools._memory_tools import MemoryTools

_TOLD = MappingProxyType(
    {
        "search_memory": "Search what is remembered about the user: for each memory id, text and date. Where no "
        "memory is found, what was said: date, speaker and text.",
        "save_memory": "Remember a fact about the user for later conversations. Answers with its id.",
        "update_memory": "Change the text of a memory that is no longer right.",
        "forget_memory": "Remove a memory that is wrong, or that the user wants forgotten.",
    }
)
_ALL_TOOLS = tuple(_TOLD)
_MOST_FOUND = 50
_ID = "The id that search_memory or save_memory showed."


class _Arguments(BaseModel):
    """What the model may give; `runtime` is given by the graph, and is in no schema that a model sees."""

    model_config = ConfigDict(extra="forbid")

    # Excluded, since LangChain dumps the arguments of each call, and a runtime holds the whole state.
    runtime: Annotated[object, InjectedToolArg] = Field(default=None, exclude=True)

    async def act(self, work: MemoryTools, user_id: str) -> str:
        """Do it, and return what the model is told."""
        raise NotImplementedError


class _Search(_Arguments):
    query: str = Field(description="What to look for, in words.")
    limit: int = Field(default=5, ge=1, le=_MOST_FOUND, description="At most this many memories.")
    kind: str | None = None

    async def act(self, work: MemoryTools, user_id: str) -> str:
        return await work.search(user_id, self.query, self.limit, self.kind)


class _Save(_Arguments):
    content: str = Field(description="The fact, as one full sentence that can be understood on its own.")
    when_to_use: str | None = Field(default=None, description="In which situation it helps, if that is not obvious.")

    async def act(self, work: MemoryTools, user_id: str) -> str:
        return await work.save(user_id, self.content, self.when_to_use)


class _Update(_Arguments):
    memory_id: str = Field(description=_ID)
    content: str = Field(description="The whole text that it is to have from now on.")

    async def act(self, work: MemoryTools, user_id: str) -> str:
        return await work.update(user_id, self.memory_id, self.content)


class _Forget(_Arguments):
    memory_id: str = Field(description=_ID)

    async def act(self, work: MemoryTools, user_id: str) -> str:
        return await work.forget(user_id, self.memory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolContext:
    """What the tools of one call share."""

    work: MemoryTools
    owner: Owner
    loop: EventLoopThread


def create_memory_tools(
    memory: MemoryOrPath,
    *,
    owner: Owner = None,
    kinds: Sequence[str] = ("personal",),
    names: Sequence[str] = _ALL_TOOLS,
) -> list[BaseTool]:
    """Return tools for `create_agent` or a `ToolNode`, in the order of `names`.

    Whose memory a call touches is decided anew each time: by `owner`, by `user_id` of the run's context, or by
    `config["configurable"]["user_id"]`; never by the model. What is wrong with a model's arguments is told to it, and a
    failure that may pass is answered with status `error`; anything else is raised.

    Args:
        memory: A `ReMe`, or a path. What is opened for a path stays open as long as the process.
        owner: A user id, or a function of the run's `ToolRuntime` (None outside a graph) that returns one.
        kinds: The memory types that they see and change; what is saved has the first one.
        names: Some of `search_memory`, `save_memory`, `update_memory` and `forget_memory`.

    Raises:
        ConfigurationError: A kind or a name that there is not, or none of them; or a `memory` that can't be one.
        ValueError: `owner` is no user id.
    """
    check_owner(owner)
    types = check_kinds(kinds)
    wanted = check_words(names, _ALL_TOOLS, "names")
    opened, _ = open_memory(memory)
    loop = EventLoopThread(opened, thread_name="reme-tools")
    made = _ToolContext(work=MemoryTools(memory=opened, kinds=types), owner=owner, loop=loop)
    arguments: dict[str, type[_Arguments]] = {
        "search_memory": _search_arguments(types),
        "save_memory": _Save,
        "update_memory": _Update,
        "forget_memory": _Forget,
    }
    return [_tool(name, arguments[name], made) for name in wanted]


def _search_arguments(types: Sequence[str]) -> type[_Arguments]:
    """Return the arguments of a search, with the types as an enumeration."""
    # Inside the union, where LangChain's own copy of the schema keeps it.
    kind = Annotated[str, WithJsonSchema({"type": "string", "enum": list(types)})] | None
    told = Field(default=None, description="Only memories of this kind; by default all of them.")
    return create_model("_Search", __base__=_Search, kind=(kind, told))


def _tool(name: str, arguments: type[_Arguments], made: _ToolContext) -> BaseTool:
    # LangChain hands the checked arguments over by keyword, and the runtime beside them.
    async def answer(runtime: Injected = None, **given: object) -> str:
        user_id = resolve_owner(made.owner, runtime)
        with internal_calls():  # the memory may ask models
            return await _told(arguments.model_validate(given).act(made.work, user_id))

    def answer_at_once(runtime: Injected = None, **given: object) -> str:
        user_id = resolve_owner(made.owner, runtime)  # here, since the loop's thread knows no run
        with internal_calls():
            return made.loop.run(_told(arguments.model_validate(given).act(made.work, user_id)))

    return StructuredTool(
        name=name,
        description=_TOLD[name],
        args_schema=arguments,
        func=answer_at_once,
        coroutine=answer,
        handle_tool_error=True,
    )


async def _told(answer: Awaitable[str]) -> str:
    """Return the answer; a failure that may pass becomes LangChain's, which answers with status `error`."""
    try:
        return await answer
    except ReMeError as exc:
        if not exc.retryable:
            raise
        msg = f"the memory can't be reached for now: {exc.message}"
        raise ToolException(msg) from exc
