"""A process that puts checkpoints, each with one message more, until it is killed: python -m … FILE_OR_URL THREAD.

It prints the number of each one after it is on disk.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from reme_langchain import ReMeSaver


async def put_for_ever(path: str, thread: str) -> None:
    saver = ReMeSaver.from_path(path, synchronous="NORMAL")
    at: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    messages: list[HumanMessage] = []
    for number in range(1_000_000):
        messages.append(HumanMessage(f"{number}", id=f"{number}"))
        made = empty_checkpoint()
        made["id"] = str(uuid6(clock_seq=number))
        made["channel_values"] = {"messages": messages}
        made["channel_versions"] = {"messages": saver.get_next_version(None, None)}
        at = await saver.aput(at, made, {"step": number}, made["channel_versions"])
        await saver.aput_writes(at, [("messages", messages[-1:])], "task")
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(put_for_ever(sys.argv[1], sys.argv[2]))
