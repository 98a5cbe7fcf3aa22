"""Lines and answers that somebody types, or that come from a pipe."""

from __future__ import annotations

import importlib
import io
import sys
from contextlib import suppress

import typer

from reme_core.errors import InvalidInputError


class Keyboard:
    """Reads standard input line by line, with editing and a history where it is a terminal that has them."""

    def __init__(self) -> None:
        """Look at what standard input is."""
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # such a line is refused by itself, not the whole input
        self.is_terminal = sys.stdin.isatty()
        self._edits = self.is_terminal and sys.stdout.isatty()
        self._kept: str | None = None
        if self._edits:
            with suppress(ImportError):
                importlib.import_module("readline")  # `input` edits lines once it is loaded

    def line(self, prompt: str = "") -> str | None:
        """Return the next line without its end; None at the end of the input."""
        if self._kept is not None:
            line, self._kept = self._kept, None
            return line
        if self._edits:
            try:
                return input(prompt)
            except EOFError:
                return None
        sys.stderr.write(prompt)
        sys.stderr.flush()
        read = sys.stdin.readline()
        return read.rstrip("\r\n") if read else None

    def agrees(self, question: str) -> bool:
        """Ask a question that only yes agrees to. Without a terminal, another line than yes or no is kept for later."""
        answer = self.line(f"{question} [y/N] " if self.is_terminal else f"{question} [y/N]\n")
        word = (answer or "").strip().lower()
        if not self.is_terminal and word not in {"", "y", "yes", "n", "no"}:
            self._kept = answer
        return word in {"y", "yes"}


def ask(question: str, *, can_be_undone: bool = False) -> None:
    """Ask on the terminal whether to do what removes something.

    Raises:
        InvalidInputError: There is no terminal to ask on.
        typer.Abort: The answer was no.
    """
    if not sys.stdin.isatty():
        why = "" if can_be_undone else "this can't be undone, and "
        msg = f"{why}there is no terminal to ask on: say --yes"
        raise InvalidInputError(msg)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Abort
