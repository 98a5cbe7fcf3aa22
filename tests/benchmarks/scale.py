"""What a large user and the others cost each other, and what a question without measure costs."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from corpus import Corpus, PoolEmbedder, fill
from figures import Figure
from speed import p50_ms, timed

from reme_core import ReMe
from reme_core.schema import RetrieveResult

_FAST = {"backend": "local_file", "synchronous": "NORMAL"}
_PASTED_CHARS = 5_000_000


async def changes_of_others(folder: Path) -> list[Figure]:
    """Ask a large user after 100,000 changes of others: the next question of each of nine readers, and those before.

    By words: vectors are twice the work where they are read from memory that others have used meanwhile.
    """
    corpus, place = Corpus(), folder / "others"

    def opened() -> ReMe:
        return ReMe("bench", place, llm=None, embedding=None, vector_store=_FAST)

    async with opened() as memory:
        await fill(memory, "large", corpus, 100_000)
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(opened()) for _ in range(9)]

        async def ask(number: int) -> RetrieveResult:
            return await readers[number % len(readers)].retrieve(corpus.question(), user_id="large", limit=10)

        for number in range(len(readers)):
            while (await ask(number)).degraded:
                pass
        before = p50_ms(await timed(10 * len(readers), ask))
        async with opened() as others:
            for user in range(1000):
                await others.summary(corpus.messages(100), user_id=f"other-{user}", session_id="s")
        after = p50_ms(await timed(len(readers), ask, warm_up=0))
    told = f"before {before:.1f} ms, the next one {after:.1f} ms"
    return [Figure("next question after 100k changes of others, p50", round(after / before, 2), "x", 1.2, True, told)]


async def loading(folder: Path) -> list[Figure]:
    """Ask small users and watch the event loop while a scope of 200,000 messages is being loaded."""
    corpus, place = Corpus(), folder / "loading"
    async with ReMe("bench", place, llm=None, embedding=PoolEmbedder(), vector_store=_FAST) as memory:
        await fill(memory, "large", corpus, 200_000)
        for user in range(20):
            await fill(memory, f"user-{user}", corpus, 100)
    async with ReMe("bench", place, llm=None, embedding=PoolEmbedder()) as memory:

        async def ask(number: int) -> object:
            return await memory.retrieve(corpus.question(), user_id=f"user-{number % 20}", limit=10)

        quiet = p50_ms(await timed(200, ask, warm_up=20))
        begun = time.perf_counter()
        large = asyncio.create_task(memory.retrieve(corpus.question(), user_id="large", limit=10))
        answers, lags, spent = 0, [], []
        while True:
            at = time.perf_counter()
            await asyncio.sleep(0.001)
            lags.append(time.perf_counter() - at - 0.001)
            spent += await timed(1, ask, warm_up=0)
            if large.done():
                answers += 1
                if answers == 1:
                    first = time.perf_counter() - begun
                if not large.result().degraded:
                    break
                large = asyncio.create_task(memory.retrieve(corpus.question(), user_id="large", limit=10))
        loaded = time.perf_counter() - begun
    other = f"before {quiet:.1f} ms, the slowest {max(spent) * 1000:.0f} ms"
    loop = f"median {statistics.median(lags) * 1000:.1f} ms"
    answered = f"{answers} answers until everything was loaded after {loaded:.1f} s"
    return [
        Figure("first answer in a scope of 200k messages", round(first, 2), "s", 1.0, True, answered),
        Figure("retrieve of small scopes meanwhile, p50", round(p50_ms(spent), 1), "ms", 20.0, True, other),
        Figure("longest pause of the event loop meanwhile", round(max(lags) * 1000), "ms", 100.0, True, loop),
    ]


async def pasted(folder: Path) -> list[Figure]:
    """Ask with a text of 5 MB, and with its beginning."""
    corpus = Corpus()
    text = " ".join(corpus.text(20, 20) for _ in range(_PASTED_CHARS // 100))[:_PASTED_CHARS]
    async with ReMe("bench", folder / "pasted", llm=None, embedding=PoolEmbedder(), vector_store=_FAST) as memory:
        await fill(memory, "u", corpus, 1_000)
        texts = {length: [f"{corpus.text(3, 6)} {text[:length]}" for _ in range(40)] for length in (4_000, len(text))}

        async def ask(number: int, length: int) -> object:
            return await memory.retrieve(texts[length][number % 40], user_id="u", limit=10)

        short = p50_ms(await timed(30, lambda number: ask(number, 4_000)))
        long = p50_ms(await timed(30, lambda number: ask(number, len(text))))
    told = f"with its first 4,000 characters {short:.1f} ms, with all of them {long:.1f} ms"
    return [Figure("a question of 5 MB beside its beginning", round(long - short, 1), "ms", 10.0, True, told)]


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            *asyncio.run(changes_of_others(folder)),
            *asyncio.run(loading(folder)),
            *asyncio.run(pasted(folder)),
        ]
