"""A long session in windows of every size: compacted in time, with a prompt whose beginning rarely changes."""

from __future__ import annotations

import os.path
import random
from pathlib import Path

import pytest

from reme_core import InContextMemory, Message, ReMe
from reme_core.models import CharacterTokenCounter
from reme_core.schema import TextBlock, ToolCallBlock, ToolResultBlock

SYSTEM = "You are a careful engineer. " * 20
TOKENS = 150_000
LEAST_SHARED = 0.99


class Wire:
    """Writes what is sent as bytes on the wire would stand: a line for each message."""

    def __init__(self) -> None:
        self._lines: dict[int, tuple[Message, str]] = {}

    def prompt(self, context: InContextMemory) -> list[str]:
        return [SYSTEM, *map(self._line, context.messages())]

    def _line(self, message: Message) -> str:
        found = self._lines.get(id(message))
        if found is None or found[0] is not message:
            found = self._lines[id(message)] = message, message.model_dump_json()
        return found[1]


def share_kept(before: list[str], now: list[str]) -> float:
    """Return the share of a prompt's bytes that the next one begins with."""
    kept = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            kept += len(os.path.commonprefix([old, new]))  # noqa: RUF071  # texts, no paths
            break
        kept += len(old)
    return kept / sum(map(len, before))


def exchange(number: int, chance: random.Random) -> list[Message]:
    """Return one step of an agent: a question, two calls, their results, an answer."""
    ids = [f"call-{number}-{place}" for place in range(2)]
    results = [
        "\n".join(f"line {line} of file_{number}_{place}.py: value {chance.random()}" for line in range(size))
        for place, size in enumerate((chance.choice([3, 30, 300]), 20))
    ]
    return [
        Message(role="user", content=(TextBlock(text=f"Please look at file_{number}.py and say what it does."),)),
        Message(
            role="assistant",
            content=tuple(ToolCallBlock(call_id=name, name="read", arguments={"path": name}) for name in ids),
        ),
        *(
            Message(role="tool", content=(ToolResultBlock(call_id=name, name="read", output=result),))
            for name, result in zip(ids, results, strict=True)
        ),
        Message(role="assistant", content=(TextBlock(text=f"file_{number}.py adds {number} numbers. " * 10),)),
    ]


@pytest.mark.parametrize("window", [16_000, 32_000, 128_000, pytest.param(1_000_000, marks=pytest.mark.torture)])
async def test_every_window_compacts_and_keeps_the_beginning_of_its_prompt(window: int, tmp_path: Path) -> None:
    chance = random.Random(7)
    counter = CharacterTokenCounter()
    total = max(TOKENS, window)  # so that a million is filled as well
    every = max(1, window // 250_000)  # a step fills a large window by less than a hundredth
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        context = memory.in_context_memory(
            user_id="alice", session_id="work", system_prompt=SYSTEM, max_input_length=window
        )
        shared, summaries, number, said = dict[bool, list[float]]({False: [], True: []}), 0, 0, 0
        wire, before = Wire(), list[str]()
        while said < total:
            for message in exchange(number, chance):
                context.add(message)
                said += counter.count(message.full_text)
            number += 1
            if number % every:
                continue
            prepared = await context.prepare()
            assert prepared.tokens <= prepared.threshold
            now = wire.prompt(context)
            summaries += prepared.method is not None
            if before:
                shared[prepared.compacted].append(share_kept(before, now))
            before = now
        await context.close()
        counts = await memory.stats(user_id="alice")
    assert summaries >= 1
    assert counts.messages == 5 * number
    assert min(shared[False]) >= LEAST_SHARED
    # Compactions are rare: what comes between two of them fills nearly half of what a context may take.
    assert said / len(shared[True]) >= 0.4 * context.limits.threshold
