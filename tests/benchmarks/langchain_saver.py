"""How long the checkpointer takes and how much it writes, beside AsyncSqliteSaver in the same run.

Both lie on one file system, with a write-ahead log and synchronous=FULL. They take turns in small blocks, each first
every other time, since a shared disk changes from moment to moment; a figure is the median of the ratios of several
processes.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, TypedDict

from figures import Figure, show
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from reme_langchain import ReMeSaver

PROCESSES = 5
ROUNDS = 300
BLOCK = 20
TURNS = 300
OURS, THEIRS = "ReMeSaver", "AsyncSqliteSaver"

Times = dict[str, list[float]]


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def clocked(times: Times, name: str, call: Awaitable[Any]) -> Any:
    begun = time.perf_counter()
    answer = await call
    times.setdefault(name, []).append((time.perf_counter() - begun) * 1000)
    return answer


def checkpoint(number: int, values: dict[str, Any]) -> Checkpoint:
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=number))
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, f"{number:016}.0")
    return made


async def one_round(saver: Any, number: int, messages: list[AnyMessage], times: Times) -> None:
    for thread, values in (("small", {"x": "a" * 1000}), ("chat", {"messages": messages})):
        at = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        made = checkpoint(number, values)
        put = saver.aput(at, made, {"source": "loop", "step": number, "parents": {}}, made["channel_versions"])
        stored = await clocked(times, f"put {thread}", put)
        await clocked(times, f"get_tuple {thread}", saver.aget_tuple(at))
        if thread == "small":
            await clocked(times, "put_writes", saver.aput_writes(stored, [("x", "a" * 200)], f"task{number}"))


async def single_calls(folder: Path) -> dict[str, Times]:
    found: dict[str, Times] = {name: {} for name in (OURS, THEIRS)}
    messages: list[AnyMessage] = [HumanMessage("x" * 400, id=f"{n}") for n in range(100)]
    for name in (OURS, THEIRS):
        (folder / name).mkdir(mode=0o700, parents=True)
    async with (
        ReMeSaver.from_path(folder / OURS / "calls.db") as ours,
        AsyncSqliteSaver.from_conn_string(str(folder / THEIRS / "calls.db")) as theirs,
    ):
        await check_alike(ours, theirs)
        for block in range(0, ROUNDS, BLOCK):
            pair: list[tuple[str, Any]] = [(OURS, ours), (THEIRS, theirs)]
            for name, saver in pair if block // BLOCK % 2 else pair[::-1]:
                for number in range(block, block + BLOCK):
                    said = [*messages[:-1], AIMessage(f"{number} " + "y" * 400, id=f"n{number}")]
                    await one_round(saver, number, said, found[name])
    return found


async def check_alike(ours: ReMeSaver, theirs: AsyncSqliteSaver) -> None:
    """Refuse to compare what is not as safe: FULL is 2."""
    await theirs.setup()
    for pragma, wanted in (("synchronous", (2,)), ("journal_mode", ("wal",))):
        asked = f"PRAGMA {pragma}"
        found = await ours._file.awrite(lambda connection, _, asked=asked: connection.execute(asked).fetchone())
        async with theirs.conn.execute(asked) as cursor:
            assert found == await cursor.fetchone() == wanted


def chat(saver: Any) -> Any:
    def reply(_: Chat) -> dict[str, object]:
        return {"messages": [AIMessage("a" * 400)]}

    return StateGraph(Chat).add_node("reply", reply).add_edge(START, "reply").compile(checkpointer=saver)


async def turns(folder: Path, chats: int, length: int) -> tuple[Times, dict[str, float]]:
    """Return the milliseconds of each turn, both savers turn by turn, and the megabytes on disk after closing."""
    times: Times = {}
    for name in (OURS, THEIRS):
        (folder / name).mkdir(mode=0o700, parents=True)
    async with (
        ReMeSaver.from_path(folder / OURS / "chat.db") as ours,
        AsyncSqliteSaver.from_conn_string(str(folder / THEIRS / "chat.db")) as theirs,  # synchronous is FULL there, too
    ):
        graphs = {OURS: chat(ours), THEIRS: chat(theirs)}
        for graph in graphs.values():  # opens the file
            await graph.ainvoke({"messages": [HumanMessage("h")]}, {"configurable": {"thread_id": "first"}})
        for number in range(chats * length):
            pair = list(graphs.items())
            for name, graph in pair if number % 2 else pair[::-1]:
                config = {"configurable": {"thread_id": f"{number // length}"}}
                await clocked(times, name, graph.ainvoke({"messages": [HumanMessage("h" * 400)]}, config))
    return times, {name: size_of(folder / name) / 1e6 for name in graphs}


def size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


Ratio = tuple[float, float]
"""Milliseconds of ours and of theirs."""


def one_process(_: int) -> tuple[dict[str, Ratio], dict[str, float]]:
    """Return the medians of one process, and the megabytes of 300 turns."""
    with tempfile.TemporaryDirectory() as name:
        calls = asyncio.run(single_calls(Path(name) / "calls"))
        short, _ = asyncio.run(turns(Path(name) / "short", 60, 5))
        late, sizes = asyncio.run(turns(Path(name) / "long", 1, TURNS))
    medians = {call: _medians(calls[OURS][call], calls[THEIRS][call]) for call in calls[OURS]}
    medians["a turn of short chats"] = _medians(short[OURS], short[THEIRS])
    medians["turn 300 of a chat"] = _medians(late[OURS][-20:], late[THEIRS][-20:])
    return medians, sizes


def _medians(ours: list[float], theirs: list[float]) -> Ratio:
    return statistics.median(ours), statistics.median(theirs)


def measure() -> list[Figure]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        runs = list(processes.map(one_process, range(PROCESSES)))
    sizes = runs[0][1]
    return [
        *(_compared(what, [medians[what] for medians, _ in runs]) for what in runs[0][0]),
        Figure("checkpointer, 300 turns on disk", sizes[OURS], "MB", 1.0, True, f"{THEIRS} {sizes[THEIRS]:.0f} MB"),
    ]


def _compared(what: str, runs: list[Ratio]) -> Figure:
    ratios = sorted(ours / theirs for ours, theirs in runs)
    took = [statistics.median(each) for each in zip(*runs, strict=True)]
    told = f"{took[0]:.2f} ms, {THEIRS} {took[1]:.2f} ms, of {len(runs)} processes {ratios[0]:.2f} to {ratios[-1]:.2f}"
    return Figure(f"checkpointer, {what}", statistics.median(ratios), "x", 1.0, True, told)


if __name__ == "__main__":
    print(show(measure()))
