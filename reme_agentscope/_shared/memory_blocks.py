"""Memory blocks of the user whose agent this is, in both generations of AgentScope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reme_agentscope._shared.memory_kind import LOG
from reme_agentscope._shared.opening import told
from reme_core.errors import ToolFeedback

if TYPE_CHECKING:
    from reme_agentscope._shared.opening import OpenedMemory
    from reme_core.tools import BaseMemoryToolOp
    from reme_core.tools.prompt_blocks import PromptBlocks, ShownBlocks


class UserBlocks:
    """The memory blocks that an agent is shown, and may edit.

    Attributes:
        seen: The revisions that the last prompt has shown, where nothing else of the agent's keeps them.
    """

    def __init__(self, given: object, memory: OpenedMemory, *, user_id: str) -> None:
        """Read the option `memory_blocks` (ConfigurationError), and keep where the blocks are."""
        self._prompts = None if given is False else _prompt_blocks(given)
        self._memory = memory
        self._user_id = user_id
        self.seen: Mapping[str, int] = {}

    async def read(self) -> ShownBlocks | None:
        """Return them as they are now, for a prompt; None where none are to be shown. See `PromptBlocks.read`."""
        if self._prompts is None:
            return None
        shown = await self._prompts.read(self._memory.get(), self._user_id)
        self.seen = shown.revisions
        return shown

    def tools(self) -> Sequence[BaseMemoryToolOp[Any]]:
        """Return the tools that edit them; none where none are to be shown."""
        return [] if self._prompts is None else self._prompts.tools()

    async def edit(
        self, tool: BaseMemoryToolOp[Any], arguments: Mapping[str, object], seen: Mapping[str, int] | None
    ) -> tuple[str, bool]:
        """Return what the model is told of an edit, and whether it was done; nothing is raised."""
        try:
            context = self._memory.get().tool_context(user_id=self._user_id)
            assert self._prompts is not None  # noqa: S101  # it has given the tool
            return await self._prompts.edit(tool, arguments, context, seen=seen), True
        except ToolFeedback as exc:
            return str(exc), False
        except Exception as exc:  # noqa: BLE001  # the model is told, and the reply goes on
            LOG.error("a memory block was not edited: %s", told(exc))
            return f"Error editing a memory block: {exc}", False


def _prompt_blocks(given: object) -> PromptBlocks:
    # Loaded here and not with this module: it brings the ports, which importing us does not.
    from reme_core.tools.prompt_blocks import PromptBlocks  # noqa: PLC0415

    return PromptBlocks(given, log=LOG)
