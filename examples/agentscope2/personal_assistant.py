"""A personal assistant of AgentScope 2.x over two sessions: what was said in the first is known in the second.

    python examples/agentscope2/personal_assistant.py

Each session has a new agent, a new middleware and newly opened files, as the agent service makes them for each turn.
The program checks itself.

Needs: pip install 'reme-memory[agentscope2]'
"""

import asyncio
import tempfile

from agentscope.agent import Agent
from agentscope.message import UserMsg
from stand_in import chat_model

from reme_agentscope import ReMeMiddleware
from reme_core import ReMe


async def session(folder: str, user: str, text: str) -> str:
    settings = ReMeMiddleware.Parameters(user_name=user, mode="static_control")
    async with ReMe(working_dir=folder, llm=None, embedding=None) as reme:
        middleware = ReMeMiddleware(parameters=settings, reme=reme)
        agent = Agent("friday", "You are a helpful assistant.", chat_model(), middlewares=[middleware])
        answer = await agent.reply(UserMsg("user", text))
        await middleware.close()
    said = answer.get_text_content() or ""
    print(f"{user}: {text}\n    {' '.join(said.split())[:150]}")
    return said


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
