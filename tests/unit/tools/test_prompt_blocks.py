"""Memory blocks at the edge of a framework: what can't be read costs the blocks, and is waited for once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from reme_core import ReMe, adapting
from reme_core.errors import ToolFeedback
from reme_core.schema import MemoryBlock
from reme_core.tools import prompt_blocks
from reme_core.tools.prompt_blocks import PromptBlocks, block_tools


class HungBlocks(ReMe):
    """A memory whose blocks take for ever while `is_hung`."""

    is_hung = True

    async def memory_blocks(self, *, user_id: str | None = None, shared: bool = False) -> list[MemoryBlock]:
        if self.is_hung:
            await asyncio.Event().wait()
        return await super().memory_blocks(user_id=user_id, shared=shared)


async def test_a_memory_that_hangs_is_waited_for_once_and_then_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waited: list[float | None] = []
    timeout = asyncio.timeout

    def noted(seconds: float | None) -> asyncio.Timeout:
        waited.append(seconds)
        return timeout(0.01 if memory.is_hung else None)

    blocks = PromptBlocks(("human",))
    async with HungBlocks("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.set_memory_block("persona", "I am Friday.", user_id="ann")
        made = await memory.set_memory_block("human", "", user_id="ann")
        monkeypatch.setattr(prompt_blocks.asyncio, "timeout", noted)
        with caplog.at_level(logging.ERROR):
            texts = [(await blocks.read(memory, "ann")).text for _ in range(3)]
        memory.is_hung = False
        shown = await blocks.read(memory, "ann")
        again = await blocks.read(memory, "ann")
        monkeypatch.undo()
    assert texts == ["", "", ""]
    assert len(caplog.records) == 1
    assert waited == [2.0, adapting.PATIENCE_S, adapting.PATIENCE_S, adapting.PATIENCE_S, 2.0]
    assert '"label":"human"' in shown.text
    assert "Friday" not in shown.text
    assert shown.revisions == {"human": made.revision}
    assert again == shown


async def test_a_text_that_no_prompt_has_shown_is_not_rewritten(tmp_path: Path) -> None:
    blocks, [_, _, rethink] = PromptBlocks(given=True), block_tools()
    wanted = {"label": "human", "new_memory": "Is Ann"}
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        await memory.set_memory_block("human", "Is Ann, has a dog", user_id="ann")
        with pytest.raises(ToolFeedback, match="Is Ann, has a dog"):
            await blocks.edit(rethink, wanted, memory.tool_context(user_id="ann"), seen={})
        shown = await blocks.read(memory, "ann")
        await blocks.edit(rethink, wanted, memory.tool_context(user_id="ann"), seen=shown.revisions)
        assert (await memory.get_memory_block("human", user_id="ann")).text == "Is Ann"


def test_the_names_of_the_tools_are_known_without_loading_them() -> None:
    assert tuple(tool.name for tool in block_tools()) == adapting.BLOCK_TOOLS
