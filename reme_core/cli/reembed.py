"""`reme reembed`: all vectors of a memory space anew, by another embedding model, while the old ones serve."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.options import CommonOptions, of_the_space
from reme_core.cli.output import Output, counted
from reme_core.errors import ConfigurationError, InvalidInputError
from reme_core.facade.parts import UNSET, Settings, Unset
from reme_core.facade.reme import ReMe

_PREFIX = "REME_EMBEDDING_"


@of_the_space
async def reembed(
    where: CommonOptions,
    output: Output,
    *,
    model: Annotated[
        str | None, typer.Option("--model", help="The new model; by default that of REME_EMBEDDING_MODEL.")
    ] = None,
    dimension: Annotated[int | None, typer.Option("--dimension", help="The length of its vectors.")] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Its endpoint [env: REME_EMBEDDING_BASE_URL]")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What its vectors go by, if not by the model.")] = None,
    abandon: Annotated[bool, typer.Option("--abandon", help="Give up a change that is under way.")] = False,
) -> int:
    """Replace all vectors of a memory space by those of another model; killed, the same command goes on.

    Searches are served by the old vectors until all new ones are there.
    """
    where.check_file()
    embedding = None if abandon else _settings(model, dimension=dimension, base_url=base_url, name=name)
    memory = ReMe(where.space, where.folder, llm=None, embedding=embedding, vector_store=where.store_settings())
    try:
        if abandon:
            await memory.abandon_reembedding()
            output.remark("given up: the vectors of before stay")
            return ExitCode.DONE
        if memory.embedder is None:
            msg = "which model? Give --model NAME, or set REME_EMBEDDING_MODEL and REME_EMBEDDING_API_KEY"
            raise ConfigurationError(msg)
        done = await memory.reembed(on_progress=_ProgressLines(is_shown=where.hints))
    finally:
        await memory.close(finish_jobs=False)
    if output.as_json:
        output.value(done.model_dump(mode="json"))
        return ExitCode.DONE
    if not done.texts and done.before in {None, done.model}:
        there = "there are no vectors yet" if done.before is None else f"all vectors are of {done.model!r} already"
        output.line(f"nothing to do: {there}")
        return ExitCode.DONE
    if done.before == done.model:
        output.line(f"{counted(done.texts, 'text')} embedded by {done.model!r} in another dimension than before")
        output.remark("set REME_EMBEDDING_DIMENSION to the new one: what starts with the old one is refused")
        return ExitCode.DONE
    before = "no known model" if done.before is None else repr(done.before)
    refused = f", {counted(done.refused, 'text')} refused, found by words" if done.refused else ""
    output.line(f"{counted(done.texts, 'text')} embedded by {done.model!r} in place of {before}{refused}")
    output.remark(
        "set REME_EMBEDDING_MODEL to the new model, and its dimension, address and name if they were given here; "
        f"what starts with {before} is refused"
    )
    return ExitCode.DONE


def _settings(model: str | None, *, dimension: int | None, base_url: str | None, name: str | None) -> Settings | Unset:
    """Return the settings of the new model; what is not named, the environment says."""
    given = {"dimension": dimension, "base_url": base_url, "name": name}
    named = {key: value for key, value in given.items() if value is not None}
    if model is None:
        if named:
            msg = "--dimension, --base-url and --name say nothing without --model: give the new model"
            raise InvalidInputError(msg)
        return UNSET
    if dimension is None and (told := os.environ.get(f"{_PREFIX}DIMENSION")):
        named["dimension"] = told
    return {"backend": "openai", "model": model, **named}


class _ProgressLines:
    """Tells people how far it is, and how fast."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._begun: tuple[float, int] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Write one line for a batch."""
        if self._begun is None:
            self._begun = time.monotonic(), done
        if self._is_shown:
            since, first = self._begun
            rate = (done - first) / max(time.monotonic() - since, 1e-3)
            typer.echo(f"{done:,} of {total:,} done, {rate:,.0f} a second", err=True)
