"""`reme` in a process that is forked off one which has imported it: an interpreter of its own takes a second longer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from reme_core.cli import main
from tests.support.new_processes import NEW_PROCESSES

ROOT = Path(__file__).parents[2]


class ForkedProgram:
    """A running `reme`, with what `subprocess.Popen` gives of it; `stdin` and `stderr` are pipes unless given.

    It has all of a program but the beginning and the end of an interpreter, which `in_interpreter` shows.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
    ) -> None:
        reading, typing = os.pipe() if stdin is None else (os.dup(stdin.fileno()), None)
        printed, out = os.pipe()
        told, err = os.pipe() if stderr is None else (None, os.dup(stderr.fileno()))
        self.stdin = None if typing is None else os.fdopen(typing, "wb")
        self.stdout = os.fdopen(printed, "rb")
        self.stderr = None if told is None else os.fdopen(told, "rb")
        theirs = [Connection(number) for number in (reading, out, err)]
        self._process = NEW_PROCESSES.Process(target=_run, args=(list(arguments), cwd, dict(env), theirs), daemon=True)
        self._process.start()
        for stream in theirs:
            stream.close()
        self.pid = self._process.pid
        self.kill = self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid or 0, number)

    def communicate(self, typed: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Type the rest, and return what is still written and the end."""
        told: list[bytes] = []
        listening = threading.Thread(target=lambda: told.append(_rest(self.stderr)))
        listening.start()
        if self.stdin is not None and not self.stdin.closed:
            self.stdin.write(typed)
            self.stdin.close()
        out = _rest(self.stdout)
        listening.join()
        self.wait(timeout)
        return out, told[0]


def in_interpreter(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    stdin: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the same as a program from the beginning to the end."""
    # A suite that runs in the background ignores SIGINT, and its children with it, unless they are told otherwise.
    heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"import signal, sys; {heard}; from reme_core.cli import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env={**env, "PYTHONPATH": str(ROOT)},
        stdin=stdin or subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr or subprocess.PIPE,
    )


def _rest(stream: IO[bytes] | None) -> bytes:
    if stream is None or stream.closed:
        return b""
    with stream:
        return stream.read()


def _run(arguments: list[str], cwd: Path, environment: dict[str, str], streams: list[Connection]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["reme", *arguments]
    sys.exit(main())
