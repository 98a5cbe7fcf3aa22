"""Memory blocks before each call of an agent's model, and the tools that edit them.

They come as a hint: AgentScope shows the model a message with this mark once, as the last one of its prompt, and takes
it out of the context. So what stands before keeps its place in the model's prefix cache, and nothing piles up.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agentscope.agent import ReActAgentBase
from agentscope.memory import MemoryBase
from agentscope.message import Msg, TextBlock
from agentscope.tool import Toolkit, ToolResponse

from reme_agentscope._shared.memory_blocks import UserBlocks
from reme_agentscope._shared.recorded_text import BLOCKS_NAME

if TYPE_CHECKING:
    from reme_core.tools import BaseMemoryToolOp

_HOOK = "reme: its memory blocks"
_HINT = "hint"  # AgentScope's mark
# AgentScope has put it into the toolkit where the model is to work with the memory by itself.
_OWN_TOOL = "record_to_memory"


def watch_prompts() -> None:
    """Have agents show the blocks of their long-term memory; done again it changes nothing."""
    ReActAgentBase.register_class_hook("pre_reasoning", _HOOK, _show)


async def _show(agent: ReActAgentBase, kwargs: dict[str, Any]) -> None:
    memory, context = getattr(agent, "long_term_memory", None), getattr(agent, "memory", None)
    blocks = getattr(memory, "blocks", None)  # other long-term memories have none
    if not isinstance(blocks, UserBlocks) or not isinstance(context, MemoryBase):
        return
    toolkit = getattr(agent, "toolkit", None)
    if isinstance(toolkit, Toolkit):
        _offer(toolkit, memory, blocks)
    # One is left where the last call was broken off, or a memory of AgentScope's has not known the mark again.
    left = [msg.id for msg in await context.get_memory(mark=_HINT) if msg.name == BLOCKS_NAME]
    if left:
        await context.delete(left)
    shown = await blocks.read()
    if shown is not None and shown.text:
        await context.add(Msg(BLOCKS_NAME, shown.text, "user"), marks=_HINT)


def _offer(toolkit: Toolkit, memory: object, blocks: UserBlocks) -> None:
    """Add the tools to a toolkit that has those of this memory."""
    own = toolkit.tools.get(_OWN_TOOL)
    if own is None or getattr(own.original_func, "__self__", None) is not memory:
        return
    for tool in blocks.tools():
        if tool.name not in toolkit.tools:
            toolkit.register_tool_function(_function(tool, blocks), func_name=tool.name, json_schema=tool.schema())


def _function(tool: "BaseMemoryToolOp[Any]", blocks: UserBlocks) -> Callable[..., Awaitable[ToolResponse]]:
    async def edit(**arguments: object) -> ToolResponse:
        text, _ = await blocks.edit(tool, arguments, blocks.seen)
        return ToolResponse(content=[TextBlock(type="text", text=text)])

    return edit
