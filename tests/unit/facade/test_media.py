"""Images and files in messages: kept once by content, found by what was said of them, never base64 in a table."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import UserDict
from collections.abc import AsyncIterator, KeysView
from contextlib import closing
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import BlobNotFoundError, InvalidInputError, InvalidLinesError
from reme_core.schema import MAX_BLOB_BYTES, ImageBlock, Message, TextBlock, data_url
from reme_core.schema.blobs import blob_reference
from reme_core.schema.openai_messages import wire_messages
from reme_core.testing import ScriptedChatModel
from reme_core.working.messages_to_keep import ContextLimits
from tests.support.images import DATA_URL, IMAGE, base64_in, blobs_in
from tests.support.rule_model import RuleModel
from tests.unit.facade.test_chat_blocks import KeepsNothing

LARGE = IMAGE[:200_000]
SMALL = b"\x89PNG\r\n\x1a\nsmall"


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as opened:
        yield opened


def said(part: dict[str, object], message_id: str = "m1") -> list[object]:
    return [{"message_id": message_id, "role": "user", "content": [{"type": "text", "text": "My door"}, part]}]


async def test_five_megabytes_handed_in_twice_are_one_blob_found_by_its_caption(memory: ReMe, tmp_path: Path) -> None:
    first = {"type": "image", "data": IMAGE, "caption": "a red door with a brass lion"}
    await memory.summary(said(first), user_id="ann", session_id="one")
    await memory.summary(said({"type": "image_url", "image_url": {"url": DATA_URL}}, "m2"), user_id="ann")
    await memory.offload_context(said(first, "m3"), user_id="ann", session_id="two")
    assert blobs_in(tmp_path / "memory.db") == [IMAGE]
    assert base64_in(tmp_path / "memory.db") == []
    [hit] = (await memory.retrieve("brass lion", user_id="ann", limit=1))["results"]
    assert hit["message_ids"][0] in {"m1", "m3"}
    assert "base64" not in (await memory.retrieve("brass lion", user_id="ann")).text
    assert (tmp_path / "memory.db").stat().st_size < 1.3 * len(IMAGE)


async def test_a_context_that_is_compacted_leaves_no_base64_in_any_table(memory: ReMe, tmp_path: Path) -> None:
    limits = ContextLimits(max_input_length=8_000)
    talk = [
        message
        for number in range(12)
        for message in (
            Message(
                message_id=f"q{number}",
                role="user",
                content=(ImageBlock(url=data_url(LARGE, "image/png"), caption=f"photo {number}"),),
            ),
            Message.model_validate({"message_id": f"a{number}", "role": "assistant", "content": "It shows " * 200}),
        )
    ]
    for _ in range(2):
        prepared = await memory.pre_reasoning_hook(talk, user_id="ann", session_id="s", limits=limits)
        talk = list(prepared.messages)
    assert len(talk) < 24
    assert blobs_in(tmp_path / "memory.db") == [LARGE]
    assert base64_in(tmp_path / "memory.db") == []


async def test_a_text_that_is_cut_beside_an_image_is_still_the_stored_message(memory: ReMe) -> None:
    limits = ContextLimits(max_input_length=8_000)
    image = ImageBlock(url=data_url(SMALL, "image/png"))
    long = Message(message_id="q", role="user", content=(TextBlock(text="tea and cake, " * 3_000), image))
    talk = [long]
    for number in range(3):
        prepared = await memory.pre_reasoning_hook(talk, user_id="ann", session_id="s", limits=limits)
        more = Message.model_validate({"message_id": f"b{number}", "role": "user", "content": "and then? " * 2_000})
        talk = [*prepared.messages, more]
    stored = (await memory.find_messages(user_id="ann", keyword="cake")).messages
    assert [item.message.message_id for item in stored] == ["q"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "data": SMALL},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgpzbWFsbA=="}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgpzbWFsbA=="}},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgpzbWFsbA"},
        {"type": "file", "file": {"file_data": "iVBORw0KGgpzbWFsbA==", "filename": "a.png"}},
        {"type": "input_file", "file_data": "data:image/png;base64,iVBORw0KGgpzbWFsbA==", "filename": "a.png"},
        {"type": "image", "url": " DATA:;base64,iVBORw0KGgpzbWFsbA=="},
        {"type": "document", "title": "a.png", "source": {"type": "base64", "data": "iVBORw0KGgpzbWFsbA=="}},
        {"type": "input_audio", "input_audio": {"data": "iVBORw0KGgpzbWFsbA==", "format": "mp3"}},
        {"type": "image", "url": "data:,%89PNG%0D%0A%1A%0Asmall"},
    ],
)
async def test_every_form_of_bytes_becomes_the_same_blob(memory: ReMe, part: dict[str, object]) -> None:
    await memory.summary(said(part), user_id="ann")
    [stored] = await memory.get_messages(["m1"], user_id="ann")
    assert stored.message.blob_references == (blob_reference(SMALL),)
    found = await memory.read_blob(blob_reference(SMALL), user_id="ann")
    assert (found.data, found.media_type) == (SMALL, "image/png")
    with pytest.raises(BlobNotFoundError):
        await memory.read_blob(found.ref, user_id="bob")


async def test_bytes_are_read_away_from_the_event_loop(memory: ReMe) -> None:
    threads: list[bool] = []

    class Watched(UserDict[str, object]):
        def keys(self) -> KeysView[str]:
            threads.append(threading.current_thread() is threading.main_thread())
            return super().keys()

    for content in ("tea", [{"type": "image", "data": SMALL}]):
        await memory.summary([Watched({"role": "user", "content": content})], user_id="ann")
    assert threads == [True, False]


async def test_what_is_too_large_is_refused_by_its_size(memory: ReMe) -> None:
    with pytest.raises(InvalidInputError, match=f"at most {MAX_BLOB_BYTES} are kept"):
        await memory.summary(said({"type": "image", "data": "A" * (MAX_BLOB_BYTES // 3 * 4 + 8)}), user_id="ann")


async def test_an_export_holds_the_bytes_once_and_comes_back_in_full(memory: ReMe, tmp_path: Path) -> None:
    picture = {"type": "image", "data": SMALL, "caption": "a red door"}
    for name in ("m1", "m2"):
        await memory.summary(said(picture, name), user_id="ann", session_id=name)
    file = tmp_path / "ann.jsonl"
    await memory.export(file, user_id="ann")
    assert file.read_text().count("base64") == 1
    for _ in range(2):
        await memory.import_(file, user_id="bob")
        stored = await memory.get_messages(["m1", "m2"], user_id="bob")
        assert stored == [
            item.model_copy(update={"block_id": place.block_id})
            for item, place in zip(await memory.get_messages(["m1", "m2"], user_id="ann"), stored, strict=True)
        ]
        assert (await memory.stats(user_id="bob")).blobs == 1


async def test_a_file_that_lacks_the_bytes_of_a_message_is_refused_whole(memory: ReMe, tmp_path: Path) -> None:
    await memory.summary([("user", "before")], user_id="ann", session_id="first")
    await memory.summary(said({"type": "image", "data": SMALL}), user_id="ann", session_id="second")
    file = tmp_path / "ann.jsonl"
    await memory.export(file, user_id="ann")
    file.write_text(file.read_text().replace("data:image/png;base64,iVBORw0KGgpzbWFsbA==", blob_reference(SMALL)))
    with pytest.raises(InvalidLinesError, match="bytes no line brings"):
        await memory.import_(file, user_id="bob")
    assert (await memory.stats(user_id="bob")).messages == 0
    assert (await memory.import_(file, user_id="ann")).messages == 2


async def test_lines_of_an_export_bring_an_image_in_any_order(memory: ReMe, tmp_path: Path) -> None:
    for name in ("m1", "m2"):
        said = {"role": "user", "content": [{"type": "image", "data": SMALL}], "message_id": name}
        await memory.summary([said], user_id="ann", session_id=name)
    file = tmp_path / "ann.jsonl"
    await memory.export(file, user_id="ann")
    head, *lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([head, *reversed(lines)]))
    for known in (0, 2):
        moved = await memory.import_(file, user_id="bob", skip_bad_lines=True)
        assert (moved.known_messages, moved.problems) == (known, ())
    for stored in await memory.get_messages(["m1", "m2"], user_id="bob"):
        assert stored.message.blob_references == (blob_reference(SMALL),)


async def test_a_flipped_byte_of_an_export_costs_one_image_where_bad_lines_are_to_be_skipped(
    memory: ReMe, tmp_path: Path
) -> None:
    door, cat = ({"type": "image", "data": data, "caption": "a red door"} for data in (SMALL, SMALL + b"cat"))
    for name, parts in (("m1", [{"type": "text", "text": "look"}, door, cat]), ("m2", [door]), ("m3", [cat])):
        said = {"role": "user", "content": parts, "message_id": name}
        await memory.summary([said], user_id="ann", session_id=name)
    file = tmp_path / "ann.jsonl"
    await memory.export(file, user_id="ann")
    file.write_text(file.read_text().replace("iVBORw0KGgpzbWFsbA==", "iVBORw0KG!pzbWFsbA=="))
    with pytest.raises(InvalidLinesError, match="or give skip_bad_lines=True") as refused:
        await memory.import_(file, user_id="bob")
    assert (await memory.stats(user_id="bob")).messages == 0
    moved = await memory.import_(file, user_id="bob", skip_bad_lines=True)
    assert [(item.line, item.reason) for item in moved.problems] == [*refused.value.lines]
    assert (moved.messages, moved.blocks, moved.known_messages) == (3, 3, 0)
    first, second, third = (item.message for item in await memory.get_messages(["m1", "m2", "m3"], user_id="bob"))
    assert [block.type for block in first.content] == ["text", "text", "image"]
    assert (first.text, second.text) == ("look\n[image: a red door]", "[image: a red door]")
    assert (await memory.read_blob(third.blob_references[0], user_id="bob")).data == SMALL + b"cat"
    assert (await memory.import_(file, user_id="bob", skip_bad_lines=True)).known_messages == 3


async def test_a_model_that_talks_is_sent_the_image_that_was_stored_and_not_its_reference(tmp_path: Path) -> None:
    picture = {"type": "image", "data": SMALL, "caption": "my door"}
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary(said(picture), user_id="ann", session_id="s")
    model = ScriptedChatModel(["It is red."])
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        memory.set_summarizer(KeepsNothing())
        await memory.chat("Which colour has it?", user_id="ann", session_id="s")
    sent = [part for message in model.requests[0].messages for part in wire_messages(message)]
    told = json.dumps(sent)
    assert "data:image/png;base64,iVBORw0KGgpzbWFsbA==" in told
    assert "sha256:" not in told


async def test_a_deleted_user_leaves_no_bytes_in_the_file(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary(said({"type": "image", "data": LARGE}), user_id="ann")
        await memory.summary(said({"type": "image", "data": SMALL}), user_id="bob")
        erased = await memory.delete_all_memories(user_id="ann")
        assert (erased.blobs, erased.pages_cleared) == (1, True)
        assert (await memory.check()).problems == ()
    raw = (tmp_path / "memory.db").read_bytes()
    assert all(LARGE[place : place + 64] not in raw for place in range(100, len(LARGE), 1 << 12))
    assert SMALL in raw


async def test_a_byte_of_an_image_that_changes_on_disk_is_told(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.summary(said({"type": "image", "data": SMALL}), user_id="ann")
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.execute("UPDATE blobs SET data = ?", (SMALL[:-1] + b"L",))
        connection.commit()
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        assert "blobs, row 1" in (await memory.check()).problems[0]


async def test_an_image_of_an_older_file_stays_readable_and_is_known_again(memory: ReMe, tmp_path: Path) -> None:
    message = Message.model_validate(said({"type": "image", "url": "data:image/png;base64,iVBORw0KGgpzbWFsbA=="})[0])
    await memory.summary([message], user_id="ann", session_id="s")
    database = memory.database
    old = message.model_dump_json()
    await database.write(lambda c: c.execute("UPDATE messages SET body = ?", (old,)), within=None)
    assert (await memory.get_messages(["m1"], user_id="ann"))[0].message == message
    await memory.summary([message], user_id="ann", session_id="s")
    assert (await memory.stats(user_id="ann")).messages == 1


async def test_a_preview_keeps_no_bytes_and_shows_none_to_the_model(tmp_path: Path) -> None:
    model = RuleModel()
    async with ReMe("space", tmp_path, llm=model, embedding=None) as memory:
        await memory.add_memory("Ann has a door", user_id="ann")
        await memory.preview_summary(said({"type": "image", "data": SMALL, "caption": "a red door"}), user_id="ann")
        with pytest.raises(BlobNotFoundError):
            await memory.preview_summary(said({"type": "image", "url": blob_reference(b"?")}), user_id="ann")
        assert (await memory.stats(user_id="ann")).blobs == 0
