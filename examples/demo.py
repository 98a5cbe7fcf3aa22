"""The demo: two processes, one memory. No key, no network.

    python examples/demo.py

The first process adds a conversation of several months, session by session, and ends. A second one opens the same
folder, asks questions in English and Chinese and prints what was found: from whom, of which day, in which message. The
program checks itself: it fails unless a message that answers is among the first three results of every question, and
unless another user sees nothing at all.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

from reme_core import Hit, ReMe

CONVERSATION = Path(__file__).with_name("demo_conversation.json")
SPACE = "slow-boat"
FIRST = 3
WIDTH = 100


@dataclass(frozen=True)
class Story:
    """What is in the file of the conversation."""

    user_id: str
    other_user_id: str
    sessions: list[dict[str, object]]
    questions: list[dict[str, object]]


def read_story() -> Story:
    return Story(**json.loads(CONVERSATION.read_text(encoding="utf-8")))


async def write(folder: Path) -> None:
    """What the first process does."""
    story = read_story()
    print(f"process {os.getpid()} adds {len(story.sessions)} sessions for user {story.user_id!r}")
    async with ReMe(SPACE, folder, llm=None, embedding=None) as memory:
        for session in story.sessions:
            messages, session_id = session["messages"], str(session["session_id"])
            assert isinstance(messages, list)
            begun = time.perf_counter()
            result = await memory.summary(messages, user_id=story.user_id, session_id=session_id, end_session=True)
            spent = (time.perf_counter() - begun) * 1000
            day = messages[0]["created_at"][:10]
            print(
                f"  {day}  {session_id:<12} {len(result.message_ids):>3} messages on disk, "
                f"{len(result.block_ids)} block(s), {spent:5.1f} ms"
            )
    print(f"process {os.getpid()} ends")


async def ask(folder: Path) -> int:
    """What the second process does; returns how many questions went without their answer."""
    story = read_story()
    missed = 0
    async with ReMe(SPACE, folder, llm=None, embedding=None) as memory:
        counts = await memory.stats(user_id=story.user_id)
        print(f"process {os.getpid()} finds {counts.messages} messages of {counts.sessions} sessions on disk")
        for number, item in enumerate(story.questions, start=1):
            question, evidence = str(item["question"]), item["evidence"]
            assert isinstance(evidence, list)
            begun = time.perf_counter()
            found = await memory.retrieve(question, user_id=story.user_id, limit=FIRST)
            spent = (time.perf_counter() - begun) * 1000
            is_found = any(set(hit.message_ids) & set(evidence) for hit in found.results)
            missed += not is_found
            print(f"\n{number}. {question}   [{spent:.1f} ms]{'' if is_found else '   NOT FOUND'}")
            for hit in found.results:
                print_hit(hit, evidence)
        missed += await ask_as_other(memory, story)
    return missed


def print_hit(hit: Hit, evidence: list[str]) -> None:
    mark = "=>" if set(hit.message_ids) & set(evidence) else "  "
    day = f"{hit.created_at:%a %d %b %Y, %H:%M}" if hit.created_at else ""
    print(f"   {mark} {hit.name or hit.role}, {day}  (session {hit.session_id}, message {hit.message_ids[0]})")
    text = textwrap.shorten(hit.memory, 2 * WIDTH, placeholder=" …")
    print(textwrap.fill(text, WIDTH, initial_indent=" " * 9, subsequent_indent=" " * 9))


async def ask_as_other(memory: ReMe, story: Story) -> int:
    """Ask the same questions as somebody else; returns how many found something."""
    seen = 0
    for item in story.questions:
        found = await memory.retrieve(str(item["question"]), user_id=story.other_user_id)
        seen += bool(found.results)
    total = len(story.questions)
    print(f"\nuser {story.other_user_id!r} asks the same {total} questions and finds something for {seen} of them")
    return seen


def run_in_a_process(role: str, folder: Path) -> int:
    sys.stdout.flush()
    command = [sys.executable, __file__, role, str(folder)]
    return subprocess.run(command, check=False).returncode  # noqa: S603  # this file, by this interpreter


def main() -> int:
    if len(sys.argv) == 3:
        folder = Path(sys.argv[2])
        return asyncio.run(write(folder)) or 0 if sys.argv[1] == "write" else min(asyncio.run(ask(folder)), 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if run_in_a_process("write", folder):
            return 1
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(
            f"the folder now holds one file: {', '.join(sorted(p.name for p in folder.iterdir()))} ({size:,} bytes)\n"
        )
        if run_in_a_process("ask", folder):
            print("\nthe demo FAILED: see NOT FOUND above")
            return 1
    print(f"\nevery question was answered within its first {FIRST} results; nobody else saw anything")
    return 0


if __name__ == "__main__":
    sys.exit(main())
