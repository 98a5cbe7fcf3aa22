"""Modules that a message passes: PYTHONPATH=. python tests/benchmarks/modules_passed.py [--names].

A module is passed where one of its functions runs, in any thread, from the call of `summary` to the end of its job.
The file is open and what is loaded once is loaded: a message before the measured one has seen to that. Modules of
values and protocols (`schema`, `ports`) are counted apart, since a message passes them at every step. Exit code 1: a
bar is not held.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from types import FrameType

from figures import Figure, show

from reme_core import ReMe
from reme_core.testing import HashedEmbedder, ScriptedChatModel

_USER = "alice"
_VALUES = ("reme_core.schema", "reme_core.ports")


class Passed:
    """The names of our modules whose functions run while this is on."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.is_on = False

    def note(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if not self.is_on or event != "call" or not name.startswith("reme_core."):
            return
        if frame.f_code.co_name != "<module>" and not name.startswith("reme_core.testing"):
            self.names.add(name)

    @property
    def steps(self) -> list[str]:
        return sorted(name for name in self.names if not name.startswith(_VALUES))


def _fact(content: str) -> dict[str, object]:
    return {
        "type": "personal",
        "target": "Alice",
        "content": content,
        "messages": [1],
        "when_to_use": "",
        "valid_from": "",
        "valid_to": "",
    }


def _scripted() -> ScriptedChatModel:
    """Answer for one fact, and for another one that replaces it."""
    before, after = (json.dumps({"facts": [_fact(text)]}) for text in ("Alice lives in Oslo", "Alice lives in Lima"))
    replaces = json.dumps({"decisions": [{"fact": 1, "action": "supersede", "memory": [1], "content": ""}]})
    return ScriptedChatModel([before, after, replaces])


async def _pass(memory: ReMe, passed: Passed) -> None:
    async with memory:
        await memory.summary([("user", "I live in Oslo.")], user_id=_USER, session_id="one")
        passed.is_on = True
        await memory.summary([("user", "I have moved and live in Lima.")], user_id=_USER, session_id="two")
        passed.is_on = False
        if memory.llm is not None:
            changes = (await memory.list_memories(user_id=_USER, include_superseded=True)).memories
            assert sorted(each.superseded_by is None for each in changes) == [False, True], "a fact replaces another"


def measure(make: Callable[[str], ReMe]) -> Passed:
    passed = Passed()
    threading.setprofile(passed.note)  # before a thread of ours begins
    sys.setprofile(passed.note)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_pass(make(folder), passed))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return passed


def main() -> int:
    ways = {
        "verbatim": (measure(lambda folder: ReMe("space", folder, llm=None, embedding=None)), 12),
        "extraction with a superseding fact": (
            measure(lambda folder: ReMe("space", folder, llm=_scripted(), embedding=HashedEmbedder())),
            45,
        ),
    }
    figures = []
    for name, (passed, bar) in ways.items():
        told = f"{len(passed.names) - len(passed.steps)} more of values and protocols"
        figures.append(Figure(f"modules of a message, {name}", len(passed.steps), "", bar, True, told))
        if "--names" in sys.argv:
            print(name, *passed.steps, sep="\n  ")
    print(show(figures))
    return 0 if all(figure.held for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
