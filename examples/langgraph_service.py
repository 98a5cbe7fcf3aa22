"""A service of many users: one memory, one agent, and a user id with each request.

    python examples/langgraph_service.py

Requests of several users run side by side on one agent. Who is asking stands in the run's context, which the service
fills from its own login; the model never names a user. The program checks that nobody is shown what is another's.

Needs: pip install 'reme-memory[langchain]'
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from reme_core import ReMe
from reme_langchain import ReMeMiddleware, ReMeSaver

USERS = [f"user-{n}@example.com" for n in range(8)]


@dataclass
class Login:
    user_id: str


class Echo(BaseChatModel):
    """Answers with all that it is shown."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: object,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(shown(messages)))])


def shown(messages: Sequence[BaseMessage]) -> str:
    return "\n".join(message.text for message in messages)


async def main(folder: str) -> None:
    async with ReMe(working_dir=folder, llm=None, embedding=None) as memory, ReMeSaver(memory) as saver:
        for number, user in enumerate(USERS):
            await memory.add_memory(f"The locker of {user} has the code {number}{number}71", user_id=user)
        middleware = ReMeMiddleware(memory, tools=())
        agent = create_agent(Echo(), [], middleware=[middleware], checkpointer=saver, context_schema=Login)

        async def ask(user: str) -> str:
            request = {"messages": [("user", "What is the code of my locker?")]}
            config = {"configurable": {"thread_id": f"thread of {user}"}}
            result = await agent.ainvoke(request, config, context=Login(user))
            return str(result["messages"][-1].text)

        answers = await asyncio.gather(*map(ask, USERS))
        await middleware.aclose()
    for number, answer in enumerate(answers):
        codes = [n for n in range(len(USERS)) if f"{n}{n}71" in answer]
        assert codes == [number], answer
    print(f"ok  {len(USERS)} users at once, each was shown the one code that is theirs")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
