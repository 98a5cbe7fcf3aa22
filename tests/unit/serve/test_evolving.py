"""A service that consolidates on a schedule: every user in turn, whatever space, and never what is its own."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.serve import evolving
from reme_core.serve.memories import Memories
from reme_core.testing import ScriptedChatModel
from reme_core.testing.clock import FixedClock

WEEK = timedelta(days=7)
NOTHING = json.dumps({"groups": [], "contradictions": []})


async def test_users_of_every_space_are_consolidated_when_they_are_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FixedClock()
    home = ReMe("home", tmp_path, llm=ScriptedChatModel([NOTHING] * 3), embedding=None, clock=clock)
    async with Memories(home) as memories:
        other = await memories.of("other")
        for memory, user in ((home, "ana"), (home, "bo"), (other, "ana")):
            await memory.add_memories([{"content": "likes tea, too"}, {"content": "likes tea too"}], user_id=user)
        assert await evolving.look(memories, WEEK) == []
        clock.advance(WEEK)
        monkeypatch.setattr(evolving, "MOST_AT_A_LOOK", 2)
        first, then = await evolving.look(memories, WEEK), await evolving.look(memories, WEEK)
        assert [(item.memory_space, item.user_id) for item in (*first, *then)] == [
            ("home", "ana"), ("home", "bo"), ("other", "ana"),
        ]  # fmt: skip
        await home.flush()
        await other.flush()
        for memory, user in ((home, "ana"), (home, "bo"), (other, "ana")):
            assert len((await memory.list_memories(user_id=user)).memories) == 1


async def test_the_schedule_ends_with_the_service(tmp_path: Path) -> None:
    home = ReMe("home", tmp_path, llm=ScriptedChatModel(), embedding=None)
    async with Memories(home) as memories, evolving.evolving(memories, WEEK):
        assert await memories.of("home") is home
