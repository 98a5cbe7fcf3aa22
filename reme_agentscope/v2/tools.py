"""The memory as tools of an agent of AgentScope 2.x."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agentscope.permission import PermissionBehavior, PermissionContext, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import ToolBase, ToolChunk

from reme_agentscope._shared.memory_blocks import UserBlocks
from reme_agentscope._shared.opening import OpenedMemory, user_of
from reme_agentscope._shared.recorded_text import as_limit, as_texts
from reme_agentscope.v2._notes import ADD_TOOL, SEARCH_TOOL, line_of, read_ledger, search_memories
from reme_agentscope.v2._reloading import ReadingTool, ReloadContext, failed, said
from reme_core.adapting import BLOCK_TOOLS, RELOAD_TOOL
from reme_core.errors import ConfigurationError
from reme_core.schema import shown
from reme_core.schema.plain import clean_text

if TYPE_CHECKING:
    from reme_core import ReMe
    from reme_core.tools import BaseMemoryToolOp

_NOTHING = "(no relevant memories found)"


class SearchMemoryTool(ReadingTool):
    """Searches one user's memory."""

    name = SEARCH_TOOL
    description = (
        "Search what is known from earlier conversations: what the user said, decided or prefers. Returns one line for "
        "each memory found, best first."
    )

    def __init__(
        self,
        memory: OpenedMemory,
        *,
        user_id: str,
        top_k: int,
        min_score: float | None = None,
        note: Callable[[], str] = str,
    ) -> None:
        """Keep what is searched, and whose it is: no argument of the model's says that.

        `note` gives what stands behind each answer.
        """
        super().__init__()
        self._min_score = min_score
        self._note = note
        self._memory = memory
        self._user_id = user_id
        self._top_k = top_k
        self.input_schema = {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What to look for: a name, a preference, a past decision, as words or a question.",
                },
                "limit": {"type": "integer", "description": "At most so many memories.", "default": top_k},
            },
            "required": ["query"],
        }

    async def call(
        self,
        query: str | None = "",
        limit: int | None = None,
        **kwargs: Any,  # noqa: ANN401  # models invent arguments
    ) -> ToolChunk:
        """Return a line for each memory found; a failure is said, and the reply goes on."""
        wanted = "" if query is None else clean_text(str(query)).strip()
        if not wanted:
            return said(_NOTHING)
        most = as_limit(limit, self._top_k)
        try:
            found = await search_memories(
                self._memory.get(), wanted, user_id=self._user_id, limit=most, min_score=self._min_score
            )
        except Exception as exc:  # noqa: BLE001  # a tool answers with its error, whatever a model or store has
            return failed(f"Error retrieving memory: {exc}")
        return said(("\n".join(map(line_of, found[:most])) or _NOTHING) + self._note())


