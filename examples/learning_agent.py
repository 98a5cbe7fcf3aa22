"""An agent that writes small functions, is told by hidden checks what was wrong, and gets better with memory.

    python examples/learning_agent.py

The tasks are of one house, which has its own ways: nobody tells them, the checks hold the code to them. First the agent
solves some tasks and learns from its attempts; then it solves others of the same family, without and with what it has
learnt. With REME_LLM_MODEL (and REME_LLM_API_KEY or REME_LLM_BASE_URL) set, that model writes the code and draws the
lessons; otherwise a stand-in does, which knows two answers to each task and follows only what it is told. The code is
run on this machine in a process of its own, with a time limit and nothing more: have no model write it that you
distrust. The program checks itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from reme_core import Message, ReMe, Trajectory
from reme_core.facade.parts import Settings
from reme_core.ports import ChatModel, ChatRequest, ChatResult
from reme_core.schema import TextBlock, ToolCallBlock, ToolResultBlock, Usage

USER, HOUSE, TRIES, TIMEOUT_S = "agent", "house style", 3, 10
SYSTEM = "You write one Python function for each task. Answer with its code alone, in a ```python block."


@dataclass(frozen=True)
class Task:
    """A function to write. The checks, pairs of arguments and result, are hidden from who writes it.

    `naive` is what one writes who doesn't know the house, `knowing` what one writes who does.
    """

    name: str
    wish: str
    way: str
    checks: tuple[tuple[list[object], object], ...]
    naive: str
    knowing: str


HALF_UP = "this house rounds half a cent up, away from zero, never to even: use Decimal(str(x)) and ROUND_HALF_UP"
EMPTY = "this house answers None for an empty list: it never raises, and never answers 0"
NAMES = "this house compares names without regard to case and blanks at the ends, and answers them in title case"
DAYS = "this house counts days inclusively: the first and the last day both count"
CENT = """from decimal import ROUND_HALF_UP, Decimal
def cent(x):
    return float(Decimal(str(x)).quantize(Decimal("0.01"), ROUND_HALF_UP))
"""

LESSONS = (
    Task(
        "net_price",
        "net_price(price, discount): the price less a discount in percent, rounded to cents.",
        HALF_UP,
        (([2.5, 1], 2.48), ([0.25, 50], 0.13), ([10, 0], 10.0)),
        "def net_price(price, discount):\n    return round(price * (100 - discount) / 100, 2)",
        CENT + "def net_price(price, discount):\n    return cent(Decimal(str(price)) * (100 - discount) / 100)",
    ),
    Task(
        "mean",
        "mean(values): the arithmetic mean of a list of numbers.",
        EMPTY,
        (([[1, 2, 3]], 2.0), ([[]], None)),
        "def mean(values):\n    return sum(values) / len(values)",
        "def mean(values):\n    return sum(values) / len(values) if values else None",
    ),
    Task(
        "unique_names",
        "unique_names(names): the different names in a list, in the order of their first coming.",
        NAMES,
        (([["Ann", "bob", "ANN "]], ["Ann", "Bob"]),),
        "def unique_names(names):\n    return list(dict.fromkeys(names))",
        "def unique_names(names):\n    return list(dict.fromkeys(n.strip().title() for n in names))",
    ),
    Task(
        "stay_length",
        "stay_length(first, last): the number of days of a stay, given two ISO dates.",
        DAYS,
        ((["2024-02-28", "2024-03-01"], 3), (["2024-05-01", "2024-05-01"], 1)),
        "from datetime import date\ndef stay_length(first, last):\n"
        "    return (date.fromisoformat(last) - date.fromisoformat(first)).days",
        "from datetime import date\ndef stay_length(first, last):\n"
        "    return (date.fromisoformat(last) - date.fromisoformat(first)).days + 1",
    ),
)
EXAM = (
    Task(
        "split_bill",
        "split_bill(total, people): what each of some people pays of a price, rounded to cents.",
        HALF_UP,
        (([0.25, 2], 0.13), ([9, 3], 3.0)),
        "def split_bill(total, people):\n    return round(total / people, 2)",
        CENT + "def split_bill(total, people):\n    return cent(Decimal(str(total)) / people)",
    ),
    Task(
        "longest_value",
        "longest_value(values): the longest text in a list, the first of those that are equally long.",
        EMPTY,
        (([["a", "bcd", "ef"]], "bcd"), ([[]], None)),
        "def longest_value(values):\n    return max(values, key=len)",
        "def longest_value(values):\n    return max(values, key=len) if values else None",
    ),
    Task(
        "sorted_names",
        "sorted_names(names): the different names of a list in alphabetical order.",
        NAMES,
        (([["bob", "Ann", "BOB"]], ["Ann", "Bob"]),),
        "def sorted_names(names):\n    return sorted(set(names))",
        "def sorted_names(names):\n    return sorted({n.strip().title() for n in names})",
    ),
    Task(
        "rental_days",
        "rental_days(first, last): the number of days of a rental, given two ISO dates.",
        DAYS,
        ((["2023-12-31", "2024-01-01"], 2),),
        "from datetime import date\ndef rental_days(first, last):\n"
        "    return (date.fromisoformat(last) - date.fromisoformat(first)).days",
        "from datetime import date\ndef rental_days(first, last):\n"
        "    return (date.fromisoformat(last) - date.fromisoformat(first)).days + 1",
    ),
    Task(
        "price_with_tax",
        "price_with_tax(price, tax): the price plus a tax in percent, rounded to cents.",
        HALF_UP,
        (([2.5, 1], 2.53), ([100, 19], 119.0)),
        "def price_with_tax(price, tax):\n    return round(price * (1 + tax / 100), 2)",
        CENT + "def price_with_tax(price, tax):\n    return cent(Decimal(str(price)) * (100 + tax) / 100)",
    ),
    Task(
        "median",
        "median(values): the middle one of a list of numbers, the mean of the two middle ones of an even number.",
        EMPTY,
        (([[3, 1, 2]], 2), ([[]], None)),
        "import statistics\ndef median(values):\n    return statistics.median(values)",
        "import statistics\ndef median(values):\n    return statistics.median(values) if values else None",
    ),
)

CHECKER = """
import contextlib, io, json, os, sys
(code, name, checks), told = json.load(sys.stdin), os.fdopen(os.dup(1), "w")
space, problem = {}, ""
with contextlib.redirect_stdout(io.StringIO()):
    exec(code, space)
    for arguments, wanted in checks:
        try:
            found = space[name](*arguments)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found != wanted:
            problem += f"{name}(*{arguments}) gave {found!r}, wanted {wanted!r}. "
