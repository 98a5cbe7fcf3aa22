"""Promises of a transcript about the bytes of images and files: kept once a scope, found by what was said of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reme_core.errors import BlobNotFoundError, ConflictError, InvalidInputError
from reme_core.ports import AppendMessages, FindMessages, Store
from reme_core.schema import Blob, FileBlock, ImageBlock, Message, OtherBlock, TextBlock, data_url
from reme_core.schema.blobs import LONG_BASE64, blob_reference
from reme_core.testing.store_values import ALICE, BOB

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
SESSION = "session"


def picture(message_id: str = "m1", *, data: bytes = PNG, caption: str | None = "a red door") -> Message:
    """Return a message with an image in it."""
    image = ImageBlock(url=data_url(data, "image/png"), caption=caption)
    return Message(message_id=message_id, role="user", content=(TextBlock(text="look"), image))


async def append(store: Store, *messages: Message, session_id: str = SESSION, bob: bool = False) -> None:
    """Append messages to a session."""
    await store.append(BOB if bob else ALICE, AppendMessages(session_id=session_id, messages=messages))


async def reference_of(store: Store, message_id: str = "m1") -> str:
    """Return what the image of a message refers to."""
    [stored] = await store.get_messages(ALICE, [message_id])
    [ref] = stored.message.blob_references
    return ref


class TranscriptBlobs:
    async def test_bytes_come_back_and_the_message_holds_their_reference(self, store: Store) -> None:
        await append(store, picture())
        [stored] = await store.get_messages(ALICE, ["m1"])
        ref = blob_reference(PNG)
        image = ImageBlock(url=ref, media_type="image/png", size=len(PNG), caption="a red door")
        assert stored.message.content[1] == image
        assert await store.get_blob(ALICE, ref) == Blob(ref=ref, media_type="image/png", data=PNG)

    async def test_the_same_bytes_are_kept_once_and_counted(self, store: Store) -> None:
        await append(store, picture("m1"), picture("m2", caption=None))
        await append(store, picture("m3"), session_id="other")
        counts = await store.count(ALICE)
        assert (counts.messages, counts.blobs, counts.blob_bytes) == (3, 1, len(PNG))

    async def test_an_image_is_found_by_its_caption_and_a_file_by_its_text(self, store: Store) -> None:
        file = FileBlock(url=data_url(b"%PDF-", "application/pdf"), name="lease.pdf", text="rent is due on Fridays")
        await append(store, picture(), Message(message_id="m2", role="user", content=(file,)))
        found = []
        for word in ("door", "fridays", "lease.pdf", "iVBORw0KGgo"):
            page = await store.find_messages(ALICE, FindMessages(keyword=word))
            found.append([item.message.message_id for item in page.messages])
        assert found == [["m1"], ["m2"], ["m2"], []]

    async def test_a_message_with_an_image_can_be_handed_in_again_in_either_form(self, store: Store) -> None:
        await append(store, picture())
        [stored] = await store.get_messages(ALICE, ["m1"])
        for message in (picture(), stored.message):
            said = message.model_copy(update={"created_at": stored.message.created_at})
            known = await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[said]))
            assert known.known == ("m1",)
        with pytest.raises(ConflictError):
            await append(store, picture(data=PNG + b"."))
        assert (await store.count(ALICE)).blobs == 1

    async def test_bytes_of_another_scope_are_unknown_to_read_and_to_refer_to(self, store: Store) -> None:
        await append(store, picture())
        ref = await reference_of(store)
        theirs = Message(role="user", content=(ImageBlock(url=ref),))
        with pytest.raises(BlobNotFoundError):
            await store.get_blob(BOB, ref)
        with pytest.raises(BlobNotFoundError):
            await append(store, theirs, bob=True)
        assert (await store.count(BOB)).messages == 0
        await append(store, theirs.model_copy(update={"message_id": "m2"}))
        [stored] = await store.get_messages(ALICE, ["m2"])
        assert stored.message.content == (ImageBlock(url=ref, media_type="image/png", size=len(PNG)),)

    @pytest.mark.parametrize("ref", ["sha256:" + "0" * 64, "sha256:x", "../memory.db", ""])
    async def test_an_unknown_reference_is_not_found(self, store: Store, ref: str) -> None:
        await append(store, picture())
        with pytest.raises(BlobNotFoundError):
            await store.get_blob(ALICE, ref)

    @pytest.mark.parametrize("url", ["data:image/png;base64,A", "data:image/png;base64,****"])
    async def test_broken_base64_is_refused_and_nothing_is_kept(self, store: Store, url: str) -> None:
        bad = Message(role="user", content=(ImageBlock(url=url),))
        with pytest.raises(InvalidInputError, match=r"content\[0\].*base64"):
            await append(store, picture(), bad)
        counts = await store.count(ALICE)
        assert (counts.messages, counts.blobs) == (0, 0)

    async def test_long_base64_inside_a_vendors_part_is_kept_apart_and_comes_back_as_it_was(self, store: Store) -> None:
        text = data_url(PNG * (LONG_BASE64 // 1000), "").rpartition(",")[2]
        part = OtherBlock(kind="shown", data={"source": {"data": text}, "more": ["short", text]})
        message = Message(
            message_id="m1", role="tool", content=(part,), metadata={"raw": text[: 4 * (LONG_BASE64 // 4)]}
        )
        await append(store, message)
        [stored] = await store.get_messages(ALICE, ["m1"])
        assert stored.message == message
        assert stored.message.apart()[0] != message
        assert (await store.count(ALICE)).blobs == 2
        again = await store.append(ALICE, AppendMessages(session_id=SESSION, messages=[message]))
        assert again.known == ("m1",)

    async def test_erasing_a_scope_erases_its_bytes_and_no_others(self, store: Store) -> None:
        await append(store, picture())
        await append(store, picture(), bob=True)
        ref = await reference_of(store)
        assert (await store.erase(ALICE)).blobs == 1
        assert (await store.count(ALICE)).blobs == 0
        with pytest.raises(BlobNotFoundError):
            await store.get_blob(ALICE, ref)
        assert (await store.get_blob(BOB, ref)).data == PNG

    async def test_a_write_that_fails_leaves_no_bytes(self, store: Store) -> None:
        def fail(_messages: object) -> list[object]:
            msg = "stop here"
            raise RuntimeError(msg)

        slicer: Callable[..., list[object]] = fail
        request = AppendMessages(session_id=SESSION, messages=[picture()], slicer=slicer)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="stop here"):
            await store.append(ALICE, request)
        counts = await store.count(ALICE)
        assert (counts.messages, counts.blobs) == (0, 0)