class AddMemoryTool(ToolBase):
    """Keeps what a model hands in as memories of one user."""

    name = ADD_TOOL
    description = (
        "Keep facts for later conversations, when the user asks to remember something or corrects what is known. What "
        "is said is remembered by itself; give full sentences that stand for themselves: who, what, when."
    )
    is_concurrency_safe = True
    is_read_only = False
    input_schema: dict[str, Any] = {  # noqa: RUF012  # as ToolBase declares it
        "type": "object",
        "properties": {
            "memories": {
                "type": "array",
                "items": {"type": "string"},
                "description": 'The facts, one in each text, such as "Alice is allergic to shellfish".',
            },
        },
        "required": ["memories"],
    }

    def __init__(self, memory: OpenedMemory, *, user_id: str) -> None:
        """Keep where it writes, and whose that is: no argument of the model's says that."""
        super().__init__()
        self._memory = memory
        self._user_id = user_id

    async def check_permissions(
        self, tool_input: dict[str, Any] | None = None, context: PermissionContext | None = None
    ) -> PermissionDecision:
        """Allow it: it only adds to the memory of the user whose agent this is."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message=f"{self.name} only adds to the memory")

    async def call(
        self,
        memories: object = None,
        **kwargs: Any,  # noqa: ANN401  # models invent arguments
    ) -> ToolChunk:
        """Write the facts, all or none; a failure is said, and the reply goes on."""
        texts = [clean_text(text) for text in as_texts(memories)]
        if not texts:
            return failed("Error adding memories: give the facts as `memories`, one in each text")
        drafts = [{"content": text, "author": "agent"} for text in texts]
        try:
            await self._memory.get().add_memories(drafts, user_id=self._user_id, reason=f"{self.name} of an agent")
        except Exception as exc:  # noqa: BLE001  # a tool answers with its error, whatever a model or store has
            return failed(f"Error adding memories: {exc}")
        return said(f"{len(texts)} kept.")


class BlockTool(ToolBase):
    """Edits a memory block of one user."""

    is_concurrency_safe = False
    is_read_only = False
    is_state_injected = True

    def __init__(self, blocks: UserBlocks, tool: BaseMemoryToolOp[Any], *, key: str | None = None) -> None:
        """Keep whose blocks, what is done with them, and where an agent's state tells which its prompt has shown."""
        super().__init__()
        self.name, self.description = tool.name, tool.description
        self.input_schema = dict(tool.spec().parameters)
        self._blocks, self._tool, self._key = blocks, tool, key

    async def check_permissions(
        self, tool_input: dict[str, Any] | None = None, context: PermissionContext | None = None
    ) -> PermissionDecision:
        """Allow it: each edit can be undone, and blocks that are read-only stay as they are."""
        return PermissionDecision(behavior=PermissionBehavior.ALLOW, message=f"{self.name} edits a memory block")

    async def call(
        self,
        _agent_state: AgentState | None = None,
        **arguments: Any,  # noqa: ANN401  # as the model writes them
    ) -> ToolChunk:
        """Edit it; what is wrong is said, and the reply goes on."""
        seen = None if self._key is None or _agent_state is None else read_ledger(_agent_state, self._key).blocks
        text, is_done = await self._blocks.edit(self._tool, arguments, seen)
        return said(text) if is_done else failed(text)


def create_memory_tools(
    memory: ReMe, *, user_name: str | None = None, top_k: int = 5, names: Sequence[str] = (SEARCH_TOOL, RELOAD_TOOL)
) -> list[ToolBase]:
    """Return tools for an agent without the middleware: `Toolkit(tools=create_memory_tools(memory))`.

    Args:
        memory: Where they read; it stays open.
        user_name: Whose memory; None: `default`. No argument of a model's changes that.
        top_k: How many memories a search returns unless the model says otherwise.
        names: Some of `memory_search`, `add_memory`, `reload_context`, `memory_insert`, `memory_replace` and
            `memory_rethink`.

    Raises:
        ConfigurationError: A name of no tool, or something else than a `ReMe`.
        InvalidInputError: A user name that can't be one.
    """
    opened, user_id = OpenedMemory(memory), user_of(user_name)
    made: dict[str, ToolBase] = {
        SEARCH_TOOL: SearchMemoryTool(opened, user_id=user_id, top_k=top_k),
        ADD_TOOL: AddMemoryTool(opened, user_id=user_id),
        RELOAD_TOOL: ReloadContext(opened, user_id=user_id),
    }
    if isinstance(names, str) or not set(names) <= {*made, *BLOCK_TOOLS}:
        msg = f"names: wanted some of {', '.join([*made, *BLOCK_TOOLS])}, found {shown(names)}"
        raise ConfigurationError(msg)
    blocks = UserBlocks(not set(names).isdisjoint(BLOCK_TOOLS), opened, user_id=user_id)
    made |= {tool.name: BlockTool(blocks, tool) for tool in blocks.tools()}
    return [tool for name, tool in made.items() if name in names]
