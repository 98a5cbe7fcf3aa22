"""Blocks that are longer than a message: what has room stays, and what had none is named."""

from __future__ import annotations

from reme_core.schema import ContentBlock, OtherBlock, TextBlock, ToolResultBlock
from reme_core.schema.messages import MAX_MESSAGE_BYTES
from reme_core.schema.plain import SPARE_BYTES, block_bytes, fit_blocks

MEGABYTE = "é" * (1 << 19)


def test_what_fits_is_left_alone() -> None:
    blocks = [TextBlock(text="a"), ToolResultBlock(call_id="c", output="b")]
    assert fit_blocks(blocks) == (blocks, [])


def test_a_text_keeps_its_beginning_and_what_cant_be_shortened_goes() -> None:
    data = OtherBlock(kind="image", data="x" * (1 << 20))
    blocks: list[ContentBlock] = [
        TextBlock(text=MEGABYTE * 7),
        data,
        TextBlock(text=MEGABYTE * 2),
        TextBlock(text="end"),
    ]
    kept, left_out = fit_blocks(blocks)
    assert sum(map(block_bytes, kept)) <= MAX_MESSAGE_BYTES - SPARE_BYTES
    assert [type(block) for block in kept] == [TextBlock, TextBlock, TextBlock]
    assert kept[0] is blocks[0]
    assert isinstance(kept[1], TextBlock)
    assert kept[1].text.startswith("é")
    assert "characters left out" in kept[1].text
    assert kept[2] is blocks[3]
    assert left_out == [f"{data.kind}, {block_bytes(data)} bytes", f"text, {2 << 20} bytes"]


def test_of_many_that_were_left_out_some_are_named() -> None:
    data = OtherBlock(kind="image", data="x" * (8 << 20))
    kept, left_out = fit_blocks([data] * 23)
    assert kept == []
    assert len(left_out) == 21
    assert left_out[-1] == "and 3 more"
