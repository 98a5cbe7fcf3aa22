"""A LangGraph agent with everything of reme_langchain: store, checkpointer, middleware and tools.

    python examples/langgraph_agent.py

Two sessions, each with a new agent and newly opened files, as after a restart: what was said and saved in the first is
known in the second, another user sees nothing of it, and a long tool result is cut and loaded again. With
REME_AGENT_MODEL set ("provider:model", see `init_chat_model`; the provider's package must be installed) that model
talks; otherwise a stand-in does, which saves what it is asked to remember and answers from what it is shown. The
program checks itself.

Needs: pip install 'reme-memory[langchain]'
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, tool

from reme_core import ReMe
from reme_langchain import Offload, ReMeMiddleware, ReMeSaver, ReMeStore, create_memory_tools


@dataclass
class Context:
    """What an agent is told of a run: who is talking."""

    user_id: str


class StandIn(BaseChatModel):
    """Calls a tool where the words of the user name one, and otherwise repeats what it is shown of memory."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(
        self, tools: Sequence[dict[str, object] | type | Callable[..., object] | BaseTool], **settings: object
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self  # type: ignore[return-value]  # it knows the tools already

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: object,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=answer(messages))])


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    said = next(message.text for message in reversed(messages) if is_spoken(message))
    if isinstance(messages[-1], ToolMessage):
        return AIMessage(f"Done: {messages[-1].text[:120]}")
    if said.startswith("Please remember: "):
        call = {"name": "save_memory", "args": {"content": said.removeprefix("Please remember: ")}, "id": "call-save"}
        return AIMessage("", tool_calls=[call])
    if said.startswith("Read the log"):
        return AIMessage("", tool_calls=[{"name": "read_log", "args": {}, "id": "call-log"}])
    shown = [m.text for m in messages if m.additional_kwargs.get("lc_source") == "reme"]
    return AIMessage(shown[-1] if shown else "I don't know yet.")


def is_spoken(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and message.additional_kwargs.get("lc_source") != "reme"


@tool
def read_log() -> str:
    """Return the log of the last night."""
    return "all is quiet\n" * 4000 + "03:12 the pump of line 7 stopped"


async def session(folder: Path, thread: str, user: str, *said: str) -> list[str]:
    """Talk in one thread with a newly opened memory; return the answers."""
    model = os.environ.get("REME_AGENT_MODEL")
    answers = []
    async with (
        ReMe(working_dir=folder, embedding=None) as memory,
        ReMeSaver(memory) as saver,
        ReMeStore(memory) as store,
        ReMeMiddleware(memory, offload=Offload(over_chars=8_000)) as middleware,
    ):
        agent = create_agent(
            init_chat_model(model) if model else StandIn(),
            tools=[read_log, *create_memory_tools(memory)],
            middleware=[middleware],
            checkpointer=saver,
            store=store,
            context_schema=Context,
        )
        for text in said:
            result = await agent.ainvoke(
                {"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}}, context=Context(user)
            )
            answers.append(result["messages"][-1].text)
            longest = max(len(message.text) for message in result["messages"])
            print(f"{user} > {text}\n      {' '.join(answers[-1].split())[:160]}")
            print(f"      (longest message: {longest} characters)")
    return answers


async def main(folder: Path) -> None:
    await session(folder, "t1", "ann@example.com", "Please remember: Ann is allergic to shellfish.", "Read the log.")
    [known] = await session(folder, "t2", "ann@example.com", "What should a cook know about Ann's food?")
    [unknown] = await session(folder, "t3", "bob@example.com", "What should a cook know about Ann's food?")
    assert "shellfish" in known
    assert "shellfish" not in unknown
    print("ok  known in the next session, unknown to another user")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
