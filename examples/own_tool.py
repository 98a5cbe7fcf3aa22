"""A tool of one's own: used by itself, and given to the agent that answers questions.

A search finds what comes closest. `TimelineOp` lists everything about one person, what no longer holds as well, in the
order of time. The chat model here is a script, so that no key and no network is needed.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence

from pydantic import Field

from reme_core import AgenticRetriever, Memory, MemoryType, Message, ReMe
from reme_core.errors import ToolFeedback
from reme_core.ports import ListMemories, MemoryFilter, Target, Tool, ToolContext
from reme_core.schema import ToolCallBlock
from reme_core.testing import ScriptedChatModel
from reme_core.tools import BaseMemoryToolOp, ToolItem, VectorRetrieveMemoryOp, find_target, may_touch, read_meta

USER = "alice"
PROMPT = """You answer questions about the course of a life. Call `timeline` for the person asked about, and
`vector_retrieve_memory` for anything else. Answer shortly, with dates, from what the tools return and nothing else."""


class TimelineItem(ToolItem):
    """What the model writes. Unknown keys are refused; the descriptions are for the model."""

    person: str = Field(min_length=1, max_length=200, description="The name of the person.")


class TimelineOp(BaseMemoryToolOp[TimelineItem]):
    """Lists all that is known about persons, oldest first."""

    name = "timeline"
    description = "List everything known about a person in the order of time, what no longer holds as well."
    item = TimelineItem
    items_name = "persons"  # in multiple mode the model writes {"persons": [...]}
    plain_items = True  # ... of plain names
    is_concurrent = True  # it only reads, so calls may run side by side

    async def execute(self, items: Sequence[TimelineItem], context: ToolContext) -> str:
        """Answer in words for the model; everything of the user comes from the context, never from the model."""
        known = [entry.target for entry in await read_meta(context.store, context.scope)]
        lines: list[str] = []
        for item in items:
            target = find_target(known, Target(MemoryType.PERSONAL, item.person))
            if target is None or not may_touch(context, target):
                msg = f"nothing is known about {item.person!r}: write a name as read_meta_memory shows it"
                raise ToolFeedback(msg)  # an answer that tells the model what to correct
            wanted = MemoryFilter(types=(target.memory_type,), targets=(target.memory_target,), include_superseded=True)
            page = await context.store.list_memories(context.scope, ListMemories(filter=wanted, limit=200))
            lines += [line(memory) for memory in sorted(page.memories, key=lambda memory: memory.valid_from)]
        return "\n".join(lines)


def line(memory: Memory) -> str:
    until = "" if memory.valid_to is None else f" to {memory.valid_to:%Y-%m}"
    return f"{memory.valid_from:%Y-%m}{until}: {memory.content}"


def calling(name: str, arguments: dict[str, object]) -> Message:
    return Message(role="assistant", content=(ToolCallBlock(call_id="call-1", name=name, arguments=arguments),))


async def remember(memory: ReMe) -> None:
    cities = (("Berlin", "2019-04"), ("Porto", "2022-09"), ("Lisbon", "2025-05"))
    (first, since), *later = cities
    home = await memory.add_memory(
        f"Alice lives in {first}", user_id=USER, memory_target="Alice", observed_at=f"{since}-01"
    )
    for city, month in later:
        content = f"Alice lives in {city}"
        home = await memory.supersede_memory(home.memory_id, content, user_id=USER, observed_at=f"{month}-01")


async def main() -> int:
    script = ScriptedChatModel(
        [
            calling("timeline", {"persons": ["Bob"]}),
            calling("timeline", {"persons": ["alice"]}),
            "In Porto, from September 2022 to May 2025.",
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("own-tool", folder, llm=script, embedding=None) as memory:
            await remember(memory)

            # By itself, in any agent framework: the schema for the model, and a call with what the model wrote.
            tool = TimelineOp(enable_multiple=False)
            print(tool.schema())
            told = await tool({"person": "alice"}, memory.tool_context(user_id=USER))
            print(told)

            # In the agent that answers `retrieve`.
            tools: list[Tool] = [TimelineOp(), VectorRetrieveMemoryOp(add_memory_type_target=True)]
            memory.set_retriever(AgenticRetriever(tools=tools, system_prompt=PROMPT))
            found = await memory.retrieve("Where did Alice live before Lisbon?", user_id=USER)
            print(f"the agent's answer: {found.answer}")
    script.assert_done()

    corrected = script.requests[1].messages[-1].full_text
    checks = [
        told.splitlines()[0] == "2019-04 to 2022-09: Alice lives in Berlin",
        len(told.splitlines()) == 3,
        "nothing is known about 'Bob'" in corrected,
        "2022-09 to 2025-05: Alice lives in Porto" in script.requests[2].messages[-1].full_text,
        found.answer == "In Porto, from September 2022 to May 2025.",
    ]
    print("all checks passed" if all(checks) else f"FAILED: {checks}")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
