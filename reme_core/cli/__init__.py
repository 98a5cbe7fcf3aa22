"""The command line `reme`.

It stands on the extra `cli` (typer and rich), which is loaded by `main` and not by importing this package. `reme hook`
and `reme capture` do without.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from reme_core.cli import brief
from reme_core.cli.exits import ExitCode, describe_error, exit_code
from reme_core.errors import ConfigurationError, MissingExtraError

__all__ = ["ExitCode", "exit_code", "main"]

BENCH_HELP = "Measure memories on published conversations (pip install reme-memory-bench)."
"""What `reme --help` says of a command that is a distribution of its own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (see `ExitCode`); `argv` leaves out the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in brief.COMMANDS:
        return brief.run(arguments, is_program=argv is None)
    if arguments[:1] == ["bench"]:
        return _bench(arguments[1:])
    try:
        program = importlib.import_module("reme_core.cli.program")
    except ModuleNotFoundError as exc:
        library = (exc.name or "").partition(".")[0]
        if library not in {"typer", "rich"}:
            raise
        extra = "serve" if arguments[:1] in (["mcp"], ["serve"], ["inspect"]) else "cli"  # which brings the other
        error = MissingExtraError(library=library, extra=extra, wanted_for="the command line 'reme'")
        sys.stderr.write(describe_error(error, as_json="--json" in arguments) + "\n")
        return exit_code(error)
    code: int = program.run(arguments)
    return code


def _bench(arguments: Sequence[str]) -> int:
    """Hand over to the benchmarks, which are a distribution of their own."""
    try:
        bench = importlib.import_module("reme_bench.cli")
    except ModuleNotFoundError as exc:
        if exc.name not in {"reme_bench", "reme_bench.cli"}:
            raise
        message = "'reme bench' is a package of its own, not installed here: pip install reme-memory-bench"
        error = ConfigurationError(message)
        sys.stderr.write(describe_error(error, as_json="--json" in arguments) + "\n")
        return exit_code(error)
    code: int = bench.main(arguments)
    return code
