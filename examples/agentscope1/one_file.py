"""Both memories of AgentScope 1.x and its sessions in one file, and a talk of two agents in a `MsgHub`.

    python examples/agentscope1/one_file.py

Working memory, long-term memory and the saved session lie in one file. Give both memories one user and one session:
messages that leave the working memory are then kept once. Ann's guide and her critic hear each other in the hub; each
has a working memory of its own. After a restart the guide goes on where it was. The program checks itself.

Needs: pip install 'reme-memory[agentscope1]'
"""

import asyncio
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.message import Msg
from agentscope.pipeline import MsgHub
from stand_in import chat_model, formatter, said, text_of

from reme_agentscope import ReMeMemory, ReMePersonalLongTermMemory, ReMeSession
from reme_core import ReMe

USER, SESSION = "ann@example.com", "trip-1"


def rule(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say how many messages the prompt has, and its last one."""
    return said(f"After {len(messages)} messages: {text_of(messages[-1])[:80]}")


def make_agent(name: str, folder: Path, reme: ReMe) -> ReActAgent:
    run = f"{SESSION}-{name}"
    long_term = ReMePersonalLongTermMemory(user_name=USER, run_name=run, reme=reme)
    working = ReMeMemory(location=folder, user_id=USER, session_id=run, max_tokens=4000, long_term_memory=long_term)
    agent = ReActAgent(
        name,
        "You plan trips.",
        chat_model(rule),
        formatter(),
        memory=working,
        long_term_memory=long_term,
        long_term_memory_mode="static_control",
    )
    agent.set_console_output_enabled(os.environ.get("REME_AGENT_MODEL") is not None)
    return agent


async def close(*agents: ReActAgent) -> None:
    """Finish what is written: first of the working memories, which hand over to the long-term ones."""
    for agent in agents:
        await agent.memory.close()
        await agent.long_term_memory.close()


async def main(folder: Path) -> None:
    async with ReMe(working_dir=folder, llm=None, embedding=None) as reme:
        guide, critic = make_agent("guide", folder, reme), make_agent("critic", folder, reme)
        async with MsgHub([guide, critic]):
            await guide(Msg("user", "Plan a trip to Porto by train.", "user"))
            await critic()
        await ReMeSession(reme, expires_after=timedelta(days=30)).save_session_state(SESSION, USER, guide=guide)
        await close(guide, critic)

    async with ReMe(working_dir=folder, llm=None, embedding=None) as reme:
        guide = make_agent("guide", folder, reme)
        await ReMeSession(reme).load_session_state(SESSION, USER, guide=guide)
        heard = [str(msg.get_text_content()) for msg in await guide.memory.get_memory()]
        found = await reme.retrieve("Where does the train go?", user_id=USER)
        print("\n".join(heard), found.text, sep="\n\n")
        await close(guide)
    assert any("Porto" in text for text in heard)
    assert any(text.startswith("After") for text in heard[1:])
    assert "Porto" in found.text
    print("ok  one file: the talk, the memories and the session")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
        assert len(list(Path(place).glob("*.db"))) == 1
