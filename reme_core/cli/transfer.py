"""The commands about files: a user's memory as a whole, and libraries of memories."""

from __future__ import annotations

import asyncio
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
from reme_core.cli.wording import OPTION_NAMES, option_name
from reme_core.errors import InvalidInputError, InvalidLinesError
from reme_core.schema import LoadedLibrary


@with_common_options
def export(
    where: CommonOptions,
    output: Output,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file to write; one that exists is replaced. - is stdout.")
    ],
) -> int:
    """Write everything of a user to a file of JSON Lines."""
    return asyncio.run(_export(where, output, file))


async def _export(where: CommonOptions, output: Output, file: str) -> ExitCode:
    """Write everything of a user to a file, or to standard output, whole."""
    whose = where.whose
    where.check_file()
    with file_to_write(file, as_json=output.as_json) as path:
        async with where.open() as memory:
            moved = await memory.export(path, **whose)
    if output.as_json:
        output.value({"file": file, **moved.model_dump(mode="json")})
    else:
        written = listed(
            counted(moved.messages, "message"),
            counted(moved.blocks, "block"),
            counted(moved.offloads, "offload") if moved.offloads else "",
            counted(moved.tool_calls, "tool call") if moved.tool_calls else "",
            counted(moved.memories, "memory"),
            counted(moved.events, "event"),
        )
        if file == STANDARD_OUTPUT:
            output.remark(f"wrote {written}")
        else:
            output.line(f"wrote {written} to {file}")
    return ExitCode.DONE


@with_common_options
def import_(
    where: CommonOptions,
    output: Output,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that reme export wrote; - is stdin.")],
    *,
    no_embedding: NoEmbedding = False,
) -> int:
    """Read an exported file into a user's memory; doing it twice changes nothing more."""
    return asyncio.run(_import_file(where, output, file, with_embedding=not no_embedding))


async def _import_file(where: CommonOptions, output: Output, source: str, *, with_embedding: bool) -> ExitCode:
    """Read an exported file, or standard input, into a user's memory, with a bar on a terminal."""
    whose = where.whose
    with file_to_read(source) as file:
        lines = count_lines(file)
        async with where.open(with_embedding=with_embedding) as memory:
            with output.progress(f"importing {file.name}", lines) as tell:
                moved = await memory.import_(file, **whose, progress=tell)
    if output.as_json:
        output.value(moved.model_dump(mode="json", exclude={"events"}))
    else:
        read = listed(
            counted(moved.messages, "message"),
            counted(moved.blocks, "block"),
            counted(moved.offloads, "offload") if moved.offloads else "",
            counted(moved.tool_calls, "tool call") if moved.tool_calls else "",
            counted(moved.memories, "memory"),
        )
        output.line(f"read {read}")
    return ExitCode.DONE


@with_common_options
def dump(
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
    with option_name(OPTION_NAMES):
        return asyncio.run(
            _dump(where, output, file, types=types or (), targets=targets or (), include_superseded=superseded)
        )


async def _dump(
    where: CommonOptions,
    output: Output,
    file: str,
    *,
    types: Sequence[str],
    targets: Sequence[str],
    include_superseded: bool,
) -> ExitCode:
    """Write memories to a file, or to standard output, whole."""
    whose = where.whose
    where.check_file()
    with file_to_write(file, as_json=output.as_json) as path:
        async with where.open() as memory:
            dumped = await memory.dump(
                path,
                **whose,
                memory_type=types_of(types),
                memory_target=targets or None,
                include_superseded=include_superseded,
            )
    if file == STANDARD_OUTPUT:
        output.remark(f"wrote {counted(dumped.memories, 'memory')}")
    elif output.as_json:
        output.value({"file": file, **dumped.model_dump(mode="json")})
    else:
        output.line(f"wrote {counted(dumped.memories, 'memory')} to {file}")
    return ExitCode.DONE


@with_common_options
def load(
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
    with option_name(OPTION_NAMES):
        return asyncio.run(
            _load(
                where,
                output,
                file,
                task_name=task,
                skip_bad_lines=skip_bad_lines,
                deduplicate=not no_deduplicate,
                with_embedding=not no_embedding,
            )
        )


async def _load(
    where: CommonOptions,
    output: Output,
    source: str,
    *,
    task_name: str | None,
    skip_bad_lines: bool,
    deduplicate: bool,
    with_embedding: bool,
) -> ExitCode:
    """Take over the memories of a file or of standard input, with a bar on a terminal.

    Raises:
        InvalidInputError: Lines that can't be used, which are printed by number; nothing was loaded.
    """
    whose = where.whose
    with file_to_read(source) as file, _bad_lines_told(output, source):
        lines = count_lines(file)
        async with where.open(with_embedding=with_embedding) as memory:
            with output.progress(f"loading {file.name}", lines) as tell:
                loaded = await memory.load(
                    file,
                    **whose,
                    task_name=task_name,
                    skip_bad_lines=skip_bad_lines,
                    deduplicate=deduplicate,
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
        _print_problems(output, exc.lines)
        named, count = name_of(source), counted(len(exc.lines), "line")
        msg = f"{named} has {count} that can't be used: nothing was loaded; correct it, or --skip-bad-lines"
        raise InvalidInputError(msg) from exc


def _print_problems(output: Output, lines: Sequence[tuple[int, str]]) -> None:
    for number, reason in lines:
        output.remark(f"line {number}: {reason}")


def _print_loaded(output: Output, loaded: LoadedLibrary) -> None:
    if output.as_json:
        output.value(loaded.model_dump(mode="json"))
        return
    _print_problems(output, [(problem.line, problem.reason) for problem in loaded.problems])
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
