"""Task memory of AgentScope 1.x: what an attempt at a task has taught is shown at the next one.

    python examples/agentscope1/task_lessons.py

With a chat model (`ReMe(llm=...)`) lessons are made of each attempt; here the agent keeps one itself, by its tool. Both
the lesson and the attempt are found later, by words and by meaning: an embedding model of AgentScope's own kind stands
behind `as_embedder`. The program checks itself.

Needs: pip install 'reme-memory[agentscope1]'
"""

import asyncio
import os
import tempfile
import zlib
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse
from agentscope.message import Msg
from stand_in import chat_model, formatter, said, text_of

from reme_agentscope import ReMeTaskLongTermMemory, as_embedder
from reme_core import ReMe

LESSON = "When the build fails after an upgrade, clear its cache first"


class Letters(EmbeddingModelBase):
    """Stands in for an embedding model: texts are near that share parts of words."""

    supported_modalities = ("text",)

    async def __call__(self, text: list[Any], **settings: object) -> EmbeddingResponse:
        return EmbeddingResponse(embeddings=[self._row(item) for item in text])

    def _row(self, text: str) -> list[float]:
        row = [0.01] * self.dimensions
        for place in range(len(text) - 2):
            row[zlib.crc32(text[place : place + 3].lower().encode()) % self.dimensions] += 1.0
        return row


def rule(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep a lesson once; afterwards say what is shown of memory."""
    shown = [text for text in map(text_of, messages) if "<long_term_memory>" in text]
    if shown:
        return said(shown[-1])
    if any(message["role"] == "tool" for message in messages):
        return said("The build runs again: its cache was stale.")
    call = {"thinking": "it will happen again", "content": [LESSON]}
    return [{"type": "tool_use", "id": "call-1", "name": "record_to_memory", "input": call}]


async def attempt(folder: str, task: str) -> str:
    reme = ReMe(working_dir=folder, llm=None, embedding=as_embedder(Letters("letters", 256)))
    async with reme, ReMeTaskLongTermMemory(agent_name="builder", user_name="ann", reme=reme) as memory:
        agent = ReActAgent("builder", "You mend builds.", chat_model(rule), formatter(), long_term_memory=memory)
        agent.set_console_output_enabled(os.environ.get("REME_AGENT_MODEL") is not None)
        answer = await agent(Msg("user", task, "user"))
    print(f"{task}\n    {' '.join(str(answer.get_text_content()).split())[:200]}")
    return str(answer.get_text_content())


async def main(folder: str) -> None:
    await attempt(folder, "Mend the build, it fails since the upgrade.")
    known = await attempt(folder, "After upgrading, building fails again.")
    assert "clear its cache first" in known
    print("ok  the second attempt begins with what the first has taught")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
