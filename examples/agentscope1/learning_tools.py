"""An agent of AgentScope 1.x that learns from calls that failed.

    python examples/agentscope1/learning_tools.py

A tool wants grams, which nobody says. In the first session the agent gives kilograms, is refused, and tries again; in
the second it is shown how the calls of that tool went, and gets it right at once. The program checks itself.

Needs: pip install 'reme-memory[agentscope1]'
"""

import asyncio
import os
import tempfile
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.message import Msg, TextBlock
from agentscope.tool import Toolkit, ToolResponse
from stand_in import chat_model, formatter, said, text_of

from reme_agentscope import ReMeToolLongTermMemory
from reme_core import ReMe

CALLS: list[str] = []


async def send_parcel(weight: str) -> ToolResponse:
    """Send a parcel.

    Args:
        weight: How heavy it is.
    """
    CALLS.append(weight)
    sent = weight.endswith(" g")
    text = "sent, number 4711" if sent else "Error: weight: wanted grams such as '500 g'"
    return ToolResponse(content=[TextBlock(type="text", text=text)])


def rule(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give kilograms, unless grams were asked for in anything that is shown."""
    if any(message["role"] == "tool" and "sent" in text_of(message) for message in messages):
        return said("It is on its way.")
    weight = "2000 g" if any("wanted grams" in text_of(message) for message in messages) else "2 kg"
    call = {"type": "tool_use", "id": f"call-{len(messages)}", "name": "send_parcel", "input": {"weight": weight}}
    return [call]


async def session(folder: str) -> list[str]:
    CALLS.clear()
    reme = ReMe(working_dir=folder, llm=None, embedding=None)
    async with reme, ReMeToolLongTermMemory(user_name="shop", reme=reme) as memory:
        toolkit = Toolkit()
        toolkit.register_tool_function(send_parcel)
        agent = ReActAgent(
            "clerk",
            "You send parcels.",
            chat_model(rule),
            formatter(),
            toolkit=toolkit,
            long_term_memory=memory,
            long_term_memory_mode="static_control",
        )
        agent.set_console_output_enabled(os.environ.get("REME_AGENT_MODEL") is not None)
        await agent(Msg("user", "Please use send_parcel for the parcel of two kilograms.", "user"))
    print("weights given:", CALLS)
    return list(CALLS)


async def main(folder: str) -> None:
    first, second = await session(folder), await session(folder)
    assert first[0] == "2 kg"
    assert second == ["2000 g"]
    print("ok  right at once, with what the failing calls have taught")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
