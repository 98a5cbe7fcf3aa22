"""An agent service of AgentScope 2.x over one memory: a middleware for each turn, ended together.

    python examples/agentscope2/service.py

`create_app(..., extra_agent_middlewares=middlewares)` takes what is made here, and calls it for each turn with user,
agent and session; this program does so itself. What a turn still has to write outlives it, so `close` stands at the end
of the service. The agent also learns from its tasks, and keeps what the user asks to remember. The program checks
itself.

Needs: pip install 'reme-memory[agentscope2]'
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.tool import Toolkit
from stand_in import chat_model

from reme_agentscope import ReMeMiddleware, ReMeMiddlewares
from reme_core import ReMe


@asynccontextmanager
async def service(folder: str) -> AsyncIterator[ReMeMiddlewares]:
    """Open the memory for as long as the service runs: a server's lifespan."""
    parameters = ReMeMiddleware.Parameters(memory_types=["personal", "task"], top_k=3)
    async with ReMe(working_dir=folder, llm=None, embedding=None) as reme:
        middlewares = ReMeMiddlewares(reme, parameters=parameters)
        yield middlewares
        await middlewares.close()  # before the memory: what was said is on disk then, or this says what is not


async def turn(middlewares: ReMeMiddlewares, user_id: str, text: str) -> str:
    [middleware] = await middlewares(user_id, "friday", f"session of {user_id}")
    toolkit = Toolkit(tools=await middleware.list_tools())
    agent = Agent("friday", "You help.", chat_model(), toolkit=toolkit, middlewares=[middleware])
    answer = (await agent.reply(UserMsg("user", text))).get_text_content() or ""
    print(f"{user_id}: {text}\n    {' '.join(answer.split())[:150]}")
    return answer


async def main(folder: str) -> None:
    async with service(folder) as middlewares:
        await turn(middlewares, "ann", "My rabbit is called Flopsy, and she loves dill.")
        known = await turn(middlewares, "ann", "What does my rabbit love?")
        unknown = await turn(middlewares, "bob", "What does my rabbit love?")
    assert "dill" in known
    assert "dill" not in unknown
    print("ok  each turn has a middleware of its own, and all of them one memory")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
