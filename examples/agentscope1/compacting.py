"""A working memory of AgentScope 1.x that compacts: a long talk in a small window, and nothing lost.

    python examples/agentscope1/compacting.py

Forty turns with long answers, in a budget of 3,000 tokens. What leaves the agent's view stays on disk, marked
`compressed`; the program counts what is sent, and at the end everything is there. It checks itself.

Needs: pip install 'reme-memory[agentscope1]'
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.message import Msg
from stand_in import chat_model, formatter, said, text_of

from reme_agentscope import ReMeMemory

TURNS, SENT = 40, list[int]()


def rule(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Note how much is sent, and answer at length."""
    SENT.append(sum(len(text_of(message)) for message in messages))
    return said(f"Answer {len(SENT)}: " + "and so on " * 60)


async def main(folder: Path) -> None:
    memory = ReMeMemory(max_tokens=3000, location=folder, session_id="long", user_id="ann")
    agent = ReActAgent("friday", "You are a helpful assistant.", chat_model(rule), formatter(), memory=memory)
    agent.set_console_output_enabled(os.environ.get("REME_AGENT_MODEL") is not None)
    for turn in range(TURNS):
        await agent(Msg("user", f"Question {turn}: what about the number {turn * 37}?", "user"))
    await memory.close()

    again = ReMeMemory(max_tokens=3000, location=folder, session_id="long", user_id="ann")
    hidden, everything = await again.get_memory(mark="compressed"), await again.size()
    await again.close()
    print(f"{everything} messages, {len(hidden)} of them out of sight; at most {max(SENT)} characters sent at once")
    assert everything == 2 * TURNS
    assert hidden
    assert max(SENT) < 4 * 3000
    print("ok  the talk fits, and every message is there")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
