"""An image in a reply: kept once, found by its words, and base64 in no table."""

from __future__ import annotations

from pathlib import Path

from agentscope.message import Base64Source, DataBlock, TextBlock, UserMsg

from reme_agentscope import ReMeMiddleware
from reme_core import ReMe
from tests.adapters.agentscope2.scripted import ScriptedModel, make_agent
from tests.support.images import BASE64, IMAGE, base64_in, blobs_in


async def test_an_image_that_is_said_twice_is_one_blob(tmp_path: Path) -> None:
    image = DataBlock(source=Base64Source(data=BASE64, media_type="image/png"), name="door.png")
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        async with ReMeMiddleware(reme=memory) as middleware:
            agent = make_agent(ScriptedModel(["red", "still red"]), middlewares=[middleware])
            for text in ("my new door", "and now?"):
                await agent.reply(UserMsg(name="ann", content=[TextBlock(text=text), image]))
        found = await memory.find_messages(user_id="default", keyword="door")
        [ref] = found.messages[0].message.blob_references
        assert (await memory.read_blob(ref, user_id="default")).data == IMAGE
    assert blobs_in(tmp_path / "memory.db") == [IMAGE]
    assert base64_in(tmp_path / "memory.db") == []
