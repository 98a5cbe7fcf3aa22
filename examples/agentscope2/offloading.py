"""An offloader of AgentScope 2.x: what a context has no room for is on disk, and read again by a tool.

    python examples/agentscope2/offloading.py

A long tool result is handed to the offloader, as an agent with `Agent(offloader=...)` does it by itself; the reference
that comes back is what the model reads instead. The program checks itself.

Needs: pip install 'reme-memory[agentscope2]'
"""

import asyncio
import tempfile

from agentscope.agent import Agent
from agentscope.message import ToolResultBlock
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from stand_in import chat_model

from reme_agentscope import ReMeOffloader
from reme_core import ReMe


async def main(folder: str) -> None:
    report = "\n".join(f"line {number}: {number * 37}" for number in range(5_000))
    async with ReMe(working_dir=folder, llm=None, embedding=None) as reme:
        offloader = ReMeOffloader(folder, user_name="ann@example.com", reme=reme)
        [reload] = await offloader.list_tools()
        state = AgentState(session_id="report-1")
        toolkit = Toolkit(tools=[reload])
        Agent("friday", "You read reports.", chat_model(), toolkit=toolkit, offloader=offloader, state=state)

        result = ToolResultBlock(id="call-1", name="read_report", output=report, state="success")
        told = await offloader.offload_tool_result("report-1", result)
        handle = told.split('"')[1]
        chunk = await reload(handle=handle, pattern="line 4321:", _agent_state=state)
        found = chunk.content[0].text
        other = await reload(handle=handle, _agent_state=AgentState(session_id="another"))
        await offloader.close()
    print(f"the model reads: {told}\nand finds again: {found[:80]}")
    assert "159877" in found
    assert "There is no handle" in other.content[0].text
    print("ok  what left the context is found again, in its own session alone")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(place))