json.dump({"checked": name, "problem": problem}, told)
"""


def run_checks(task: Task, code: str) -> str:
    """Run code in a process of its own; return what is wrong with it, nothing if nothing is."""
    given = json.dumps([code, task.name, task.checks])
    try:
        done = subprocess.run(  # noqa: S603  # what this program is about
            [sys.executable, "-I", "-c", CHECKER], input=given, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"TimeoutError: the function took longer than {TIMEOUT_S} s"
    if not done.stdout:  # it didn't come to the end of the checks
        return f"Error: the code ended with {done.returncode} before it was checked: {done.stderr[-1000:].strip()}"
    problem = json.loads(done.stdout)["problem"].strip()
    return f"Error: {problem} ({task.way})" if problem else ""


def said(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": text})


async def write_code(model: ChatModel, messages: Sequence[Message]) -> str:
    result = await model.chat(ChatRequest(messages=tuple(messages)))
    block = re.search(r"```(?:python)?\n(.*?)```", result.message.text, re.DOTALL)
    return block[1] if block else result.message.text


async def solve(model: ChatModel, task: Task, known: str = "") -> list[Trajectory]:
    """Try a task until the checks pass, and return each try, with what was done and how it went."""
    question = task.wish if not known else f"{known}\n\nThe task: {task.wish}"
    asked = [said("system", SYSTEM), said("user", question)]
    attempts: list[Trajectory] = []
    for number in range(TRIES):
        code = await write_code(model, asked)
        problem = await asyncio.to_thread(run_checks, task, code)
        call = ToolCallBlock(call_id=f"{task.name}-{number}", name="run_checks", arguments={"code": code})
        outcome = ToolResultBlock(call_id=call.call_id, output=problem or "all checks passed", is_error=bool(problem))
        turn = [
            said("user", task.wish),
            Message(role="assistant", content=(call,)),
            Message(role="tool", content=(outcome,)),
        ]
        attempts.append(Trajectory(task_id=task.name, messages=tuple(turn), score=0.0 if problem else 1.0))
        if not problem:
            break
        asked += [said("assistant", f"```python\n{code}```"), said("user", f"The checks say: {problem}\nOnce more.")]
    return attempts


async def learn(memory: ReMe, model: ChatModel) -> None:
    """Solve the lessons, and have the memory learn from the tries, good and bad."""
    for task in LESSONS:
        attempts = await solve(model, task)
        result = await memory.summary_task(attempts, user_id=USER, task_name=HOUSE)
        for attempt in attempts:
            await memory.add_tool_call_results(user_id=USER, messages=attempt.messages)
        print(f"  {task.name}: tried {len(attempts)} times, lessons learnt: {len(result.memories)}")
    await memory.summarize_tool_memory("run_checks", user_id=USER)


async def sit_exam(memory: ReMe, model: ChatModel, *, with_memory: bool) -> int:
    """Solve the other tasks; return how many at the first try."""
    at_once = 0
    for task in EXAM:
        known = None
        if with_memory:
            known = await memory.retrieve_task_memory(task.wish, user_id=USER, task_name=HOUSE, limit=3)
        attempts = await solve(model, task, "" if known is None else known.text)
        at_once += len(attempts) == 1 and attempts[0].score == 1
        if known is not None and known.results:
            used = [hit.memory_id for hit in known.results if hit.memory_id is not None]
            await memory.record_use(used, user_id=USER, helpful=float(attempts[0].score == 1))
    return at_once


class StandIn:
    """A `ChatModel` without wits: it writes the naive code unless what it was told speaks of the way of the house."""

    async def chat(self, request: ChatRequest) -> ChatResult:
        told = "\n".join(message.full_text for message in request.messages)
        if request.response_schema is None:
            return self._answer(self._code(told))
        answer = self._json(request.response_schema.name, told)
        return self._answer(json.dumps(answer), answer)

    def _code(self, told: str) -> str:
        wanted = [task for task in (*LESSONS, *EXAM) if task.wish in told][-1]
        return f"```python\n{wanted.knowing if wanted.way in told else wanted.naive}\n```"

    def _json(self, form: str, told: str) -> dict[str, JsonValue]:
        ways = [way for way in (HALF_UP, EMPTY, NAMES, DAYS) if way in told]
        if form == "verdicts":
            numbers = dict.fromkeys(map(int, re.findall(r'^\{"n":(\d+)', told, re.MULTILINE)))
            return {"verdicts": [{"n": n, "score": 0.9, "reason": "it names the rule"} for n in numbers]}
        if form == "guideline":
            return {
                "core_function": "Runs the hidden checks of a task on code.",
                "success_patterns": ["Pass the whole code of one function."],
                "common_issues": ["Code that breaks a way of the house."],
                "best_practices": ["Look up the ways of the house first."],
            }
        cited: list[JsonValue] = [
            int(n) for n, text in re.findall(r'^\{"n":(\d+),.*?"text":(.*)$', told, re.MULTILINE) if "Error" in text
        ]
        lessons: list[JsonValue] = [
            {
                "when_to_use": f"Writing a function such as {self._wishes(way)}",
                "content": f"Mind that {way}.",
                "tags": ["house style"],
                "confidence": 0.9,
                "step_type": "decision",
                "tools_used": ["run_checks"],
                "messages": cited,
            }
            for way in ways
        ]
        return {"experiences": lessons if cited else []}

    def _wishes(self, way: str) -> str:
        return next(task.wish for task in LESSONS if task.way == way)

    def _answer(self, text: str, parsed: JsonValue = None) -> ChatResult:
        message = Message(role="assistant", content=(TextBlock(text=text),))
        return ChatResult(message=message, parsed=parsed, usage=Usage(model_calls=1))


def choose_model() -> ChatModel | Settings:
    name = os.environ.get("REME_LLM_MODEL")
    print(f"the model is {name}" if name else "the model is a stand-in: set REME_LLM_MODEL and a key for a real one")
    return {"backend": "openai", "model": name} if name else StandIn()


async def work(folder: str) -> list[tuple[str, bool]]:
    """Learn, sit the exam without and with memory, and return what should be true."""
    async with ReMe("learning-agent", folder, llm=choose_model(), embedding=None) as memory:
        model = memory.tool_context(user_id=USER).model
        assert model is not None
        print("learning:")
        await learn(memory, model)
        without = await sit_exam(memory, model, with_memory=False)
        with_memory = await sit_exam(memory, model, with_memory=True)
        print(f"at the first try, of {len(EXAM)} tasks: {without} without memory, {with_memory} with it")

        learnt = await memory.list_memories(user_id=USER, memory_type="procedural")
        used = [f"{m.utility:.0f} of {m.freq} uses of {m.content[:60]!r} helped" for m in learnt.memories if m.freq]
        print(*used, sep="\n")
        tools = await memory.retrieve_tool_memory("run_checks", user_id=USER)
        print(tools.text)
        in_vain = await memory.forget_memories(user_id=USER, freq_threshold=2, utility_threshold=0.5, dry_run=True)
        print(f"{len(in_vain.memories)} memories would be forgotten: used often, seldom of help")
        left = await memory.list_jobs(user_id=USER)
    # A model may know the ways of the house by chance: then there is nothing to gain.
    return [
        ("memory solves more at the first try", with_memory > without or without == len(EXAM)),
        ("something was learnt", bool(learnt.memories)),
        ("the calls of the checks are counted", tools.results[0].statistics.calls > len(LESSONS)),
        ("no work is left", not left),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        checks = asyncio.run(work(folder))
    for what, is_so in checks:
        print(f"{'ok ' if is_so else 'NOT'} {what}")
    return 0 if all(is_so for _, is_so in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
