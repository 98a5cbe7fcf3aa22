"""Commands that a program waits for, each time: they do without typer, and as a process without an orderly end."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "capture": "Keep what a coding agent's transcript says; again adds only what is new.",
    "hook": "Answer a coding agent's hook: its JSON is read from stdin. It never fails.",
}
"""The commands, with what `reme --help` says of them."""


def run(arguments: Sequence[str], *, is_program: bool) -> int:
    """Run one of them and return its exit code; a whole process ends here, without collecting and tearing down.

    Measured: that is a fifth of the time of a process that has loaded the store; threads for numpy, of which nothing is
    multiplied here, are another tenth.
    """
    if is_program:
        gc.disable()
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code: int = importlib.import_module("reme_core.cli.hook").run(arguments)
    if is_program:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # who was to read it has gone
                continue
        os._exit(code)
    return code
