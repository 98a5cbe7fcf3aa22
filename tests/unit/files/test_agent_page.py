"""The block of AGENTS.md says what MEMORY.md says, and nothing else of the page is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core import FileMemory, ReMe
from reme_core.errors import InvalidInputError
from reme_core.files.agent_page import MAX_LINES, write_block


async def test_the_block_is_made_once_asked_for_and_kept_up_to_date(tmp_path: Path) -> None:
    root = tmp_path / "files"
    async with (
        ReMe(working_dir=tmp_path / "store", llm=None, embedding=None) as memory,
        FileMemory(root, user_id="ann", memory=memory) as files,
    ):
        page = root / "AGENTS.md"
        page.write_bytes(b"# Rules\r\n\r\nBe brief.")
        await memory.add_memory("drinks tea", user_id="ann")
        await files.sync()
        assert page.read_bytes() == b"# Rules\r\n\r\nBe brief."
        assert await files.write_agent_page() == 3
        block = b"<!-- reme:begin -->\r\n- drinks tea\r\n<!-- reme:end -->\r\n"
        assert page.read_bytes() == b"# Rules\r\n\r\nBe brief.\r\n\r\n" + block
        page.write_bytes(page.read_bytes() + b"And kind.\n")
        await memory.add_memory("has <!-- reme:end --> a cat", user_id="ann")
        await files.sync()
        assert page.read_bytes().endswith(b"- has &lt;!-- reme:end --> a cat\r\n<!-- reme:end -->\r\nAnd kind.\n")
        with pytest.raises(InvalidInputError, match="CLAUDE"):
            await files.write_agent_page("README.md")


async def test_a_page_that_is_no_text_is_told_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "CLAUDE.md").write_bytes(b"\xff")
    async with ReMe(working_dir=tmp_path / "store", llm=None, embedding=None) as memory:
        await memory.add_memory("drinks tea", user_id="ann")
        report = await FileMemory(tmp_path / "files", user_id="ann", memory=memory).sync()
        assert [problem.path for problem in report.problems] == ["CLAUDE.md"]
        assert report.written == ("MEMORY.md",)


def test_the_block_has_at_most_200_lines_the_newest(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("".join(f"- fact {number}\n" for number in range(500)))
    assert write_block(tmp_path, "CLAUDE.md", make=True) == MAX_LINES
    lines = (tmp_path / "CLAUDE.md").read_text().splitlines()
    assert (len(lines), lines[1], lines[-2]) == (MAX_LINES, "- fact 302", "- fact 499")


def test_a_block_without_an_end_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "AGENTS.md"
    page.write_text("<!-- reme:begin -->\nmine\n")
    assert write_block(tmp_path, "AGENTS.md", make=False) == 0
    assert page.read_text() == "<!-- reme:begin -->\nmine\n"
