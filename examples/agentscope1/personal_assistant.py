"""A personal assistant of AgentScope 1.x over two sessions: what was said in the first is known in the second.

    python examples/agentscope1/personal_assistant.py

Each session has a new agent and newly opened files, as after a restart. The long-term memory is given to the agent as
AgentScope's own class of that name would be. The program checks itself.

Needs: pip install 'reme-memory[agentscope1]'
"""

import asyncio
import os
import tempfile
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.message import Msg
from stand_in import chat_model, formatter, said, text_of

from reme_agentscope import ReMePersonalLongTermMemory
from reme_core import ReMe


def rule(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Repeat what is shown of memory."""
    shown = [text for text in map(text_of, messages) if "<long_term_memory>" in text]
    return said(shown[-1] if shown else "I see.")


async def session(folder: str, user: str, text: str) -> str:
    model = chat_model(rule)
    reme = ReMe(working_dir=folder, llm=None, embedding=None)
    async with reme, ReMePersonalLongTermMemory(user_name=user, reme=reme) as memory:
        agent = ReActAgent(
            "friday",
            "You are a helpful assistant.",
            model,
            formatter(),
            long_term_memory=memory,
            long_term_memory_mode="both",
        )
        agent.set_console_output_enabled(os.environ.get("REME_AGENT_MODEL") is not None)
        answer = await agent(Msg("user", text, "user"))
    print(f"{user}: {text}\n    {' '.join(str(answer.get_text_content()).split())[:150]}")
    return str(answer.get_text_content())


async def main(folder: str) -> None:
    await session(folder, "ann@example.com", "My rabbit is called Flopsy, and she loves dill.")
    known = await session(folder, "ann@example.com", "What does my rabbit love?")
    unknown = await session(folder, "bob@example.com", "What does my rabbit love?")
    assert "dill" in known
    assert "dill" not in unknown
    print("ok  known in the next session, unknown to another user")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
