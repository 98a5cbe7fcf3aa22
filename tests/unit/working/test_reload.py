"""Reloading in words: as long as asked for, never longer than what the context takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import ToolFeedback
from reme_core.schema import make_scope
from reme_core.working import PieceRequest, reload_piece

SCOPE = make_scope("space", "alice")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        yield memory


async def offloaded(memory: ReMe, text: str, session_id: str = "talk") -> str:
    return (await memory.offload_text(text, user_id="alice", session_id=session_id)).reference


@pytest.mark.parametrize("letter", ["a", "é", "兔", "🐇"])
@pytest.mark.parametrize("pattern", ["", "end"])
async def test_an_answer_has_at_most_the_bytes_of_the_window_it_goes_into(
    memory: ReMe, letter: str, pattern: str
) -> None:
    reference = await offloaded(memory, "\n".join(f"{letter * 900} end {number}" for number in range(40)))
    request = PieceRequest(handle=reference, limit_chars=50_000, pattern=pattern, most_bytes=2_000)
    answer = await reload_piece(memory.working.store, SCOPE, request)
    assert 0 < len(answer.encode()) <= 2_000


async def test_pieces_of_a_small_window_join_to_the_whole(memory: ReMe) -> None:
    whole = "".join(f"第{number}行 of the log, " for number in range(300))
    reference, parts, offset = await offloaded(memory, whole), list[str](), 0
    while offset < len(whole):
        request = PieceRequest(handle=reference, offset=offset, limit_chars=50_000, most_bytes=700)
        answer = await reload_piece(memory.working.store, SCOPE, request)
        parts.append(answer.partition("[… goes on at offset=")[0])
        rest = answer.partition("[… goes on at offset=")[2]
        offset = int(rest.split(" ")[0]) if rest else len(whole)
    assert len(parts) > 5
    assert "".join(part.removesuffix("\n") for part in parts) == whole


async def test_an_unknown_handle_is_told_with_those_that_there_are(memory: ReMe) -> None:
    mine, other = await offloaded(memory, "mine"), await offloaded(memory, "another one's", "other")
    for handle in (other, "nope", "0" * 16):
        with pytest.raises(ToolFeedback, match=mine):
            await reload_piece(memory.working.store, SCOPE, PieceRequest(handle=handle, sessions=("talk",)))
    request = PieceRequest(handle=f"reload {other}]", sessions=("talk", "other"))
    assert await reload_piece(memory.working.store, SCOPE, request) == "another one's"
    with pytest.raises(ToolFeedback, match="can't be loaded"):
        await reload_piece(memory.working.store, SCOPE, PieceRequest(handle=mine, offset=99))
