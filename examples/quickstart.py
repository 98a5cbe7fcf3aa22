"""The facade in thirty lines: keep what was said, find it again. Runs without a key or a network."""

from __future__ import annotations

import asyncio
import tempfile

from reme_core import ReMe

MESSAGES = [
    {"role": "user", "name": "Alice", "content": "I moved to Lisbon in May.", "created_at": "2025-06-02T09:30:00Z"},
    {"role": "assistant", "content": "How do you like it?", "created_at": "2025-06-02T09:30:20Z"},
    {"role": "user", "name": "Alice", "content": "I surf before work!", "created_at": "2025-06-02T09:31:00Z"},
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("quickstart", folder, llm=None, embedding=None) as memory:
            kept = await memory.summary(MESSAGES, user_id="alice")
            print(f"{len(kept.message_ids)} messages are on disk")
            await memory.add_memory("Allergic to shellfish", user_id="alice", memory_target="Alice")

            for question in ("Where did Alice move to?", "Which allergy do I have to think of?"):
                found = await memory.retrieve(question, user_id="alice", limit=1)
                for hit in found.results:
                    print(f"{question}  ->  {hit.memory}  ({hit.layer}, {hit.observed_at:%d %b %Y})")

            other = await memory.retrieve("Where did Alice move to?", user_id="bob")
            print(f"bob finds {len(other.results)} results")


if __name__ == "__main__":
    asyncio.run(main())
