"""Agent in whose reply a memory is asked, and the blocks of memories that AgentScope has put into its context.

`ReActAgent` hands over a question and no word of who asks. Its hooks tell: one notes the agent as a reply begins; one
brings the blocks in its context together into the newest before the model reads them. AgentScope leaves each there.
"""

import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agentscope.agent import AgentBase, ReActAgentBase
from agentscope.memory import MemoryBase
from agentscope.message import Msg

from reme_agentscope._shared.recorded_text import INJECTED_NAME, SaidInContext, digest_of, is_injection, said_in
from reme_agentscope.v1.long_term._new_messages import text_of
from reme_agentscope.v1.messages import from_agentscope

_HOOK = "reme: who asks its memory"
_COMPRESSED = "compressed"  # AgentScope's mark of what left the prompt
# Of the block that stays: the oldest memories make room for new ones, and may be shown again.
_MOST_ITEMS = 20
# Memories and talk are items of a list, with further lines indented; tools have headings.
_LIST = re.compile(r"^- .*(?:\n  .*)*", re.MULTILINE)
_SECTIONS = re.compile(r"^## .*(?:\n(?!## |</).*)*", re.MULTILINE)
_HEADING = "## "
_END = "</long_term_memory>"


@dataclass(slots=True, eq=False)
class AskingAgent:
    """An agent whose reply has begun.

    Attributes:
        agent: Which one.
        memory: Its context.
        is_shown_more: Memories were handed to it that its context does not show yet.
    """

    agent: object
    memory: MemoryBase
    is_shown_more: bool = False

    async def context(self) -> list[Msg]:
        """Return what the model reads, the summary of what left apart."""
        return await self.memory.get_memory(exclude_mark=_COMPRESSED, prepend_summary=False)

    async def said(self) -> SaidInContext:
        """Return what was said in it."""
        own = [msg for msg in await self.context() if not is_injection(name=msg.name, text=text_of(msg))]
        return said_in(from_agentscope(own))

    async def shown(self) -> frozenset[str]:
        """Return digests of the memories that it shows."""
        blocks = [text_of(msg) for msg in await self.context() if _is_block(msg)]
        return frozenset(digest_of(item) for block in blocks for item in _items(block))


_ASKING: ContextVar[AskingAgent | None] = ContextVar("reme_asking_agent", default=None)


def watch_replies() -> None:
    """Have agents note that they reply; done again it changes nothing."""
    AgentBase.register_class_hook("pre_reply", _HOOK, _note)
    ReActAgentBase.register_class_hook("pre_reasoning", _HOOK, _bring_together)


def asking(memory: object) -> AskingAgent | None:
    """Return the agent whose reply asks this memory, once; None where somebody else asks."""
    found = _ASKING.get()
    if found is None or getattr(found.agent, "long_term_memory", None) is not memory or found.is_shown_more:
        return None
    return found


def _note(agent: AgentBase, kwargs: dict[str, Any]) -> None:
    memory = getattr(agent, "memory", None)  # agents that are no `ReActAgent` have none
    _ASKING.set(AskingAgent(agent, memory) if isinstance(memory, MemoryBase) else None)


async def _bring_together(agent: ReActAgentBase, kwargs: dict[str, Any]) -> None:
    found, _ = _ASKING.get(), _ASKING.set(None)
    if found is None or found.agent is not agent or not found.is_shown_more:
        return
    blocks = [msg for msg in await found.context() if _is_block(msg) and _items(text_of(msg))]
    if len(blocks) > 1:
        *_, newest = blocks
        # The old ones go last: whatever ends this in between has lost nothing.
        await found.memory.add(Msg(newest.name, _joined([text_of(msg) for msg in blocks]), newest.role))
        await found.memory.delete([msg.id for msg in blocks])


def _joined(blocks: Sequence[str]) -> str:
    """Return the last block with the items of all of them, each once."""
    items = {_key(item): item for block in blocks for item in _items(block)}
    own = _items(blocks[-1])
    head, _, rest = blocks[-1].partition(own[0])
    tail = f"{own[0]}{rest}".rpartition(own[-1])[2]
    between = "\n\n" if own[0].startswith(_HEADING) else "\n"
    return head + between.join([*items.values()][-max(_MOST_ITEMS, len(own)) :]) + tail


def _is_block(msg: Msg) -> bool:
    return msg.name == INJECTED_NAME


def _items(block: str) -> list[str]:
    body = block.removesuffix(_END).strip()
    return [item.rstrip() for item in (_SECTIONS.findall(body) or _LIST.findall(body))]


def _key(item: str) -> str:
    """Return what an item is known by: of what is told of a tool, which grows, the heading."""
    return item.partition("\n")[0] if item.startswith(_HEADING) else item
