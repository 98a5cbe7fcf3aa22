"""Memories made by a chat model: in the background, with what held before and what holds now.

    python examples/with_a_model.py

With REME_LLM_MODEL (and REME_LLM_API_KEY or REME_LLM_BASE_URL) set, that model is asked; otherwise a script says what a
model could say, and no key or network is needed. The program checks itself either way.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile

from reme_core import ReMe
from reme_core.facade.parts import Settings
from reme_core.ports import ChatModel
from reme_core.testing import ScriptedChatModel

USER = "alice"
QUESTION = "In which city does Alice live?"
BEFORE = [
    {
        "role": "user",
        "name": "Alice",
        "content": "I live in Berlin, near the zoo.",
        "created_at": "2024-03-01 10:00:00",
    },
    {"role": "assistant", "content": "Do you hear the lions?", "created_at": "2024-03-01 10:00:20"},
]
AFTER = [
    {"role": "user", "name": "Alice", "content": "I moved to Lisbon last month!", "created_at": "2025-06-02 09:30:00"},
    {"role": "assistant", "content": "How do you like it?", "created_at": "2025-06-02 09:30:20"},
]
# What a model could answer: facts of the first talk, of the second one, and what the second means for the first.
SCRIPT: list[dict[str, object]] = [
    {"facts": [{"type": "personal", "target": "Alice", "content": "Alice lives in Berlin", "messages": [1]}]},
    {
        "facts": [
            {
                "type": "personal",
                "target": "Alice",
                "content": "Alice lives in Lisbon, where she moved in May 2025",
                "valid_from": "2025-05",
                "messages": [1],
            }
        ]
    },
    {"decisions": [{"fact": 1, "action": "supersede", "memory": [1]}]},
]


def choose_model() -> ChatModel | Settings:
    name = os.environ.get("REME_LLM_MODEL")
    if name:
        print(f"the model is {name}")
        return {"backend": "openai", "model": name}
    print("the model is a script: set REME_LLM_MODEL and a key for a real one")
    return ScriptedChatModel([json.dumps(step) for step in SCRIPT])


async def answer(memory: ReMe, as_of: str | None = None) -> str:
    found = await memory.retrieve(QUESTION, user_id=USER, layers=["memory"], limit=1, as_of=as_of)
    return found.results[0].memory if found.results else "(nothing)"


async def tell(folder: str) -> list[tuple[str, bool]]:
    """Tell of a life that changes, and return what should be true of the answers."""
    async with ReMe("with-a-model", folder, llm=choose_model(), embedding=None) as memory:
        before = await memory.summary(BEFORE, user_id=USER, background=True)
        print(f"{len(before.message_ids)} messages are on disk, {len(before.job_ids)} job is left for the background")
        await memory.flush()
        made = await memory.list_memories(user_id=USER)
        print(f"flush() has waited for it: {[item.content for item in made.memories]}")
        after = await memory.summary(AFTER, user_id=USER)
        print(f"the next summary took {after.usage.model_calls} calls and wrote run {after.run_id}")

        now, then = await answer(memory), await answer(memory, as_of="2024-06-01")
        print(f"now:           {now}")
        print(f"in June 2024:  {then}")
        jobs = await memory.list_jobs(user_id=USER)
        if after.run_id is not None:
            await memory.undo(after.run_id, user_id=USER)
        undone = await answer(memory)
        print(f"after undo():  {undone}")
    return [
        ("today she lives in Lisbon", "Lisbon" in now),
        ("in 2024 she lived in Berlin", "Berlin" in then),
        ("undo brings Berlin back", "Berlin" in undone),
        ("no job is left", not jobs),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        checks = asyncio.run(tell(folder))
    for what, is_so in checks:
        print(f"{'ok ' if is_so else 'NOT'} {what}")
    return 0 if all(is_so for _, is_so in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
