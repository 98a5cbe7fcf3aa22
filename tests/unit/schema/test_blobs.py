"""Bytes in messages that somebody hostile, or careless, has written."""

from __future__ import annotations

import json
from base64 import b64encode, encodebytes, urlsafe_b64encode
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core.schema import Blob, ImageBlock, Message, OtherBlock, can_be_kept
from reme_core.schema.blobs import (
    LONG_BASE64,
    is_apart,
    make_blob,
    put_base64,
    read_base64,
    take_base64,
    text_apart,
    text_whole,
)
from reme_core.schema.messages import MAX_MESSAGE_BYTES

LONG = b64encode(bytes(range(256)) * 60).decode()
"""Base64 that is kept apart wherever it stands."""


def test_base64_with_a_row_of_equal_signs_is_refused_without_reading_it_from_each_of_them() -> None:
    with pytest.raises(ValueError, match="broken"):
        read_base64("=" * (1 << 20) + "A")


def test_a_text_of_runs_that_are_too_short_is_read_once_and_stays() -> None:
    text = ("A" * (LONG_BASE64 - 1) + "-") * 128
    assert take_base64(text, pytest.fail) is text


@pytest.mark.parametrize(
    "text",
    ["iVBO\r\nRw0K Gg==", "iVBORw0KGg", "iVBORw0KGg%3D%3D", "iVBORw0KGg%3d%3d", "iVBORw0KGg== \n"],
)
def test_base64_as_letters_and_pages_bring_it_is_read(text: str) -> None:
    assert read_base64(text) == b"\x89PNG\r\n\x1a"


def test_marks_that_a_sender_wrote_by_hand_fill_nobodys_memory() -> None:
    blob = make_blob(bytes(4 << 20), None)
    asked: list[int] = []

    def find(_ref: str, most: int) -> Blob | None:
        asked.append(most)
        return blob if len(blob.data) <= most else None

    mark = f"reme-base64:{blob.ref}"
    message = Message(
        role="user",
        content=tuple(OtherBlock(kind="x", data=mark) for _ in range(2_000)),
        metadata={"more": [mark] * 99},
    )
    whole = message.with_base64(find)
    assert len(whole.model_dump_json()) < len(message.model_dump_json()) + 2 * MAX_MESSAGE_BYTES
    assert len(asked) < 600


def test_long_base64_comes_back_beside_marks_of_nothing() -> None:
    taken: dict[str, Blob] = {}
    value = {"a": LONG, "b": ["reme-base64:sha256:" + "0" * 64, LONG, "reme-base64:"]}
    apart = take_base64(value, lambda blob: taken.setdefault(blob.ref, blob))
    assert LONG not in str(apart)
    assert put_base64([apart], lambda ref, _most: taken.get(ref), MAX_MESSAGE_BYTES) == [value]


@pytest.mark.parametrize(
    "url",
    ["DATA:image/png;base64,iVBORw0K", " \ndata:image/png;BASE64,iVBORw0K", "data:image/png;charset=x;base64,iVBORw0K"],
)
def test_a_data_url_is_one_however_its_scheme_is_written(url: str) -> None:
    told, blob = ImageBlock(url=url).apart()
    assert blob is not None
    assert (blob.data, told.url, told.media_type) == (b"\x89PNG\r\n", blob.ref, "image/png")


def test_long_base64_in_the_place_of_a_url_is_bytes_and_a_path_is_a_path() -> None:
    _, blob = ImageBlock(url=LONG, caption="a door").apart()
    assert blob is not None
    assert blob.data == bytes(range(256)) * 60
    assert ImageBlock(url="/9j/4AAQSkZJRg").apart()[1] is None


@pytest.mark.parametrize("url", ["sha256:" + "0" * 64, "DATA:,x", LONG])
def test_what_a_store_would_refuse_or_change_cant_be_kept_as_it_is(url: str) -> None:
    assert not can_be_kept(url)


def test_a_message_of_short_parts_is_not_looked_through_for_bytes() -> None:
    part = OtherBlock(kind="thinking", data={"text": ["hm", 1, None]})
    assert not Message(role="user", content=(part,), metadata={"a": {"b": "c"}}).holds_bytes
    assert Message(role="user", content=(part,), metadata={"a": [{"b": LONG}]}).holds_bytes
    assert Message(role="user", content=(OtherBlock(kind="x", data=[LONG]),)).holds_bytes


DATA = bytes(range(256)) * 60
TEXTS = [
    LONG,
    f"data:image/png;base64,{LONG}",
    f"see\n{LONG}== and {LONG[:-3]}",
    encodebytes(DATA).decode(),
    urlsafe_b64encode(DATA).decode(),
    LONG + "=",
    "A" * (LONG_BASE64 + 1),
    f"reme-base64:{make_blob(DATA, None).ref}",
    "reme-base64:!",
    "reme-base64:",
    " ",
]
"""Long base64, what only looks like it, and what looks like a mark of ours: of bytes that are there, too."""


@settings(deadline=None, max_examples=30)
@given(
    st.recursive(st.sampled_from(TEXTS) | st.text() | st.none(), lambda s: st.lists(s) | st.dictionaries(st.text(), s))
)
def test_json_text_comes_back_to_the_letter_whatever_base64_and_marks_stand_in_it(value: Any) -> None:
    there = make_blob(DATA, None)
    for text in (json.dumps(value), json.dumps([json.dumps(value)], ensure_ascii=False)):
        apart, blobs = text_apart(text)
        assert is_apart(apart) == bool(blobs)
        assert not blobs or LONG not in apart
        held = {there.ref: there, **blobs}
        assert text_whole(apart, partial(_found, held)) == text


def _found(held: dict[str, Blob], ref: str, _most: int) -> Blob | None:
    return held.get(ref)
