"""First-try success without and with memory: task memory learns from half of a set's tasks, and helps with the rest.

With a chat model, lessons are drawn from the recorded attempts at the first half (`ReMe.summary_task`), and the model
writes the calls of the second half without and with them, at the first try. Without one, the attempts are kept as they
were, and the figure is how much of what a solution needs stands in what is retrieved.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path

from pydantic import JsonValue

from reme_bench.answers import AnswerBook, NamedModel, Stage, ask_stages
from reme_bench.results import Dataset, NotMeasured, Results, Row, System
from reme_bench.runner import results_of, versions
from reme_bench.summary import summarised
from reme_bench.task_sets import FunctionDoc, Task, TaskSet, parse_call
from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.ports import ChatModel, ResponseSchema
from reme_core.steps.ask_json import JsonQuestion, ask, object_schema
from reme_core.text import Prompt, fence, json_line, load_prompt

WITHOUT, LESSONS, ATTEMPTS = "no memory", "reme, lessons", "reme, attempts as they were"
FIRST_TRY, TURNS_RIGHT, NAMED, FOUND = "first try", "turns right", "tools named", "something found"
BUDGET = 1024
_USER, _LESSONS = "agent", 5
_CALLS = ResponseSchema(
    name="calls",
    schema=object_schema(
        {
            "turns": {
                "type": "array",
                "items": object_schema({"calls": {"type": "array", "items": {"type": "string"}}}),
            }
        }
    ),
)


def memory_of(tasks: TaskSet, model: str | None, results: Path) -> Path:
    """Return the folder of the memory beside a file of results.

    What is learnt from and by whom names it: a memory of other attempts may hold tasks of this second half.
    """
    attempts = [task.attempt.trajectory_id for task in tasks.halves()[0] if task.attempt is not None]
    digest = hashlib.sha256(json.dumps([model, attempts]).encode()).hexdigest()
    return results.with_suffix(f".{digest[:12]}.memory")


async def learn(memory: ReMe, tasks: TaskSet) -> None:
    """Hand in the recorded attempts at the first half; what was handed in before is not learnt from again.

    Raises:
        InvalidInputError: There is none.
        PartialFailureError: The attempts are kept, the model failed; the same call goes on.
    """
    attempts = [task.attempt for task in tasks.halves()[0] if task.attempt is not None]
    if not attempts:
        msg = f"{tasks.file} has no attempts in its first half to learn from: name the results of a run"
        raise InvalidInputError(msg)
    await memory.summary_task(attempts, user_id=_USER, task_name=tasks.name)


async def retrieve(memory: ReMe, tasks: TaskSet, later: TaskSet | None = None) -> Results:
    """Return what the memory gives for each task of the second half, in a row beside one without memory.

    `first try` of the row without memory is what the set's evaluation says of the recorded attempt; of the other what
    it says in `later`, the same set as an agent did it that had been given the notes.

    Raises:
        InvalidInputError: `later` has no verdict on any of these tasks.
    """
    name = ATTEMPTS if memory.llm is None else LESSONS
    again = {} if later is None else {task.task_id: task for task in later.tasks if task.solved is not None}
    if later is not None and not any(task.task_id in again for task in tasks.halves()[1]):
        msg = f"{later.file} of the second run has no verdict on any task of the second half: have it evaluated"
        raise InvalidInputError(msg)
    without, with_notes = _system(WITHOUT, memory), _system(name, memory)
    rows: dict[System, list[Row]] = {without: [], with_notes: []}
    for task in tasks.halves()[1]:
        before, after = _first_try(task), _first_try(again.get(task.task_id))
        notes = await _notes(memory, task, tasks.name)
        figures = {FOUND: float(bool(notes))} | ({NAMED: _named(task, notes)} if task.tools else {})
        rows[without].append(_row(WITHOUT, task, "", before))
        rows[with_notes].append(_row(name, task, notes, figures | after))
    return results_of(_dataset(tasks), rows, versions(None))


async def solve(results: Results, tasks: TaskSet, solver: NamedModel, book: AnswerBook) -> Results:
    """Return results with the calls that a model wrote for each task at the first try, without and with its notes.

    Calls are compared with the right ones, name by name and argument by argument: nothing is run, so that another way
    to the same end counts as wrong for both. A set's own verdicts are those of `retrieve`.

    Raises:
        InvalidInputError: The set has no right calls.
    """
    by_id = {task.task_id: task for task in tasks.halves()[1] if task.calls and task.functions}
    if not by_id:
        msg = f"{tasks.name} has no right calls to compare with: have the set's own runner try the tasks with the notes"
        raise InvalidInputError(msg)

    def question(row: Row) -> str | None:
        task = by_id.get(row.question_id)
        return None if task is None else _question(task, row.notes or "")

    stage = Stage("reader", solver, load_prompt("reme_bench", "solver", "en"), question, _write_calls)
    # A recorded attempt is judged otherwise: its score doesn't stand beside these.
    blank = [row.model_copy(update={"figures": _without_score(row)}) for row in results.rows]
    told = await ask_stages(results.model_copy(update={"rows": tuple(blank)}), [stage], book, budget=BUDGET)
    rows = tuple(_compared(row, by_id[row.question_id]) if row.answer is not None else row for row in told.rows)
    return summarised(told.model_copy(update={"rows": rows}))


def turns_right(task: Task, turns: list[list[str]]) -> list[bool]:
    """Return for each turn whether its calls are the right ones, in their order; calls of a turn too many are wrong."""
    documents: Mapping[str, FunctionDoc] = {document.name: document for document in task.functions}
    while turns and not turns[-1]:
        turns = turns[:-1]
    return [
        [parse_call(call, documents) for call in wrote] == [parse_call(call, documents) for call in right]
        for wrote, right in zip_longest(turns, task.calls or (), fillvalue=())
    ]


async def _notes(memory: ReMe, task: Task, name: str) -> str:
    if memory.llm is None:
        return (await memory.retrieve(task.instruction, user_id=_USER, token_budget=BUDGET)).text
    found = await memory.retrieve_task_memory(
        task.instruction, user_id=_USER, task_name=name, limit=_LESSONS, token_budget=BUDGET
    )
    return found.text


def _first_try(task: Task | None) -> dict[str, float]:
    return {} if task is None or task.solved is None else {FIRST_TRY: float(task.solved)}


def _named(task: Task, notes: str) -> float:
    named = [name for name in task.tools if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", notes)]
    return len(named) / len(task.tools)


def _row(system: str, task: Task, notes: str, figures: Mapping[str, float]) -> Row:
    gold = None if task.calls is None else "\n".join(" ".join(turn) for turn in task.calls)
    return Row(
        system=system,
        conversation=task.family,
        question_id=task.task_id,
        question=task.instruction,
        category=task.category,
        answerable=True,
        figures=dict(figures),
        gold=gold,
        notes=notes,
    )


def _system(name: str, memory: ReMe) -> System:
    missing = () if memory.llm is not None else (NotMeasured(what="lessons", why="they take a chat model"),)
    return System(
        name=name, kind="baseline" if name == WITHOUT else "reme", not_measured=() if name == WITHOUT else missing
    )


def _dataset(tasks: TaskSet) -> Dataset:
    return Dataset(
        name=tasks.name,
        file=tasks.file,
        sha256=tasks.sha256,
        checksum_known=False,
        licence=tasks.licence,
        conversations=len({task.family for task in tasks.tasks}),
        questions=len(tasks.halves()[1]),
        messages=sum(len(task.attempt.messages) for task in tasks.tasks if task.attempt is not None),
    )


def _question(task: Task, notes: str) -> str:
    turns = "\n".join(json_line({"turn": number, "user": text}) for number, text in enumerate(task.turns, 1))
    functions = "\n".join(json_line(document.model_dump(mode="json")) for document in task.functions)
    parts = [fence("functions", functions), *([fence("lessons", notes)] if notes else []), fence("task", turns)]
    return "\n".join(parts)


async def _write_calls(model: ChatModel, prompt: Prompt, user: str) -> Mapping[str, JsonValue]:
    question = JsonQuestion(system=prompt.text, user=user, schema=_CALLS, language="en", read=_read_calls)
    return await ask(model, question)


def _read_calls(value: JsonValue) -> Mapping[str, JsonValue]:
    turns = value.get("turns") if isinstance(value, dict) else None
    calls = [turn.get("calls") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else None
    if calls is None or not all(isinstance(told, list) and all(isinstance(one, str) for one in told) for told in calls):
        msg = "turns: wanted a list of objects with a list of calls"
        raise ValueError(msg)
    return {"answer": json.dumps(calls)}


def _without_score(row: Row) -> dict[str, float]:
    return {name: value for name, value in row.figures.items() if name != FIRST_TRY}


def _compared(row: Row, task: Task) -> Row:
    right = turns_right(task, json.loads(row.answer or "[]"))
    figures = {FIRST_TRY: float(all(right)), TURNS_RIGHT: sum(right) / len(right)}
    return row.model_copy(update={"figures": {**row.figures, **figures}})
