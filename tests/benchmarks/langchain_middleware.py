"""What `ReMeMiddleware` costs: the prompt prefix that it keeps, checkpoints, and milliseconds added to a turn.

    PYTHONPATH=. python tests/benchmarks/langchain_middleware.py [--turns 20] [--json out.json]

No model is asked: the answers are scripted, so the figures are those of the middleware alone.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from reme_core import ReMe
from reme_langchain import Compact, Recall, ReMeMiddleware
from tests.adapters.langchain.scripted import ScriptedChat, calling

THREAD = {"configurable": {"thread_id": "bench"}}
MANY = 1_500
# A real model takes longer; meanwhile the turn before is delivered.
PAUSE_S = 0.05


def look_up(place: str) -> str:
    """Look up a place."""
    return f"{place} is where it was. " * 20


def script(turns: int) -> list[Any]:
    steps: list[Any] = []
    for number in range(turns):
        steps += [calling("look_up", {"place": f"p{number}"}, call_id=f"{number}-{call}") for call in range(2)]
        steps.append(f"Here is what I know of topic{number}. " * 10)
    return steps


async def open_memory(folder: Path) -> ReMe:
    memory = ReMe("bench", folder, llm=None, embedding=None)
    for number in range(200):
        await memory.add_memory(f"topic{number} was discussed with Ann in meeting {number}", user_id="ann")
    return memory


async def run_turns(middleware: list[AgentMiddleware[Any, Any, Any]], turns: int) -> tuple[ScriptedChat, float, float]:
    """Return the model with its requests, checkpoints a turn, and the median milliseconds of a turn."""
    model, saver, spent = ScriptedChat(script(turns)), InMemorySaver(), []
    agent = create_agent(model, [look_up], middleware=middleware, checkpointer=saver, system_prompt="Be kind. " * 50)
    for number in range(turns):
        begun = time.perf_counter()
        await agent.ainvoke({"messages": [("user", f"what of topic{number}?")]}, THREAD)
        spent.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(PAUSE_S)
    return model, len(list(saver.list(THREAD))) / turns, statistics.median(spent)


def prefix_share(model: ScriptedChat) -> float:
    """Return the share of all characters sent before that the next prompt begins with."""
    texts = [asked.text for asked in model.asked]
    common = sum(len(before) if after.startswith(before) else _common(before, after) for before, after in _pairs(texts))
    return common / sum(map(len, texts[:-1]))


def _pairs(texts: list[str]) -> list[tuple[str, str]]:
    return list(itertools.pairwise(texts))


def _common(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


async def time_hook(memory: ReMe, name: str, turns: int, **options: Any) -> float:
    """Return the median milliseconds of one hook."""
    spent: list[float] = []

    class Timed(ReMeMiddleware):
        async def abefore_agent(self, state: Any, runtime: Any) -> Any:
            return await _timed("before", lambda: super(Timed, self).abefore_agent(state, runtime))

        async def aafter_agent(self, state: Any, runtime: Any) -> Any:
            return await _timed("after", lambda: super(Timed, self).aafter_agent(state, runtime))

    async def _timed(which: str, call: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        answer = await call()
        if which == name:
            spent.append((time.perf_counter() - begun) * 1000)
        return answer

    with Timed(memory, owner="ann", **options) as middleware:
        await run_turns([middleware], turns)
    return statistics.median(spent)


async def time_long_context(memory: ReMe) -> tuple[float, float]:
    """Return the milliseconds of the first and of later calls on a context of many messages that fits."""
    from langchain_core.messages import HumanMessage

    from reme_langchain._place import HookContext
    from reme_langchain.middleware._compaction import ContextCompactor, ModelContext

    messages: list[Any] = [HumanMessage(f"message {n} " * 20, id=f"m{n}") for n in range(MANY)]
    compaction = ContextCompactor(memory, Compact(max_tokens=120_000))
    place = HookContext(user_id="ann", session_id="long", has_thread=True, notes={})
    spent = []
    for _ in range(6):
        begun = time.perf_counter()
        await compaction.fit(ModelContext(messages=messages, system=None, tools=[]), messages, place)
        spent.append((time.perf_counter() - begun) * 1000)
    return spent[0], statistics.median(spent[1:])


async def measure(turns: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    _, figures["bare: checkpoints a turn"], figures["bare: ms a turn"] = await run_turns([], turns)
    for name, recall in (("message", Recall()), ("system", Recall(where="system"))):
        with tempfile.TemporaryDirectory() as folder:
            memory = await open_memory(Path(folder))
            with ReMeMiddleware(memory, owner="ann", recall=recall, compact=Compact()) as middleware:
                model, checkpoints, spent = await run_turns([middleware], turns)
                figures[f"{name}: prefix share"] = prefix_share(model)
                figures[f"{name}: checkpoints a turn"], figures[f"{name}: ms a turn"] = checkpoints, spent
            await memory.close()
    with tempfile.TemporaryDirectory() as folder:
        memory = await open_memory(Path(folder))
        figures["before_agent ms (recall)"] = await time_hook(memory, "before", turns)
        figures["after_agent ms (capture)"] = await time_hook(memory, "after", turns, recall=None)
        first, later = await time_long_context(memory)
        figures[f"{MANY} messages that fit: first call ms"] = first
        figures[f"{MANY} messages that fit: later calls ms"] = later
        await memory.close()
    return figures


def bars(turns: int = 20) -> list[Figure]:
    """Measure, and return what has a bar."""
    found = asyncio.run(measure(turns))
    bare, ours = found["bare: checkpoints a turn"], found["message: checkpoints a turn"]
    in_message, in_system = (100 * found[f"{where}: prefix share"] for where in ("message", "system"))
    return [
        Figure("middleware, memories in a message: prefix kept", in_message, "%", 99, False),
        Figure("middleware, memories in the system prompt: prefix kept", in_system, "%", 99, False),
        Figure("middleware: checkpoints a turn", ours, "", bare + 2, True, f"bare {bare}"),
        Figure("middleware: after_agent", found["after_agent ms (capture)"], "ms", 1, True),
        # What ContextEditingMiddleware takes for as many, with its deep copies.
        Figure(f"middleware: {MANY} messages", found[f"{MANY} messages that fit: later calls ms"], "ms", 33, True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = asyncio.run(measure(given.turns))
    for name, figure in figures.items():
        print(f"{name:45} {figure:10.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
