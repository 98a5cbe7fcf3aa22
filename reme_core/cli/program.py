"""The commands in their order, and running one: what goes wrong becomes one line and an exit code."""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from reme_core import __version__
from reme_core.cli import (
    BENCH_HELP,
    blocks,
    brief,
    changes,
    chat,
    copying,
    database,
    doctor,
    evolving,
    file_memory,
    importing,
    inspector,
    jobs,
    keys,
    learning,
    main,
    maintenance,
    mcp,
    media,
    memories,
    offloads,
    reembed,
    relations,
    search,
    serve,
    transfer,
    watch,
)
from reme_core.cli.exits import ExitCode, describe_error, exit_code, failure_line
from reme_core.cli.file_settings import settings_of_files
from reme_core.cli.wording import one_line
from reme_core.errors import ReMeError

app = typer.Typer(
    name="reme",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Durable, scoped memory: add what was said, find it again.",
    epilog="Exit codes: 0 done, 1 nothing found, 2 bad input, 3 not found, 4 busy (try again), 5 damaged or newer "
    "file, 6 model failed, 7 no access, 8 conflict, 9 partly done, 130 interrupted.",
)
# In the order in which the help lists them.
for _name, _command in (
    ("add", memories.add),
    ("search", search.search),
    ("list", search.list_),
    ("show", search.show),
    ("history", memories.history),
    ("diff", changes.diff),
    ("relations", relations.relations),
    ("evolve", evolving.evolve),
    ("export", transfer.export),
    ("import", importing.import_),
    ("delete", memories.delete),
    ("stats", memories.stats),
    ("chat", chat.chat),
    ("jobs", jobs.jobs),
    ("flush", jobs.flush),
    ("undo", jobs.undo),
    ("offloads", offloads.offloads),
    ("reload", offloads.reload),
    ("clean", offloads.clean),
    ("blob", media.blob),
    ("learn", learning.learn),
    ("tasks", learning.tasks),
    ("forget", learning.forget),
    ("tools", learning.tools),
    ("dump", transfer.dump),
    ("load", transfer.load),
    ("backup", maintenance.backup),
    ("restore", maintenance.restore),
    ("check", maintenance.check),
    ("cost", maintenance.cost),
    ("users", maintenance.users),
    ("spaces", maintenance.spaces),
    ("doctor", doctor.doctor),
    ("reembed", reembed.reembed),
    ("migrate", database.migrate),
    ("copy", copying.copy),
    ("mcp", mcp.mcp),
    ("serve", serve.serve),
    ("inspect", inspector.inspect),
    ("picture", inspector.picture),
    ("watch", watch.watch),
):
    app.command(_name)(_command)
app.add_typer(file_memory.files)
app.add_typer(blocks.blocks, name="block")
app.add_typer(keys.keys, name="keys")


def _has_its_own_parser(context: typer.Context) -> int:
    """Run a command that reads its options itself: `main` takes it before it comes here."""
    return main([context.info_name or "", *context.args])


for _name, _help in (*brief.COMMANDS.items(), ("bench", BENCH_HELP)):
    _own = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(_name, help=_help, context_settings=_own, add_help_option=False)(_has_its_own_parser)

TRACEBACK_VARIABLE = "REME_TRACEBACK"
_COMPLETING = "_REME_COMPLETE"  # set by the shell that asks; the name that typer makes of ours
# Options are read by pydantic, whose words for a number that is none are for programmers.
_PYDANTIC = re.compile(r"Input should be a valid (integer|number).*$")
_SILENT = logging.NullHandler()


def _wanted(match: re.Match[str]) -> str:
    return "wanted a whole number" if match[1] == "integer" else "wanted a number"


def _show_version(value: bool) -> None:  # noqa: FBT001  # the signature that typer calls
    if value:
        typer.echo(f"reme {__version__}")
        raise typer.Exit


@app.callback()
def about(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Durable, scoped memory: add what was said, find it again."""


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; errors are told on stderr."""

    def command() -> int:
        # A client starts it in the folder of whatever project is open: whose files must not choose who is sent texts.
        with nullcontext() if arguments[:1] == ["mcp"] else settings_of_files():
            return int(_commands().main(args=list(arguments), prog_name="reme", standalone_mode=False) or 0)

    return run_command(command, as_json="--json" in arguments)


def run_command(command: Callable[[], int], *, as_json: bool) -> int:
    """Run what returns an exit code, and return it; an error or an interruption is told on stderr and has one too."""
    # Without a handler, logging writes what it is told of failed jobs to stderr, where each failure has its one line.
    logging.getLogger("reme").addHandler(_SILENT)
    try:
        code = command()
        sys.stdout.flush()
    except typer.TyperException as exc:
        message = _PYDANTIC.sub(_wanted, one_line(exc.format_message())) or "no command given"
        line = failure_line(message, kind="UsageError", code=ExitCode.BAD_INPUT, as_json=as_json)
        return _fail(line, ExitCode.BAD_INPUT)
    except (BrokenPipeError, SystemExit) as exc:  # typer and rich exit when a pipe is closed, typer when it completes
        if _COMPLETING in os.environ and isinstance(exc, SystemExit):
            return int(exc.code or 0)
        _drop_output()
        return ExitCode.PIPE_CLOSED
    except KeyboardInterrupt:
        return _stopped("interrupted", as_json=as_json)
    except typer.Abort:
        return _stopped("nothing was changed", as_json=as_json)
    except ReMeError as exc:
        return _fail(describe_error(exc, as_json=as_json), exit_code(exc))
    except Exception as exc:  # noqa: BLE001  # the outer edge: a bug, too, ends in one line and a code of its own
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        return _fail(describe_error(exc, as_json=as_json), ExitCode.UNEXPECTED)
    return _stopped("interrupted", as_json=as_json) if code == ExitCode.INTERRUPTED else code


@cache
def _commands() -> Any:  # noqa: ANN401  # typer exports no name for what it makes
    """Make the commands of what is declared, once in a process: it takes longer than most of them."""
    return get_command(app)


def _stopped(message: str, *, as_json: bool) -> int:
    line = failure_line(message, kind="Interrupted", code=ExitCode.INTERRUPTED, as_json=as_json)
    return _fail(line, ExitCode.INTERRUPTED)


def _fail(line: str, code: ExitCode) -> int:
    # stdout may be a pipe that is closed, or may hold text that stderr would overtake
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    return code


def _drop_output() -> None:
    """Let nothing more be written into a closed pipe when the interpreter ends.

    Source: https://docs.python.org/3/library/signal.html#note-on-sigpipe
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
