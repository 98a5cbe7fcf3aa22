"""A small loop with `memory.chat`, which answers from memory and remembers what is said.

    python examples/chat.py

With REME_LLM_MODEL (and REME_LLM_API_KEY or REME_LLM_BASE_URL) set, you talk with that model; an empty line ends the
talk. Without it a script plays both sides and the program checks itself. `reme chat` is the same with more to it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile

from reme_core import Message, ReMe
from reme_core.schema import ToolCallBlock
from reme_core.testing import ScriptedChatModel

USER = "nora"


def searching(query: str) -> Message:
    arguments = {"query_items": [{"query": query}]}
    return Message(
        role="assistant", content=(ToolCallBlock(call_id="call-1", name="vector_retrieve_memory", arguments=arguments),)
    )


FACT = {"type": "personal", "target": "Nora", "content": "Nora's cat is called Miso", "messages": [1]}
LINES = ["Hi! I am Nora, and my cat is called Miso.", "What is my cat called?"]
# After each turn facts are taken from it, in the background.
SCRIPT: list[Message | str] = [
    "Hello Nora! Give Miso my regards.",
    json.dumps({"facts": [FACT]}),
    searching("cat name"),
    "Your cat is called Miso.",
    json.dumps({"facts": []}),
]


async def turn(memory: ReMe, line: str, session_id: str | None) -> tuple[str, list[str]]:
    """Say something, print the answer as it comes, and return the session and what the answer was based on."""
    reply = await memory.chat(
        line, user_id=USER, session_id=session_id, on_text=lambda piece: print(piece, end="", flush=True)
    )
    print()
    for hit in reply.results:
        print(f"    [{hit.layer}] {hit.memory}")
    return reply.session_id, [hit.memory for hit in reply.results]


def read_line() -> str:
    print("> ", end="", flush=True)
    return sys.stdin.readline().strip()


async def talk(folder: str, model: str) -> int:
    session_id: str | None = None
    async with ReMe("chat", folder, llm={"backend": "openai", "model": model}, embedding=None) as memory:
        while line := await asyncio.to_thread(read_line):
            session_id, _ = await turn(memory, line, session_id)
    return 0


async def play(folder: str) -> int:
    based_on: list[str] = []
    with ScriptedChatModel(SCRIPT) as script:
        async with ReMe("chat", folder, llm=script, embedding=None) as memory:
            for line in LINES:
                print(f"> {line}")
                _, based_on = await turn(memory, line, None)  # each line a session of its own: memory has to help
                await memory.flush()  # so that the script is asked in this order
            facts = [item.content for item in (await memory.list_memories(user_id=USER)).memories]
    is_right = based_on == facts == ["Nora's cat is called Miso"]
    print("all checks passed" if is_right else f"FAILED: answered from {based_on}, remembered {facts}")
    return 0 if is_right else 1


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        if model := os.environ.get("REME_LLM_MODEL"):
            return asyncio.run(talk(folder, model))
        print("both sides are a script: set REME_LLM_MODEL and a key to talk yourself")
        return asyncio.run(play(folder))


if __name__ == "__main__":
    sys.exit(main())
