"""One memory file, two frameworks: an agent of AgentScope 2.x and one of LangGraph know what the other was told.

    python examples/agentscope2/with_langgraph.py

It needs both extras: `pip install 'reme-memory[agentscope2,langchain]'`. The program checks itself.
"""

import asyncio
import tempfile
from dataclasses import dataclass

from agentscope.agent import Agent
from agentscope.message import UserMsg
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from stand_in import chat_model

from reme_agentscope import ReMeMiddleware as AgentScopeMiddleware
from reme_core import ReMe
from reme_langchain import ReMeMiddleware as LangChainMiddleware

ANN = "ann@example.com"


@dataclass
class Login:
    user_id: str


class Echo(BaseChatModel):
    """Answers with all that it is shown."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], *args: object, **settings: object) -> ChatResult:
        text = "\n".join(message.text for message in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


async def by_agentscope(folder: str, text: str) -> str:
    settings = AgentScopeMiddleware.Parameters(user_name=ANN, mode="static_control")
    async with ReMe(working_dir=folder, llm=None, embedding=None) as reme:
        middleware = AgentScopeMiddleware(parameters=settings, reme=reme)
        agent = Agent("friday", "You are a helpful assistant.", chat_model(), middlewares=[middleware])
        answer = await agent.reply(UserMsg("user", text))
        await middleware.close()
    return answer.get_text_content() or ""


async def by_langgraph(folder: str, text: str) -> str:
    async with (
        ReMe(working_dir=folder, llm=None, embedding=None) as reme,
        LangChainMiddleware(reme, tools=()) as middleware,
    ):
        agent = create_agent(Echo(), [], middleware=[middleware], context_schema=Login)
        result = await agent.ainvoke({"messages": [("user", text)]}, context=Login(ANN))
    return str(result["messages"][-1].text)


async def main(folder: str) -> None:
    await by_agentscope(folder, "My rabbit is called Flopsy, and she loves dill.")
    await by_langgraph(folder, "My boat is called Kittiwake, and she leaks.")
    rabbit = await by_langgraph(folder, "What does my rabbit love?")
    boat = await by_agentscope(folder, "What is my boat called?")
    print("LangGraph was asked:  ", " ".join(rabbit.split())[:150])
    print("AgentScope was asked: ", " ".join(boat.split())[:150])
    assert "dill" in rabbit
    assert "Kittiwake" in boat
    print("ok  each knows what the other was told")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
