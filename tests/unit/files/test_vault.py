"""A vault for Obsidian: every link leads to a page or a line that is there, and each name fits Windows, too."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reme_core import FileMemory, ReMe
from reme_core.errors import InvalidInputError
from reme_core.files.targets import TargetPaths, new_page, page_target
from reme_core.files.vault import export_vault
from reme_core.ports import Target
from reme_core.schema import MemoryType, make_scope

_LINK = re.compile(r"\[\[([^\[\]|#]+)(?:#(\^[0-9A-Za-z-]+))?\|[^\[\]|#^]*\]\]")
_SCOPE = make_scope("space", "ann", shared=False)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path / "store", llm=None, embedding=None) as opened:
        message = {
            "message_id": "weird id!",
            "role": "user",
            "content": "I met Bo\n\nand [[Ken]] #today",
            "created_at": "2026-11-22T10:42:00Z",
        }
        await opened.summary([message], user_id="ann", session_id="s|1")
        await opened.add_memories(
            [
                {"content": "drinks tea with Bo and Aunt Mary", "sources": [{"message_ids": ["weird id!"]}]},
                {"content": "barks | loud [[x]]", "memory_target": "Bo"},
                {"content": "Bo's aunt", "memory_target": "Aunt Mary"},
                {"content": "is a device", "memory_target": "CON"},
                {"content": "line one\nline two", "memory_target": "a/b: c?"},
            ],
            user_id="ann",
        )
        yield opened


async def test_every_link_of_a_vault_leads_to_a_line_that_is_there(memory: ReMe, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    written = await export_vault(memory.store, _SCOPE, vault)
    pages = {path.relative_to(vault).as_posix(): path.read_text() for path in vault.rglob("*.md")}
    assert set(written) < set(pages)
    links = [link for text in pages.values() for link in _LINK.findall(text)]
    assert len(links) > 12
    for page, block in links:
        assert any(line.endswith(block) for line in pages[f"{page}.md"].splitlines()), (page, block)
    line, below, *_ = pages["MEMORY.md"].splitlines()
    assert line.startswith("- drinks tea with Bo and Aunt Mary ^mem-")
    assert "[[targets/personal/Bo|Bo]]" in below
    assert "[[targets/personal/Aunt Mary|Aunt Mary]]" in below
    assert "[[dialog/2026-11-22#^msg-x-" in below
    assert "I met Bo<br><br>and [[Ken]] #today ^msg-x-" in pages["dialog/2026-11-22.md"]
    assert "## 10:42 · session s 1" in pages["memory/2026-11-22.md"]
    assert "targets/personal/_CON.md" in pages
    with pytest.raises(InvalidInputError, match="not empty"):
        await export_vault(memory.store, _SCOPE, vault)


async def test_a_vault_that_is_taken_over_changes_no_memory(memory: ReMe, tmp_path: Path) -> None:
    await export_vault(memory.store, _SCOPE, tmp_path / "vault")
    before = {item.memory_id: item for item in (await memory.list_memories(user_id="ann")).memories}
    report = await FileMemory(tmp_path / "vault", user_id="ann", memory=memory).sync()
    assert report.problems == ()
    after = {item.memory_id: item for item in (await memory.list_memories(user_id="ann")).memories}
    assert after == before


@given(st.lists(st.text(min_size=1, max_size=200).map(str.strip).filter(bool), max_size=6))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_target_gets_a_name_that_windows_and_obsidian_hold_and_is_read_back(names: list[str]) -> None:
    paths = TargetPaths.of({})
    for name in [*names, "con", "Nul.txt", "LPT1", "x.", "y "]:
        target = Target(MemoryType.PERSONAL, name)
        path = paths.find(target)
        stem = path.rpartition("/")[2].removesuffix(".md")
        assert not re.search(r'[\\/:*?"<>|#^\[\]\x00-\x1f]', stem)
        assert not re.fullmatch(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", stem, re.IGNORECASE)
        assert not stem.startswith(".")
        assert page_target(path, new_page(path, target)) in {target, Target(MemoryType.PERSONAL, name.strip())}
    assert len({path.casefold() for path in paths.named.values()}) == len(paths.named)
