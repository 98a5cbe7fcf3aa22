"""First-try success without and with memory: task memory learns from half of a set's tasks, and helps with the rest.

With a chat model, lessons are drawn from the recorded attempts at the first half (`ReMe.summary_task`), and the model
writes the calls of the second half without and with them, at the first try. Without one, the attempts are kept as they
were, and the figure is how much of what a solution needs stands in what is retrieved.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import JsonValue

from reme_bench.answers import AnswerBook, NamedModel, Stage, ask_stages
from reme_bench.results import Dataset, Machine, NotMeasured, Results, Row, System
from reme_bench.runner import versions
from reme_bench.summary import summarised
from reme_bench.task_sets import FunctionDoc, Task, TaskSet, parse_call
from reme_core import ReMe
from reme_core.errors import InvalidInputError
from reme_core.ports import ChatModel, ResponseSchema
from reme_core.schema import Trajectory
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

    `first try` of the row without memory is the recorded attempt's, where there is one; of the other the attempt's in
    `later`, the same set as an agent did it that had been given the notes.
    """
    name = ATTEMPTS if memory.llm is None else LESSONS
    again = {} if later is None else {task.task_id: task.attempt for task in later.tasks}
    rows = []
    for task in tasks.halves()[1]:
        before, after = _first_try(task.attempt), _first_try(again.get(task.task_id))
        notes = await _notes(memory, task, tasks.name)
        figures = {FOUND: float(bool(notes))} | ({NAMED: _named(task, notes)} if task.tools else {})
        rows += [_row(WITHOUT, task, "", before), _row(name, task, notes, figures | after)]
    return summarised(
        Results(
            made_at=datetime.now(UTC),
            dataset=_dataset(tasks),
            machine=Machine(python=platform.python_version(), platform=platform.platform(), cpus=os.cpu_count() or 1),
            versions=versions(None),
            systems=(_system(WITHOUT, memory), _system(name, memory)),
            rows=tuple(rows),
        )
    )


async def solve(results: Results, tasks: TaskSet, solver: NamedModel, book: AnswerBook) -> Results:
    """Return results with the calls that a model wrote for each task at the first try, without and with its notes.

    Calls are compared with the right ones, name by name and argument by argument: nothing is run, so that another way
    to the same end counts as wrong for both. A set's own verdicts are those of `retrieve`.

    Raises:
        InvalidInputError: The set has no right calls.
    """
    by_id = {task.task_id: task for task in tasks.halves()[1] if task.calls is not None and task.functions}
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
    """Return for each turn whether its calls are the right ones, in their order."""
    documents: Mapping[str, FunctionDoc] = {document.name: document for document in task.functions}
    given = [*turns, *([] for _ in range(len(task.calls or ()) - len(turns)))]
    return [
        [parse_call(call, documents) for call in wrote] == [parse_call(call, documents) for call in right]
        for wrote, right in zip(given, task.calls or (), strict=False)
    ]


async def _notes(memory: ReMe, task: Task, name: str) -> str:
    if memory.llm is None:
        return (await memory.retrieve(task.instruction, user_id=_USER, token_budget=BUDGET)).text
    found = await memory.retrieve_task_memory(
        task.instruction, user_id=_USER, task_name=name, limit=_LESSONS, token_budget=BUDGET
    )
    return found.text


def _first_try(attempt: Trajectory | None) -> dict[str, float]:
    return {} if attempt is None else {FIRST_TRY: attempt.score}


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
