"""`reme relations`: who is what to whom, for people and for programs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reme_core import ReMe
from reme_core.cli.exits import ExitCode
from tests.unit.cli.conftest import Reme


async def fill(folder: Path) -> None:
    told = [
        {
            "content": "Lea is Ann's sister",
            "relations": [("Lea", "sister of", "Ann")],
            "sources": [{"message_ids": ["m1"]}],
        },
        {"content": "Lea works at the bakery", "relations": [("Lea", "works at", "the bakery")]},
    ]
    async with ReMe("default", folder / ".reme", llm=None, embedding=None) as memory:
        await memory.add_memories(told, user_id="ana")


def test_relations_of_a_name_and_the_chain_to_another_are_shown(reme: Reme, tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    done = reme("relations", "ANN")
    assert done.code == ExitCode.DONE
    assert "Ann → Lea" in done.out
    assert "Lea sister of Ann" in done.out
    assert "m1" in done.out
    assert "bakery" not in done.out
    assert "the bakery" in reme("relations", "Ann", "--hops", "2").out
    chain = reme("relations", "Ann", "bakery", "--json").value
    assert [step["end"] for step in chain["steps"]] == ["Lea", "the bakery"]
    nothing = reme("relations", "Leo")
    assert (nothing.code, "there is Lea" in nothing.err) == (ExitCode.NOTHING_FOUND, True)
    assert reme("relations", "Ann", "bakery", "--hops", "1").code == ExitCode.NOTHING_FOUND
    assert reme("relations", "Ann", "--user", "bob").code == ExitCode.NOTHING_FOUND
