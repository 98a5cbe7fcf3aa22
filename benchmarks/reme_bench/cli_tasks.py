"""The command `reme bench tasks`: tasks that an agent does with tools, without and with memory."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from reme_bench import task_runs
from reme_bench.answers import AnswerBook, check_answered, endpoint_model
from reme_bench.results import Results
from reme_bench.systems import OWN_FILE
from reme_bench.tables import results_table
from reme_bench.task_sets import TaskSet, read_appworld, read_bfcl
from reme_core import ReMe
from reme_core.errors import InvalidInputError

BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option("--base-url", help="Of an OpenAI-compatible endpoint; else that of the environment.")
]


class TaskSetName(StrEnum):
    """The sets of tasks."""

    BFCL = "bfcl"
    APPWORLD = "appworld"


def tasks(  # one argument for each file that the sets' own runners write
    name: Annotated[TaskSetName, typer.Argument(help="Which set.")],
    path: Annotated[Path, typer.Argument(help="BFCL: the file of questions; AppWorld: the folder of the experiment.")],
    json: Annotated[Path, typer.Option("--json", help="Write the file of results there, with the notes of each task.")],
    data: Annotated[Path | None, typer.Option("--data", help="AppWorld: its folder `data`.")] = None,
    results: Annotated[Path | None, typer.Option("--results", help="BFCL: the results of a model.")] = None,
    scores: Annotated[Path | None, typer.Option("--scores", help="BFCL: their scores.")] = None,
    after: Annotated[
        Path | None, typer.Option("--after", help="Results or experiment of the agent that was given the notes.")
    ] = None,
    after_scores: Annotated[Path | None, typer.Option("--after-scores", help="BFCL: the scores of --after.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="A chat model, which learns, and for BFCL tries the tasks.")
    ] = None,
    base_url: BaseUrl = None,
) -> None:
    """Measure first-try success without and with memory: it learns from one half of the tasks."""

    def read(attempts: Path | None, marks: Path | None) -> TaskSet:
        if name is TaskSetName.BFCL:
            return read_bfcl(path, attempts, marks)
        if data is None:
            message = "appworld: give the folder of its tasks as --data"
            raise InvalidInputError(message)
        return read_appworld(attempts or path, data)

    before = read(results, scores)
    later = None if after is None else read(after, after_scores)
    told = asyncio.run(_run_tasks(before, later, model, base_url, json))
    typer.echo(results_table(told))
    check_answered(told)


async def _run_tasks(
    before: TaskSet, later: TaskSet | None, model: str | None, base_url: str | None, out: Path
) -> Results:
    solver = None if model is None else endpoint_model(model, base_url)
    folder = task_runs.memory_of(before, model, out)
    async with ReMe("tasks", folder, llm=solver and solver.chat, embedding=None, vector_store=OWN_FILE) as memory:
        await task_runs.learn(memory, before)
        told = await task_runs.retrieve(memory, before, later)
    told.write(out)
    if solver is not None and later is None and any(task.calls is not None and task.functions for task in before.tasks):
        told = await task_runs.solve(told, before, solver, AnswerBook.beside(out))
        told.write(out)
    return told
