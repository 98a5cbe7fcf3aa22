"""An image in a reply: kept once, found by its words, and base64 in no table."""

from __future__ import annotations

import json
from pathlib import Path

from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    HintBlock,
    TextBlock,
    ToolResultBlock,
    UserMsg,
)

from reme_agentscope import ReMeMiddleware, ReMeOffloader
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


async def test_images_that_leave_a_context_are_one_file_and_base64_in_no_table(tmp_path: Path) -> None:
    image = DataBlock(source=Base64Source(data=BASE64, media_type="image/png"), name="door.png")
    small = DataBlock(source=Base64Source(data="iVBORw0KGgo=", media_type="image/png"))
    shown = ToolResultBlock(id="c", name="look", output=[TextBlock(text="the door"), image], state="success")
    said = [
        UserMsg(name="ann", content=[TextBlock(text="my new door"), image, small]),
        AssistantMsg(name="bot", content=[HintBlock(hint=[image]), shown]),
    ]
    before = [msg.model_dump_json() for msg in said]
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        offloader = ReMeOffloader(tmp_path / "work", user_name="ann", reme=memory)
        await offloader.offload_context("s1", said)
        [offload], _ = await memory.list_offloads(user_id="ann")
        found = await memory.reload_context(user_id="ann", reference=offload.reference, limit_chars=20_000)
    kept = [json.loads(line) for line in found.results[0].memory.splitlines()]
    [file] = (tmp_path / "work").rglob("*.png")
    places = [kept[0]["content"][1], kept[1]["content"][0]["hint"][0], kept[1]["content"][1]["output"][1]]
    assert [place["source"]["url"] for place in places] == [file.as_uri()] * 3
    assert file.read_bytes() == IMAGE
    assert kept[0]["content"][2] == small.model_dump(mode="json")
    assert [msg.model_dump_json() for msg in said] == before
    assert base64_in(tmp_path / "memory.db") == []
