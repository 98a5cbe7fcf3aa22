"""One memory, two faces: what a LangGraph agent puts into its store is found by ReMe, and the reverse.

python examples/langgraph_shared_store.py

Needs: pip install 'reme-memory[langchain]'
"""

from __future__ import annotations

import asyncio
import tempfile

from reme_core import ReMe
from reme_langchain import ReMeStore, memory_namespace


async def main(folder: str) -> None:
    async with ReMe(working_dir=folder, llm=None, embedding=None) as memory, ReMeStore(memory) as store:
        anns = memory_namespace("ann@example.com")
        await store.aput(anns, "drink", {"content": "Ann drinks oolong in the afternoon", "cups": 2})
        fact = await memory.add_memory("Ann's train leaves at 17:40", user_id="ann@example.com")

        found = await memory.retrieve("What does Ann drink?", user_id="ann@example.com", limit=1)
        print("by ReMe: ", found.results[0].memory, found.results[0].metadata)
        items = await store.asearch(anns)
        print("by store:", sorted(str(item.value["content"]) for item in items))

        drink = found.results[0].memory_id or ""
        await memory.update_memory(drink, user_id="ann@example.com", content="Ann drinks sencha")
        edited = await store.aget(anns, "drink")
        print("edited:  ", edited and edited.value)
        await store.adelete(anns, fact.memory_id)
        other = await store.asearch(memory_namespace("bob@example.com"))
        left = await memory.list_memories(user_id="ann@example.com")
        print("left:    ", [m.content for m in left.memories], "| Bob's:", other)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
