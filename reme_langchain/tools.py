"""Memory tools of LangChain agents: by them one looks into its user's memory, and writes to it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from langchain.tools import BaseTool, InjectedToolArg, ToolException
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from reme_core import EventLoopThread, Hit, Memory, ReMe
from reme_core.adapting import BLOCK_TOOLS
from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError, MessageNotFoundError, ReMeError
from reme_core.schema import TrustClass, least_trusted, new_id, trust_mark, with_validity
from reme_core.steps.message_lines import all_pages
from reme_core.tools.prompt_blocks import PromptBlocks
from reme_langchain._block_tools import BlockEditor
from reme_langchain._opening import MemoryOrPath, open_memory
from reme_langchain._owner import Owner, check_owner, resolve_owner
from reme_langchain._place import Injected, internal_calls
from reme_langchain._searching import check_kinds, check_words, search_memories

_RANDOM_ID = re.compile(r"[0-9a-f]{32}")
_BEGINNING = re.compile(r"[0-9a-f]{6,31}")
# Of a random id: two of 1,000 memories begin alike in one user of 34, and then more of it is asked for; an answer is
# to be little longer than the memories in it.
_SHOWN_CHARS = 6
_MORE_CHARS = 16
_PAGE = 1000
_MOST_LISTED = 5
_SAID = "no memories found, but this was said:"
# Of one message; some have millions of characters.
_SAID_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTools:
    """Works on the memories of some types; each call names the user. Answers are texts for the model.

    Memories of other types are as unknown as those of other users.
    """

    memory: ReMe
    kinds: tuple[str, ...]

    async def search(self, user_id: str, query: str, limit: int, kind: str | None) -> str:
        """Return one line for each memory found: its id, what it says, the day. Or for what was said, without ids."""
        if kind is not None and kind not in self.kinds:
            return f"nothing was searched: kind: there are {', '.join(self.kinds)}"
        if not query.strip():
            return "nothing was searched: query is empty: say what to look for"
        try:
            found = await search_memories(
                self.memory, query, user_id=user_id, limit=limit, kinds=self.kinds if kind is None else (kind,)
            )
        except InvalidInputError as exc:
            return f"nothing was searched: {exc.message}"
        if found and found[0].layer == "message":
            return "\n".join([_SAID, *map(_said_line, found)])
        return "\n".join(map(_line, found)) or "no memories found"

    async def save(self, user_id: str, content: str, when_to_use: str | None) -> str:
        """Add a memory, unless there is one that says the same."""
        if not content.strip():
            return "nothing was saved: content is empty: say in one full sentence what is to be remembered"
        memory_id = new_id()
        draft = {
            "content": content,
            "when_to_use": when_to_use or "",
            "memory_type": self.kinds[0],
            "memory_id": memory_id,
            "author": "agent",
        }
        try:
            [memory] = await self.memory.add_memories([draft], user_id=user_id)
        except InvalidInputError as exc:
            return f"nothing was saved: {exc.message}"
        if memory.memory_id != memory_id:
            return f"already known: {short_id(memory.memory_id)}"
        return f"saved: {short_id(memory_id)}"

    async def update(self, user_id: str, memory_id: str, content: str) -> str:
        """Give a memory another text."""
        if not content.strip():
            return "nothing was changed: content is empty: give the whole new text, or use forget_memory"
        found = await self._resolve(user_id, memory_id)
        if isinstance(found, str):
            return found
        try:
            trust = least_trusted([found.trust, TrustClass.ASSISTANT])
            memory = await self.memory.update_memory(found.memory_id, user_id=user_id, content=content, trust=trust)
        except MemoryNotFoundError:  # forgotten in between
            return _unknown(memory_id)
        except ConflictError:
            return (
                "nothing was changed: another memory says the same already, or this one has just changed: search again"
            )
        except InvalidInputError as exc:
            return f"nothing was changed: {exc.message}"
        return f"updated: {short_id(memory.memory_id)}"

    async def forget(self, user_id: str, memory_id: str) -> str:
        """Remove a memory."""
        found = await self._resolve(user_id, memory_id)
        if isinstance(found, str):
            return found
        try:
            await self.memory.delete_memory(found.memory_id, user_id=user_id)
        except MemoryNotFoundError:  # forgotten in between
            return _unknown(memory_id)
        return f"forgotten: {short_id(found.memory_id)}"

    async def _resolve(self, user_id: str, given: str) -> Memory | str:
        """Return the memory with this id, or the one whose id begins with it; else what to answer."""
        try:
            memory = await self.memory.get_memory(given, user_id=user_id)
        except (MemoryNotFoundError, InvalidInputError):
            pass
        else:
            return memory if memory.is_current and memory.memory_type in self.kinds else _unknown(given)
        if await self._is_message(user_id, given):
            return _of_message(given)
        if not _BEGINNING.fullmatch(given):
            return _unknown(given)
        matches = await self._beginning_with(user_id, given)
        if len(matches) > 1:
            longer = ", ".join(memory.memory_id[:_MORE_CHARS] for memory in matches[:_MOST_LISTED])
            return f"several memories have ids that begin with {given!r}: give more of it: {longer}"
        return matches[0] if matches else _unknown(given)

    async def _is_message(self, user_id: str, given: str) -> bool:
        try:
            return bool(await self.memory.get_messages([given], user_id=user_id))
        except (MessageNotFoundError, InvalidInputError):
            return False

    async def _beginning_with(self, user_id: str, beginning: str) -> Sequence[Memory]:
        pages = all_pages(
            lambda cursor: self.memory.list_memories(
                user_id=user_id, memory_type=list(self.kinds), limit=_PAGE, cursor=cursor
            )
        )
        return [memory async for page in pages for memory in page.memories if memory.memory_id.startswith(beginning)]


def short_id(memory_id: str) -> str:
    """Return what is shown of an id: the beginning of a random one, all of one that somebody chose."""
    return memory_id[:_SHOWN_CHARS] if _RANDOM_ID.fullmatch(memory_id) else memory_id


def _line(hit: Hit) -> str:
    said_at = hit.observed_at or hit.created_at
    day = f" {said_at.date().isoformat()}" if said_at is not None else ""
    text = with_validity(" ".join(hit.memory.split()), hit)
    return f"{short_id(hit.memory_id or '')} {trust_mark(hit.trust)}{text}{day}"


def _said_line(hit: Hit) -> str:
    """Write what was said: the day, who said it, the words; of a long text its best passage.

    No id, which a model would take for that of a memory.
    """
    day = f"{hit.created_at.date().isoformat()} " if hit.created_at is not None else ""
    text = hit.memory
    if len(text) > _SAID_CHARS and hit.passage is not None and not hit.is_passage:
        text = f"… {text[slice(*hit.passage)]} …"
    text = " ".join(text.split())
    shown = text if len(text) <= _SAID_CHARS else f"{text[:_SAID_CHARS]} …"
    return f"{day}{trust_mark(hit.untold_trust)}{hit.name or hit.role or 'somebody'} said: {shown}"


def _of_message(message_id: str) -> str:
    return (
        f"{message_id[:80]!r} is the id of a message, and no memory: what was said stays as it was said; "
        "save_memory keeps what holds now"
    )


def _unknown(memory_id: str) -> str:
    return f"no memory with this id: {memory_id[:80]!r}: search_memory shows the ids"


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
        names: Some of `search_memory`, `save_memory`, `update_memory` and `forget_memory`; and of `memory_insert`,
            `memory_replace` and `memory_rethink`, which edit memory blocks.

    Raises:
        ConfigurationError: A kind or a name that there is not, or none of them; or a `memory` that can't be one.
        ValueError: `owner` is no user id.
    """
    check_owner(owner)
    types = check_kinds(kinds)
    wanted = check_words(names, (*_ALL_TOOLS, *BLOCK_TOOLS), "names")
    opened, _ = open_memory(memory)
    loop = EventLoopThread(opened)
    made = _ToolContext(work=MemoryTools(memory=opened, kinds=types), owner=owner, loop=loop)
    arguments: dict[str, type[_Arguments]] = {
        "search_memory": _search_arguments(types),
        "save_memory": _Save,
        "update_memory": _Update,
        "forget_memory": _Forget,
    }
    blocks = PromptBlocks(not set(wanted).isdisjoint(BLOCK_TOOLS))
    editor = BlockEditor(memory=opened, blocks=blocks, loop=loop, owner=owner)
    editing = {tool.name: tool for tool in editor.tools()}
    return [editing[name] if name in editing else _tool(name, arguments[name], made) for name in wanted]


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


__all__ = ["create_memory_tools"]
