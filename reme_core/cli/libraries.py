"""Actions of the commands about memory libraries: writing one, and taking one over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from reme_core.cli.exits import ExitCode
from reme_core.cli.files import STANDARD_OUTPUT, count_library_lines, file_to_read, file_to_write, name_of
from reme_core.cli.options import types_of
from reme_core.cli.output import Output, counted, listed
from reme_core.cli.where import CommonOptions
from reme_core.errors import InvalidInputError, InvalidLinesError
from reme_core.schema import LoadedLibrary


async def dump(
    where: CommonOptions,
    output: Output,
    file: str,
    *,
    types: Sequence[str],
    targets: Sequence[str],
    include_superseded: bool,
) -> ExitCode:
    """Write memories to a file, or to standard output, whole."""
    user_id = where.user_id
    where.check_file()
    with file_to_write(file, as_json=output.as_json) as path:
        async with where.open() as memory:
            dumped = await memory.dump(
                path,
                user_id=user_id,
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


async def load(
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
    user_id = where.user_id
    with file_to_read(source) as file, _bad_lines_told(output, source):
        lines = count_library_lines(file)
        async with where.open(with_embedding=with_embedding) as memory:
            with output.progress(f"loading {file.name}", lines) as tell:
                loaded = await memory.load(
                    file,
                    user_id=user_id,
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
