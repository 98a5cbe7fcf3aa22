"""What checking a context costs once its messages were counted."""

from __future__ import annotations

import json
import statistics
import time

import numpy as np
from figures import Figure

from reme_core.models import CharacterTokenCounter
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.working.messages_to_keep import ContextLimits, check_context
from reme_core.working.tokens import TokenLedger

MESSAGES = 10_000
WORDS = ("deploy", "build", "server", "invoice", "meeting", "café", "Berlin", "report", "error", "timeout", "config")


def conversation(count: int) -> list[Message]:
    """A user's question, two calls with their results and an answer, over and over, until there are so many messages.

    Texts have about 400 characters.
    """
    rng = np.random.default_rng(11)

    def text() -> str:
        return " ".join(rng.choice(WORDS, 55))

    messages: list[Message] = []
    while len(messages) < count:
        name = f"c{len(messages)}"
        messages.append(Message(role="user", content=(TextBlock(text=text()),)))
        for call_id in (f"{name}a", f"{name}b"):
            arguments = {"query": text()[:80], "limit": 20, "paths": ["/srv/app", "/srv/lib"]}
            call = ToolCallBlock(call_id=call_id, name="search", arguments=arguments)
            messages.append(Message(role="assistant", content=(TextBlock(text="Let me look."), call)))
            output = json.dumps({"found": [text()[:180], text()[:180]]})
            messages.append(Message(role="tool", content=(ToolResultBlock(call_id=call_id, output=output),)))
        messages.append(Message(role="assistant", content=(TextBlock(text=text()),)))
    return messages


def check_ms(messages: list[Message], limits: ContextLimits, ledger: TokenLedger) -> float:
    begun = time.perf_counter()
    check_context(messages, limits=limits, ledger=ledger, system_prompt="You are helpful. " * 100)
    return (time.perf_counter() - begun) * 1000


def checking(name: str, window: int) -> Figure:
    limits = ContextLimits(max_input_length=window)
    messages = conversation(MESSAGES)
    firsts, agains = [], []
    for _ in range(5):
        ledger, said = TokenLedger(CharacterTokenCounter()), list(messages)
        firsts.append(check_ms(said, limits, ledger))
        for message in conversation(20):  # one is added at a time
            said.append(message)
            agains.append(check_ms(said, limits, ledger))
    first, again = statistics.median(firsts), statistics.median(agains)
    baseline = f"the first check {first:.1f} ms, the next ones {again:.3f} ms"
    return Figure(
        f"check_context, one message after 10k, {name}", round(100 * again / first, 2), "%", 1.0, True, baseline
    )


def measure() -> list[Figure]:
    return [checking("below the limit", 10_000_000), checking("over it, and split", 128_000)]


if __name__ == "__main__":
    from figures import show

    print(show(measure()))
