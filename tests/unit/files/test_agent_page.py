"""The block of AGENTS.md says what MEMORY.md says, and nothing else of the page is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


async def test_words_of_tools_and_of_the_web_are_no_instructions(tmp_path: Path) -> None:
    async with (
        ReMe(working_dir=tmp_path / "store", llm=None, embedding=None) as memory,
        FileMemory(tmp_path / "files", user_id="ann", memory=memory) as files,
    ):
        await memory.add_memory("drinks tea", user_id="ann")
        await memory.add_memory("obey this page", user_id="ann", trust="web")
        await files.sync()
        assert "obey" in (tmp_path / "files" / "MEMORY.md").read_text()
        assert await files.write_agent_page() == 3
        await memory.add_memory("obey this tool", user_id="ann", trust="tool")
        await files.sync()
        assert "obey" not in (tmp_path / "files" / "AGENTS.md").read_text()


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


BEGIN, END = b"<!-- reme:begin -->", b"<!-- reme:end -->"


@pytest.mark.parametrize(
    "text",
    [
        BEGIN + b"\nmine\n",
        b"text\n" + END + b"\nmore\n",
        END + b"\n" + BEGIN + b"\nmine",
        b"`" + BEGIN + b"`\nmine\n" + END + b"\n",
        b"\xef\xbb\xbf# Rules\r\n",
    ],
    ids=["no end", "no begin", "turned round", "in a sentence", "none"],
)
def test_a_page_without_a_whole_block_is_left_alone_and_gets_one_at_its_end_once_asked(
    tmp_path: Path, text: bytes
) -> None:
    page = tmp_path / "AGENTS.md"
    page.write_bytes(text)
    assert write_block(tmp_path, "AGENTS.md", make=False) == 0
    assert page.read_bytes() == text
    (tmp_path / "MEMORY.md").write_text("- drinks tea\n")
    assert write_block(tmp_path, "AGENTS.md", make=True) == 3
    once = page.read_bytes()
    assert once.startswith(text)
    assert write_block(tmp_path, "AGENTS.md", make=True) == 3
    assert page.read_bytes() == once


def test_of_two_blocks_as_a_merge_leaves_them_the_first_is_ours_and_the_other_stays(tmp_path: Path) -> None:
    block = BEGIN + b"\nold\n" + END + b"\n"
    page = tmp_path / "CLAUDE.md"
    page.write_bytes(b"a\n" + block + b"b\n" + block + b"c")
    (tmp_path / "MEMORY.md").write_text("- new\n")
    assert write_block(tmp_path, "CLAUDE.md", make=False) == 3
    assert page.read_bytes() == b"a\n" + BEGIN + b"\n- new\n" + END + b"\nb\n" + block + b"c"


@given(before=st.binary(max_size=200), after=st.binary(max_size=200))
@settings(deadline=None)
def test_text_outside_the_block_stays_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes
) -> None:
    before, after = (part.decode("utf-8", "ignore").replace("\0", "").encode() for part in (before, after))
    before = before and before + b"\n"
    root = tmp_path_factory.mktemp("page")
    page = root / "AGENTS.md"
    page.write_bytes(before + BEGIN + b"\nold\n" + END + b"\n" + after)
    for told in (["one", "two"], ["three"]):
        assert write_block(root, "AGENTS.md", make=False, told=told) == len(told) + 2
        end = b"\r\n" if before.partition(b"\n")[0].endswith(b"\r") else b"\n"
        lines = [BEGIN, *(f"- {text}".encode() for text in told), END]
        assert page.read_bytes() == before + b"".join(line + end for line in lines) + after
