"""The commands about files: a user's memory as a whole, and libraries of memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import STANDARD_OUTPUT, count_lines, file_to_read, file_to_write, name_of
from reme_core.cli.options import (
    CommonOptions,
    NoEmbedding,
    Superseded,
    Targets,
    Types,
    types_of,
    with_common_options,
)
from reme_core.cli.output import Output, counted, listed
from reme_core.errors import InvalidInputError, InvalidLinesError
from reme_core.schema import LineProblem, LoadedLibrary, TransferCounts


@with_common_options
async def export(
    where: CommonOptions,
    output: Output,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; one that exists is replaced. - is stdout.")
    ],
) -> int:
    """Write everything of a user to a file of JSON Lines."""
    whose = where.whose
    where.check_file()
    with file_to_write(file, as_json=output.as_json) as path:
        async with where.open() as memory:
            moved = await memory.export(path, **whose)
    if output.as_json:
        told = moved.model_dump(mode="json", exclude={"known_messages", "known_memories", "problems"})
        output.value({"file": file, **told})
        return ExitCode.DONE
    _tell_written(output, file, listed(*told_counts(moved), counted(moved.events, "event")))
    return ExitCode.DONE


def told_counts(moved: TransferCounts) -> list[str]:
    """Tell how many things there were, each kind a part of a sentence."""
    return [
        counted(moved.messages, "message"),
        counted(moved.blocks, "block"),
        counted(moved.offloads, "offload") if moved.offloads else "",
        counted(moved.tool_calls, "tool call") if moved.tool_calls else "",
        counted(moved.memories, "memory"),
    ]


def _tell_written(output: Output, file: str, what: str) -> None:
    if file == STANDARD_OUTPUT:
        output.remark(f"wrote {what}")
    else:
        output.line(f"wrote {what} to {file}")


@with_common_options
async def dump(
    where: CommonOptions,
    output: Output,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; one that exists is replaced. - is stdout.")
    ],
    *,
    types: Types = None,
    targets: Targets = None,
    superseded: Superseded = False,
) -> int:
    """Write memories, without messages, to a file of JSON Lines that any user of any space can load."""
    whose = where.whose
    where.check_file()
    with file_to_write(file, as_json=output.as_json) as path:
        async with where.open() as memory:
            dumped = await memory.dump(
                path,
                **whose,
                memory_type=types_of(types or ()),
                memory_target=targets or None,
                include_superseded=superseded,
            )
    if output.as_json:
        output.value({"file": file, **dumped.model_dump(mode="json")})
    else:
        _tell_written(output, file, counted(dumped.memories, "memory"))
    return ExitCode.DONE


@with_common_options
async def load(
    where: CommonOptions,
    output: Output,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file of reme dump, or of earlier tools of this kind; - is stdin.")
    ],
    *,
    task: Annotated[str | None, typer.Option("--task", help="The task domain of procedural memories.")] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Leave out lines that can't be used, in place of loading nothing.")
    ] = False,
    no_deduplicate: Annotated[
        bool, typer.Option("--no-deduplicate", help="Keep what says nearly the same as another.")
    ] = False,
    no_embedding: NoEmbedding = False,
) -> int:
    """Take over the memories of a file; doing it twice changes nothing more. Undo takes them back.

    Tool calls of earlier tools are recorded after the memories, and stay when these are taken back. What an
    interruption has left out of them is recorded by loading the file again.
    """
    whose = where.whose
    with file_to_read(file) as path, _bad_lines_told(output, file):
        lines = count_lines(path)
        async with where.open(with_embedding=not no_embedding) as memory:
            with output.progress(f"loading {path.name}", lines) as tell:
                loaded = await memory.load(
                    path,
                    **whose,
                    task_name=task,
                    skip_bad_lines=skip_bad_lines,
                    deduplicate=not no_deduplicate,
                    progress=tell,
                )
    _print_loaded(output, loaded)
    return ExitCode.DONE


@contextmanager
def _bad_lines_told(output: Output, source: str) -> Iterator[None]:
    try:
        yield
    except InvalidLinesError as exc:
        if output.as_json:
            raise
        print_problems(output, [LineProblem(line=number, reason=reason) for number, reason in exc.lines])
        named, count = name_of(source), counted(len(exc.lines), "line")
        msg = f"{named} has {count} that can't be used: nothing was loaded; correct it, or --skip-bad-lines"
        raise InvalidInputError(msg) from exc


def print_problems(output: Output, problems: Sequence[LineProblem]) -> None:
    """Name the lines of a file that can't be used."""
    for problem in problems:
        output.remark(f"line {problem.line}: {problem.reason}")


def _print_loaded(output: Output, loaded: LoadedLibrary) -> None:
    if output.as_json:
        output.value(loaded.model_dump(mode="json"))
        return
    print_problems(output, loaded.problems)
    known, repeated = len(loaded.known_memory_ids), len(loaded.duplicates)
    read = listed(
        counted(len(loaded.memory_ids), "memory"),
        counted(loaded.tool_calls, "tool call") if loaded.tool_calls else "",
    )
    left_out = listed(
        f"{known} known before" if known else "",
        f"{counted(repeated, 'line')} that repeated others" if repeated else "",
        f"{len(loaded.problems)} that can't be used" if loaded.problems else "",
    )
    output.line(f"loaded {read}{f'; left out {left_out}' if left_out else ''}")
    if loaded.run_id is not None:
        output.line(f"written by run {loaded.run_id}; reme undo takes it back")
