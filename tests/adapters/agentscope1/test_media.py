"""An image in a reply: kept once, found by its words, and base64 in no table."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from agentscope.message import Msg

from reme_agentscope.v1.long_term.long_term_memory import ReMePersonalLongTermMemory
from reme_agentscope.v1.session import ReMeSession
from reme_agentscope.v1.working_memory.memory import ReMeMemory
from reme_core import ReMe
from reme_core.schema.blobs import make_blob
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


def shown(data: str) -> Msg:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    return Msg("system", [{"type": "tool_result", "id": "c", "name": "look", "output": [block]}], "system")


@pytest.mark.parametrize("max_tokens", [None, 10_000])
async def test_a_working_memory_and_its_saved_state_hold_an_image_once_and_base64_in_no_table(
    tmp_path: Path, max_tokens: int | None
) -> None:
    image = IMAGE[:200_000]
    data = b64encode(image).decode()
    call = Msg("bot", [{"type": "tool_use", "id": "c", "name": "look", "input": {}}], "assistant")
    msgs = [Msg("ann", [{"type": "image", "source": {**SOURCE, "data": data}}], "user"), call, shown(data)]
    async with ReMe("default", tmp_path, llm=None, embedding=None) as memory:
        for session_id in ("one", "other"):
            async with ReMeMemory(
                location=tmp_path, session_id=session_id, user_id="ann", max_tokens=max_tokens
            ) as working:
                await working.add(msgs)
                await working.get_memory()
                await ReMeSession(memory).save_session_state(session_id, "ann", memory=working)
        async with ReMeMemory(location=tmp_path, session_id="one", user_id="ann") as again:
            assert [msg.to_dict() for msg, _ in again.content] == [msg.to_dict() for msg in msgs]
        loaded = ReMeMemory()
        await ReMeSession(memory).load_session_state("one", "ann", memory=loaded)
        assert [msg.to_dict() for msg, _ in loaded.content] == [msg.to_dict() for msg in msgs]
    assert blobs_in(tmp_path / "memory.db") == [image]
    assert base64_in(tmp_path / "memory.db") == []


async def test_bytes_go_with_the_last_message_that_shows_them(tmp_path: Path) -> None:
    images = [b64encode(bytes([n]) * 30_000).decode() for n in range(3)]
    msgs = [shown(image) for image in images]
    async with ReMe("default", tmp_path, llm=None, embedding=None) as reme:
        one, other = (ReMeMemory(location=tmp_path, session_id=name, user_id="ann") for name in ("one", "other"))
        async with one, other:
            await one.add(msgs)
            await other.add(shown(images[0]))
            await one.update_messages_mark("seen")
            assert (await reme.stats(user_id="ann")).blobs == 3
            await one.delete([msgs[2].id])
            one.content[1][0].content = "nothing"
            await one.flush()
            assert (await reme.stats(user_id="ann")).blobs == 1
            await one.clear()
            assert [msg.content[0]["output"] for msg in await other.get_memory()] == [msgs[0].content[0]["output"]]
            await other.clear()
            assert (await reme.stats(user_id="ann")).blobs == 0


async def test_bytes_of_a_user_who_was_erased_do_not_come_back_with_what_changes_then(tmp_path: Path) -> None:
    async with ReMe("default", tmp_path, llm=None, embedding=None) as reme:
        async with ReMeMemory(location=tmp_path, user_id="ann") as working:
            await working.add(shown(b64encode(bytes(30_000)).decode()))
            await reme.delete_all_memories(user_id="ann")
            working.content[0][1].append("seen")
            await working.add(Msg("ann", "hello", "user"))
        assert (await reme.stats(user_id="ann")).blobs == 0


async def test_a_mark_in_a_message_stays_what_it_is_whoever_has_such_bytes(tmp_path: Path) -> None:
    image, other = (b64encode(bytes([n]) * 30_000).decode() for n in range(2))
    mark = f"reme-base64:{make_blob(bytes(30_000), None).ref}"
    for user_id in ("ann", "bob"):
        async with ReMeMemory(location=tmp_path, user_id=user_id) as working:
            await working.add([shown(image)] if user_id == "ann" else [])
            await working.add([Msg("x", mark, "user"), Msg("x", f"{mark} \ud83d {other}", "user")])
        async with ReMeMemory(location=tmp_path, user_id=user_id) as again:
            assert [msg.content for msg in await again.get_memory()][-2:] == [mark, f"{mark} \ud83d {other}"]
