"""Output of commands: for people, with nothing in it that a terminal would obey, or one JSON value for programs."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reme_core.cli.wording import json_line, one_line, visible

_INDENT = 4


class Tell(Protocol):
    """Takes how much is done, and of how much if that was not known before."""

    def __call__(self, done: int, total: int | None = None, /) -> None:
        """Show it."""
        ...


class Output:
    """Prints results to stdout and remarks to stderr.

    Everything printed is data: markup, emoji names and control characters in it have no effect. Into a pipe lines go
    as they are, however long; on a terminal they are folded to its width.
    """

    def __init__(self, *, as_json: bool) -> None:
        """Print for people, or JSON (then nothing else goes to stdout)."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        self.as_json = as_json
        self._out = Console(markup=False, emoji=False, highlight=False)
        self._err = Console(markup=False, emoji=False, highlight=False, stderr=True)

    def value(self, value: JsonValue) -> None:
        """Print a JSON value on one line."""
        sys.stdout.write(json_line(value) + "\n")

    def remark(self, text: str) -> None:
        """Tell people something that is no result; programs don't hear it."""
        if not self.as_json:
            self._err.print(Text(one_line(text)), soft_wrap=True)

    def line(self, *parts: str, style: str = "") -> None:
        """Print one line of parts, empty ones left out."""
        text = "  ".join(one_line(part) for part in parts if part)
        self._out.print(Text(text, style=style), soft_wrap=not self._out.is_terminal)

    def record(self, head: Sequence[str], body: str, foot: Sequence[str] = ()) -> None:
        """Print a headline, a text below it and, last, where it comes from."""
        self.line(*head, style="bold")
        for line in visible(body).split("\n"):
            self.indented(line, "")
        parts = [one_line(part) for part in foot if part]
        together = "  ".join(parts)
        fits = not self._out.is_terminal or _INDENT + len(together) <= self._out.width
        for line in [together] if fits and parts else parts:
            self.indented(line, "dim")

    def table(self, rows: Mapping[str, str]) -> None:
        """Print names and values."""
        if not self._out.is_terminal:
            for name, value in rows.items():
                self.line(f"{name}:", value)
            return
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(Text(one_line(name)), Text(one_line(value)))
        self._out.print(table)

    def piece(self, text: str) -> None:
        """Print a piece of a text at once, on the line that is begun."""
        sys.stdout.write(visible(text))
        sys.stdout.flush()

    @contextmanager
    def progress(self, what: str, total: int | None, *, then: str = "") -> Iterator[Tell]:
        """Show a bar on stderr, where that is a terminal; the function handed out is told how much is done.

        `total` is None where nobody knows it; who does later says it then. `then`: what is done of it afterwards, from
        the first again, which the bar shows from where the number begins anew.
        """
        from rich import progress as bars  # noqa: PLC0415  # no other command needs it, help least

        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
        )
        with bars.Progress(*columns, console=self._err, transient=True, disable=not self._shows_progress()) as bar:
            task = bar.add_task(what, total=total)
            most = 0

            def tell(done: int, total: int | None = None, /) -> None:
                nonlocal most
                if then and 0 < done <= most:
                    bar.update(task, description=then, total=most)
                most = max(most, done)
                bar.update(task, completed=done, total=total)

            yield tell

    def _shows_progress(self) -> bool:
        return self._err.is_terminal and not self.as_json

    def indented(self, line: str, style: str = "") -> None:
        """Print a line of a record that has nothing in it that a terminal would obey."""
        if self._out.is_terminal:
            text = Text(line.expandtabs(), style=style, overflow="fold")
            self._out.print(Padding(text, (0, 0, 0, _INDENT), expand=False))
        else:
            self._out.print(Text(" " * _INDENT + line), soft_wrap=True)


def counted(count: int, noun: str) -> str:
    """Write a number of things."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun != "day" else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def listed(*parts: str) -> str:
    """Join parts as a sentence does, empty ones left out; empty without any."""
    *others, last = [part for part in parts if part] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def minute(moment: datetime | None) -> str:
    """Write a time to the minute, in UTC."""
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M")
