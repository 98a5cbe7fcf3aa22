"""An image in a reply: kept once, found by its words, and base64 in no table."""

from __future__ import annotations

from pathlib import Path

from agentscope.message import Msg

from reme_agentscope.v1.long_term.long_term_memory import ReMePersonalLongTermMemory
from reme_core import ReMe
from tests.support.images import BASE64, IMAGE, base64_in, blobs_in

SOURCE = {"type": "base64", "media_type": "image/png", "data": BASE64}


async def test_an_image_said_and_one_that_a_tool_shows_are_one_blob(tmp_path: Path) -> None:
    shown = {"type": "image", "source": SOURCE}
    output = [{"type": "text", "text": "the door"}, shown]
    said = [
        Msg("ann", [{"type": "text", "text": "my new door"}, shown], "user"),
        Msg("bot", [{"type": "tool_use", "id": "c", "name": "look", "input": {}}], "assistant"),
        Msg("system", [{"type": "tool_result", "id": "c", "name": "look", "output": output}], "system"),
        Msg("bot", "a red one", "assistant"),
    ]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        long_term = ReMePersonalLongTermMemory(user_name="ann", reme=memory)
        for _ in range(2):
            await long_term.record(said)
        await long_term.flush()
        found = await memory.find_messages(user_id="ann", keyword="door")
        [ref] = found.messages[0].message.blob_references
        assert (await memory.read_blob(ref, user_id="ann")).data == IMAGE
    assert blobs_in(tmp_path / "memory.db") == [IMAGE]
    assert base64_in(tmp_path / "memory.db") == []


async def test_a_reference_that_somebody_made_up_costs_no_turn(tmp_path: Path) -> None:
    made_up = {"type": "image", "source": {"type": "url", "url": "sha256:" + "0" * 64}}
    said = [Msg("ann", [{"type": "text", "text": "my door"}, made_up], "user"), Msg("bot", "a red one", "assistant")]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        long_term = ReMePersonalLongTermMemory(user_name="ann", reme=memory)
        await long_term.record(said)
        await long_term.flush()
        found = await memory.find_messages(user_id="ann")
    assert [item.message.text for item in found.messages] == ["my door", "a red one"]
