"""What `reme watch` tells: what came since it looked, by whichever process, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.cli.output import Output
from reme_core.cli.watch import Watcher, print_event, print_said


async def test_what_happens_is_told_once_in_its_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with (
        ReMe("space", tmp_path, llm=None, embedding=None) as memory,
        ReMe("space", tmp_path, llm=None, embedding=None) as other,
    ):
        await memory.summary([("user", "long ago")], user_id="ana")
        await memory.add_memory("known before", user_id="ana")
        watcher = Watcher(memory, {"user_id": "ana", "shared": False})
        await watcher.begin()
        assert await watcher.look() == ([], [])
        turns = [("user", f"turn {number}") for number in range(150)]
        await other.summary(turns, user_id="ana", session_id="s")
        lives = await other.add_memory("Eva lives in Lisbon.", user_id="ana", memory_target="Eva")
        await other.supersede_memory(lives.memory_id, "Eva lives in \x1b[31mPorto.", user_id="ana")
        await other.add_memory("not ours", user_id="bob")
        said, events = await watcher.look()
        assert [item.message.full_text for item in said] == [text for _, text in turns]
        output = Output(as_json=False)
        for event in events:
            print_event(output, event)
        print_said(output, said[0])
        told = capsys.readouterr().out
        assert "+  personal / Eva:  Eva lives in Lisbon." in told
        assert "x  personal / Eva:  Eva lives in Lisbon." in told
        assert "user:  turn 0" in told
        assert "\x1b" not in told
        assert "not ours" not in told
        assert await watcher.look() == ([], [])
